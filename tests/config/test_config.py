"""Configurations: read, overridden, written and read again; all problems are reported at once."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.config import Config, override, parse, read, read_toml, to_toml
from seqwright.errors import ConfigError

STEPS = {"training": {"steps": 5}}

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), words)
scalars = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), words)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


@given(table=st.dictionaries(keys, values, max_size=4))
def test_any_table_comes_back_from_toml(table):
    assert tomllib.loads(to_toml(table)) == table


def test_a_configuration_comes_back_from_toml_and_from_its_table():
    config = parse(
        {
            "data": {"train": ["a.tsv", "é b.tsv"], "columns": "1,3:2"},
            "model": {"preset": "tiny", "layers": 2, "encoder": {"kind": "transformer", "heads": 2}},
            "tokenizer": {"joint": True, "source": {"kind": "bpe", "max_size": 100}},
            "training": {"minutes": 2.5, "optimizer": {"kind": "muon", "betas": [0.9, 0.98]}},
        }
    )
    assert parse(config.to_dict()) == config
    assert parse(read_toml(to_toml(config.to_dict()), "config.toml")) == config


def test_the_default_configuration_is_valid_but_for_its_end():
    with pytest.raises(ConfigError, match="one of steps, epochs and minutes, not none"):
        parse({})
    assert parse(STEPS) == Config(training=parse(STEPS).training)


def test_two_ends_are_refused():
    with pytest.raises(ConfigError, match="not steps and minutes"):
        parse({"training": {"steps": 5, "minutes": 1}})


@pytest.mark.parametrize(
    ("table", "nearest"),
    [
        ({"modle": "tiny"}, "did you mean 'model'"),
        ({"training": {"step": 5}}, "did you mean 'training.steps'"),
        ({"data": {"trian": ["a"]}}, "did you mean 'data.train'"),
        ({"tokenizer": {"jont": True}}, "did you mean 'tokenizer.joint'"),
        ({"search": {"beams": 3}}, "did you mean 'search.beam'"),
    ],
)
def test_31_an_unknown_key_names_the_nearest(table, nearest):
    with pytest.raises(ConfigError, match=nearest):
        parse({**STEPS, **table})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.steps", 0),
        ("training.steps", 2.5),
        ("training.steps", "many"),
        ("training.minutes", math.inf),
        ("training.epochs", math.nan),
        ("training.epochs", -1),
        ("training.tokens", 0),
        ("training.smoothing", 1.0),
        ("training.average", 1.5),
        ("training.clip", 0),
        ("training.clip", math.nan),
        ("training.decode", -1),
        ("training.keep", 0),
        ("training.save_seconds", 0),
        ("data.held_out", 0.5),
        ("data.max_length", 0),
        ("data.train", "pairs.tsv"),
        ("tokenizer.joint", "maybe"),
        ("search.length_penalty", 11),
        ("seed", -1),
        ("seed", 2**63),
        ("threads", 0),
        ("model", 5),
        ("training", 5),
        ("seed", True),
        ("seed", "3"),
        ("training.keep", 2.0),
        ("training.minutes", "5"),
        ("tokenizer.joint", 1),
        ("data.train", [3]),
        ("data.format", "tvs"),
        ("data.delimiter", "::"),
    ],
)
def test_32_types_and_ranges_name_key_and_value(key, value):
    table: dict = {"training": {"validations": 3}}
    *path, last = key.split(".")
    inner = table
    for part in path:
        inner = inner.setdefault(part, {})
    inner[last] = value
    with pytest.raises(ConfigError) as error:
        parse(table)
    assert f"{key} is {value!r}; it must be " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan"])
def test_32_a_time_is_a_finite_number(value):
    rule = "it must be a number, above 0 and finite"
    with pytest.raises(ConfigError, match=rf"training\.minutes is '?(nan|inf)'?; {rule}"):
        parse({"training": {"minutes": value}})


def test_32_all_problems_are_reported_at_once():
    with pytest.raises(ConfigError) as error:
        parse({"training": {"clip": -1, "stepz": 3}, "seed": "x", "model": 3, "colour": "red"})
    message = str(error.value)
    for problem in ("training.clip is -1", "training.stepz", "seed is 'x'", "model is 3", "'colour'"):
        assert problem in message
    assert message.count("model is 3") == 1


def test_32_the_valid_values_still_make_a_configuration():
    table = {"training": {"clip": -1, "steps": 3, "optimizer": 5}, "model": 3, "search": 7, "seed": 4}
    config, problems = read(table)
    assert len(problems) == 4
    assert "search is 7; it must be a table" in problems
    assert (config.seed, config.training.steps, config.training.clip) == (4, 3, 1.0)
    assert (config.model, config.training.optimizer, config.search.beam) == ("tiny", "adamw", 5)


def test_32_contradicting_ends_are_reported_with_other_problems():
    with pytest.raises(ConfigError, match=r"seed is 'x'.*not steps and minutes"):
        parse({"seed": "x", "training": {"steps": 1, "minutes": 2}})
    with pytest.raises(ConfigError) as error:
        parse({"training": {"steps": 0}})
    assert "needs one of" not in str(error.value)


def test_a_metric_of_outputs_needs_outputs():
    with pytest.raises(ConfigError, match=r"training\.decode is 0"):
        parse({"training": {"steps": 1, "metric": "exact_match", "decode": 0}})


def test_a_part_without_its_name_is_of_the_default_kind():
    config = parse({"model": {"layers": 2}, "training": {"steps": 1, "optimizer": {"rate": 0.1}}})
    assert config.model == {"preset": "tiny", "layers": 2}
    assert config.training.optimizer == {"kind": "adamw", "rate": 0.1}
    described = {"encoder": {"kind": "rnn"}, "decoder": {"kind": "rnn"}}
    assert parse({**STEPS, "model": described}).model == described


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        (["a.b=3"], {"a": {"b": 3}}),
        (["a = 1e-4"], {"a": 1e-4}),
        (["a=1e4"], {"a": 10_000}),
        (["a=true", "a=false"], {"a": False}),
        (["a=no"], {"a": "no"}),
        (["a=[1, 2]"], {"a": [1, 2]}),
        (['a="3"'], {"a": "3"}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=1\nb=2"], {"a": "1\nb=2"}),
        (["model=small", "model.layers=2"], {"model": {"preset": "small", "layers": 2}}),
        (["optimizer=muon", "optimizer.rate=1"], {"optimizer": {"kind": "muon", "rate": 1}}),
    ],
)
def test_overrides(assignments, expected):
    assert override({}, assignments) == expected


def test_an_exponent_makes_a_whole_number_and_a_point_a_float():
    assert [type(override({}, [f"a={text}"])["a"]) for text in ("1e4", "1.0e4", "2.0")] == [int, float, float]


def test_a_wrong_word_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"tsv or csv or jsonl; did you mean 'tsv'\?"):
        parse({**STEPS, "data": {"format": "tvs"}})


def test_the_task_comes_first_and_old_configurations_have_the_default():
    assert next(iter(parse(STEPS).to_dict())) == "task"
    assert parse(STEPS).task == "text_to_text"
    assert parse({**STEPS, "task": "language_modeling"}).task == "language_modeling"


def test_overriding_leaves_the_table_as_it_was():
    table = {"a": {"b": 1}}
    assert override(table, ["a.b=2", "a.c=3"]) == {"a": {"b": 2, "c": 3}}
    assert table == {"a": {"b": 1}}


@pytest.mark.parametrize("wrong", ["steps", "=3", " =3"])
def test_overrides_must_be_assignments(wrong):
    with pytest.raises(ConfigError, match="is not key=value"):
        override({}, [wrong])


def test_a_value_is_not_a_table():
    with pytest.raises(ConfigError, match="steps is 5, not a table"):
        override(STEPS, ["training.steps.more=3"])


def test_34_invalid_toml_is_reported_with_its_file():
    for text in ("a = ", "a = 1\na = 2", "[a]\nb = 1\n[a]\nc = 2"):
        with pytest.raises(ConfigError, match=r"my\.toml is not TOML"):
            read_toml(text, "my.toml")


def test_dates_and_paths_are_texts():
    """TOML has dates, and Python has paths; a configuration has neither."""
    table = override(
        read_toml("start = 2024-01-31", "x"), ["model.preset=07:30:00", "data.train=[2024-02-01]"]
    )
    assert table == {
        "start": "2024-01-31",
        "model": {"preset": "07:30:00"},
        "data": {"train": ["2024-02-01"]},
    }
    assert override({"start": Path("runs", "a")}, []) == {"start": "runs/a"}
