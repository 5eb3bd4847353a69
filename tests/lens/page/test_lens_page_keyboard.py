"""What can be clicked can be reached and pressed without a mouse, and the focus stays where it was."""

from __future__ import annotations

import pytest
from reading_pages import go, state
from synthetic_traces import make_trace, recurrent

FOCUSED = "document.activeElement"


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_candidate_of_the_beam_is_a_button(look, key):
    page = look(make_trace(), at="#view=beam")
    page.evaluate("document.querySelectorAll('svg.tree .token')[20].focus()")
    label = page.evaluate(f"{FOCUSED}.getAttribute('aria-label')")
    page.press(key)
    page.wait("location.hash.includes('t=')")
    assert f" at step {int(state(page)['t']) + 1}:" in label
    page.wait("document.querySelector('.play').textContent === '▶'")  # a space presses, and plays nothing
    assert page.evaluate(f"{FOCUSED}.getAttribute('aria-label')") == label


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_word_between_lines_is_a_button(look, key):
    page = look(make_trace(), at="#layout=lines")
    page.evaluate("document.querySelectorAll('svg.lines .token')[2].focus()")
    label = page.evaluate(f"{FOCUSED}.textContent")
    page.press(key)
    page.wait("document.querySelector('svg.lines [aria-pressed=true]')")
    assert page.text("svg.lines [aria-pressed=true]") == label
    assert page.evaluate(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    page.press(key)
    page.wait("!document.querySelector('svg.lines [aria-pressed=true]')")
    assert page.text(".play") == "▶"


def test_space_plays_from_the_beginning_once_the_end_is_reached(look):
    page = look(make_trace())
    page.press("End")
    page.wait("document.querySelector('.chip.now').textContent === '⟨end⟩'")
    page.press(" ")
    page.wait("document.querySelector('.chip.now').textContent === 'le'")
    page.wait("document.querySelector('.chip.now').textContent === 'pet'")


def test_a_slider_handles_only_the_keys_that_move_it(look):
    trace = make_trace()
    page = look(trace, at=f"#view=next&branch=0.{trace['branches'][0]['id']}")
    page.evaluate("document.querySelector('#step').focus()")
    page.press("ArrowRight")
    page.wait("location.hash.includes('t=1')")
    page.press("Escape")
    page.wait("!document.querySelector('.tokens.branch')")
    page.press("4")
    page.wait("document.body.dataset.ready === 'beam'")
    assert state(page)["t"] == "1"
    page.press(" ")
    page.wait("document.querySelector('.play').getAttribute('aria-label') === 'Pause'")


def test_a_row_of_choices_without_a_choice_can_be_reached(look):
    """The other model has one kind of attention only, and another is looked at."""
    page = look(make_trace(), recurrent("dot"), at="#view=compare&kind=enc")
    assert page.count(".notice") == 1
    assert page.count(".controls [role=radiogroup][aria-label='Attention'] [tabindex='0']") == 1
    page.click(".controls [aria-label='Attention'] button")
    page.wait("document.querySelectorAll('.three svg.heatmap').length > 1")
    for wild in ("join=none", "layout=none", "unit=none"):
        page = look(make_trace(), at=f"#{wild}")
        assert page.count("[role=radiogroup]") == page.count("[role=radiogroup] [tabindex='0']")
        assert page.count("[role=radiogroup]") == page.count("[role=radiogroup] [aria-checked=true]")


def test_the_label_of_a_matrix_names_only_working_keys(look):
    page = look(make_trace(), make_trace(seed=1), at="#kind=cross&layer=0&head=0")
    assert "Enter selects" in page.evaluate(
        "document.querySelector('svg.heatmap').getAttribute('aria-label')"
    )
    assert "arrow keys" in page.text(".readout")
    page.press("m")
    page.wait("document.querySelector('svg.lines')")
    assert "arrow keys" not in page.text(".readout")  # there they walk through the steps
    for view in ("heads", "compare"):
        go(page, view)
        assert page.count("svg.heatmap") > 0
        assert page.count("svg.heatmap[aria-label*='Enter']") == 0
