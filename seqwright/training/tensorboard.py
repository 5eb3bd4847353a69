"""The log of a training for TensorBoard (the extra `tensorboard`)."""

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
        scalars: dict[str, float] = {}
        if report.validation is not None:
            record = report.validation.record().items()
            scalars = {f"valid/{name}": value for name, value in record if isinstance(value, float)}
        elif not report.findings:
            names = ("loss", "rate", "tokens_per_second")
            scalars = {f"train/{name}": getattr(report, name) for name in names}
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, report.step)
        self._writer.flush()
