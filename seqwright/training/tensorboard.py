"""The log of a training for TensorBoard, where that is installed (the extra `tensorboard`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqwright.errors import ConfigError
from seqwright.training.trainer import Report


class TensorBoard:
    """A listener that writes event files into a folder."""

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError("TensorBoard is not installed; pip install 'seqwright[tensorboard]'") from error
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        for name, value in _scalars(report).items():
            self._writer.add_scalar(name, value, report.step)
        self._writer.flush()


def _scalars(report: Report) -> dict[str, float]:
    if report.validation is not None:
        found = report.validation.record().items()
        return {f"valid/{name}": value for name, value in found if isinstance(value, float)}
    if report.findings:
        return {}
    return {
        "train/loss": report.loss,
        "train/rate": report.rate,
        "train/tokens_per_second": report.tokens_per_second,
    }
