"""Two runs and pairs to try them on, made once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import make_run, words


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("evaluated") / "run")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worse one: it has the same weights, but says at most one letter."""
    search = {"beam": 1, "max_length": 1}
    return make_run(tmp_path_factory.mktemp("evaluated") / "other", search=search)


@pytest.fixture(scope="session")
def test_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "test.tsv"
    path.write_text("".join(f"{word}\t{word.upper()}\n" for word in words(40, seed=9)), encoding="utf-8")
    return path
