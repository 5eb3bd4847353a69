"""The scalars that TensorBoard receives, by a writer that accepts only numbers, as the real one does."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import tiny

from seqwright.errors import ConfigError
from seqwright.training.run import train
from seqwright.training.tensorboard import TensorBoard


class Writer:
    def __init__(self, folder: str):
        self.folder, self.seen = folder, dict[tuple[str, int], float]()

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.seen[name, step] = float(value)

    def flush(self) -> None:
        pass


def test_numbers_of_every_validation_arrive(tmp_path, monkeypatch):
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr("seqwright.training.trainer.LOG_SECONDS", 0.0)
    board = TensorBoard(tmp_path / "board")
    config = tiny.configuration(tiny.reversals(tmp_path / "pairs.tsv"), "training.steps=20")
    train(config, tmp_path / "run", listener=board)
    assert board._writer.folder == str(tmp_path / "board")
    seen = board._writer.seen
    for record in tiny.validations(tmp_path / "run"):
        for name in ("valid_loss", "shuffled_loss", "exact_match"):
            assert seen[f"valid/{name}", record["step"]] == record[name]
    assert {step for name, step in seen if name == "train/loss"} == set(range(1, 21))


def test_without_tensorboard_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'seqwright\[tensorboard\]'"):
        TensorBoard(tmp_path)
