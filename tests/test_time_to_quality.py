"""The comparison of recipes: what the earlier ones were, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import time_to_quality
from seqwright.config import override
from seqwright.models.building import build_model
from seqwright.nn.positions import Sinusoidal


@pytest.mark.parametrize(("data", "preset"), [("multi30k", "tiny"), ("shakespeare", "tiny-lm")])
def test_the_earlier_recipe_has_the_parts_of_2017(data, preset):
    table = override({"model": {"preset": preset}}, time_to_quality.EARLIER[data])["model"]
    model = build_model(table, source_vocabulary=9, target_vocabulary=9, vocabulary=9)
    assert isinstance(model.decoder.stack.position, Sinusoidal)
    assert model.decoder.stack.blocks[0].attention.out.weight.any()
    assert model.output.weight is model.decoder.embedding.weight


def test_the_first_contender_sets_the_target(tmp_path, monkeypatch):
    runs = [("plain", 20.0, [[60, 100, 2.0]]), ("wide", 20.0, [[30, 50, 2.1], [45, 70, 1.9]])]
    runs += [("wide", 10.0, [[30, 50, 2.1]])]
    records = [
        {"data": "multi30k", "contender": name, "against": "plain", "budget": 20.0, "minutes": minutes}
        | {"seed": 1, "steps": curve[-1][1], "loss": curve[-1][2], "curve": curve}
        for name, minutes, curve in runs
    ]
    results = tmp_path / "results.jsonl"
    results.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    monkeypatch.setattr(time_to_quality, "RESULTS", results)
    last = [line.split("|")[-2].strip() for line in time_to_quality.table().splitlines()[2:]]
    assert last == ["–", "plain: 0.8 min, step 70", "plain: not reached"]


def test_the_text_about_the_earlier_recipe_follows_the_table():
    """It names the loss of the earlier recipe, and which budgets of the current one reach it."""
    page = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text("utf-8")
    table = page.partition("<!-- time_to_quality: begin")[2].partition("<!-- time_to_quality: end")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "multi30k" in line
    ]
    loss = next(row[5] for row in rows if row[1] == "earlier")
    reached = {
        "not reached" not in row[6]: row[2] for row in rows if row[1] == "current"
    }  # the smallest budgets
    text = " ".join(page.partition("**Earlier recipe.**")[2].partition("\n\n")[0].split())
    assert f"a validation loss of {loss}" in text
    budgets = f"with a budget of {reached[True]} minutes, and not with {float(reached[False]):g} minutes"
    assert budgets in text
