"""The model card: a head that parses, scores with signatures, escaped texts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_sample import CONFIG, HOSTILE, make_run, write

from seqwright.runs.card import code, plain, write_card
from seqwright.runs.folder import Run


def card_of(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the fields of the YAML head (keys, words, lists of words) and the body."""
    text = write_card(folder).read_text(encoding="utf-8")
    start, head, body = text.split("---\n", 2)
    assert start == ""
    fields: dict[str, Any] = {}
    listed: list[str] = []
    for line in head.splitlines():
        if line.startswith("- "):
            listed.append(json.loads(line[2:]) if line.startswith('- "') else line[2:])
            continue
        key, value = line.split(":", 1)
        listed = []
        fields[key] = value.strip() or listed
    return fields, body


def test_the_yaml_head_has_the_fields_of_model_hubs(tmp_path):
    fields, _ = card_of(make_run(tmp_path / "run"))
    assert fields == {
        "library_name": "seqwright",
        "pipeline_tag": "translation",
        "tags": ["seqwright", "sequence-to-sequence", "transformer"],
        "metrics": ["exact_match", "pairs"],
    }


def test_the_pipeline_tag_follows_the_task(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "a.b", ModuleType("a.b"))  # a run may name what is imported already
    for task, tag in (
        ("text_to_text", "translation"),
        ("text_classification", "text-classification"),
        ("a.b:C", "a.b:C"),
    ):
        fields, _ = card_of(Run.create(tmp_path / tag.replace(":", ""), {**CONFIG, "task": task}).folder)
        assert fields["pipeline_tag"].strip('"') == tag
        assert ("sequence-to-sequence" in fields["tags"]) == (task == "text_to_text")


def test_data_of_older_versions_are_pairs_of_sources(tmp_path):
    _, body = card_of(make_run(tmp_path / "run"))
    assert "81 pairs of 80 distinct sources" in body


def test_a_line_break_in_the_name_stays_in_its_block(tmp_path):
    _, body = card_of(make_run(tmp_path / "a\n~~~\n# b"))
    shell = next(token.content for token in MarkdownIt().parse(body) if token.type == "fence")
    assert shell.count("\n") == 1


def test_scores_have_intervals_and_signatures(tmp_path):
    _, body = card_of(make_run(tmp_path / "run"))
    assert "| exact match | 61.2 % | 58.0 – 64.5 | 3.4 % | higher | `pairs` |" in body
    assert "Measured on 10 items from 12 examples" in body


def test_the_card_shows_how_to_use_verify_and_train_again(tmp_path):
    _, body = card_of(make_run(tmp_path / "my run"))
    for expected in (
        "seqwright predict 'my run' < input.txt",
        'seqwright.load("my run")',
        'model.predict("pairs")[0].text  # "pairs"',
        "`seqwright verify 'my run'`",
        "seqwright train 'my run.toml' --out 'my run-again' --steps 30",
    ):
        assert expected in body


def test_limits_need_enough_items(tmp_path):
    _, body = card_of(make_run(tmp_path / "run"))
    limits = body.split("## Limits")[1]
    assert "longer than 900 characters" in limits
    assert "is the worst" not in limits  # the second bucket has two items


def test_the_worst_bucket_lies_outside_the_interval(tmp_path):
    folder = make_run(tmp_path / "run")
    kept = json.loads((folder / "evaluation.json").read_text())

    def limits(*parts: tuple[str, int, float]) -> str:
        buckets = [
            {"name": name, "items": items, "metrics": {"exact_match": value}} for name, items, value in parts
        ]
        write(folder, "evaluation", {**kept, "buckets": {"length": buckets}})
        return card_of(folder)[1].split("## Limits")[1]

    assert "By length, 5 is the worst: exact match 40.0 %, 31 items" in limits(
        ("1", 900, 70.0), ("5", 31, 40.0)
    )
    assert "By length, 5 is the worst among those with 30 items or more: exact" in limits(
        ("1", 900, 70.0), ("5", 31, 40.0), ("9", 3, 0.0)
    )
    assert "the worst" not in limits(
        ("1", 900, 61.0), ("5", 31, 60.0)
    )  # within the interval of all, 58 to 64.5
    assert "the worst" not in limits(("1", 900, 61.0), ("9", 3, 0.0))


def test_a_bare_run_has_a_card(tmp_path):
    fields, body = card_of(Run.create(tmp_path / "run", CONFIG).folder)
    assert "metrics" not in fields
    for expected in (
        "Not evaluated",
        "Not described",
        "None are recorded",
        "The run folder has no examples.json",
    ):
        assert expected in body


def test_hostile_texts_stay_texts(tmp_path):
    """Parsed as Markdown, the texts add no HTML, link, image, heading or table cell."""
    fields, body = card_of(make_run(tmp_path / "run", HOSTILE))
    assert len(fields["metrics"]) == 2
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    kinds = Counter(token.type for top in tokens for token in (top, *(top.children or ())))
    assert kinds.keys().isdisjoint({"html_inline", "html_block", "link_open", "image", "em_open"})
    assert (kinds["heading_open"], kinds["tr_open"], kinds["td_open"]) == (7, 3, 12)
    assert "\u202e" not in body


def test_the_same_folder_gives_the_same_bytes(tmp_path):
    folder = make_run(tmp_path / "run")
    assert write_card(folder).read_bytes() == write_card(folder).read_bytes()


@given(st.text("ab`|<>*\n\\ ", max_size=20))
def test_the_code_fence_is_longer_than_any_run_of_backticks(text):
    written = code(text)
    fence = written[: len(written) - len(written.lstrip("`"))]
    assert written.endswith(fence)
    assert "\n" not in written
    assert fence not in written[len(fence) : -len(fence)]


@pytest.mark.parametrize(("text", "written"), [("a\n# b", "a \\# b"), ("<b>|*_", "\\<b\\>\\|\\*\\_")])
def test_a_plain_text_is_one_line_without_markdown(text, written):
    assert plain(text) == written
