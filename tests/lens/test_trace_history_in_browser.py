"""The page of a real training in a real browser: as many moments as there were validations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from browser import Browser
from tiny import train

from seqwright import cli

RNN = "model={encoder={kind='rnn', size=16}, decoder={kind='rnn', size=16}, tie=false}"
MOMENT = "[...document.querySelectorAll('.controls input[type=range]')].at(0)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.parametrize("changes", [(), (RNN,)], ids=["transformer", "rnn"])
def test_the_slider_has_a_place_for_each_validation(browser, tmp_path, changes):
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    run, path = tmp_path / "run", tmp_path / "learning.html"
    train(tiny.configuration(pairs, "training.steps=20", "training.validate_every=4", *changes), run)
    assert cli.main(["look", str(run), "--learning", "-o", str(path)]) == 0
    page = browser.page()
    page.open(Path(path), ready="document.body.dataset.ready === 'learning'")
    steps = [record["step"] for record in tiny.validations(run)]
    assert steps == [4, 8, 12, 16, 20]
    assert page.evaluate(f"[{MOMENT}.min, {MOMENT}.max, {MOMENT}.value]") == ["0", "4", "4"]
    assert page.count("svg circle") == len(steps)
    page.evaluate(f"{MOMENT}.value = 1; {MOMENT}.dispatchEvent(new Event('input'))")
    page.wait("document.querySelector('tr.strong td').textContent === '8'")
    loss = tiny.validations(run)[1]["valid_loss"]
    assert page.text("tr.strong td:nth-child(2)") == f"{loss:.2f}"
    assert page.complaints == []
    page.close()
