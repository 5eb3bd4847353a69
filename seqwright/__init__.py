"""Train, evaluate, serve and inspect attention models of texts, images and time series.

Names are imported when they are used, so that `import seqwright` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqwright.data.checks.doctor import diagnose
    from seqwright.evaluation.comparison import compare as compare
    from seqwright.lens.capture import capture as capture
    from seqwright.lens.heads.analysis import analyse
    from seqwright.models.building import build_model as build_model
    from seqwright.pipeline import train as train
    from seqwright.prediction.predictor import load as load
    from seqwright.prediction.verification import verify as verify
    from seqwright.runs.report import write_report

    doctor, heads, report = diagnose, analyse, write_report

__version__ = "0.1.0"

_HOMES = {  # the commands of a terminal, and the parts of a model; the methods of a model are the other verbs
    "build_model": ("seqwright.models.building", "build_model"),
    "capture": ("seqwright.lens.capture", "capture"),
    "compare": ("seqwright.evaluation.comparison", "compare"),
    "doctor": ("seqwright.data.checks.doctor", "diagnose"),
    "heads": ("seqwright.lens.heads.analysis", "analyse"),
    "load": ("seqwright.prediction.predictor", "load"),
    "report": ("seqwright.runs.report", "write_report"),
    "train": ("seqwright.pipeline", "train"),
    "verify": ("seqwright.prediction.verification", "verify"),
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'seqwright' has no attribute {name!r}")
    module, function = _HOMES[name]
    return getattr(importlib.import_module(module), function)
