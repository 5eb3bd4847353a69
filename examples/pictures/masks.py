"""Masks: which query may attend to which key."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from examples.pictures.paper import box, picture, text, upright
from seqwright.nn.masks import Mask, Places
from seqwright.runs.report.markup import Markup, join

CELL = 19
SOURCE = ("the", "small", "black", "dog", "sleeps", "end", "pad", "pad")
LONGER = ("the", "small", "black", "dog", "sleeps", "under", "the", "table")
TARGET = ("begin", "le", "petit", "chien", "noir", "dort", "sous", "la")
BEAM = (  # the tokens of three hypotheses at each step, and the hypothesis that each of them continues
    (("le", "un", "ce"), (0, 1, 2)),
    (("chien", "grand", "chien"), (0, 0, 1)),
    (("énorme", "géant", "chien"), (0, 0, 1)),
    (("dort", "dort", "dort"), (2, 0, 1)),
)


def masks() -> str:
    eight = Places.run(0, 8)
    real = eight.with_seen(torch.tensor([[word != "pad" for word in SOURCE]]))
    shown = (
        ("Padding", "padding is not text", Mask().allowed(eight, real), SOURCE),
        ("Causal", "no token sees a later one", Mask(causal=True).allowed(eight, eight), TARGET),
        ("Window of 2", "two neighbours on each side", Mask(window=2).allowed(eight, eight), LONGER),
    )
    return picture(
        420,
        "Masks",
        "Three tables of eight queries (rows) and eight keys (columns); a filled cell means that the "
        "query may attend to the key. With padding, the columns of padding are empty. Causal: the lower "
        "left half is filled. A window of 2: a band along the diagonal. Below, three hypotheses of a beam "
        "after four steps, which share twelve keys: each sees four of them, one for each step, which are "
        "its own past.",
        *(
            _grid(title, subtitle, _full(allowed), words, 70 + 230 * place, 108)
            for place, (title, subtitle, allowed, words) in enumerate(shown)
        ),
        _beam(62, 334),
    )


def _full(allowed: Tensor | None) -> list[list[bool]]:
    assert allowed is not None
    return allowed.expand(1, 1, 8, 8)[0, 0].tolist()


def _grid(
    title: str, subtitle: str, allowed: list[list[bool]], words: Sequence[str], x: float, y: float
) -> Markup:
    numbers = range(len(words))
    return join(
        [
            text(title, x - 46, 28, "name"),
            text(subtitle, x - 46, 46, "axis", "small"),
            *(upright(words[n], x + (n + 0.5) * CELL + 4, y - 8, _ink(words[n]), "small") for n in numbers),
            *(
                text(words[n], x - 6, y + (n + 0.5) * CELL + 4, _ink(words[n]), "small", "end")
                for n in numbers
            ),
            *(_cell(allowed[q][k], x + k * CELL, y + q * CELL, CELL, CELL) for q in numbers for k in numbers),
        ]
    )


def _ink(word: str) -> str:
    return "soft" if word == "pad" else "ink"


def _cell(may: bool, x: float, y: float, width: float, height: float) -> Markup:
    return box(x + 1, y + 1, width - 2, height - 2, "one" if may else "panel", 0.75 if may else 1.0)


def past_of_a_beam() -> list[list[bool]]:
    """Return which of the shared keys each hypothesis sees after the last step, (width, keys)."""
    width = len(BEAM[0][0])
    places = Places.run(0, 1, width=width).own(1, width)
    for step, (_, parents) in enumerate(BEAM[1:], start=1):
        places = places.select(None, parents, width).append(Places.run(step, 1, width=width), 1, width)
    assert places.seen is not None
    return places.seen[0].tolist()


def _beam(x: float, y: float) -> Markup:
    seen, width, height, gap = past_of_a_beam(), 48, 24, 14
    words = [word for tokens, _ in BEAM for word in tokens]
    parts = []
    for row, sees in enumerate(seen):
        parts.append(text(f"row {row + 1}", x - 6, y + row * height + 17, "small", "end"))
        for place, (word, may) in enumerate(zip(words, sees, strict=True)):
            left, top = x + place * width + place // len(seen) * gap, y + row * height
            parts.append(_cell(False, left, top, width, height))
            if may:
                parts.append(box(left + 1, top + 1, width - 2, height - 2, "one", 0.4))
            parts.append(text(word, left + width / 2, top + 16, "ink" if may else "soft", "small", "middle"))
    steps = (
        text(f"keys of step {n + 1}", x + (n * 3 + 1.5) * width + n * gap, y - 8, "axis", "small", "middle")
        for n in range(len(BEAM))
    )
    return join(
        [
            text("A beam of 3", x - 38, y - 46, "name"),
            text("hypotheses share their keys, and each sees its own past", x - 38, y - 28, "axis", "small"),
            *steps,
            *parts,
        ]
    )
