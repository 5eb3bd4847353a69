"""The page in a real browser: what it shows, what changes when it is touched, that it asks for nothing."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, Page
from reading_pages import drag, go, numbers, rows_of, state, table, unpack, weights
from synthetic_traces import WORDS, Shape, make_trace, pack, recurrent

from seqwright import build_model
from seqwright.data.tokenizer import train_tokenizer
from seqwright.lens.page import render
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_to_text import TextToText

VIEWS = ["alignment", "heads", "next", "beam", "why", "number", "compare", "learning"]
STEPS = [100, 400, 900]
OUTPUTS = ["le le", "le chat le", "le petit chat noir dort sur le tapis"]


def test_the_first_look_is_the_text_the_output_and_the_alignment(look):
    page = look(make_trace())
    assert page.text(".tokens.source").split() == [*make_trace()["text"].split(), "⟨end⟩"]
    assert page.text(".tokens.output").split() == [*make_trace()["output"]["text"].split(), "⟨end⟩"]
    assert page.text(".chip.now") == "le"
    assert page.count("svg.heatmap image") == 1
    assert "Step 1: le" in page.text(".side")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_draws_itself(look, dark):
    page = look(*(make_trace(seed=index, step=step) for index, step in enumerate(STEPS)), dark=dark)
    assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    for view in VIEWS:
        go(page, view)
        assert page.count(".panel .notice") == 0
        assert page.count(".panel .body svg, .panel .body img") > 0, view


def test_the_matrix_is_that_of_the_trace(look):
    trace = make_trace()
    page = look(trace, at="#kind=cross&layer=2&head=1&sink=1")
    shown = np.array([numbers(row[1:]) for row in table(page)])
    np.testing.assert_allclose(shown, weights(trace, "cross", 2)[1], atol=6e-5)


@pytest.mark.parametrize(("join", "expected"), [("mean", np.mean), ("max", np.max)])
def test_heads_and_layers_are_joined(look, join, expected):
    trace = make_trace()
    page = look(trace, at=f"#kind=enc&join={join}&sink=1")
    every = np.concatenate([weights(trace, "enc", layer) for layer in range(3)])
    shown = np.array([numbers(row[1:]) for row in table(page)])
    np.testing.assert_allclose(shown, expected(every, axis=0), atol=6e-5)


def test_between_words_keys_are_summed_and_queries_averaged(look):
    trace = make_trace()
    page = look(trace, at="#kind=cross&layer=0&head=0&unit=words&sink=1")
    rows = table(page)
    assert [row[0] for row in rows] == [*trace["output"]["text"].split(), "⟨end⟩"]
    shown = np.array([numbers(row[1:]) for row in rows])
    np.testing.assert_allclose(shown.sum(1), 1, atol=1e-3)
    first, second = weights(trace, "cross", 0)[0][1:3]  # pet|it
    keys = [piece["word"] for piece in trace["source"]["pieces"]]
    expected = sum((first + second)[place] for place, word in enumerate(keys) if word == 1) / 2
    assert shown[1][1] == pytest.approx(expected, abs=1e-4)


def test_the_end_token_is_hidden_by_default(look):
    page = look(make_trace())
    labels = "document.querySelector('svg.heatmap').textContent.split('⟨end⟩').length - 1"
    assert page.evaluate(labels) == 1  # the last row
    assert "is on the end token, which is hidden" in page.text(".foot")
    page.press("e")
    page.wait(f"{labels} === 2")
    assert "not shown" not in page.text(".foot")


def test_arrow_keys_walk_through_the_steps_and_the_address_follows(look):
    trace = make_trace()
    page = look(trace)
    page.press("ArrowRight")
    page.press("ArrowRight")
    page.wait("document.querySelector('.chip.now').textContent === 'it'")
    assert state(page)["t"] == "2"
    page.press("End")
    page.wait("document.querySelector('.chip.now').textContent === '⟨end⟩'")
    page.press("Home")
    page.wait("document.querySelector('.chip.now').textContent === 'le'")
    assert "t" not in state(page)


def test_a_link_restores_the_view(look):
    page = look(make_trace(), at="#t=4&kind=cross&layer=2&head=1&layout=lines&sink=1")
    assert page.text(".chip.now") == "t"
    assert page.count("svg.lines") == 1
    picked = "[...document.querySelectorAll('.controls select')].map((list) => list.value)"
    assert page.evaluate(picked) == ["2", "1"]
    page.evaluate("location.hash = '#view=beam&t=1'")
    page.wait(
        "document.body.dataset.ready === 'beam' && document.querySelector('.chip.now').textContent === 'pet'"
    )


def test_an_address_out_of_bounds_is_brought_back(look):
    page = look(make_trace(), at="#t=999&kind=nothing&layer=77&head=x&a=9&view=none")
    assert page.text(".chip.now") == "⟨end⟩"
    assert page.count("svg.heatmap") == 1
    wild = "t=-3&layer=1.5&head=-1&k=1e9&q=0.5&temperature=0&topk=-1&topp=7&penalty=-9&off=a.b&rows=x&b=-1"
    for view in VIEWS:
        page.evaluate(f"location.hash = '#view={view}&{wild}'")
        page.wait(f"document.body.dataset.ready === '{view}'")
        assert page.text(".chip.now") == "le"
        assert "could not be drawn" not in page.text(".panel")


def test_the_mouse_reads_a_cell_and_a_click_goes_to_its_step(look):
    trace = make_trace()
    page = look(trace, at="#kind=cross&layer=0&head=0&sink=1")
    box = page.evaluate(
        "(() => { const [image, all] = ['svg.heatmap image', 'svg.heatmap']"
        ".map((name) => document.querySelector(name).getBoundingClientRect());"
        "return [image.left - all.left, image.top - all.top, image.width, image.height,"
        "all.width, all.height]; })()"
    )
    rows, columns = len(trace["steps"]), len(trace["source"]["pieces"])
    x = (box[0] + box[2] * 2.5 / columns) / box[4]
    y = (box[1] + box[3] * 3.5 / rows) / box[5]
    page.click("svg.heatmap", x, y)
    page.wait("document.querySelector('.chip.now').textContent === 'cha'")
    expected = weights(trace, "cross", 0)[0][3][2]
    assert f"cha attends to ll with weight {expected:.4f}" in page.text(".readout")
    assert state(page)["k"] == "2"
    page.click(".foot .link")
    page.wait("document.body.dataset.ready === 'number'")
    assert page.text("#weight") == f"{expected:.4f}"


def test_the_keyboard_reads_every_cell(look):
    trace = make_trace()
    page = look(trace, at="#kind=cross&layer=0&head=0&sink=1")
    page.evaluate("document.querySelector('svg.heatmap').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.press(key)
    assert f"it attends to sma with weight {weights(trace, 'cross', 0)[0][2][1]:.4f}" in page.text(".readout")
    assert "t" not in state(page)  # the steps stay where they are
    page.press("Enter")
    page.wait("document.querySelector('.chip.now').textContent === 'it'")
    assert page.evaluate("document.activeElement.classList.contains('heatmap')")


def test_tab_reaches_the_controls_and_the_focus_survives_a_change(look):
    page = look(make_trace())
    seen = []
    for _ in range(24):
        page.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.closest('[data-key]')?.dataset.key ?? document.activeElement.id"
            )
        )
    assert {"Large text", "Dark", "play", "step", "tab-alignment", "Attention", "Layer", "End token"} <= set(
        seen
    )
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.evaluate("document.querySelector('.controls [role=radio][aria-checked=true]').focus()")
    page.press("ArrowRight")
    page.wait("document.activeElement.textContent === 'source → source'")
    assert state(page)["kind"] == "enc"


def test_a_question_mark_lists_the_keys(look):
    page = look(make_trace())
    page.press("?")
    page.wait("document.querySelector('dialog').open")
    assert page.count("dialog kbd") > 10
    page.press("Escape")
    page.wait("!document.querySelector('dialog').open")


def test_playing_moves_through_the_steps(look):
    page = look(make_trace(), at="#t=12")
    page.click(".play")
    page.wait("document.querySelector('.chip.now').textContent === '⟨end⟩'")
    page.wait("document.querySelector('.play').getAttribute('aria-label') === 'Play'")


def test_pinned_tokens_dim_the_others(look):
    page = look(make_trace(), at="#layout=lines")
    page.click("svg.lines .token:nth-of-type(3)")
    page.wait("document.querySelectorAll('svg.lines [aria-pressed=true]').length === 1")
    page.click("svg.lines .token:nth-of-type(5)", shift=True)
    page.wait("document.querySelectorAll('svg.lines [aria-pressed=true]').length === 2")
    page.click(".foot .link")
    page.wait("document.querySelectorAll('svg.lines [aria-pressed=true]').length === 0")


def test_all_heads_are_shown_and_a_click_selects_one(look):
    page = look(make_trace(enc=[2] * 12, dec=[4, 0, 3], cross=[1, 3, 4]), at="#view=heads")
    assert page.count(".thumb") == 24 + 7 + 8
    assert "all heads pruned" in page.text(".walls")
    page.click("[data-key='dec.2.1']")
    page.wait("document.querySelector('.side h3')?.textContent === 'Decoder self-attention, layer 2, head 1'")
    assert state(page) | {"kind": "dec", "layer": "2", "head": "1"} == state(page)


def test_switching_a_head_off_shows_the_output_without_it(look):
    trace = make_trace()
    page = look(trace, at="#view=heads")
    page.point("[data-key='enc.0.0']")
    page.click("[data-key='eye enc.0.0']")
    page.wait("document.querySelector('#without')")
    assert (page.text("#without del"), page.text("#without ins")) == ("le", "un")
    lost = trace["ablations"][0]["output_log_prob"] - trace["output"]["log_prob"]
    assert f"{lost:.3f}".replace("-", "−") in page.text("#without")
    page.click("#without button")
    page.wait("!document.querySelector('#without')")


def probabilities(page: Page) -> np.ndarray:
    return np.array([numbers(row[2:3]) for row in table(page)])[:, 0]


def test_sliders_reshape_the_next_token_distribution(look):
    trace = make_trace()
    page = look(trace, at="#view=next&t=3")
    values = unpack(trace["logits"]["values"])[3].astype(float)
    total = trace["steps"][3]["total"]
    np.testing.assert_allclose(probabilities(page), np.exp(values - total), atol=1e-4)
    drag(page, "Top-k", 5)
    page.wait("document.querySelectorAll('tbody tr')[5].children[3].textContent === 'cut off'")
    best = np.exp(values[:5])
    np.testing.assert_allclose(probabilities(page)[:6], [*best / best.sum(), 0], atol=1e-4)
    drag(page, "Temperature", 0.5)
    page.wait("location.hash.includes('temperature=0.5')")
    np.testing.assert_allclose(probabilities(page)[:5], best**2 / (best**2).sum(), atol=1e-4)
    drag(page, "Top-k", 0)
    drag(page, "Temperature", 1)
    drag(page, "Top-p", 0.7)
    page.wait("location.hash.includes('topp=0.7') && !location.hash.includes('topk')")
    mass = np.cumsum(np.exp(values - total))
    kept = int(np.searchsorted(mass, 0.7)) + 1  # the smallest set whose mass reaches 0.7
    expected = np.where(np.arange(len(values)) < kept, np.exp(values - total) / mass[kept - 1], 0)
    assert 1 < kept < 20
    np.testing.assert_allclose(probabilities(page), expected, atol=1e-4)


def test_the_tree_shows_reasons_and_a_penalty_ranks_again(look):
    trace = make_trace()
    page = look(trace, at="#view=beam&t=3")
    assert "rank 5 of 4" in page.text(".readout")
    assert page.count("svg.tree .token") == len(trace["lattice"]["step"])
    page.point("svg.tree [data-fate=dropped]")
    page.wait("document.querySelector('.readout').textContent.includes('dropped: rank')")

    before = rows_of(page, "#ended")
    assert before[0][2] == trace["output"]["text"]
    for row in before:
        length, log_prob, score = numbers(row[3:6])
        assert score == pytest.approx(log_prob / length, abs=1e-3)
    drag(page, "Length penalty", 0)
    page.wait("document.querySelector('.body h3').textContent.includes('length^0.00')")
    after = rows_of(page, "#ended")
    scores = [numbers(row[4:6]) for row in after]
    assert all(log_prob == score for log_prob, score in scores)
    assert scores == sorted(scores, reverse=True)
    assert [row[2] for row in before] != [row[2] for row in after]
    assert any("▲" in row[1] for row in after)


@pytest.mark.parametrize("score", ["additive", "bilinear", "dot"])
def test_one_number_is_computed_from_its_vectors(look, score):
    trace = recurrent(score)
    page = look(trace, at="#view=number&t=2&k=1")
    if score == "additive":
        assert "tanh(q + k)" in page.text("svg.strips")
        expected = weights(trace, "cross", 0)[0][2][1]
        assert float(page.text("#weight")) == pytest.approx(expected, abs=1e-3)
    assert "state at" in page.text("svg.strips") or score != "bilinear"
    assert "f  forget gate" in page.text("svg.strips")
    rows = {row[0]: row[1:] for row in table(page)}
    cell = trace["recurrent"][1]
    np.testing.assert_allclose(numbers(rows["c′ = f·c + i·g"]), unpack(cell["states"]["c"])[3], atol=1e-4)
    np.testing.assert_allclose(numbers(rows["h′ = o·tanh(c′)"]), unpack(cell["states"]["h"])[3], atol=1e-4)


def test_one_number_of_a_transformer(look):
    trace = make_trace()
    page = look(trace, at="#view=number&kind=dec&layer=1&head=2&t=5&k=3")
    assert float(page.text("#weight")) == pytest.approx(weights(trace, "dec", 1)[2][5][3], abs=1e-3)
    assert "÷ √8" in page.text("svg.strips")


def test_a_gru_has_its_own_equation(look):
    trace = recurrent("dot", "gru")
    page = look(trace, at="#view=number&t=4")
    rows = {row[0]: row[1:] for row in table(page)}
    expected = unpack(trace["recurrent"][1]["states"]["h"])[5]
    np.testing.assert_allclose(numbers(rows["h′ = (1 − z)·n + z·h"]), expected, atol=1e-4)


def test_views_that_do_not_apply_have_a_reason(look):
    page = look(recurrent(None))
    assert page.evaluate("document.body.dataset.ready") == "next"  # the first that has something to show
    go(page, "alignment")
    assert page.text(".notice") == "This model has no cross attention: it is recurrent."
    go(page, "heads")
    assert "has no cross attention" in page.text(".notice")
    go(page, "compare")
    assert "--against" in page.text(".notice")
    go(page, "learning")
    assert "several checkpoints" in page.text(".notice")
    go(page, "number")
    assert page.count("svg.strips") == 1


def test_shares_are_drawn_where_contributions_were_left_out(look):
    trace = make_trace() | {"contributions": None, "absent": {"contributions": "they are too many"}}
    page = look(trace, at="#view=why")
    assert "They are too many." in page.text(".panel")
    assert numbers([row[2] for row in table(page)]) == pytest.approx(
        [step["source_share"] for step in trace["steps"]], abs=1e-4
    )


def test_a_reference_is_marked_where_the_model_disagrees(look):
    trace = make_trace()
    output = trace["output"]
    ranks = [1] * len(trace["steps"])
    ranks[2] = 7
    scores = [step["log_prob"] for step in trace["steps"]]
    page = look(trace | {"reference": output | {"token_scores": scores, "ranks": ranks}})
    assert page.text(".tokens.reference .missed") == "it"
    assert page.evaluate("document.querySelector('.missed').title").startswith("rank 7, probability")


def test_two_models_are_not_two_checkpoints(look):
    page = look(make_trace(step=2000), make_trace(seed=1, step=900), at="#view=learning")
    assert "several checkpoints" in page.text(".notice")
    assert page.evaluate("document.querySelector('.top select').value") == "1 · step 2,000"


def test_two_traces_are_compared(look):
    one, two = make_trace(), make_trace(seed=1, output="le petit chat brun dort sur un tapis")
    page = look(one, two, at="#view=compare&kind=cross&layer=1&head=2")
    assert page.evaluate("[...document.querySelectorAll('.card del')].map((one) => one.textContent)")[:2] == [
        "noir",
        "le",
    ]
    assert page.count(".three svg.heatmap") == 3
    assert "5 rows" in page.text(".three + p")  # le pet it cha t, then noi or bru
    rows = table(page)
    assert [row[4] for row in rows] == ["equal"] * 6 + ["different"] * 8
    assert all(float(row[3]) > 0 for row in rows)


def test_traces_of_different_lengths_are_compared(look):
    page = look(make_trace(), make_trace(output="le petit"), at="#view=compare&t=12")
    assert page.count(".three svg.heatmap") == 3
    assert len(table(page)) == 4


def test_a_trace_does_not_differ_from_itself(look):
    page = look(make_trace(), make_trace(), at="#view=compare")
    assert {float(row[3]) for row in table(page)} == {0.0}


def test_the_training_plays_back(look):
    traces = [
        make_trace(seed=index, step=step, output=text)
        for index, (step, text) in enumerate(zip(STEPS, OUTPUTS, strict=True))
    ]
    page = look(
        *traces,
        at="#view=learning",
        learning=[{"step": step, "loss": 100 / step} for step in range(50, 950, 50)],
    )
    assert page.text("tr.strong td") == "900"
    assert page.count("svg circle") == 3
    drag(page, "Checkpoint", 0)
    page.wait("document.querySelector('tr.strong td').textContent === '100'")
    assert page.text(".tokens.output").split() == ["le", "le", "⟨end⟩"]
    assert page.text("tr.strong td:nth-child(2)") == "1.00"
    page.click(".controls .primary")
    page.wait("document.querySelector('tr.strong td').textContent === '400'")


@pytest.mark.parametrize("view", VIEWS[:6])
def test_one_token_is_enough(look, view):
    page = look(make_trace(text="", output="", enc=[1], dec=[1], cross=[1]), at=f"#view={view}")
    assert page.count(".panel .body > *") == 1


def test_hostile_text_is_only_text(look):
    text = "</script><img src=x onerror=document.title='broken'> <b>bold</b>"
    page = look(make_trace(text=text, output=text), title=text)
    assert page.text(".tokens.source").replace(" ", "") == text.replace(" ", "") + "⟨end⟩"
    for view in VIEWS:
        go(page, view)
        assert page.count("main b b, main img:not([src^='data:'])") == 0
    assert page.evaluate("document.title") == text


def test_two_thousand_tokens_stay_responsive(look):
    text = " ".join(WORDS[index % len(WORDS)] for index in range(1200))
    page = look(make_trace(text=text, output="le chat", enc=[1], dec=[1], cross=[1], vectors=False, block=2))
    assert page.count(".tokens.source .chip") > 1900
    elapsed = page.evaluate(
        "(async () => { const start = performance.now(); for (let step = 0; step < 3; step++) {"
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));"
        "await new Promise((done) => setTimeout(done)); } return performance.now() - start; })()"
    )
    assert elapsed < 1500  # three steps, on a machine that may be busy
    page.evaluate("location.hash = '#kind=enc'")
    page.wait("document.querySelector('svg.heatmap').getAttribute('aria-label').includes('986 rows')")
    size = page.evaluate(
        "(async () => { const image = new Image(); image.src = document.querySelector('svg.heatmap image')"
        ".getAttribute('href'); await image.decode(); return [image.width, image.height]; })()"
    )
    assert max(size) <= 600
    rows = table(page)
    assert 0 < len(rows) < 200  # 986 rows, those in sight built
    assert page.evaluate("document.querySelector('table').getAttribute('aria-rowcount')") == "986"


def big_trace() -> dict[str, Any]:
    """256 × 256 places, 6 layers, 8 heads, 3 kinds: noise, which packs worst, as deep as 4 MB allow."""
    words = " ".join(["abc"] * 255)
    trace = make_trace(text=words, output=words, enc=[1], dec=[1], cross=[1], vectors=False)
    noise = pack(np.random.default_rng(0).integers(0, 9, size=(8, 256, 256)).astype(np.uint8))
    many = {"heads": 8, "levels": 8, "scales": [1.0] * 8, "weights": noise}
    trace["attention"] = [one | many | {"layer": layer} for one in trace["attention"] for layer in range(6)]
    return trace


def test_five_megabytes_paint_within_two_seconds(look):
    page = look(big_trace())
    size = page.evaluate("document.getElementById('data').textContent.length")
    assert size > 4_000_000
    painted = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
    )
    assert painted < 2000


def test_dark_big_and_narrow(look):
    page = look(make_trace(), width=480)
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    page.press("d")
    page.wait("document.documentElement.dataset.theme === 'dark'")
    page.press("b")
    page.wait("parseFloat(getComputedStyle(document.documentElement).fontSize) === 20")
    assert state(page) == {"theme": "dark", "big": "1"}


@pytest.mark.parametrize("view", ["alignment", "heads", "next", "beam", "why", "number"])
def test_pictures_and_numbers_can_be_saved(look, browser: Browser, tmp_path: Path, view: str):
    page = look(make_trace(), at=f"#view={view}")
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for name in ("PNG", "SVG", "CSV"):
        page.click(f"[data-key={name}]")
    files = [tmp_path / f"seqwright-{view}.{ending}" for ending in ("png", "svg", "csv")]
    for _ in range(100):
        if all(file.exists() and file.stat().st_size for file in files):
            break
        page.evaluate("new Promise((done) => setTimeout(done, 30))")
    png, svg, csv = (file.read_bytes() for file in files)
    assert png.startswith(b"\x89PNG")
    assert svg.startswith(b"<svg")
    assert b"var(--" not in svg
    assert csv.count(b"\r\n") > 3


def test_in_a_notebook(browser: Browser, tmp_path: Path):
    """Inside an iframe of another page there is no address of one's own, and the page works all the same."""
    inner = html.escape(render([make_trace()]), quote=True)
    path = tmp_path / "notebook.html"
    path.write_text(f'<iframe srcdoc="{inner}" width="1200" height="800"></iframe>', encoding="utf-8")
    page = browser.page()
    page.open(path, ready="document.querySelector('iframe').contentDocument.body.dataset.ready")
    inside = "document.querySelector('iframe').contentDocument"
    page.evaluate(f"{inside}.querySelector('#tab-beam').click()")
    page.wait(f"{inside}.body.dataset.ready === 'beam'")
    page.evaluate(f"{inside}.querySelectorAll('.tokens.output .chip')[2].click()")
    page.wait(f"{inside}.querySelector('.chip.now').textContent === 'it'")
    assert page.complaints == []
    page.close()


def test_the_shapes_of_layers_may_all_differ(look):
    page = look(make_trace(Shape(enc=[1, 5], dec=[2], cross=[3, 1, 4, 1])), at="#kind=cross&layer=2&head=3")
    picked = "[...document.querySelectorAll('.controls select')].map((list) => list.value)"
    assert page.evaluate(picked) == ["2", "3"]
    page.press("l")
    page.wait(f"{picked}[0] === '3'")
    page.press("h")
    page.wait("!document.querySelector('[aria-label=\"Head\"]')")  # layer 3 has a single one


REAL = {
    "shaw": {"heads": 2, "position": "shaw"},
    "pruned": {"heads": [1, 3], "cross_heads": [2, 0], "head_size": 4},
    "bahdanau": {"encoder": "rnn", "decoder": {"kind": "rnn", "attention": "bahdanau"}},
    "fixed": {"encoder": "rnn", "decoder": {"kind": "rnn", "attention": "none"}},
    "mixed": {"heads": 2, "decoder": {"kind": "rnn", "cell": "gru"}},
}


@pytest.mark.parametrize("family", REAL)
def test_traces_of_real_models_are_shown(look, family):
    """Every view of every family draws itself, and one number is the weight that the model used."""
    letters = train_tokenizer("characters", ["through the looking glass"])
    spec = {"size": 16, "layers": 2, **REAL[family]}
    model = build_model(spec, source_vocabulary=letters.size, target_vocabulary=letters.size)
    trace = Predictor(model, TextToText(letters, letters)).look("look at", beam=3, reference="glass").document
    page = look(trace)
    for view in VIEWS:
        go(page, view)
        assert "could not be drawn" not in page.text(".panel")
    for entry in trace["attention"]:
        if not entry["heads"] or not entry["vectors"]:
            continue
        place = f"kind={entry['kind']}&layer={entry['layer']}&head=0&q=1&t=1&k=1"
        page.evaluate(f"location.hash = '#view=number&{place}'")
        expected = weights(trace, entry["kind"], entry["layer"])[0][1][1]
        page.wait(f"Math.abs(Number(document.querySelector('#weight')?.textContent) - {expected}) < 1.1e-3")
