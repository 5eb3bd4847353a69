"""One number goes on: what a block makes of it, drawn and as a table, from the numbers of the trace alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from reading_pages import numbers, table
from synthetic_traces import make_trace, older

from seqwright import build_model
from seqwright.data.tokenizer import train_tokenizer
from seqwright.lens.trace.document import Trace
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_to_text import TextToText

MODELS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post": {"order": "post"},
    "rms": {"norm": "rms", "feed_forward": {"kind": "gated", "activation": "gelu"}},
}


@cache
def traced(name: str) -> Trace:
    letters = train_tokenizer("characters", ["through the looking glass"])
    spec = {"size": 16, "layers": 2, "heads": 2, **MODELS[name]}
    model = build_model(spec, source_vocabulary=letters.size, target_vocabulary=letters.size)
    return Predictor(model, TextToText(letters, letters)).look("look at", beam=2, ablate=False)


def sections(rows: list[list[str]]) -> dict[str, dict[str, list[str]]]:
    """The rows of a table under their titles, the numbers of which are left out."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, *values in rows:
        if name[:1].isdigit() and name[1:3] == "  ":
            inside = found.setdefault(name[3:], {})
        else:
            inside[name] = [value for value in values if value]
    return found


@pytest.mark.parametrize("kind", ["enc", "dec", "cross"])
@pytest.mark.parametrize("name", MODELS)
def test_the_computation_continues_through_the_block(look, name, kind):
    trace = traced(name)
    page = look(trace.document, at=f"#view=number&kind={kind}&layer=1&head=0&t=2&q=2&k=1")
    found = sections(table(page))
    block = trace.block("encoder" if kind == "enc" else "decoder", 1)
    last = block["sublayers"]["feed_forward"]
    (out,) = (lines for title, lines in found.items() if title.startswith("Output of the block"))
    assert numbers(out["y  of the feed-forward"]) == pytest.approx(last["output"][2], abs=1e-4)
    if block["order"] == "pre":
        expected = block["start"][2] + sum(part["output"][2] for part in block["sublayers"].values())
        assert numbers(out["x + y"]) == pytest.approx(expected, abs=2e-4)
    else:
        after = numbers(out["· scale + shift"])
        assert np.mean(after) == pytest.approx(0.0, abs=1e-4)  # nothing is learned yet
        assert np.mean(np.square(after)) == pytest.approx(1.0, abs=1e-2)
    assert ("after the cross-attention" in " ".join(found)) == (kind == "dec")


@pytest.mark.parametrize("name", MODELS)
def test_the_norm_and_the_feed_forward_have_their_numbers(look, name):
    trace = traced(name)
    page = look(trace.document, at="#view=number&kind=cross&layer=0&head=0&t=1")
    found = sections(table(page))
    block = trace.block("decoder", 0)
    hidden, cross = block["hidden"], block["sublayers"]["cross"]
    stream = block["start"][1] + block["sublayers"]["attention"]["output"][1]
    normed = found.get("LayerNorm before the feed-forward", found.get("RMSNorm before the feed-forward"))
    if normed is not None:
        assert numbers(normed["x"]) == pytest.approx(stream + cross["output"][1], abs=2e-4)
        name_of = "variance" if block["norm"] == "layer" else "mean of squares"
        spread = block["sublayers"]["feed_forward"]["variance"][1]
        assert normed[name_of][0].startswith(f"{spread:.4f}, over all 16 numbers")
    else:
        (first,) = (lines for title, lines in found.items() if title.startswith("Residual stream after"))
        assert "mean" in first
        assert "LayerNorm" in " ".join(found)
    feed = found["Feed-forward"]
    active = f"{hidden['activation']}({'g) ⊙ v' if hidden['value'] is not None else 'h)'}"
    assert numbers(feed[active]) == pytest.approx(hidden["after"][1], abs=1e-4)
    to = hidden["to"][1]
    total = feed[f"number {to} of y"][0].rpartition(" = ")[2]
    assert float(total.replace("−", "-")) == pytest.approx(
        block["sublayers"]["feed_forward"]["output"][1][to], abs=2e-4
    )


def test_the_sections_are_drawn_one_after_the_other(look):
    page = look(traced("pre").document, at="#view=number&kind=cross&layer=1&head=0&t=2")
    drawn = page.text("svg.strips")
    places = [drawn.index(f"{number}  ") for number in range(1, 8)]
    assert places == sorted(places)
    assert "strongest units" in drawn


def test_a_missing_block_is_explained(look):
    page = look(make_trace(), at="#view=number")
    assert "No model made this trace." in page.text(".panel")
    page = look(older(make_trace()), at="#view=number")
    assert "has no block numbers" in page.text(".panel")
    assert page.count("svg.strips") == 1


def test_a_block_is_shown_without_the_vectors_of_its_attention(look):
    trace = traced("pre")
    bare = trace.document | {"attention": [one | {"vectors": None} for one in trace.document["attention"]]}
    page = look(bare, at="#view=number&kind=enc&layer=0&q=1")
    assert "in block 0 of the encoder after its self-attention" in page.text(".facts")
    assert "1  Residual stream after the attention" in page.text("svg.strips")
