"""The pictures of the documentation: they match their code, work in light, dark and screen readers, and show
true facts about the small model.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import Browser

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
FILES = sorted(FOLDER.glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@pytest.fixture
def part(monkeypatch):
    """Import a module of the examples, which are not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"examples.pictures.{name}")


def test_every_picture_exists_and_is_shown(part):
    names = set(part("gallery").PICTURES)
    assert {file.stem for file in FILES} == names
    assert set(re.findall(r"\]\(([\w-]+)\.svg\)", (FOLDER / "README.md").read_text("utf-8"))) == names


@each
def test_a_picture_matches_its_code(file, part):
    drawn = part("gallery").PICTURES[file.stem]()
    assert file.read_text("utf-8") == drawn, "run: make pictures"


@each
def test_a_picture_has_a_description_and_loads_nothing(file):
    picture = ElementTree.parse(file).getroot()
    title, described = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == f"{title.get('id')} {described.get('id')}"
    assert len(title.text) > 4
    assert len(described.text) > 100
    raw = file.read_text("utf-8").replace(SVG[1:-1], "")
    assert not re.search(r"https?:|url\(|@import|<script|<image|href", raw)


def colours(style: str) -> set[str]:
    return set(re.findall(r"\.([\w-]+)\{(?:fill|stroke):#", style))


@each
def test_a_picture_has_every_colour_in_light_and_dark(file):
    picture = ElementTree.parse(file).getroot()
    light, dark = picture.find(f"{SVG}style").text.split("@media (prefers-color-scheme:dark)")
    assert colours(light) == colours(dark)
    own = [element for element in picture.iter() if element.get("fill") or element.get("stroke")]
    assert all(element.get("fill") == "none" for element in own)  # a fixed colour would not follow the scheme


PLACES = """[...document.querySelectorAll("text")].map(text => {
  const box = text.getBoundingClientRect();
  return [text.textContent, box.left, box.top, box.right, box.bottom];
})"""
SLACK = 3  # pixels above and below the letters that belong to the box of a text


def covers(one: list, other: list) -> bool:
    across = min(one[3], other[3]) - max(one[1], other[1])
    down = min(one[4], other[4]) - max(one[2], other[2])
    return across > 1 and down > SLACK


def test_no_text_overlaps_another_or_the_edge(tmp_path):
    with Browser(tmp_path / "profile") as browser:
        page = browser.page(700, 700)
        for file in FILES:
            page.open(file)
            texts = page.evaluate(PLACES)
            height = float(ElementTree.parse(file).getroot().get("height"))
            assert texts
            assert [t for t in texts if t[1] < 0 or t[2] < 0 or t[3] > 700 or t[4] > height] == [], file.stem
            assert [(a[0], b[0]) for a, b in combinations(texts, 2) if covers(a, b)] == [], file.stem


def test_the_links_of_the_grammar_join_translations(part):
    grammar = part("grammar")
    tables = (grammar.DETERMINERS, grammar.BEFORE, grammar.BEHIND)
    forms = {word: set(french) for table in tables for word, french in table.items()}
    forms |= {word: {french} for word, (french, _) in grammar.NOUNS.items()}
    forms |= {"big": {french for pair in grammar.BIG for french in pair}, "not": {"ne", "pas"}}
    for one in grammar.sentences(300, seed=3):
        source, target = one.source.split(), one.target.split()
        assert {place for _, place in one.links} == set(range(len(target)))
        linked = [(source[first], target[second]) for first, second in one.links]
        assert all(french in forms.get(english, {french}) for english, french in linked)
        assert "does" not in dict(linked)


def test_the_stored_attention_supports_the_pictures(part):
    toy = part("toy").toy()
    for heads in toy.attention.values():
        for row in (row for head in heads for row in head):
            assert sum(row) == pytest.approx(1, abs=0.006)  # the numbers have three digits
    assert all(
        weight == 0 for head in toy.attention["dec"] for q, row in enumerate(head) for weight in row[q + 1 :]
    )
    assert len(toy.attention["cross"][0]) == len(toy.output)
    assert len(toy.attention["cross"][0][0]) == len(toy.source)
    mean = part("translation").mean_of_heads(toy, "cross")
    best = {word: toy.source[row.index(max(row))] for word, row in zip(toy.output, mean, strict=True)}
    pairs = {"chien": "dog", "noir": "black", "maison": "house", "blanche": "white", "petit": "small"}
    assert best | pairs == best
    nouns = {"le": "dog", "la": "house"}
    assert all(mean[toy.output.index(one)][toy.source.index(noun)] > 0.1 for one, noun in nouns.items())


def test_the_beam_finds_what_greedy_search_misses(part):
    translation, found = part("translation"), part("toy").toy().candidates
    greedy = list(translation.greedy_path(found))
    best = translation.best_end(found)
    assert all(found[child].parent == parent for parent, child in pairwise(greedy))
    assert found[greedy[-1]].word == found[best].word == "end"
    assert found[best].log_prob > found[greedy[-1]].log_prob + 0.1
    assert [found[number].word for number in translation.path_to(found, best)] == [
        "end",
        "dort",
        "chien",
        "grand",
        "le",
        "begin",
    ]


def test_each_hypothesis_sees_its_own_past(part):
    masks = part("masks")
    words = [word for tokens, _ in masks.BEAM for word in tokens]
    visible = {
        " ".join(word for word, may in zip(words, row, strict=True) if may) for row in masks.past_of_a_beam()
    }
    assert visible == {"le grand chien dort", "le chien énorme dort", "le chien géant dort"}


def test_the_stored_model_is_small():
    stored = ROOT / "examples" / "pictures" / "toy.json"
    assert stored.stat().st_size < 20_000
    assert json.loads(stored.read_text("utf-8"))["right"] > 0.95


def test_the_pictures_of_pages_are_small_and_have_their_sizes(part):
    for file, size in part("page").SIZES.items():
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 300_000
        assert struct.unpack(">II", content[16:24]) == size
    assert "docs/pictures/look-page.png" in (ROOT / "README.md").read_text("utf-8")
    assert "pictures/serve-page.png" in (ROOT / "docs" / "serving.md").read_text("utf-8")


def test_without_a_browser_the_page_is_not_taken(part, monkeypatch):
    page = part("page")
    monkeypatch.setattr(page, "chromium", lambda: None)
    assert page.take().startswith("look-page.png and serve-page.png not taken: they need one of chromium, ")
