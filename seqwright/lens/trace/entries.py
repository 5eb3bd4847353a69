"""Watched attentions and recurrent layers as the entries of a trace, as much of them as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from seqwright.lens.trace.packing import pack, quantize
from seqwright.lens.trace.recorders import Passes, Vectors, Watched
from seqwright.lens.trace.rnn_gates import cells

WEIGHTS_ROOM = 4_200_000  # characters that all attention weights may take
ROOM = 4_600_000  # that all packed arrays may: with all else, a trace is below 5 MB


class CacheBuffer:
    """Characters that are left for packed arrays."""

    def __init__(self, left: int):
        self.left = left

    def admits(self, value: dict[str, Any]) -> bool:
        """Whether the arrays of an entry fit; if so, their place is taken."""
        size = packed_size(value)
        if size > self.left:
            return False
        self.left -= size
        return True


def packed_size(value: Any) -> int:
    """How many characters the arrays in an entry take."""
    if not isinstance(value, dict):
        return 0
    return len(value["data"]) if "data" in value else sum(map(packed_size, value.values()))


def attention_entries(watched: Sequence[Watched], room: int) -> list[dict[str, Any]]:
    """The weights of every attention, without vectors yet."""
    stored = quantize([one.weights for one in watched], min(room, WEIGHTS_ROOM))
    return [
        {
            "kind": one.at.kind,
            "layer": one.at.layer,
            "name": one.at.name,
            "heads": one.at.attention.heads,
            "queries": one.queries,
            "keys": one.keys,
            "block": list(one.block),
            "levels": weights.levels,
            "scales": weights.scales,
            "weights": weights.weights,
            "mask": {"causal": one.at.attention.mask.causal, "window": one.at.attention.mask.window},
            "vectors": None,
        }
        for one, weights in zip(watched, stored, strict=True)
    ]


def add_vectors(entries: Sequence[dict[str, Any]], watched: Sequence[Watched], room: CacheBuffer) -> int:
    """Gives the entries their vectors, the last layers and the cross-attentions first; how many got none."""
    order = sorted(
        range(len(entries)),
        key=lambda i: (-entries[i]["layer"], ("cross", "dec", "enc").index(entries[i]["kind"])),
    )
    missing = 0
    for i in order:
        vectors = watched[i].vectors
        packed = None if vectors is None else _packed(vectors)
        if packed is not None and room.admits(packed):
            entries[i]["vectors"] = packed
        else:
            missing += 1
    return missing


def _packed(vectors: Vectors) -> dict[str, Any]:
    named = {field.name: getattr(vectors, field.name) for field in fields(vectors)}
    return {name: pack(value) if isinstance(value, np.ndarray) else value for name, value in named.items()}


def recurrent_entries(
    passes: Sequence[Passes], backward: bool, room: CacheBuffer
) -> tuple[list[dict[str, Any]], int]:
    """Gates and states of the recurrent layers, the decoder's and the last ones first into the room; and how
    many layers found none. `backward`: the encoder reads its source from the end.
    """
    found: list[tuple[int, list[dict[str, Any]]]] = []
    for number in sorted(range(len(passes)), key=lambda i: (passes[i].name, -passes[i].layer)):
        one = passes[number]
        entries = cells(one, backward=backward and one.name.startswith("encoder."), room=room.left)
        if entries and all(room.admits(entry) for entry in entries):
            found.append((number, entries))
    stored = [entry for _, entries in sorted(found, key=lambda pair: pair[0]) for entry in entries]
    return stored, len(passes) - len(found)
