"""From scores to weights: the temperature of a softmax, and why scores are scaled."""

from __future__ import annotations

import math

import numpy as np
import torch

from examples.pictures.paper import Frame, Point, box, picture, text, whole
from seqwright.nn.scores import SCORES, ScaledDot
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale

SCORES_SHOWN = (3, 2, 1, 0, -1, -2)
TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 8.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEYS = 32


def temperature() -> str:
    return picture(
        236,
        "Softmax at five temperatures",
        "Five bar charts of the same six scores, 3 to minus 2. At temperature 0.25 the largest score gets "
        "nearly all of the weight; at 1 it gets about two thirds; at 8 all six get almost equal weights.",
        *(_bars(value, 26 + 132 * place) for place, value in enumerate(TEMPERATURES)),
        text("score", 346, 224, "axis", "unit", "middle"),
    )


def softened(value: float) -> list[float]:
    """Return the softmax of the scores at a temperature: with size 1 and query 1, a key is its own score."""
    score = ScaledDot(query_size=1, key_size=1, temperature=value)
    keys = torch.tensor(SCORES_SHOWN).double().view(1, 1, -1, 1)
    return score(torch.ones(1, 1, 1, 1).double(), keys).softmax(-1).flatten().tolist()


def entropy(weights: list[float]) -> float:
    """Return −Σ w ln w."""
    return -sum(weight * math.log(weight) for weight in weights if weight > 0)


def _bars(value: float, left: float) -> Markup:
    weights, width, bottom, tall = softened(value), 20, 186, 110
    bars = [
        join(
            [
                box(left + n * width + 1, bottom - tall * weight, width - 2, tall * weight, "one"),
                text(whole(score), left + (n + 0.5) * width, bottom + 17, "axis", "small", "middle"),
            ]
        )
        for n, (score, weight) in enumerate(zip(SCORES_SHOWN, weights, strict=True))
    ]
    most = text(f"{100 * weights[0]:.0f} %", left + 2, bottom - tall * weights[0] - 6, "small")
    return join(
        [
            text(f"τ = {value:g}", left, 28, "name"),
            text(f"entropy {entropy(weights):.2f}", left, 46, "axis", "small"),
            *bars,
            most,
            element("line", x1=left, x2=left + 6 * width, y1=bottom, y2=bottom, class_="base"),
        ]
    )


def scaling() -> str:
    spread = Frame(Scale(1, SIZES[-1], 62, 300, log=True), Scale(0.5, 2048, 228, 44, log=True))
    surprise = Frame(Scale(1, SIZES[-1], 420, 658, log=True), Scale(0, 4, 228, 44))
    found = {name: sampled(name) for name in ("dot", "scaled_dot")}
    variances, entropies = ({name: curves[n] for name, curves in found.items()} for n in range(2))
    ticks, most = (1, 4, 16, 64, 256, 1024), math.log(KEYS)
    return picture(
        284,
        "Scaled and unscaled scores",
        "Left: the variance of the dot product of random vectors grows with their size, from 1 to 1024; "
        f"divided by the root of the size it stays at 1. Right: the entropy of the softmax over {KEYS} keys "
        "falls towards 0 without scaling, which means that one key gets all the weight, and stays near 3 "
        "with it.",
        spread.axes("size of query and key", "variance of the scores", ticks),
        spread.curve(((size, size) for size in SIZES), "soft", "dashed"),
        *_drawn(spread, variances),
        spread.note("q·k", 40, 90, "name", "two", "end"),
        spread.note("q·k / √size", 64, 1, "name", "one", up=12),
        surprise.axes("size of query and key", "entropy of the softmax", ticks),
        surprise.curve([(1, most), (SIZES[-1], most)], "soft", "dashed"),
        surprise.note(f"ln {KEYS}: all equal", 1024, most, "axis", "small", "end", up=7),
        *_drawn(surprise, entropies),
        surprise.note("q·k", 100, 0.9, "name", "two"),
        surprise.note("q·k / √size", 64, 2.9, "name", "one", up=-16),
    )


def _drawn(frame: Frame, curves: dict[str, list[Point]]) -> list[Markup]:
    colours = {"dot": "two", "scaled_dot": "one"}
    return [
        join([frame.curve(points, colours[name]), frame.dots(points, colours[name])])
        for name, points in curves.items()
    ]


def sampled(kind: str) -> tuple[list[Point], list[Point]]:
    """Return variance of the scores and entropy of their softmax by size, for normal queries and keys."""
    variances, entropies = [], []
    for size in SIZES:
        random, queries = np.random.default_rng(size), min(65536 // size, 2000)
        q, k = (torch.from_numpy(random.standard_normal((queries, 1, n, size))) for n in (1, KEYS))
        scores = SCORES.build(kind, query_size=size, key_size=size)(q, k)  # (queries, 1, 1, KEYS)
        variances.append((float(size), float(scores.var())))
        entropies.append((float(size), float(torch.special.entr(scores.softmax(-1)).sum(-1).mean())))
    return variances, entropies
