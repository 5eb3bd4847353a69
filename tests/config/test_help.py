"""Descriptions come from the definitions: everything that can be configured has one, and it is true."""

from __future__ import annotations

import json
import math

import pytest

from seqwright import cli
from seqwright.config import Config, parse
from seqwright.config.help import OPEN, REGISTRIES, contents, describe, explained, registry
from seqwright.config.presets import PRESETS
from seqwright.errors import ConfigError

TABLES = ("data", "tokenizer", "training", "search")
PARTS = [f"{name}.{kind}" for name in REGISTRIES for kind in registry(name).names()]


def said(capsys, *arguments: str) -> str:
    assert cli.main(["describe", *arguments]) == 0
    return capsys.readouterr().out


def test_without_a_name_it_lists_everything_that_can_be_asked_for(capsys):
    text = said(capsys)
    for name in (*TABLES, "model", "seed", *REGISTRIES, *PRESETS):
        assert name in text
        assert describe(name).name == name


def test_every_default_of_a_table_is_that_of_the_configuration():
    defaults = Config().to_dict()
    for table in TABLES:
        options = {option.name: json.loads(_json(option.default)) for option in describe(table).options}
        assert options == defaults[table]


def _json(default: str | None) -> str:
    assert default is not None
    return "null" if default == "none" else default


@pytest.mark.parametrize("table", TABLES)
def test_ranges_are_those_that_are_enforced(table):
    """Just outside of each limit, the configuration refuses."""
    for option in describe(table).options:
        for limit in filter(None, option.range.split(", ")):
            sign, _, number = limit.partition(" ")
            if sign not in "≥>≤<":
                continue
            value = json.loads(number.replace(",", ""))
            beyond = {"≥": value - 1, ">": value, "≤": value + 1, "<": value}[sign]
            with pytest.raises(ConfigError, match=rf"{table}\.{option.name}"):
                parse({table: {option.name: beyond}})


@pytest.mark.parametrize("name", PARTS)
def test_every_part_has_a_description(name, capsys):
    topic = describe(name)
    assert topic.summary
    kind, _, part = name.partition(".")
    assert [option.name for option in topic.options] == list(registry(kind).options(part))
    assert said(capsys, name).startswith(name)
    assert json.loads(said(capsys, name, "--json"))["name"] == name


def test_comments_docstrings_types_and_ranges_come_through(capsys):
    text = said(capsys, "training.tokens")
    assert "tokens = 1536  (whole number, ≥ 1)" in text
    assert "target tokens in a batch" in text
    held_out = next(option for option in describe("data").options if option.name == "held_out")
    assert "for validation" in held_out.help  # its comment stands on a line of its own
    rnn = {option.name: option for option in describe("decoder.rnn").options}
    assert (rnn["cell"].type, rnn["cell"].default) == ("lstm or gru", '"lstm"')
    assert rnn["attention"].type == "name or table"
    assert rnn["feed"].help.startswith("what goes into the cells")
    assert rnn["vocabulary"].default is None
    assert "given by the rest of the model" in said(capsys, "position.rotary")


@pytest.mark.parametrize("key", OPEN)
def test_a_key_that_names_a_part_lists_the_parts(key):
    (kinds,) = describe(key).lists.values()
    assert list(kinds) == registry(OPEN[key]).names()


def test_a_part_is_found_by_its_key_too():
    assert describe("training.optimizer.muon") == describe("optimizer.muon")
    assert describe("optimizer.muon.rate").options[0].default == "0.003"
    (parts,) = describe("model.layers").lists.values()
    assert set(parts) == {
        f"{part}.{kind}" for part in ("encoder", "decoder") for kind in ("rnn", "transformer")
    }


@pytest.mark.parametrize(("name", "topic"), [("BPE", "tokenizer.bpe"), ("chrf", "metric.chrf")])
def test_what_only_one_part_is_called_needs_no_more(name, topic):
    assert describe(name) == describe(topic)


def test_a_preset_is_a_configuration(capsys):
    import tomllib

    text = said(capsys, "cho2014")
    table = tomllib.loads(text[text.index("[model]") :])
    assert table["model"]["decoder"]["readout"] == "maxout"
    parse({**table, "training": {"steps": 1}})
    assert "Cho et al. 2014" in text
    assert "torch's GRU" in text


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("trainin", "training"),
        ("model.decodr", "model.decoder"),
        ("position.rotry", "position.rotary"),
        ("training.token", "training.tokens"),
        ("decoder.rnn.fed", "decoder.rnn.feed"),
        ("tny", "tiny"),
    ],
)
def test_31_a_wrong_name_gives_the_nearest(wrong, near, capsys):
    assert cli.main(["describe", wrong]) == 2
    error = capsys.readouterr().err
    assert f"did you mean {near!r}?" in error
    assert error.count("\n") == 1


def test_contents_are_json_too(capsys):
    found = json.loads(said(capsys, "--json"))
    assert found["lists"]["presets"].keys() == PRESETS.keys()
    assert contents().lists.keys() == found["lists"].keys()


def test_what_a_docstring_says_of_options_is_taken_apart():
    text = "A part.\n\nsize: how big\nit is. tie: whether. Note: stays."
    assert explained(text, ["size", "tie"]) == (
        "A part.",
        {"size": "how big it is.", "tie": "whether. Note: stays."},
    )
    assert explained("Only words.", []) == ("Only words.", {})


def test_no_limit_is_shown_where_there_is_none():
    assert not any(str(math.inf) in option.range for option in describe("training").options)
