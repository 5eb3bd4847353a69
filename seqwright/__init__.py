"""Train, evaluate, serve and inspect attention models of texts, images and time series.

Names are imported when they are used, so that `import seqwright` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqwright.lens.capture import capture as capture
    from seqwright.models.building import build_model as build_model
    from seqwright.pipeline import train as train
    from seqwright.prediction.predictor import load as load

__version__ = "0.1.0"

_HOMES = {
    "build_model": "seqwright.models.building",
    "capture": "seqwright.lens.capture",
    "load": "seqwright.prediction.predictor",
    "train": "seqwright.pipeline",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'seqwright' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
