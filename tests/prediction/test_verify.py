"""Verification: a run folder is complete, and its model still produces the recorded outputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_runs import make_run, words

from seqwright import cli
from seqwright.data.fields import SYMBOL
from seqwright.errors import ModelError
from seqwright.files import sha256
from seqwright.prediction.examples import (
    EXAMPLES,
    Difference,
    RecordedOutput,
    read_examples,
    replay,
    write_examples,
)
from seqwright.prediction.predictor import load
from seqwright.runs.folder import Run
from seqwright.runs.tensors import write_tensors


@pytest.fixture(scope="module")
def complete(tmp_path_factory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("verify") / "run")
    write_examples(folder, load(folder), [*words(10), "", "☃"])
    return folder


@pytest.fixture
def folder(complete, tmp_path) -> Path:
    return shutil.copytree(complete, tmp_path / "run")


def verify(folder: Path, capsys) -> tuple[int, list[dict]]:
    """Return the exit code and the checks. Both output formats must agree."""
    code = cli.main(["verify", str(folder), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is (code == 0)
    assert cli.main(["verify", str(folder)]) == code
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert [line.startswith("ok") for line in lines] == [check["passed"] for check in found["checks"]]
    return code, found["checks"]


def edit(path: Path, change: Callable[[dict], None]) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    change(table)
    path.write_text(json.dumps(table), encoding="utf-8")


def scaled(folder: Path, factor: float) -> None:
    weights = {name: weight * factor for name, weight in Run.open(folder).load_weights().items()}
    with (folder / "model.safetensors").open("wb") as file:
        write_tensors(file, weights)


def test_a_complete_run_passes_every_check(folder, capsys):
    code, checks = verify(folder, capsys)
    assert code == 0
    assert [check["name"] for check in checks] == ["configuration", "tokenizers", "weights", "examples"]
    assert checks[-1]["finding"] == "12 of 12 outputs unchanged"


def test_examples_are_outputs_of_the_model(folder):
    model, recorded = load(folder), read_examples(folder).examples
    for example, output in zip(recorded, model.predict([*words(10), "", "☃"]), strict=True):
        assert (example.source, example.output) == (output.source, output.text)
    assert replay(model, folder) == []


def test_a_changed_output_or_probability_is_a_difference(folder, capsys):
    def change(table: dict) -> None:
        table["examples"][2]["log_prob"] -= 0.01
        table["examples"][5]["output"] = "NO"
        table["examples"][1]["log_prob"] += 0.0005  # within the tolerance

    edit(folder / EXAMPLES, change)
    assert [difference.number for difference in replay(load(folder), folder)] == [3, 6]
    code, checks = verify(folder, capsys)
    assert code == 3
    assert "2 of 12 outputs have changed; example 3" in checks[-1]["finding"]


@pytest.mark.parametrize(
    ("damage", "name", "part"),
    [
        (lambda f: (f / EXAMPLES).unlink(), "examples", "examples.json does not exist"),
        (lambda f: (f / EXAMPLES).write_text('{"format": 9}'), "examples", "format 9"),
        (lambda f: (f / EXAMPLES).write_text('{"examples": [1]}'), "examples", "does not contain examples"),
        (lambda f: edit(f / EXAMPLES, lambda t: t.update(examples=[])), "examples", "has no examples"),
        (lambda f: edit(f / EXAMPLES, lambda t: t.update(weights="")), "examples", "has no SHA-256"),
        (lambda f: edit(f / EXAMPLES, lambda t: t.update(weights=None)), "examples", "has no SHA-256"),
        (lambda f: edit(f / EXAMPLES, lambda t: t.pop("weights")), "examples", "has no SHA-256"),
        (lambda f: (f / "config.json").unlink(), "configuration", "is not a run"),
        (lambda f: edit(f / "config.json", lambda t: t.update(format=9)), "configuration", "format 9"),
        (
            lambda f: edit(f / "config.json", lambda t: t.update(sed=9)),
            "configuration",
            "did you mean 'seed'",
        ),
        (lambda f: (f / "tokenizer.source.json").write_text("{"), "tokenizers", "is not JSON"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x"), "weights", "not a safetensors file"),
        (lambda f: scaled(f, float("nan")), "weights", "has a non-finite value"),
        (lambda f: scaled(f, 1.0001), "examples", "recorded with weights of SHA-256"),
    ],
)
def test_damage_is_named_by_the_check_that_finds_it(folder, damage, name, part, capsys):
    damage(folder)
    code, checks = verify(folder, capsys)
    assert code == 3
    assert (checks[-1]["name"], checks[-1]["passed"]) == (name, False)
    assert part in checks[-1]["finding"]
    assert all(check["passed"] for check in checks[:-1])


def test_other_weights_with_a_matching_hash_are_found_by_their_outputs(folder, capsys):
    scaled(folder, 0.5)
    edit(folder / EXAMPLES, lambda table: table.update(weights=sha256(folder / "model.safetensors")))
    code, checks = verify(folder, capsys)
    assert (code, checks[-1]["name"]) == (3, "examples")
    assert "outputs have changed" in checks[-1]["finding"]


def test_outputs_of_other_types_are_compared_within_the_tolerance():
    recorded = RecordedOutput("a", {"values": [1.0, 2.0], "unit": "kW"})
    assert recorded.agrees(RecordedOutput("a", {"values": [1.0004, 2.0], "unit": "kW"}))
    for other in ({"values": [1.0, 2.01], "unit": "kW"}, {"values": [1.0], "unit": "kW"}, {"unit": "kW"}):
        assert not recorded.agrees(RecordedOutput("a", other))
        assert "'kW'} instead of {" in str(Difference(1, recorded, RecordedOutput("a", other)))


def test_a_run_without_examples_is_refused(folder):
    (folder / EXAMPLES).unlink()
    with pytest.raises(ModelError, match=r"examples\.json does not exist"):
        read_examples(folder)


def test_sources_of_several_fields_can_be_read_again(tmp_path):
    folder = make_run(tmp_path / "run", ending=f"{SYMBOL}V{SYMBOL}PST", data={"columns": "1,3+:2"})
    write_examples(folder, load(folder), [("abc", "V;PST"), f"dd{SYMBOL}V", ("efg", "")])
    assert [example.source for example in read_examples(folder).examples] == ["abc\tV;PST", "dd\tV", "efg\t"]
    assert replay(load(folder), folder) == []


def test_the_number_of_threads_is_within_the_tolerance(folder):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert replay(load(folder), folder) == []
    finally:
        torch.set_num_threads(before)
