"""Recorded attentions and recurrent layers as the entries of a trace, within a size budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from seqwright.lens.trace.packing import pack, quantize
from seqwright.lens.trace.readout import Readout
from seqwright.lens.trace.recorders import AttentionRecord, RecurrentRecord, numpy
from seqwright.lens.trace.rnn_gates import gate_entries

WEIGHTS_SIZE = 4_200_000  # characters for all attention weights
ARRAYS_SIZE = 4_600_000  # for all packed arrays: with the rest, a trace stays below 5 MB


class SizeBudget:
    """Characters that are left for packed arrays."""

    def __init__(self, left: int):
        self.left = left

    def reserve(self, value: dict[str, Any]) -> bool:
        """Return whether the arrays of an entry fit, and subtract their size if they do."""
        size = packed_size(value)
        if size > self.left:
            return False
        self.left -= size
        return True


def packed_size(value: Any) -> int:
    """Number of characters in the arrays of an entry."""
    if not isinstance(value, dict):
        return 0
    return len(value["data"]) if "data" in value else sum(map(packed_size, value.values()))


def attention_entries(records: Sequence[AttentionRecord], size: int) -> list[dict[str, Any]]:
    """The weights of every attention, without vectors yet."""
    stored = quantize([one.weights for one in records], min(size, WEIGHTS_SIZE))
    return [
        {
            "kind": one.site.kind,
            "layer": one.site.layer,
            "name": one.site.name,
            "heads": one.site.attention.heads,
            "queries": one.queries,
            "keys": one.keys,
            "block": list(one.block),
            **weights._asdict(),
            "mask": {"causal": one.site.attention.mask.causal, "window": one.site.attention.mask.window},
            "vectors": None,
        }
        for one, weights in zip(records, stored, strict=True)
    ]


def pooling_entries(readout: Readout, recorded: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """The weights of the attention poolings that the readout describes, as attentions of one head."""
    found = []
    for name, pooled in readout.pooled.items():
        if name in recorded:
            weights = pooled.spread(numpy(recorded[name]), readout.count(pooled.columns))
            found.append(single_entry(pooled.kind, name, weights))
    return found


def single_entry(kind: str, name: str, weights: np.ndarray) -> dict[str, Any]:
    """Weights (Q, K) as the only attention of a kind, with one head."""
    (stored,) = quantize([weights[None]], WEIGHTS_SIZE)
    return {
        "kind": kind,
        "layer": 0,
        "name": name,
        "heads": 1,
        "queries": weights.shape[0],
        "keys": weights.shape[1],
        "block": [1, 1],
        **stored._asdict(),
        "mask": {"causal": False, "window": None},
        "vectors": None,
    }


def add_vectors(entries: list[dict[str, Any]], records: Sequence[AttentionRecord], budget: SizeBudget) -> int:
    """Add vectors to the entries, last layers and cross-attentions first; return how many did not fit."""
    missing = 0
    for i in sorted(range(len(records)), key=lambda i: (-entries[i]["layer"], entries[i]["kind"])):
        vectors = (records[i].vectors or {}).items()
        packed = {name: pack(value) if isinstance(value, np.ndarray) else value for name, value in vectors}
        if packed and budget.reserve(packed):
            entries[i]["vectors"] = packed
        else:
            missing += 1
    return missing


def recurrent_entries(
    records: Sequence[RecurrentRecord], backward: bool, budget: SizeBudget
) -> tuple[list[dict[str, Any]], int]:
    """Gates and states of the recurrent layers, and how many layers did not fit. The decoder and the last
    layers come first into the budget. backward: the encoder reads its source from the end.
    """
    stored: dict[int, list[dict[str, Any]]] = {}
    for i in sorted(range(len(records)), key=lambda i: (records[i].name, -records[i].layer)):
        one = records[i]
        entries = gate_entries(one, backward=backward and one.name.startswith("encoder."), room=budget.left)
        if entries and all(budget.reserve(entry) for entry in entries):
            stored[i] = entries
    return [entry for i in sorted(stored) for entry in stored[i]], len(records) - len(stored)
