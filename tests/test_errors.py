"""Errors carry their problems, whose keys can be renamed for the reader."""

from __future__ import annotations

import copy

from seqwright.errors import ConfigError, ModelError, Problem

PROBLEM = Problem("n_best", 9, "it must be at most {size}, which is 4")


def test_a_problem_is_one_line():
    assert str(PROBLEM) == "n_best is 9; it must be at most size, which is 4"
    assert str(Problem("name", "{size}", "it must be a word")) == "name is '{size}'; it must be a word"


def test_keys_are_renamed_also_in_the_rule_and_more_than_once():
    error = ConfigError(PROBLEM, "size and n_best are named in a line, which stays")
    flags = {"n_best": "--nbest", "beam": "--beam"}
    renamed = error.renamed({"size": "beam"}).renamed(flags)
    line = "size and n_best are named in a line, which stays"
    assert str(renamed) == f"--nbest is 9; it must be at most --beam, which is 4; {line}"
    assert str(error).startswith("n_best is 9; it must be at most size")
    assert isinstance(renamed, ConfigError)


def test_problems_are_reported_once_each():
    assert str(ConfigError(PROBLEM, "other", PROBLEM)) == f"{PROBLEM}; other"
    assert str(ModelError("only text")) == "only text"


def test_an_error_can_be_copied_with_its_problems():
    """It travels between processes in the same way."""
    error = copy.deepcopy(ConfigError(PROBLEM, "other"))
    assert error.problems == (PROBLEM, "other")
