"""Attention rollout: how much of each input vector reaches each output vector through all layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

KIND = "rollout"  # of its weights among the attentions of a trace
AXES = {"title": "Attention rollout", "rows": "source", "columns": "source"}


def attention_rollout(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Â_L ⋯ Â_1 with Â = (mean_h A_h + I) / 2 (Abnar & Zuidema 2020, section 3): (S, S), rows sum to 1.

    layers: the weights of each layer, (H, S, S), the first layer first. The identity stands for the residual
    connection; a layer without heads has nothing else.
    """
    same = np.eye(layers[0].shape[-1])
    found = same
    for weights in layers:
        mean = weights.mean(0, dtype=np.float64) if len(weights) else same
        mixed = (mean + same) / 2
        found = mixed / mixed.sum(-1, keepdims=True) @ found
    return found
