"""Overlap of evaluated items with training and validation data is found and reported."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import pair_store
from tiny_runs import make_run, words

from seqwright.data.store import Ragged
from seqwright.evaluation.train_overlap import known_from, row_hashes
from seqwright.prediction.predictor import Predictor, load

TRAINED = list(dict.fromkeys(words(40, seed=3)))
OTHERS = [word for word in dict.fromkeys(words(240, seed=4)) if word not in TRAINED]
CHOSE, NEW = OTHERS[:30], OTHERS[30:]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A model with prepared data in its run folder."""
    folder = make_run(tmp_path_factory.mktemp("familiar") / "run")
    found = load(folder)
    (folder / "data").mkdir()
    for part, sources in (("train", TRAINED), ("valid", CHOSE)):
        rows = found.task.source.encode_batch(sources)
        pair_store(folder / "data" / part, ((row, row) for row in rows), vocabulary=99)
    return found


def test_exactly_the_training_sources_are_known(model):
    sources = [*TRAINED[::2], *CHOSE, *NEW, "щ", TRAINED[0] + "щ"]
    known = known_from("train", model.folder, model.task, list(model.task.inputs(sources)))
    assert known.tolist() == [source in TRAINED for source in sources]


@pytest.mark.parametrize(("old", "reported"), [(0, False), (1, False), (2, True), (20, True)])
def test_a_large_overlap_with_training_is_reported(model, old, reported):
    pairs = [(word, word.upper()) for word in [*TRAINED[:old], *NEW[: 20 - old]]]
    findings = [line for line in model.evaluate(pairs).findings if "training split" in line]
    assert [line.split(";")[0] for line in findings] == [
        f"items whose source is in the training split: {old} of 20 ({5 * old} %)"
    ] * reported


def test_a_large_overlap_with_validation_is_reported(model):
    pairs = [(word, word.upper()) for word in [*CHOSE[:5], *NEW[:15]]]
    assert model.evaluate(pairs).findings[0] == (
        "items whose source is in the validation split: 5 of 20 (25 %); such scores are a little too good"
    )


def test_nothing_is_reported_without_the_prepared_data(tmp_path: Path):
    model = load(make_run(tmp_path / "run"))
    assert known_from("train", model.folder, model.task.source, TRAINED) is None
    assert model.evaluate([(word, "x") for word in TRAINED[:3]]).findings == ()


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1))
def test_the_hash_of_a_row_does_not_depend_on_its_position(rows):
    together = row_hashes(Ragged.of(rows))
    assert together.tolist() == [int(row_hashes(Ragged.of([row]))[0]) for row in rows]


def test_short_rows_have_different_hashes():
    rows = [list(row) for length in range(1, 6) for row in product(range(6), repeat=length)]
    assert len(np.unique(row_hashes(Ragged.of(rows)))) == len(rows)
