"""Tags that mark entities: BIO (B-X begins one, I-X continues it) and IOBES (E-X ends one, S-X is one word).

Ramshaw & Marcus 1995 introduce such tags. Entities are those of conlleval and seqeval: a tag continues
the entity before it if it is I-X or E-X after B-X or I-X; any other tag but O begins one. An invalid sequence
therefore has entities, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

OUTSIDE = "O"
NAMELESS = "_"  # the type of the entities of B, I and O without types, as seqeval has it
NEVER = 1e4  # the cost of an invalid transition: paid only where every sequence is invalid
_MARKED = re.compile(r"([BIES])(?:-(.+))?", re.DOTALL)


class Scheme(StrEnum):
    """How entities are marked."""

    BIO = "BIO"
    IOBES = "IOBES"


class Entity(NamedTuple):
    """Words from `start` to `stop` − 1 and their type."""

    type: str
    start: int
    stop: int


def scheme_of(tags: Collection[str]) -> Scheme | None:
    """Return the scheme of a set of tags; None if one of them is neither O nor a marked type."""
    marked = [_MARKED.fullmatch(tag) for tag in tags if tag != OUTSIDE]
    if not marked or not all(marked):
        return None
    prefixes = {found[1] for found in marked if found}
    typed = all(found[2] for found in marked if found)
    if "B" not in prefixes and not (typed and "I" in prefixes):
        return None
    return Scheme.IOBES if prefixes & {"E", "S"} else Scheme.BIO


def entities(tags: Iterable[str]) -> list[Entity]:
    """Return the entities of any sequence, valid or not."""
    found: list[Entity] = []
    open_ = False  # whether the last entity may continue
    for place, tag in enumerate(tags):
        prefix, kind = _parts(tag)
        if prefix in ("I", "E") and open_ and found[-1].type == kind:
            found[-1] = found[-1]._replace(stop=place + 1)
        elif prefix != OUTSIDE:
            found.append(Entity(kind, place, place + 1))
        open_ = prefix in ("B", "I")
    return found


def repaired(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return valid tags with the same entities: I-X that continues nothing becomes B-X."""
    new = [OUTSIDE] * len(tags)
    for kind, start, stop in entities(tags):
        end = "" if kind == NAMELESS else f"-{kind}"
        new[start:stop] = [f"B{end}", *[f"I{end}"] * (stop - start - 1)]
        if scheme is Scheme.IOBES:
            new[stop - 1] = f"S{end}" if stop == start + 1 else f"E{end}"
    return tuple(new)


class Transitions:
    """The tags that may follow each other, as costs: 0, or `NEVER`. Without a scheme any tag may follow."""

    def __init__(self, tags: Sequence[str], scheme: Scheme | None):
        closed = scheme is Scheme.IOBES
        parts = [_parts(tag) if scheme else (OUTSIDE, "") for tag in tags]
        begins = np.array([prefix in ("O", "B", "S") for prefix, _ in parts])
        opens = np.array([prefix in ("B", "I") for prefix, _ in parts])
        ends = ~opens if closed else np.full(len(parts), True)
        same = np.array([[kind == other for _, other in parts] for _, kind in parts])
        allowed = (ends[:, None] & begins) | (opens[:, None] & same & ~begins)  # (tags, next tags)
        self.first, self.last, self.costs = (NEVER * ~each for each in (begins, ends, allowed))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the valid sequence with the highest sum of scores (T, tags), by Viterbi's algorithm."""
        path = scores.argmax(-1)  # the best of all sequences, if it is valid
        if not len(path) or self.cost(path) == 0:
            return path
        total, back = scores[0] - self.first, []
        for row in scores[1:]:
            through = total[:, None] - self.costs  # (tags, next tags)
            back.append(through.argmax(0))
            total = through.max(0) + row
        found = [int((total - self.last).argmax())]
        for before in reversed(back):
            found.append(int(before[found[-1]]))
        return np.array(found[::-1])

    def cost(self, path: np.ndarray) -> float:
        """Return the costs of all transitions of a sequence of numbers of tags: 0 if it is valid."""
        return float(self.first[path[0]] + self.costs[path[:-1], path[1:]].sum() + self.last[path[-1]])


def _parts(tag: str) -> tuple[str, str]:
    """Return the prefix and the type of a tag."""
    found = None if tag == OUTSIDE else _MARKED.fullmatch(tag)
    return (found[1], found[2] or NAMELESS) if found else (OUTSIDE, "")
