"""A damaged file is used or refused in one line. It never causes a traceback, a hang or a full memory.

`fuzzing.subjects()` is the table of formats. The message of a failure has the command that repeats its case.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import fuzzing
import numpy as np
import pytest

from seqwright.errors import InputError

SUBJECTS = fuzzing.subjects()
SHOWN = 8  # kinds of failures of a subject


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The folder of all healthy files, which are made once."""
    return tmp_path_factory.mktemp("healthy")


def check(bench: fuzzing.Bench, amount: int, seed: int = 0) -> None:
    kinds = defaultdict(list)
    for failure in fuzzing.run_cases(bench, bench.cases(amount, seed)):
        kinds[failure.details or failure.outcome].append(failure)
    shown = [f"{len(found)} × {found[0]}" for found in kinds.values()]
    if shown:
        pytest.fail("\n\n".join([f"{len(kinds)} kinds of failures", *shown[:SHOWN]]), pytrace=False)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_damaged_file_is_used_or_refused_in_one_line(subject, home):
    check(fuzzing.Bench(subject, home), 12)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_many_damaged_files_are_used_or_refused_in_one_line(subject, home):
    check(fuzzing.Bench(subject, home), 1000, seed=1)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_healthy_files_are_used_without_an_error(subject, home, monkeypatch):
    bench = fuzzing.Bench(subject, home)
    monkeypatch.chdir(bench.folder)
    try:
        subject.use()
        bench.restore()
        assert not subject.command or fuzzing.through_cli(subject.command, 0) is None
    finally:
        bench.restore()


def test_every_file_of_a_run_folder_has_a_use_of_its_own(home):
    """Resuming damages all files, but seldom those that it does not read, and without effect."""
    benches = [fuzzing.Bench(each, home) for each in SUBJECTS if each.folder == "make_run-text_to_text"]
    used = {name for bench in benches if "run/**/*" not in bench.subject.files for name in bench.names}
    assert {name for bench in benches for name in bench.names} == used


def test_the_same_case_has_the_same_damage(home, tmp_path):
    (subject,) = (each for each in SUBJECTS if each.name == "text_to_text-predict")
    first, second = (fuzzing.Bench(subject, folder) for folder in (home, tmp_path))
    for case in first.cases(20, seed=3):
        found = [case.damage(bench.contents[bench.folder / case.file]) for bench in (first, second)]
        assert found[0] == found[1]


def crash() -> None:
    os.kill(os.getpid(), 9)


def loop() -> None:
    while True:
        pass


def fill() -> None:
    np.ones(fuzzing.MEMORY // 8 + 10_000_000)


def spill() -> None:
    raise InputError("two\nlines")


def lose() -> None:
    raise KeyError("lost")


def make() -> None:
    Path("x.json").write_text('{"a": 1}')


@pytest.mark.parametrize(
    ("use", "outcome"),
    [(crash, "killed"), (loop, "took more than"), (fill, "used"), (lose, "KeyError"), (time.gmtime, None)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_bad_outcome_is_found(use, outcome, tmp_path, monkeypatch):
    monkeypatch.setattr(fuzzing, "SECONDS", 0.2 if use is loop else fuzzing.SECONDS)
    bench = fuzzing.Bench(fuzzing.Subject("x", make, ("*",), use), tmp_path)
    failures = fuzzing.run_cases(bench, bench.cases(3))
    assert [failure.case.number for failure in failures] == ([] if outcome is None else [0, 1, 2])
    assert all(outcome in failure.outcome for failure in failures)
    assert Path(bench.folder, "x.json").read_text() == '{"a": 1}'


def test_an_error_of_two_lines_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("seqwright.cli.printable", lambda text: text, raising=False)
    bench = fuzzing.Bench(fuzzing.Subject("x", make, ("*",), spill), tmp_path)
    (failure,) = fuzzing.run_cases(bench, bench.cases(1))
    assert "2 lines" in failure.outcome
    assert replace(failure.case, seed=3).again.endswith("x x.json 0 3")
