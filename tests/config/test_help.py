"""Help comes from the definitions: every option has it, and it matches what is enforced."""

from __future__ import annotations

import json
import re
from typing import Annotated

import pytest

from seqwright import cli
from seqwright.config import Config, parse
from seqwright.config.help import OPEN, REGISTRIES, _options_of, contents, describe, registry, split_docstring
from seqwright.config.presets import PRESETS
from seqwright.config.registry import Doc
from seqwright.errors import ConfigError

TABLES = ("data", "tokenizer", "training", "search")
PARTS = [f"{name}.{kind}" for name in REGISTRIES for kind in registry(name).names()]


def printed(capsys, *arguments: str) -> str:
    assert cli.main(["describe", *arguments]) == 0
    return capsys.readouterr().out


def test_without_a_name_all_names_are_listed(capsys):
    text = printed(capsys)
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
    """The configuration refuses a value just outside of each limit."""
    for option in describe(table).options:
        limits = re.sub("^from (.*) to", r"at least \1 and at most", option.range).split(" and ")
        for limit in limits:
            found = re.fullmatch(r"(at least|above|at most|below) (-?[\d.,]+)", limit)
            if found is None:
                assert limit in ("", "finite", "exactly 1 character")
                continue
            value = json.loads(found[2].replace(",", ""))
            beyond = {"at least": value - 1, "above": value, "at most": value + 1, "below": value}[found[1]]
            with pytest.raises(ConfigError, match=rf"{table}\.{option.name} is"):
                parse({table: {option.name: beyond}})


@pytest.mark.parametrize("name", PARTS)
def test_every_part_has_a_description(name, capsys):
    topic = describe(name)
    assert topic.summary
    kind, _, part = name.partition(".")
    options = [] if kind == "task" else list(registry(kind).options(part))  # those of tasks are not for users
    assert [option.name for option in topic.options] == options
    assert printed(capsys, name).startswith(name)
    assert json.loads(printed(capsys, name, "--json"))["name"] == name


@pytest.mark.parametrize("name", PARTS)
def test_no_description_contains_that_of_another_option(name):
    topic = describe(name)
    names = "|".join(option.name for option in topic.options) or "(?!)"
    for text in (topic.summary, *(option.help for option in topic.options)):
        assert not re.search(rf"(?:^|[.;,] )(?:{names})(?:(?:, | and )\w+)*: ", text), text


@pytest.mark.parametrize("table", TABLES)
def test_every_option_of_a_table_has_a_help_text(table):
    assert [option.name for option in describe(table).options if not option.help.endswith(".")] == []


def test_help_texts_types_and_ranges_are_printed(capsys):
    text = printed(capsys, "training.tokens")
    assert "tokens = 1536  (whole number, at least 1)" in text
    assert "Target tokens per batch" in text
    rnn = {option.name: option for option in describe("decoder.rnn").options}
    assert (rnn["cell"].type, rnn["cell"].default) == ("lstm or gru", '"lstm"')
    assert rnn["attention"].type == "name or table or none"
    assert rnn["attention"].default == "bahdanau where there is a source, otherwise none"
    assert rnn["feed"].help.startswith("the input of the cells")
    assert rnn["vocabulary"].default is None
    assert "set by the model or the data" in printed(capsys, "position.rotary")


@pytest.mark.parametrize("key", OPEN)
def test_a_key_that_names_a_part_lists_the_parts(key):
    (kinds,) = describe(key).lists.values()
    assert list(kinds) == registry(OPEN[key]).names()


def test_a_part_is_found_by_its_key_too():
    assert describe("training.optimizer.muon") == describe("optimizer.muon")
    assert describe("optimizer.muon.rate").options[0].default == "0.003"
    (parts,) = describe("model.layers").lists.values()
    assert set(parts) == {
        f"{part}.{kind}"
        for part in ("encoder", "decoder")
        for kind in registry(part).names()
        if "layers" in registry(part).options(kind)
    }


@pytest.mark.parametrize(("name", "topic"), [("BPE", "tokenizer.bpe"), ("chrf", "metric.chrf")])
def test_a_unique_name_of_a_part_is_enough(name, topic):
    assert describe(name) == describe(topic)


def test_a_preset_is_a_configuration(capsys):
    import tomllib

    text = printed(capsys, "cho2014")
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
    found = json.loads(printed(capsys, "--json"))
    assert found["lists"]["presets"].keys() == PRESETS.keys()
    assert contents().lists.keys() == found["lists"].keys()


def test_help_texts_of_options_are_taken_from_docstrings():
    text = "A part.\n\nsize: how big\nit is. tie: whether. Note: stays."
    assert split_docstring(text, ["size", "tie"]) == (
        "A part.",
        {"size": "how big it is.", "tie": "whether. Note: stays."},
    )
    assert split_docstring("Only words.", []) == ("Only words.", {})


class Oven:
    """An oven.

    racks: How many racks. heat: From the docstring.
    """

    def __init__(self, *, racks: int = 2, heat: Annotated[float, Doc("From the annotation.")] = 1.0):
        pass


class Bakery:
    """Several ovens.

    ovens: How many ovens. racks: Racks per oven.
    """

    passes_to = Oven

    def __init__(self, *, ovens: int = 3, **oven):
        pass


def test_annotations_go_before_docstrings_and_a_part_before_the_one_it_passes_options_to():
    helps = {option.name: option.help for option in _options_of(Bakery)}
    assert helps == {"racks": "Racks per oven.", "heat": "From the annotation.", "ovens": "How many ovens."}


def test_no_limit_is_shown_where_there_is_none():
    assert not any("inf" in option.range.replace("finite", "") for option in describe("training").options)
