"""Attention read as an alignment: how far its links are from known ones, and whether it goes forward."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from seqwright.errors import InputError

if TYPE_CHECKING:
    from seqwright.lens.trace.document import Trace

Link = tuple[int, int]  # a place in the source, a place in the output; both count pieces from 0


def alignment_error_rate(
    found: Collection[Link], sure: Collection[Link], possible: Collection[Link] = ()
) -> float:
    """AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), the sure links being possible, too (Och & Ney 2003)."""
    links, certain = set(found), set(sure)
    if not links and not certain:
        raise InputError("an alignment error rate needs a link, found or sure; there is none")
    allowed = certain | set(possible)
    return 1 - (len(links & certain) + len(links & allowed)) / (len(links) + len(certain))


def links_of(trace: Trace, layer: int | None = None, head: int | None = None) -> set[Link]:
    """Each piece of the output and the piece of the source that it looks at most, ends left out; by the mean
    of all heads, which is what a page shows first, by that of a layer's, or by one head.
    """
    sources, outputs, weights = _inner(trace, layer, head)
    if not sources:
        return set()
    best = np.argmax(weights, axis=1)
    return {(sources[column], place) for column, place in zip(best, outputs, strict=True)}


def monotonicity(trace: Trace, layer: int | None = None, head: int | None = None) -> float:
    """The share of the steps from a piece of the output to the next one at which the centre of attention
    Σ_j j·α_j / Σ_j α_j does not go back, ends left out; of the same heads as `links_of`.
    """
    sources, outputs, weights = _inner(trace, layer, head)
    if not sources or len(outputs) < 2:
        raise InputError(
            f"{len(sources)} pieces of a source and {len(outputs)} of an output are no way to go; "
            "it takes one and two at least"
        )
    centres = weights @ sources / weights.sum(1).clip(min=np.finfo(weights.dtype).tiny)
    return float(np.mean(np.diff(centres) >= 0))


def mean_cross(trace: Trace) -> np.ndarray:
    """The mean over all heads of all layers of where the steps look in the source, (T, S)."""
    layers = [trace.attention("cross", layer) for layer in range(trace.layers("cross"))]
    return np.concatenate(layers).mean(axis=0)


def is_end(piece: dict[str, object]) -> bool:
    return piece.get("special") == "end"


def _inner(trace: Trace, layer: int | None, head: int | None) -> tuple[list[int], list[int], np.ndarray]:
    """The places of the source and of the output that are no ends, and the weights between them."""
    weights = _chosen(trace, layer, head)
    sides = (trace.document["source"]["pieces"], trace.document["output"]["pieces"])
    if weights.shape != (len(sides[1]), len(sides[0])):
        raise InputError("the weights of a long text are stored in blocks; align a shorter one")
    sources, outputs = ([k for k, piece in enumerate(side) if not is_end(piece)] for side in sides)
    return sources, outputs, weights[np.ix_(outputs, sources)]


def _chosen(trace: Trace, layer: int | None, head: int | None) -> np.ndarray:
    """(T, S)"""
    if layer is not None:
        weights = trace.attention("cross", layer)
        return weights.mean(0) if head is None else weights[head]
    if head is not None:
        raise InputError(f"head {head} of which layer? layers have heads of their own; name one")
    if not trace.layers("cross"):
        raise InputError(f"there is nothing to align: {trace.why('cross')}")
    return mean_cross(trace)
