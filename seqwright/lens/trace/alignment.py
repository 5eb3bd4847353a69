"""Attention as an alignment: its links, their error rate against known links, and its monotonicity."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from seqwright.errors import InputError

if TYPE_CHECKING:
    from seqwright.lens.trace.document import Trace

Link = tuple[int, int]  # the indices of a source piece and an output piece, from 0

Links = Collection[Link]


def alignment_error_rate(found: Links, sure: Links, possible: Links = ()) -> float:
    """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), where sure links are also possible (Och & Ney 2003)."""
    links, certain = set(found), set(sure)
    if not links and not certain:
        raise InputError("an alignment error rate needs at least one found or sure link; there are none")
    allowed = certain | set(possible)
    return 1 - (len(links & certain) + len(links & allowed)) / (len(links) + len(certain))


def links_of(trace: Trace, layer: int | None = None, head: int | None = None) -> set[Link]:
    """Link each output piece to the source piece with its largest weight, end tokens excluded.

    The weights are the mean of all heads, as on the page, the mean of one layer, or those of one head.
    """
    sources, outputs, weights = _inner(trace, layer, head)
    if not sources:
        return set()
    best = np.argmax(weights, axis=1)
    return {(sources[column], place) for column, place in zip(best, outputs, strict=True)}


def monotonicity(trace: Trace, layer: int | None = None, head: int | None = None) -> float:
    """The share of steps between neighbouring output pieces at which the centre of attention
    Σ_j j·α_j / Σ_j α_j does not move back, end tokens excluded; for the same heads as `links_of`.
    """
    sources, outputs, weights = _inner(trace, layer, head)
    if not sources or len(outputs) < 2:
        counts = f"{len(sources)} and {len(outputs)}"
        raise InputError(f"monotonicity needs 1 source piece and 2 output pieces; the trace has {counts}")
    centres = weights @ sources / weights.sum(1).clip(min=np.finfo(weights.dtype).tiny)
    return float(np.mean(np.diff(centres) >= 0))


def mean_cross(trace: Trace) -> np.ndarray:
    """The mean cross-attention weights of all heads of all layers (T, S)."""
    layers = [trace.attention("cross", layer) for layer in range(trace.layers("cross"))]
    return np.concatenate(layers).mean(axis=0)


def _inner(trace: Trace, layer: int | None, head: int | None) -> tuple[list[int], list[int], np.ndarray]:
    """The indices of the source and output pieces except the end tokens, and the weights between them."""
    if layer is None and head is not None:
        raise InputError(f"head {head} needs a layer: heads are numbered within a layer")
    if layer is None and not trace.layers("cross"):
        raise InputError(f"the trace has no cross-attention to align: {trace.why('cross')}")
    heads = None if layer is None else trace.attention("cross", layer)
    weights = mean_cross(trace) if heads is None else heads.mean(0) if head is None else heads[head]  # (T, S)
    sides = (trace.document["source"]["pieces"], trace.document["output"]["pieces"])
    if weights.shape != (len(sides[1]), len(sides[0])):
        raise InputError("the weights of this long text are stored in blocks; align a shorter text")
    inner = [[k for k, piece in enumerate(side) if piece.get("special") != "end"] for side in sides]
    return inner[0], inner[1], weights[np.ix_(inner[1], inner[0])]
