"""The numbers of the page at the edges of what a trace may hold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from browser import Page
from reading_pages import drag, numbers, rows_of, table, unpack, weights
from synthetic_traces import END, make_trace, pack, recurrent

from seqwright.lens.page import HOME
from seqwright.lens.page.bundle import bundle
from seqwright.lens.trace.packing import pooled


def in_module(page: Page, module: str, expression: str) -> Any:
    return page.evaluate(f"(() => {{ {bundle(HOME, module)} return {expression}; }})()")


@pytest.mark.parametrize("join", ["mean", "max"])
def test_the_hidden_weight_is_that_of_a_step_however_heads_are_joined(look, join):
    trace = make_trace()
    every = np.concatenate([weights(trace, "enc", layer) for layer in range(3)])
    page = look(trace, at=f"#kind=enc&join={join}")
    assert f"{100 * every[:, :, -1].mean():.1f}\u00a0% of the weight" in page.text(".foot")


def test_a_weighted_mean_is_called_so(look):
    page = look(make_trace(), at="#kind=cross&join=weighted")
    assert "Mean of 12 heads, weighted by their importance." in page.text(".foot")


def test_a_head_without_importance_is_shown_all_the_same(look):
    trace = make_trace()
    trace["heads"] = [one | {"importance": 0.0} for one in trace["heads"]]
    page = look(trace, at="#kind=cross&layer=1&head=2&join=weighted&sink=1")
    shown = np.array([numbers(row[1:]) for row in table(page)])
    np.testing.assert_allclose(shown, weights(trace, "cross", 1)[2], atol=6e-5)


def in_blocks(trace: dict[str, Any], *sizes: int) -> dict[str, Any]:
    """The cross-attentions with blocks of their own, as layers with different numbers of heads have them."""
    attention = []
    for one in trace["attention"]:
        if one["kind"] == "cross":
            size = sizes[one["layer"]]
            found = pooled(weights(trace, "cross", one["layer"]), (size, size))
            levels = np.rint(found * 65535).astype(np.uint16)
            one |= {
                "block": [size, size],
                "scales": [1.0] * one["heads"],
                "weights": pack(levels),
                "vectors": None,
            }
        attention.append(one)
    return trace | {"attention": attention}


def test_layers_may_be_stored_in_different_blocks(look):
    whole = make_trace(cross=[1, 4])
    expected = [pooled(weights(whole, "cross", layer), (4, 4)) for layer in range(2)]
    trace = in_blocks(make_trace(cross=[1, 4]), 2, 4)
    page = look(trace, at="#kind=cross")
    shown = np.array([numbers(row[1:]) for row in table(page)])
    np.testing.assert_allclose(shown, np.concatenate(expected).mean(0), atol=2e-4)
    page.evaluate("location.hash = '#kind=cross&layer=1&head=2&table=1'")
    page.wait("document.querySelectorAll('.controls select')[1]?.value === '2'")
    shown = np.array([numbers(row[1:]) for row in table(page)])
    np.testing.assert_allclose(shown, expected[1][2], atol=2e-4)
    uneven = look(in_blocks(make_trace(cross=[1, 4]), 2, 3), at="#kind=cross")
    shown = np.array([numbers(row[1:]) for row in table(uneven)])
    np.testing.assert_allclose(shown.sum(1), 1, atol=1e-3)


def test_impossible_tokens_have_probability_zero(look):
    """A logarithm of −∞ is null in a trace."""
    trace = make_trace()
    trace["steps"][0]["top"][3][1] = None
    output = trace["output"]
    scores = [None] + [step["log_prob"] for step in trace["steps"][1:]]
    page = look(
        trace | {"reference": output | {"token_scores": scores, "ranks": [9] + [1] * (len(scores) - 1)}}
    )
    assert rows_of_bars(page)[3] == "0.0\u00a0%"
    assert page.evaluate("document.querySelector('.missed').title") == "rank 9, probability 0.0\u00a0%"


def rows_of_bars(page: Page) -> list[str]:
    return page.evaluate(
        "[...document.querySelectorAll('.bars:last-of-type .number')].map((one) => one.textContent)"
    )


def test_every_role_of_a_trace_has_a_colour_and_a_meaning(look):
    trace = make_trace(enc=[1], dec=[2], cross=[3])
    roles = ["end", "positional", "begin", "alignment", "diffuse", None]
    trace["heads"] = [one | {"role": role} for one, role in zip(trace["heads"], roles, strict=True)]
    page = look(trace, at="#view=heads")
    listed = page.evaluate("[...document.querySelectorAll('.roles b')].map((one) => one.textContent)")
    assert set(listed) == set(roles) - {None}
    colours = page.evaluate("[...document.querySelectorAll('.thumb')].map((one) => one.style.borderColor)")
    assert len(set(colours)) == len(roles)


def test_a_layer_that_reads_from_the_end_is_shown_at_the_chosen_piece(look):
    trace = recurrent("dot", "gru")
    trace["recurrent"][0]["direction"] = "backward"
    page = look(trace, at="#view=number&t=1&k=2&cell=0")
    place = len(trace["source"]["pieces"]) - 1 - 2
    assert "ll" in page.text("svg.strips")
    rows = {row[0]: row[1:] for row in table(page)}
    expected = unpack(trace["recurrent"][0]["gates"]["z"])[place]
    np.testing.assert_allclose(numbers(rows["z  update gate"]), expected, atol=1e-4)
    (title,) = (name for name in rows if name.startswith("The GRU"))
    assert title == f"The GRU of the encoder, layer 0, backward, step {place + 1}: ll"


def test_zero_contributions_are_drawn_as_zero(look):
    trace = recurrent(None)
    shape = trace["contributions"]["source"]["shape"]
    trace["contributions"]["source"] = pack(np.zeros(shape, np.float32))
    page = look(trace, at="#view=why")  # which fails where the browser complains
    assert page.count(".panel svg rect[width=NaN]") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ramp", "difference"])
def test_text_on_colours_is_readable(look, theme, name):
    """The ink with more contrast is taken; in the middle between two neither has the 4.5 of WCAG 2.2."""
    page = look(make_trace())
    colours = f"module_colours.palette('{theme}').{name}"
    pairs = in_module(page, "colours", f"{colours}.map((one) => [one, module_colours.inkOn(one)])")
    inks = {"#10151d": luminance([16, 21, 29]), "#ffffff": luminance([255, 255, 255])}
    for colour, ink in pairs:
        ground = luminance(colour)
        contrasts = {each: max(ground / value, value / ground) for each, value in inks.items()}
        assert contrasts[ink] == max(contrasts.values())
        assert contrasts[ink] > 4.2


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("selector", [".tokens.output .later", ".tokens.output .end", ".tabs .empty"])
def test_quiet_text_is_readable(look, selector, dark):
    """The contrast of WCAG 2.2 to what is below, for the text as it is painted."""
    page = look(make_trace(), dark=dark)
    ink, ground = page.evaluate(
        f"(() => {{ const node = document.querySelector('{selector}'), style = getComputedStyle(node);"
        "const numbers = (text) => text.match(/[0-9.]+/g).map(Number);"
        "const below = node.closest('.story') ?? document.body, paper = numbers(getComputedStyle(below)"
        ".backgroundColor); const share = Number(style.opacity);"
        "return [numbers(style.color).map((one, at) => share * one + (1 - share) * paper[at]), paper]; })()"
    )
    assert max(luminance(ink) / luminance(ground), luminance(ground) / luminance(ink)) >= 4.5


def luminance(colour: Any) -> float:
    """Relative luminance plus 0.05: contrasts are its ratios."""
    share = np.array(colour[:3]) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05


def letters(*words: str) -> dict[str, Any]:
    """A search over single letters that found the first of some words; all of them ended."""
    trace = make_trace(output=words[0])
    ids = {letter: 50 + place for place, letter in enumerate(sorted(set("".join(words))))}
    columns: dict[str, list[Any]] = {"step": [0], "parent": [None], "token": [1], "log_prob": [0.0]}
    columns |= {"score": [0.0], "fate": [0], "reason": [0]}
    for rank, word in enumerate(words):
        tokens = [*(ids[letter] for letter in word), END]
        for step, token in enumerate(tokens, 1):
            parent = 0 if step == 1 else len(columns["step"]) - 1
            row = (step, parent, token, -rank - step / 10, 0.0, int(token == END), int(token == END))
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    order = sorted(range(len(columns["step"])), key=lambda place: columns["step"][place])
    columns = {name: [values[place] for place in order] for name, values in columns.items()}
    columns["parent"] = [None if one is None else order.index(one) for one in columns["parent"]]
    pieces = [
        {"id": ids[letter], "text": letter, "start": place, "end": place + 1, "word": 0}
        for place, letter in enumerate(words[0])
    ]
    trace["output"] |= {"pieces": [*pieces, trace["output"]["pieces"][-1]]}
    trace["symbols"] |= {str(number): letter for letter, number in ids.items()}
    trace["symbols"] = {key: text for key, text in trace["symbols"].items() if " " not in text}
    trace["hypotheses"] = [
        {"text": word, "ids": [ids[letter] for letter in word], "log_prob": 0, "score": 0}
        for word in words[:2]
    ]
    fates = {"fates": ["kept", "finished", "dropped"], "reasons": ["first", "end"]}
    return trace | {"lattice": columns | fates}


@pytest.mark.parametrize("words", [("a", "be", "cab"), ("", "be", "cab"), ("be", "a", "cab")])
def test_an_output_of_one_piece_does_not_part_the_letters_of_others(look, words):
    page = look(letters(*words), at="#view=beam")
    assert {row[2] for row in rows_of(page, "#ended")} == set(words)


def test_an_output_is_listed_as_the_search_wrote_it(look):
    """Symbols alone do not tell the text: here two bytes are one letter."""
    trace = letters("ab", "ba", "bab")
    trace["hypotheses"][0]["text"] = trace["output"]["text"] = "é"
    page = look(trace, at="#view=beam")
    assert rows_of(page, "#ended")[0][2] == "é"


def test_a_nucleus_that_reaches_beyond_what_is_stored_is_bounded(look):
    trace = make_trace(sharpness=0.0)
    for step in trace["steps"]:
        step["rest"] = step["total"] + 3
        step["total"] = float(np.logaddexp(step["total"], step["rest"]))
    page = look(trace, at="#view=next")
    assert "All other tokens together: 95\u00a0%" in page.text(".facts")
    drag(page, "Top-p", 0.5)
    page.wait("document.querySelector('.facts').textContent.includes('together: at most 95\u00a0%')")
    drag(page, "Temperature", 2)
    page.wait("document.querySelector('.facts').textContent.includes('together: about')")


def test_a_piece_without_a_text_is_not_the_end(look):
    """One byte of a letter that did not become whole."""
    trace = make_trace()
    branch = next(one for one in trace["branches"] if one["step"] == 1 and one["id"] != END)
    branch |= {"text": "le chat", "start": 2, "end": 2}
    trace["symbols"][str(branch["id"])] = "⟨e3⟩"
    page = look(trace, at=f"#branch=1.{branch['id']}")
    assert page.text(".tokens.branch .turn") == "⟨e3⟩"
    assert "continued by greedy search" in page.text(".rows .quiet")


def test_only_a_number_that_was_computed_once_leads_to_its_computation(look):
    page = look(make_trace(), at="#kind=cross&layer=0&head=0&t=3&k=2")
    assert "How is this weight computed?" in page.text(".foot")
    bare = make_trace()
    for one in bare["attention"]:
        one["vectors"] = one["vectors"] if one["layer"] else None
    for trace, at in (
        (make_trace(), "kind=cross&layer=0&head=0&t=3&k=2&unit=words"),  # a sum
        (make_trace(), "kind=enc&layer=0&head=0&t=3&k=2"),  # no cell is chosen
        (bare, "kind=cross&layer=0&head=0&t=3&k=2"),
    ):
        page = look(trace, at=f"#{at}")
        assert page.count("svg.heatmap") == 1
        assert "How was this" not in page.text(".foot")


def test_the_table_of_a_wide_matrix_is_that_of_the_chosen_row(look):
    words = " ".join(["abc"] * 50)
    trace = make_trace(text=words, enc=[1], dec=[1], cross=[1])
    page = look(trace, at="#kind=enc&sink=1&q=7")
    shown = np.array(numbers([row[2] for row in table(page)]))
    np.testing.assert_allclose(shown, weights(trace, "enc", 0)[0][7], atol=6e-5)


def test_a_weight_over_many_keys_is_computed_in_their_number(look):
    """Not in the square of it: twenty thousand keys are quick."""
    page = look(make_trace())
    rows = {"q": [[1.0]], "k": [[0.0]] * 20_000, "v": [[2.0]] * 20_000}
    took, context = in_module(
        page,
        "attention_weights",
        f"(async () => {{ const all = {json.dumps(rows)}; const start = performance.now();"
        "const trace = { rowsOf: async (packed) => all[packed] };"
        "const vectors = { score: 'dot', factor: 1, q: 'q', k: 'k', v: 'v' };"
        "const seen = await module_attention_weights.attentionWeights(trace, { vectors }, 0, 0);"
        "return [performance.now() - start, seen.context]; })()",
    )
    assert context == [pytest.approx(2.0)]
    assert took < 500
