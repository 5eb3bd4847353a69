"""Training: schedules of the learning rate, and label smoothing."""

from __future__ import annotations

import math

import torch

from examples.pictures.paper import Frame, Point, box, picture, text
from seqwright.nn.loss import cross_entropy
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.scale import Scale
from seqwright.training.schedule import SCHEDULES

STEPS, WARMUP = 4000, 400
SYMBOLS = 10
SMOOTHINGS = (0.0, 0.1, 0.3)


def schedules() -> str:
    frame = Frame(Scale(0, STEPS, 62, 670), Scale(0, 1, 244, 44))
    curves = {  # the colour, and the position of the name: step and height above the curve
        "constant": ("soft", 3300, 8),
        "linear": ("one", 2900, 8),
        "cosine": ("three", 2300, 10),
        "inverse_sqrt": ("two", 3300, 8),
    }
    return picture(
        292,
        "Schedules of the learning rate",
        f"Four curves over {STEPS:,} steps. All rise in a straight line over the first {WARMUP} steps. Then "
        "constant stays; linear stays for a while and falls in a straight line to 0; cosine falls like half "
        "a wave to 0; inverse square root falls fast, then more and more slowly, to a third.",
        frame.axes("step", "learning rate, as a share of the highest"),
        *(_schedule(frame, kind, *how) for kind, how in curves.items()),
        element("line", x1=frame.x(WARMUP), x2=frame.x(WARMUP), y1=44.0, y2=244.0, class_="base dashed"),
        text("warm-up", frame.x(WARMUP) + 8, 234, "axis", "small"),
    )


def _schedule(frame: Frame, kind: str, colour: str, place: int, up: float) -> Markup:
    factor = SCHEDULES.build(kind, warmup=WARMUP).factor
    points = [(step, factor(step, step / STEPS)) for step in [1, *range(40, STEPS + 1, 40)]]
    return join(
        [
            frame.curve(points, colour),
            frame.note(kind, place, factor(place, place / STEPS), "name", colour, up=up),
        ]
    )


def smoothing() -> str:
    frame = Frame(Scale(0.3, 1, 420, 660), Scale(0, 1.6, 228, 44))
    curves = [(0.0, "two"), (0.1, "one")]
    return picture(
        284,
        "Label smoothing",
        f"Left: the target distribution over {SYMBOLS} symbols, of which the third is correct. With ε = 0 "
        "it gets everything, with ε = 0.1 it gets 0.91 and the others 0.01 each, with ε = 0.3 it gets "
        "0.73. Right: the loss by the probability of the correct symbol. Without smoothing it falls up to "
        "certainty; with ε = 0.1 it has its minimum at 0.91 and rises again.",
        text("target distribution", 32, 28, "name"),
        *(_target_bars(share, 36 + 114 * place) for place, share in enumerate(SMOOTHINGS)),
        frame.axes("probability of the correct symbol", "loss"),
        *(frame.curve(_losses(share), colour) for share, colour in curves),
        frame.dots([(p := target(0.1)[2], _loss(p, 0.1))], "one", 5),
        frame.note(f"minimum at {p:.2f}", p, _loss(p, 0.1), "small", "middle", up=30),
        frame.note("ε = 0.1", 0.36, _loss(0.36, 0.1), "name", "one", up=8),
        frame.note("ε = 0", 0.52, _loss(0.52, 0.0), "name", "two", "end", up=-16),
    )


def target(share: float) -> list[float]:
    """Return the target distribution of the loss: the gradient of the scores is softmax − target."""
    scores = torch.zeros(1, SYMBOLS, dtype=torch.float64, requires_grad=True)
    _cross_entropy(scores, share).backward()
    assert scores.grad is not None
    return (scores.detach().softmax(-1) - scores.grad).flatten().tolist()


def _target_bars(smoothing: float, left: float) -> Markup:
    width, bottom, tall = 9, 228, 160
    shares = target(smoothing)
    right = shares[2]
    return join(
        [
            *(
                box(left + n * width + 1, bottom - tall * share, width - 2, tall * share, "one")
                for n, share in enumerate(shares)
            ),
            text(f"{right:.2f}", left + 2.5 * width, bottom - tall * right - 7, "small", "middle"),
            element("line", x1=left, x2=left + SYMBOLS * width, y1=bottom, y2=bottom, class_="base"),
            text(f"ε = {smoothing:g}", left + SYMBOLS * width / 2, bottom + 18, "middle"),
        ]
    )


def _losses(share: float) -> list[Point]:
    return [(p / 200, _loss(p / 200, share)) for p in range(60, 200)]


def _loss(p: float, share: float) -> float:
    """Return the loss if the correct symbol has probability p and the others share the rest equally."""
    rest = math.log((1 - p) / (SYMBOLS - 1))
    scores = torch.tensor([[math.log(p) if n == 2 else rest for n in range(SYMBOLS)]]).double()
    return float(_cross_entropy(scores, share))


def _cross_entropy(scores: torch.Tensor, share: float) -> torch.Tensor:
    """Return the loss of the correct symbol, number 2."""
    return cross_entropy(scores, torch.eye(SYMBOLS).double(), None, torch.tensor([2]), share)
