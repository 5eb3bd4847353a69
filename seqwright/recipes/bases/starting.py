"""The training of an encoder that is taken over."""

from __future__ import annotations

from seqwright.config.recipe import Choice

RATE = 0.5  # of the rate of new parts, for an encoder that is taken over
RELEASED = 0.1  # the same, for an encoder that was trained with far more data
WARMUP = 50  # steps


def gentle(rate: float = RATE) -> Choice:
    """Return a lower rate for an encoder that is taken over, and a short warm-up."""
    training = {
        "optimizer": {"part_rates": {"encoder": rate}},
        "schedule": {"kind": "linear", "warmup": WARMUP},
    }
    what = f"{rate:g} times the rate for the encoder, a warm-up of {WARMUP} steps"
    reason = "smaller steps keep more of what it has learned (Howard & Ruder 2018)"
    return Choice(what, {"training": training}, reason)
