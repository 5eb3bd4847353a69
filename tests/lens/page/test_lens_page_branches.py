"""A click on another token shows its branch, and Escape closes it."""

from __future__ import annotations

from reading_pages import go, state, table
from synthetic_traces import BRANCHED, make_trace, older


def at_step(trace: dict, t: int) -> list[dict]:
    return [one for one in trace["branches"] if one["step"] == t]


def test_a_click_on_an_alternative_shows_its_branch(look):
    trace = make_trace()
    first, second, *_ = at_step(trace, 2)
    page = look(trace, at="#view=next&t=2")
    assert page.count(".tokens.branch") == 0
    page.click("g.turn")
    page.wait("document.querySelector('.tokens.branch')")
    assert page.text(".tokens.branch") == first["text"]
    assert page.text(".tokens.branch .turn") == first["text"][first["start"] : first["end"]]
    assert state(page)["branch"] == f"2.{first['id']}"
    assert page.text(".tokens.output").split() == [*trace["output"]["text"].split(), "⟨end⟩"]  # still shown
    page.click(".branches li:nth-child(2) button")
    page.wait(f"document.querySelector('.tokens.branch').textContent === '{second['text']}'")
    page.press("Escape")
    page.wait("!document.querySelector('.tokens.branch')")
    assert "branch" not in state(page)


def test_a_branch_has_its_scores_and_stays_in_other_views(look):
    trace = make_trace()
    branch, *_ = at_step(trace, 1)
    page = look(trace, at=f"#view=beam&t=5&branch=1.{branch['id']}")
    facts = page.text(".rows .quiet").replace("−", "-")
    assert f"→ {branch['log_prob']:.3f} (" in facts
    assert f"→ {branch['score']:.3f} (" in facts
    go(page, "alignment")
    assert page.text(".tokens.branch") == branch["text"]
    page.click("[data-key=back]")
    page.wait("!document.querySelector('.tokens.branch')")


def test_branches_are_reached_by_keyboard_and_read_as_a_table(look):
    trace = make_trace()
    page = look(trace, at="#view=next&t=0")
    page.evaluate("document.querySelector('.branches li:nth-child(3) button').focus()")
    page.press("Enter")
    page.wait("document.querySelector('.branches li:nth-child(3) [aria-pressed=true]')")
    assert page.evaluate("document.activeElement.closest('li') !== null")  # the focus is where it was
    page.press("Enter")
    page.wait("!document.querySelector('.tokens.branch')")
    texts = [row[4] for row in table(page) if row[4]]
    assert texts == [one["text"] for one in at_step(trace, 0)]


def test_differences_are_marked(look):
    trace = make_trace()
    other = {"text": "le petit chien blanc dort", "start": 9, "end": 14, "log_prob": -9.0, "score": -2.0}
    trace["branches"] = [{"step": 3, "id": at_step(trace, 3)[0]["id"], "finish_reason": "length", **other}]
    page = look(trace, at=f"#branch=3.{trace['branches'][0]['id']}")
    marked = page.evaluate(
        "[...document.querySelectorAll('.tokens.branch ins')].map((node) => node.textContent)"
    )
    assert marked == ["chien", "blanc"]
    assert page.text(".tokens.branch") == "le petit chien blanc dort…"


def test_a_step_without_branches_has_a_reason(look):
    page = look(make_trace(), at=f"#view=next&t={BRANCHED}")
    assert "It was done for the first 4." in page.text(".side")
    assert page.count("g.turn") == 0
    page = look(older(make_trace()), at="#view=next&branch=0.3")
    assert "a version without branches" in page.text(".side")
    assert page.count(".tokens.branch") == 0
    unasked = make_trace() | {"branches": None, "absent": {"branches": "it was not asked for"}}
    page = look(unasked, at="#view=next")
    assert "It was not asked for." in page.text(".side")


def test_an_alternative_next_to_the_alignment_opens_its_branch(look):
    trace = make_trace()
    page = look(trace, at="#t=1")
    page.click(".side .bars .link")
    page.wait("document.querySelector('.tokens.branch')")
    assert state(page)["branch"].startswith("1.")
