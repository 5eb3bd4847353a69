"""Fine-tuning: the weights of another run, with rows for new symbols."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import configuration, reversals, words, write_pairs

import seqwright
from seqwright.data.tokenizer import UNK
from seqwright.errors import ModelError
from seqwright.training.run import train
from seqwright.training.warm_start import grown


@pytest.fixture
def first(tmp_path: Path) -> Path:
    train(configuration(reversals(tmp_path / "old.tsv")), tmp_path / "old")
    return tmp_path / "old"


def more(path: Path, *changes: str, start: Path) -> seqwright.prediction.predictor.Predictor:
    """Fine-tune from `start` on words with a new letter."""
    pairs = write_pairs(
        path.with_suffix(".tsv"), [(word + "z", "z" + word[::-1]) for word in words(100, seed=5)]
    )
    train(configuration(pairs, f'start="{start}"', *changes), path)
    return seqwright.load(path)


def test_nothing_is_forgotten_before_anything_is_learned(first: Path, tmp_path: Path) -> None:
    new = more(tmp_path / "new", "training.steps=1", "training.optimizer.rate=1e-12", start=first)
    old = seqwright.load(first)
    assert new.task.source.size == old.task.source.size + 1
    texts = words(20, seed=3)
    assert [p.text for p in new.predict(texts)] == [p.text for p in old.predict(texts)]
    assert all(new.task.source.encode(text) == old.task.source.encode(text) for text in texts)


def test_new_symbols_can_be_learned(first: Path, tmp_path: Path) -> None:
    new = more(tmp_path / "new", "training.steps=150", "training.optimizer.rate=0.01", start=first)
    outputs = [p.text for p in new.predict([word + "z" for word in words(20, seed=5)])]
    assert sum("z" in text for text in outputs) > 10


def test_another_model_is_refused(first: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="layers: 2 -> 1"):
        more(tmp_path / "new", "model.layers=1", start=first)


def test_new_rows_are_nearly_those_of_the_unknown_symbol() -> None:
    saved = torch.randn(6, 4)
    wanted = grown(saved, torch.empty(8, 4), "embedding")
    assert torch.equal(wanted[:6], saved)
    assert (wanted[6:] - saved[UNK]).abs().max() < 0.2 * saved[UNK].std()
    assert not torch.equal(wanted[6], wanted[7])
    assert torch.equal(
        grown(saved[:, 0], torch.empty(7), "bias")[6], saved[UNK, 0]
    )  # one more, of one number
    with pytest.raises(ModelError, match=r"embedding is \(6, 4\) in the old run and \(5, 4\)"):
        grown(saved, torch.empty(5, 4), "embedding")
