"""Data that changes under a training, or that a foreign run names: said, and never scored."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import tiny

from seqwright import cli
from seqwright.data.fingerprints import check_run_data, fingerprints
from seqwright.errors import InputError
from seqwright.pipeline import design, run_design
from seqwright.training.console import Console
from seqwright.training.preparation import prepare


def config_of(pairs: Path):
    return tiny.configuration(pairs, "training.steps=3", "training.traces=0")


def designed(pairs: Path):
    return design(config_of(pairs).to_dict(), by_recipe=False)


def with_other_targets(path: Path) -> None:
    """Replace targets and keep size and time of change of the file."""
    before, text = os.stat(path), path.read_text()
    pairs = (line.split("\t") for line in text.splitlines())
    path.write_text("".join(f"{source}\t{target.upper()}\n" for source, target in pairs))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_grows_between_survey_and_preparation(tmp_path):
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    found = designed(pairs)
    with pairs.open("a") as file:
        file.write("abc\tcba\n" * 50)
    with pytest.raises(
        InputError, match=r"pairs\.tsv changed since it was surveyed; wait until it is complete"
    ):
        run_design(found, tmp_path / "run", Console(None))


def test_a_file_that_changes_while_it_is_surveyed(tmp_path, monkeypatch):
    pairs = tiny.reversals(tmp_path / "pairs.tsv")
    from seqwright.data.checks.statistics import StatisticsBuilder

    add = StatisticsBuilder.add

    def grow(self, *arguments):
        with pairs.open("a") as file:
            file.write("abc\tcba\n")
        monkeypatch.setattr(StatisticsBuilder, "add", add)
        add(self, *arguments)

    monkeypatch.setattr(StatisticsBuilder, "add", grow)
    with pytest.raises(InputError, match="changed while it was read"):
        designed(pairs)


def test_a_file_that_changes_while_it_is_prepared_leaves_no_wrong_store(tmp_path):
    pairs, folder = tiny.reversals(tmp_path / "pairs.tsv"), tmp_path / "run"
    folder.mkdir()
    text, calls = pairs.read_text(), []

    def change() -> None:
        calls.append(1)
        if len(calls) == 4:  # after the tokenizers, in the first store
            with_other_targets(pairs)

    with pytest.raises(InputError, match="changed while it was prepared"):
        prepare(config_of(pairs), folder, change)
    pairs.write_text(text)
    again = prepare(config_of(pairs), folder)
    (tmp_path / "fresh").mkdir()
    fresh = prepare(config_of(pairs), tmp_path / "fresh")
    assert again.train.fingerprint == fresh.train.fingerprint


def test_targets_that_are_replaced_before_the_final_score(tmp_path, capsys):
    pairs, run = tiny.reversals(tmp_path / "pairs.tsv"), tmp_path / "run"
    text = pairs.read_text()
    with pytest.raises(InputError, match=r"pairs\.tsv changed during the training; the model is in"):
        run_design(designed(pairs), run, Console(None), [lambda report: with_other_targets(pairs)])
    assert not (run / "evaluation.json").exists()
    pairs.write_text(text)
    assert run_design(designed(pairs), run, Console(None)) is not None


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    run_design(designed(tiny.reversals(folder / "pairs.tsv")), folder / "run", Console(None))
    return folder


@pytest.mark.parametrize("prepared", [True, False])
def test_targets_that_are_replaced_before_a_later_evaluation(trained, capsys, prepared):
    run, pairs = trained / f"copy{prepared}", trained / "pairs.tsv"
    shutil.copytree(trained / "run", run)
    if not prepared:  # the folder data is not needed to use a model
        shutil.rmtree(run / "data")
    assert cli.main(["evaluate", str(run)]) == 0
    text = pairs.read_text()
    try:
        with_other_targets(pairs)
        for command in (["evaluate", str(run)], ["heads", str(run)]):
            assert cli.main(command) == 2
            assert "is not the file that" in capsys.readouterr().err
        assert (
            cli.main(["evaluate", str(run), str(pairs)]) == 0
        )  # a file that the user names is read as it is
    finally:
        pairs.write_text(text)


@pytest.mark.parametrize("command", ["evaluate", "heads"])
def test_a_foreign_run_cannot_make_a_command_read_any_file(trained, tmp_path, capsys, command):
    secret, run = tmp_path / "secret", Path(shutil.copytree(trained / "run", tmp_path / "run"))
    secret.write_text("password\n")
    config = json.loads((run / "config.json").read_bytes())
    config["data"] |= {"train": [str(secret)], "valid": [], "test": []}
    (run / "config.json").write_text(json.dumps(config))
    inputs = run / "data" / "inputs.json"
    marks = json.loads(inputs.read_bytes())
    known = next(iter(marks.values()))
    mark = fingerprints([str(secret)])[str(secret)]
    for entries in (
        marks,
        {str(secret): known},
        {str(secret): {**mark, "sha256": known["sha256"]}},
        {str(secret): 3},
    ):
        inputs.write_text(json.dumps(entries))
        assert cli.main([command, str(run)]) == 2
        printed = capsys.readouterr()
        assert "password" not in printed.out + printed.err


def test_the_hash_of_a_file_is_reused_only_if_nothing_about_the_file_changed(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    known = fingerprints([str(path)])
    assert fingerprints([str(path)], known) == known
    with_other_targets(path)
    assert fingerprints([str(path)], known) != known
    with pytest.raises(InputError, match="does not record"):
        check_run_data(tmp_path, [str(path)])
