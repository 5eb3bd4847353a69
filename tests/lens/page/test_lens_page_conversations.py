"""The page of a conversation in a real browser: turns with their words, and the nearest replies."""

from __future__ import annotations

import numpy as np
import pytest
from reading_pages import table
from talking import MODELS, TURNS, talker

HOSTILE = ("<img src=x onerror=alert(1)>", "hi <b>you</b>")


def tabs(page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)")


def shown(page) -> list[float]:
    texts = page.evaluate("[...document.querySelectorAll('.levels .number')].map((one) => one.textContent)")
    return [float(text) for text in texts]


@pytest.mark.parametrize("name", ["xing2018", "tiny-turns"])
def test_turns_and_words_have_the_weights_of_both_levels_at_each_step(look, name):
    trace = talker(name, 99).look(TURNS)
    page = look(trace.document)
    assert page.evaluate("document.body.dataset.ready") == "turns"
    layers = [trace.attention("cross", layer) for layer in range(trace.layers("cross"))]
    outer = np.concatenate(layers).mean(0)  # (T, turns)
    assert shown(page) == pytest.approx(outer[0].tolist(), abs=1e-3)
    page.press("End")
    last = len(outer) - 1
    page.wait(f"document.querySelector('.levels .number').textContent === '{outer[last][0]:.3f}'")
    inner = trace.attention("words", 0)[0]  # of each turn, or of each step
    rows = table(page)
    assert [row[2] for row in rows] == [*("".join(TURNS).replace(" ", "␣"))]
    weights = inner[last] if trace.document["kinds"]["words"]["rows"] == "steps" else inner.sum(0)
    assert [float(row[3]) for row in rows] == pytest.approx(weights.tolist(), abs=1e-3)
    for row in rows:
        expected = outer[last][int(row[0]) - 1] ** 0.5 * float(row[3])
        assert float(row[4]) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("name", ["flat", "decoder_only"])
def test_a_turn_of_a_flat_context_has_the_sum_of_its_tokens(look, name):
    trace = talker(name, 99).look(TURNS)
    page = look(trace.document)
    assert tabs(page)[:2] == ["Turns", "Alignment"]
    weights = np.mean([trace.attention("cross", layer).mean(0)[0] for layer in range(2)], 0)
    ends = np.cumsum([len(turn) + 1 for turn in TURNS])
    sums = [
        weights[end - len(turn) - 1 : end - 1].sum() for turn, end in zip(TURNS, ends.tolist(), strict=True)
    ]
    assert shown(page) == pytest.approx(sums, abs=1e-3)
    page.click("#tab-alignment")
    page.wait("document.body.dataset.ready === 'alignment'")
    assert "reply → context" in page.text(".controls")


def test_the_nearest_replies_show_what_each_word_does(look):
    trace = talker("dual_encoder", 99).look(TURNS)
    page = look(trace.document)
    assert tabs(page)[:2] == ["Nearest", "Decision"]
    near = trace.document["neighbours"]
    rows = table(page)
    effects = [float(row[5].replace("−", "-")) for row in rows]
    assert effects == pytest.approx([e for text in near["texts"] for e in text["effects"]], abs=1e-3)
    page.press("x")
    page.wait("document.querySelector('.nearest')")
    assert page.count(".nearest li") == len(near["texts"])
    assert page.count(".nearest li.chosen") == 1
    assert page.text(".tokens.output").strip() == trace.output  # with its spaces


@pytest.mark.parametrize("name", MODELS)
def test_every_view_is_drawn_or_explains_itself(look, name):
    page = look(talker(name).look(HOSTILE).document)
    for place in range(1, len(tabs(page)) + 1):
        page.press(str(place))
        page.wait(f"document.querySelectorAll('[role=tab]')[{place - 1}].ariaSelected === 'true'")
        page.wait("document.querySelector('.body').childElementCount > 0")
        assert "could not be drawn" not in page.text(".body")
    assert page.count("main img") + page.count("main b b") == 0


@pytest.mark.parametrize("name", ["xing2018", "dual_encoder"])
def test_a_page_of_a_conversation_fits_a_phone(look, name):
    page = look(talker(name).look(TURNS).document, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
