"""One small run for all tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from lm_runs import toy_run
from tiny_runs import make_run, words

from seqwright.prediction.examples import write_examples
from seqwright.prediction.predictor import load


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words to capital letters, called `capitals`."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "capitals")
    write_examples(folder, load(folder), words(4, seed=5))
    return folder


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of characters."""
    return toy_run(tmp_path_factory.mktemp("runs") / "story", "language_modeling", "decoder_only")


@pytest.fixture(scope="session")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of texts."""
    return toy_run(tmp_path_factory.mktemp("runs") / "labels", "text_classification", "encoder_only")


@pytest.fixture(scope="session")
def tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger."""
    folder = tmp_path_factory.mktemp("runs") / "tags"
    return toy_run(folder, "token_classification", "encoder_only", steps=2, head="tags")


@pytest.fixture(scope="session")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A forecaster."""
    return toy_run(tmp_path_factory.mktemp("runs") / "waves", "forecasting", "forecaster", steps=2)


@pytest.fixture(scope="session")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of images."""
    folder, encoder = tmp_path_factory.mktemp("runs") / "squares", {"kind": "patches", "patch": 4}
    return toy_run(folder, "image_classification", "encoder_only", steps=2, encoder=encoder)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
