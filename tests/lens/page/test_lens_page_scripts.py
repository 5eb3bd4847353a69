"""Writing that a cut would break: joined letters, marks, lines from right to left, wherever it is shown."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import regex
from browser import Browser, Page
from synthetic_traces import make_trace

from seqwright.lens.page import HOME
from seqwright.lens.page.bundle import bundle

ARABIC, HEBREW, LATIN = "السلام عليكم مستشفيات", "שלום עולם", "abcdef ghijk lmnopqrs"  # pieces of 3 letters
JOINER, ISOLATE, RELEASE = "\u200d", "\u2068", "\u2069"


def in_module(page: Page, expression: str) -> Any:
    """The value of an expression of what scripts.js exports."""
    names = "{ clusters, joins, plain, shorten, standing }"
    return page.evaluate(
        f"(() => {{ {bundle(HOME, 'text')} const {names} = {{ ...module_scripts, ...module_text }};"
        f"return {expression}; }})()"
    )


def cut(side: dict[str, Any], *spans: tuple[int, int]) -> dict[str, Any]:
    """A source or output in other pieces, as many as there were."""
    *old, end = side["pieces"]
    pieces = [
        piece | {"text": side["text"][start:stop], "start": start, "end": stop, "word": 0}
        for piece, (start, stop) in zip(old, spans, strict=True)
    ]
    return side | {"pieces": [*pieces, end]}


@pytest.mark.parametrize("side", ["source", "output"])
def test_a_text_in_pieces_is_written_as_it_is_whole(look, side):
    """Letters that lose their neighbours take other forms, which are wider."""
    page = look(make_trace(**{"text" if side == "source" else "output": ARABIC}), at="#t=2")
    assert page.count(f".tokens.{side} .chip.joined") >= 5
    widths = page.evaluate(
        f"(() => {{ const row = document.querySelector('.tokens.{side}'), words = [];"
        "const width = (node) => node.getBoundingClientRect().width;"
        "for (const chip of [...row.children].slice(0, -1)) {"
        "if (chip.classList.contains('begins')) words.push([]); words.at(-1).push(chip); }"
        "return words.map((word) => { const whole = document.createElement('span');"
        "whole.textContent = word.map((chip) => chip.textContent).join(''); row.append(' ', whole);"
        "const found = [word.reduce((sum, chip) => sum + width(chip), 0), width(whole)];"
        "whole.remove(); return found; }); })()"
    )
    assert len(widths) == 3
    for pieces, whole in widths:
        assert pieces == pytest.approx(whole, abs=0.5)


def test_rows_run_from_right_to_left(look):
    page = look(make_trace(text=ARABIC, output=HEBREW))
    for side in ("source", "output"):
        lefts = page.evaluate(
            f"[...document.querySelectorAll('.tokens.{side} .chip')]"
            ".map((chip) => chip.getBoundingClientRect().left)"
        )
        assert lefts == sorted(lefts, reverse=True)
    row = "document.querySelector('.tokens.source').getBoundingClientRect()"
    assert page.evaluate(f"{row}.width") < 500  # next to its label, not at the other end of the page


def test_columns_run_as_their_text_does(look):
    """The first piece is on the right: for the eye, the mouse and the arrow keys."""
    page = look(make_trace(text=ARABIC), at="#kind=cross&layer=0&head=0&sink=1")
    labels = page.evaluate(
        "[...document.querySelectorAll('svg.heatmap text')]"
        ".filter((text) => /[\\u0600-\\u06ff]/.test(text.textContent))"
        ".map((text) => [Number(text.getAttribute('x')), text.textContent])"
    )
    assert [x for x, _ in labels] == sorted((x for x, _ in labels), reverse=True)
    assert [text for _, text in labels[:2]] == [
        f"{ISOLATE}الس{JOINER}{RELEASE}",
        f"{ISOLATE}{JOINER}لام{RELEASE}",
    ]
    page.evaluate("document.querySelector('svg.heatmap').focus()")
    for key, seen in (("ArrowLeft", "لام"), ("ArrowRight", "الس")):
        page.press(key)
        page.wait(f"document.querySelector('.readout').textContent.includes('{seen}')")
    page.press("Enter")
    page.wait("location.hash.includes('k=0')")
    page.click("svg.heatmap image", x=0.02)
    page.wait("location.hash.includes('k=7')")  # the end mark


def shades(page: Page) -> list[list[int]]:
    """The red of the cells as they are painted, row by row."""
    return page.evaluate(
        "(async () => { const image = new Image(); image.src = document.querySelector('svg.heatmap image')"
        ".getAttribute('href'); await image.decode(); const sheet = document.createElement('canvas');"
        "[sheet.width, sheet.height] = [image.width, image.height]; const brush = sheet.getContext('2d');"
        "brush.drawImage(image, 0, 0); const { data } = brush.getImageData(0, 0, image.width, image.height);"
        "return Array.from({length: image.height}, (_, row) => Array.from({length: image.width},"
        "(_, column) => data[4 * (row * image.width + column)])); })()"
    )


def test_the_colours_of_a_matrix_are_turned_with_its_columns(look):
    left, right = (look(make_trace(text=text), at="#layer=0&head=0&sink=1") for text in (ARABIC, LATIN))
    assert shades(left) == [row[::-1] for row in shades(right)]


def test_lines_stand_in_the_order_of_reading(look):
    page = look(make_trace(text=ARABIC, output=HEBREW), at="#layout=lines&sink=1")
    places = page.evaluate(
        "[...document.querySelectorAll('svg.lines text')].map((text) => Number(text.getAttribute('x')))"
    )
    columns, rows = places[:8], places[8:]
    assert columns == sorted(columns, reverse=True)
    assert rows == sorted(rows, reverse=True)


def test_pieces_that_share_a_letter_are_one_chip(look):
    """Its marks, its bytes, a lam with its alef: each stays whole, and all its pieces can be reached."""
    text = "سلامبَé" + 14 * "x"
    spans = [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 7), (6, 7)]  # the last two are bytes
    trace = make_trace(text=text, output=text)
    page = look(trace | {side: cut(trace[side], *spans) for side in ("source", "output")})
    for side in ("source", "output"):
        assert page.evaluate(
            f"[...document.querySelectorAll('.tokens.{side} .chip')]"
            ".map((chip) => [chip.textContent, chip.title])"
        ) == [
            ["س", "token 0"],
            ["لام", "tokens 1 to 2"],
            ["بَ", "tokens 3 to 4"],
            ["é", "tokens 5 to 6"],
            ["⟨end⟩", "token 7"],
        ]
    for step in ("1", "2", "1"):
        page.click(".tokens.output .chip:nth-child(2)")
        page.wait(f"new URLSearchParams(location.hash.slice(1)).get('t') === '{step}'")
        assert page.text(".chip.now") == "لام"


def test_joined_letters_are_those_of_unicode(look):
    """Against the joining types of the Unicode Character Database, for all letters of these scripts."""
    joining = regex.compile(
        r"[\p{Arabic}\p{Syriac}\p{Nko}\p{Mandaic}\p{Mongolian}\p{Adlam}\p{Hanifi_Rohingya}\p{Phags_Pa}]"
    )
    every = map(chr, range(0x20000))  # of them those that all programs here know
    letters = [each for each in every if joining.match(each) and unicodedata.category(each).startswith("L")]
    page = look(make_trace())
    for types, how in (("DLC", "joins(letter, 'ب')"), ("DRC", "joins('ب', letter)")):
        known = regex.compile("|".join(f"\\p{{Joining_Type={one}}}" for one in types))
        found = in_module(page, f"{json.dumps(letters)}.map((letter) => {how})")
        assert found == [known.match(letter) is not None for letter in letters]


@pytest.mark.parametrize(
    ("text", "before", "after", "shown"),
    [
        ("ت", "ك", "ب", f"{ISOLATE}{JOINER}ت{JOINER}{RELEASE}"),
        ("تُ", "كَ", "َب", f"{ISOLATE}{JOINER}تُ{JOINER}{RELEASE}"),  # across marks
        ("ت", "ا", " ب", f"{ISOLATE}ت{RELEASE}"),  # alef joins none after it, a space none at all
        ("ל", "ש", "ו", f"{ISOLATE}ל{RELEASE}"),
        ("क्", "", "षि", f"क्{JOINER}"),  # half of a cluster
        ("ि", "क्ष", "", "\u25ccि"),
        ("tion", "na", "s", "tion"),
    ],
)
def test_a_piece_alone_has_the_form_of_its_word(look, text, before, after, shown):
    page = look(make_trace())
    given = ", ".join(map(json.dumps, (text, before, after)))
    assert in_module(page, f"standing({given})") == shown
    assert in_module(page, f"plain(standing({given}))") == text


def test_clusters_are_not_cut(look):
    page = look(make_trace())
    for text, parts in {
        "क्षत्रिय": ["क्ष", "त्रि", "य"],
        "بَلاغ": ["بَ", "لا", "غ"],
        "e\u0301a": ["e\u0301", "a"],
        "👩‍🚀x": ["👩‍🚀", "x"],
        "abc": ["a", "b", "c"],
    }.items():
        assert in_module(page, f"clusters({json.dumps(text)})") == parts
    for text, short in {
        "مستشفيات": f"مس{JOINER}…{JOINER}ات",
        "استعمارية": f"اس{JOINER}…ية",
        "abcdef": "ab…ef",
    }.items():
        assert in_module(page, f"shorten({json.dumps(text)}, 5)") == short


def test_files_contain_the_original_text(look, browser: Browser, tmp_path: Path):
    page = look(make_trace(text=ARABIC), at="#layer=0&head=0")
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("[data-key=CSV]")
    file = tmp_path / "seqwright-alignment.csv"
    for _ in range(100):
        if file.exists() and file.stat().st_size:
            break
        page.evaluate("new Promise((done) => setTimeout(done, 30))")
    header = file.read_text(encoding="utf-8").splitlines()[0]
    assert header.split(",")[1:3] == ["الس", "لام"]
    assert not set(header) & {JOINER, ISOLATE, RELEASE}


def test_a_name_does_not_reverse_the_sentence(look):
    """A number after an Arabic word stays after it."""
    page = look(make_trace(output=ARABIC), at="#view=next&t=1")
    right, left = page.evaluate(
        "(() => { const rows = document.querySelectorAll('.facts'); const range = document.createRange();"
        "const name = rows[0].querySelector('.now'); range.selectNodeContents(name.nextSibling);"
        "return [name.getBoundingClientRect().right, range.getClientRects()[0].left]; })()"
    )
    assert right <= left + 0.5


def test_a_text_cannot_turn_the_page_around(look):
    """An override of the direction would mirror everything behind it."""
    hostile = "ab\u202ecd \u202def gh\u200f\x1b"
    page = look(make_trace(text=hostile, output=hostile), at="#t=2")
    shown = page.evaluate("document.title + document.body.innerText")
    assert "⟨U+202E⟩" in shown
    assert not {"\u202e", "\u202d", "\u200f", "\x1b"} & set(shown)
