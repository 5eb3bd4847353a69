"""Pictures hold what is drawn, and what is saved is what is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import Browser, Page
from reading_pages import go
from synthetic_traces import WORDS, make_trace, pack

TOKYO = "東京特許許可局長今日急遽休暇許可却下"
OUTSIDE = (  # the words of a picture that begin or end beyond it
    "[...document.querySelectorAll('{0} text')].filter((text) => {{ const all = text.ownerSVGElement"
    ".getBoundingClientRect(), box = text.getBoundingClientRect();"
    "return box.left < all.left - 1 || box.right > all.right + 1; }}).map((text) => text.textContent)"
)


def saved(page: Page, browser: Browser, folder: Path, name: str) -> bytes:
    """A picture as a file. name: that of the button."""
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.click(f"[data-key={name}]")
    for _ in range(200):
        for file in folder.glob(f"*.{name.lower()}"):
            if file.stat().st_size:
                return file.read_bytes()
        page.evaluate("new Promise((done) => setTimeout(done, 30))")
    raise TimeoutError(f"no {name} within some seconds")


@pytest.mark.parametrize("width", [320, 1100])
def test_wide_words_leave_room_for_their_matrix(look, width):
    """Words of a script without spaces: two of them are as wide as the place for a matrix."""
    page = look(
        *(make_trace(seed=seed, text=TOKYO, output=f"{TOKYO} {TOKYO}") for seed in range(2)),
        at="#unit=words",
        width=width,
    )
    for view in ("alignment", "compare", "heads"):
        go(page, view)
        widths = page.evaluate(
            "[...document.querySelectorAll('svg.heatmap image')]"
            ".map((one) => Number(one.getAttribute('width')))"
        )
        assert all(one > 40 for one in widths)
        assert page.evaluate(OUTSIDE.format("svg.heatmap")) == []
        page.press("b")
        page.wait("document.documentElement.dataset.big === 'true'")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.press("b")
        page.wait("document.documentElement.dataset.big === 'false'")


def test_a_word_without_end_does_not_widen_the_page(look):
    words = ["x" * 200, "y" * 200, "z" * 200]
    page = look(
        *(make_trace(seed=seed, output=word, step=100 * seed) for seed, word in enumerate(words)), width=480
    )
    for view in ("alignment", "heads", "next", "beam", "why", "number", "compare", "learning"):
        go(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 480, view


def test_a_single_wide_word_among_many_is_not_cut(look):
    words = ["ab"] * 500
    words[9] = "W" * 16
    page = look(
        make_trace(text=" ".join(words), enc=[1], dec=[1], cross=[1], vectors=False),
        at="#kind=enc&unit=words",
    )
    assert "W" * 16 in page.text("svg.heatmap")
    assert page.evaluate(OUTSIDE.format("svg.heatmap")) == []


def test_words_between_lines_are_not_cut_where_there_is_little_room(look):
    words = " ".join(f"Donaudampfschi{letter}" for letter in "abcdefgh")
    page = look(make_trace(text=words, output=words), at="#layout=lines&unit=words", width=480)
    assert page.evaluate(OUTSIDE.format("svg.lines")) == []
    page.press("m")
    page.wait("document.querySelector('svg.heatmap')")
    assert page.evaluate(OUTSIDE.format("svg.heatmap")) == []


def test_a_million_weights_as_lines_stay_responsive(look):
    """Nearly all of them are strong enough to be drawn; which ones are is found once."""
    trace = make_trace(text=" ".join(["abc"] * 999), enc=[1], dec=[1], cross=[1], vectors=False)
    noise = np.random.default_rng(0).integers(10_000, 65_536, size=(1, 1000, 1000)).astype(np.uint16)
    trace["attention"][0] |= {"weights": pack(noise), "scales": [0.002]}
    page = look(trace, at="#kind=enc&layout=lines")
    assert page.count("svg.lines path") == 1500
    faintest = page.evaluate("Number(document.querySelector('svg.lines path').getAttribute('stroke-width'))")
    shown = np.sort(noise, axis=None)[-1500:-1400].mean() / noise.max()
    assert faintest == pytest.approx(0.6 + 5 * shown, abs=0.01)
    elapsed = page.evaluate(
        "(async () => { const start = performance.now(); for (let step = 0; step < 3; step++) {"
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));"
        "await new Promise((done) => setTimeout(done)); } return performance.now() - start; })()"
    )
    assert elapsed < 3000  # three steps, on a machine that may be busy


def test_a_text_that_looks_like_a_colour_is_saved_as_it_is(look, browser: Browser, tmp_path: Path):
    text = "var(--ink) var(--nothing)"
    page = look(make_trace(text=text), at="#kind=cross&unit=words")
    assert text.split()[0] in page.text("svg.heatmap")
    found = saved(page, browser, tmp_path, "SVG").decode()
    assert all(f">{word}<" in found for word in text.split())
    assert 'fill="var(' not in found
    assert 'stroke="var(' not in found


def test_characters_that_xml_has_no_room_for_do_not_break_a_picture(look, browser: Browser, tmp_path: Path):
    page = look(make_trace(text="a\x07b c\x1bd \ud800 e\ufffff"), at="#kind=cross&unit=words")
    assert saved(page, browser, tmp_path, "PNG").startswith(b"\x89PNG")
    found = saved(page, browser, tmp_path, "SVG").decode()
    page.evaluate("0")
    assert "\x07" not in found
    assert found.startswith("<svg")


def test_a_picture_that_is_too_tall_is_saved_smaller(look, browser: Browser, tmp_path: Path):
    text = " ".join(WORDS[index % len(WORDS)] for index in range(1700))
    page = look(
        make_trace(text=text, output="le chat", enc=[], dec=[], cross=[1], vectors=False),
        at="#layout=lines&unit=words",
    )
    found = saved(page, browser, tmp_path, "PNG")
    assert found.startswith(b"\x89PNG")
    assert 30_000 < int.from_bytes(found[20:24], "big") < 40_000
