"""The page follows its state: whatever changes a choice, and in whatever order drawings are done."""

from __future__ import annotations

from typing import Any

import pytest
from reading_pages import drag, go, state, table
from synthetic_traces import make_trace, recurrent

STEPS = [100, 400, 900]


def slider(label: str) -> str:
    return f"document.querySelector('input[aria-label=\"{label}\"]')"


def said_by(label: str) -> str:
    """The text next to a slider, and the text for screen readers."""
    return f"[{slider(label)}.parentNode.querySelector('output').textContent, {slider(label)}.ariaValueText]"


def moments() -> list[dict[str, Any]]:
    return [make_trace(seed=index, step=step) for index, step in enumerate(STEPS)]


def test_the_checkpoint_slider_follows_the_checkpoint(look):
    page = look(*moments(), at="#view=learning", learning=[{"step": 100, "loss": 2.0}])
    assert page.evaluate(f"{slider('Checkpoint')}.value") == "2"
    page.click("[data-key='checkpoint 0']")
    page.wait("document.querySelector('tr.strong td').textContent === '100'")
    assert page.evaluate(f"{slider('Checkpoint')}.value") == "0"
    assert page.evaluate(said_by("Checkpoint")) == ["step 100", "step 100"]
    page.click(".controls .primary")
    page.wait("document.querySelector('tr.strong td').textContent === '400'")
    page.wait(f"{slider('Checkpoint')}.value === '1'")
    page.evaluate(f"window.held = {slider('Checkpoint')}")
    drag(page, "Checkpoint", 0)
    page.wait("document.querySelector('.controls .primary').textContent === 'Play the training'")
    assert page.evaluate("window.held.isConnected")  # under the finger that stopped the playing


def test_sliders_follow_the_address(look):
    page = look(make_trace(), at="#view=next")
    page.evaluate("location.hash = '#view=next&temperature=0.5&topk=7'")
    page.wait(
        "document.body.dataset.ready && document.querySelector('.panel').textContent.includes('cut off')"
    )
    assert page.evaluate(f"{slider('Temperature')}.value") == "0.5"
    assert page.evaluate(said_by("Temperature")) == ["0.50", "0.50"]
    assert page.evaluate(said_by("Top-k")) == ["7", "7"]
    page.evaluate("location.hash = '#view=beam&penalty=0.4'")
    page.wait("document.body.dataset.ready === 'beam'")
    page.evaluate("location.hash = '#view=beam'")
    page.wait("document.querySelector('.body h3').textContent.includes('length^1.00')")
    assert page.evaluate(said_by("Length penalty")) == ["1.00", "1.00"]


@pytest.mark.parametrize("used", [-1.5, 4.0])
def test_the_slider_holds_the_penalty_of_the_search(look, used):
    trace = make_trace()
    page = look(trace | {"search": trace["search"] | {"length_penalty": used}}, at="#view=beam")
    assert float(page.evaluate(f"{slider('Length penalty')}.value")) == used


def broken(document: dict[str, Any]) -> dict[str, Any]:
    """A copy whose contributions were not copied whole."""
    packed = document["contributions"]["source"]
    part = packed | {"data": packed["data"][: len(packed["data"]) // 8 * 4]}
    return document | {"contributions": document["contributions"] | {"source": part}}


def test_an_error_message_disappears_with_the_next_view(look):
    page = look(broken(make_trace()))
    page.click("#tab-why")
    page.wait("document.querySelector('.panel .notice')")
    assert "could not be drawn" in page.text(".panel .notice")
    assert page.count(".panel svg.heatmap") == 0  # nor does the view before it
    go(page, "next")
    assert page.count(".panel .notice") == 0
    page.evaluate("0")
    assert page.complaints
    page.complaints.clear()


def test_an_error_in_the_summary_is_shown_below_the_view(look):
    first, damaged = make_trace(), make_trace(seed=1)
    for one in damaged["attention"]:
        if one["kind"] == "cross":
            one["weights"] = one["weights"] | {"data": one["weights"]["data"][:40]}
    page = look(first, damaged, at="#view=next")
    turn = (
        "(() => { const list = document.querySelector('.top select'); list.selectedIndex = {};"
        "list.dispatchEvent(new Event('change')); })()"
    )
    page.evaluate(turn.replace("{}", "1"))
    page.wait("document.querySelector('.panel .notice')")
    assert page.count(".panel .body svg") == 1
    page.evaluate(turn.replace("{}", "0"))
    page.wait("!document.querySelector('.panel .notice')")
    page.evaluate("0")
    assert page.complaints
    page.complaints.clear()


def test_a_slow_trace_does_not_overwrite_a_later_one(look):
    """Unpacked late, as a large one is: the colours of one text must not fall on another."""
    long = make_trace(seed=3, text="the quick brown fox jumps over the lazy dog of the old man next door")
    page = look(make_trace(), long)
    colours = (
        "[...document.querySelectorAll('.tokens.source .chip')].map((chip) => chip.style.background).join()"
    )
    before = page.evaluate(colours)
    page.evaluate(
        "(() => { const list = document.querySelector('.top select'), real = window.DecompressionStream;"
        "window.DecompressionStream = class { constructor(...all) { const made = new real(...all);"
        "this.writable = made.writable; const slow = new TransformStream({ async transform(chunk, to) {"
        "await new Promise((done) => setTimeout(done, 300)); to.enqueue(chunk); } });"
        "this.readable = made.readable.pipeThrough(slow); } };"
        "const turn = (place) => { const now = document.querySelector('.top select');"
        "now.selectedIndex = place; now.dispatchEvent(new Event('change')); };"
        "turn(1); setTimeout(() => turn(0), 50); })()"
    )
    page.evaluate("new Promise((done) => setTimeout(done, 1500))")
    assert page.text(".top select option:checked").startswith("1 ")
    assert page.text(".tokens.source").split() == [*make_trace()["text"].split(), "⟨end⟩"]
    assert page.evaluate(colours) == before
    assert "could not be drawn" not in page.text(".panel")


def test_a_table_stays_where_it_was_scrolled_to(look):
    page = look(make_trace(), at="#view=beam")
    assert len(table(page)) > 60
    page.evaluate("document.querySelector('.panel .table').scrollTo(0, 700)")
    page.press("ArrowRight")
    page.wait("location.hash.includes('t=1')")
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert page.evaluate("document.querySelector('.panel .table').scrollTop") == 700
    page.press("1")
    page.wait("document.body.dataset.ready === 'alignment'")
    assert page.evaluate("document.querySelector('.panel .table').scrollTop") == 0


def test_an_invalid_trace_number_selects_the_last_one(look):
    page = look(make_trace(), make_trace(seed=1, output="un chien"), at="#a=9")
    assert page.text(".top select option:checked").startswith("2 ")
    assert page.text(".tokens.output").split() == ["un", "chien", "⟨end⟩"]


def test_the_recurrent_layer_is_in_the_address(look):
    page = look(recurrent("dot"), at="#view=number&k=2")
    assert "of the decoder" in page.text("svg.strips")
    page.evaluate(
        "(() => { const list = document.querySelector('[aria-label=\"Recurrent layer\"]');"
        "list.selectedIndex = 0; list.dispatchEvent(new Event('change')); })()"
    )
    page.wait("document.querySelector('svg.strips').textContent.includes('of the encoder')")
    assert state(page)["cell"] == "0"
    for wild, part in (("-3", "encoder"), ("0.5", "encoder"), ("99", "decoder")):
        page.evaluate(f"location.hash = '#view=number&cell={wild}'")
        page.wait(f"document.querySelector('svg.strips').textContent.includes('{part}')")
        assert "could not be drawn" not in page.text(".panel")


def test_pins_that_another_matrix_has_no_place_for_dim_nothing(look):
    page = look(make_trace(), at="#layer=0&head=0&rows=99&columns=x")
    assert page.count("svg.heatmap rect[fill-opacity]") == 0
    page.evaluate("location.hash = '#layer=0&head=0&rows=2,99'")
    page.wait("document.querySelectorAll('svg.heatmap rect[fill-opacity]').length === 13")
