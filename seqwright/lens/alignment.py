"""Attention read as an alignment, and how far it is from a known one."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from seqwright.errors import InputError
from seqwright.lens.trace import Trace

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


def links_of(trace: Trace, layer: int, head: int | None = None) -> set[Link]:
    """Each piece of the output and the piece of the source that it looks at most, ends left out; by one head,
    or by the mean of a layer's.
    """
    weights = trace.attention("cross", layer)
    sides = (trace.document["source"]["pieces"], trace.document["output"]["pieces"])
    if weights.shape[1:] != (len(sides[1]), len(sides[0])):
        raise InputError("the weights of a long text are stored in blocks; align a shorter one")
    chosen = weights.mean(0) if head is None else weights[head]  # (T, S)
    sources, outputs = ([k for k, piece in enumerate(side) if not is_end(piece)] for side in sides)
    if not sources:
        return set()
    best = np.argmax(chosen[:, sources], axis=1)
    return {(sources[best[place]], place) for place in outputs}


def is_end(piece: dict[str, object]) -> bool:
    return piece.get("special") == "end"
