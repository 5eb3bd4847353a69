"""Alignment error rates against their definition, and links that a trace has by construction."""

from __future__ import annotations

import pytest
from looked import case

from seqwright.errors import InputError
from seqwright.lens.trace.alignment import alignment_error_rate, links_of
from seqwright.lens.trace.packing import quantize

DIAGONAL = {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize(
    ("found", "sure", "possible", "rate"),
    [
        (DIAGONAL, DIAGONAL, (), 0.0),
        (DIAGONAL, DIAGONAL, {(5, 5)}, 0.0),
        ({(0, 1)}, DIAGONAL, (), 1.0),
        (set(), DIAGONAL, (), 1.0),
        ({(0, 0), (7, 7)}, {(0, 0)}, (), 1 - 2 / 3),
        ({(0, 0), (7, 7)}, {(0, 0)}, {(7, 7)}, 0.0),  # a possible link is no error
        ({(0, 0)}, {(0, 0), (1, 1)}, (), 1 - 2 / 3),  # a sure one that is missed is
    ],
)
def test_rates_of_known_alignments(found, sure, possible, rate):
    assert alignment_error_rate(found, sure, possible) == pytest.approx(rate)


def test_without_any_link_there_is_no_rate():
    with pytest.raises(InputError, match="needs at least one found or sure link"):
        alignment_error_rate([], [])


def test_links_are_the_largest_weights_without_ends():
    """Weights put on the diagonal, and more of them on the end of the source, which does not count."""
    _, trace = case("transformer-sinusoidal")
    entry = next(one for one in trace.document["attention"] if (one["kind"], one["layer"]) == ("cross", 1))
    weights = trace.attention("cross", 1) * 0
    outputs = [k for k, piece in enumerate(trace.document["output"]["pieces"]) if "special" not in piece]
    for place in outputs:
        weights[0, place, place] = 0.4
        weights[0, place, -1] = 0.6
    (stored,) = quantize([weights], 10_000)
    changed = {**entry, "scales": stored.scales, "weights": stored.weights, "levels": stored.levels}
    others = [one for one in trace.document["attention"] if one is not entry]
    aligned = type(trace)({**trace.document, "attention": [*others, changed]})
    diagonal = {(place, place) for place in outputs}
    assert links_of(aligned, 1, head=0) == links_of(aligned, 1) == diagonal
    assert alignment_error_rate(links_of(aligned, 1), diagonal) == 0
