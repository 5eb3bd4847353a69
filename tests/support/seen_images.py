"""Untrained image classifiers of every encoder, and an image to look at."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from seqwright import build_model
from seqwright.data.labels import Labels
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.image_classification import ImageClassification

HOSTILE = "<script>document.body.dataset.hacked=1</script>"
TASK = ImageClassification(Labels.of(Counter({"cat": 3, "dog": 2, HOSTILE: 1})), 8, 3)
STACK = {"size": 16, "heads": 2, "layers": 2, "hidden": 16}
ENCODERS: dict[str, dict[str, Any]] = {
    "patches": {"kind": "patches", "patch": 2, **STACK},
    "class_token": {"kind": "patches", "patch": 4, "class_token": True, **STACK},
    "sinusoidal": {"kind": "patches", "patch": 2, "position": "sinusoidal", **STACK},
    "hybrid": {"kind": "hybrid", "halvings": 1, **STACK},
    "resnet": {"kind": "resnet", "size": 16, "stages": 2, "layers": 1},
    "cnn": {"kind": "cnn", "size": 16, "layers": 2},
}
PIXELS = np.random.default_rng(1).integers(0, 255, (8, 8, 3), dtype=np.uint8)


def predictor(name: str, pooling: str = "mean") -> Predictor:
    """An untrained model with large weights, whose attention is not even."""
    torch.manual_seed(0)
    head = {"kind": "classes", "pooling": pooling}
    model = build_model({"kind": "encoder_only", "encoder": ENCODERS[name], "head": head}, **TASK.facts())
    for weight in model.weights().values():
        if weight.dim() > 1:
            weight.mul_(2.0)
    return Predictor(model, TASK)
