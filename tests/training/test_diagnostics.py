"""Each finding fires on its own case, and none on a healthy training."""

from __future__ import annotations

import math
import random

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from seqwright.data.results import Text
from seqwright.data.task import Item
from seqwright.runs.folder import DIAGNOSED_FROM, Run
from seqwright.training.diagnostics import FEW, findings, first_loss, overfitting
from seqwright.training.run import train
from seqwright.training.validation import Validation


def item(source: str, reference: str, output: str, finish: str = "end") -> Item:
    return Item(source, (reference,), Text(output, 0.0, 0.0, (), (), finish, source=source))


def validation(
    items: list[Item], *, loss: float = 1.0, shuffled: float = 3.0, unknown: float = 0.0
) -> Validation:
    return Validation(loss, shuffled, unknown, (), tuple(items), tuple(item.example for item in items))


GOOD = [item(f"s{n}", f"t{n}", f"t{n}") for n in range(2 * FEW)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("are the same, 'x'", validation([item(i.example, i.references[0], "x") for i in GOOD])),
        ("copy the input", validation([item(i.example, i.references[0], i.example) for i in GOOD])),
        (
            "are empty",
            validation([item(f"s{n}", "t", "" if n < FEW // 2 else f"o{n}") for n in range(2 * FEW)]),
        ),
        (
            "maximum length",
            validation([item(f"s{n}", "t", f"o{n}", "length") for n in range(2 * FEW)]),
        ),
        ("ignores its input", validation(GOOD, shuffled=1.01)),
        ("7 % of the tokens", validation(GOOD, unknown=0.07)),
    ],
)
def test_each_finding_fires_alone(words, found):
    (finding,) = findings(found, 0.5, DIAGNOSED_FROM)
    assert words in finding


def test_good_outputs_have_no_findings():
    assert findings(validation(GOOD), 0.5, DIAGNOSED_FROM) == []


@given(done=st.floats(0, 0.19))
def test_early_outputs_may_be_anything(done):
    bad = [item(f"s{n}", f"t{n}", "x") for n in range(2 * FEW)]
    assert findings(validation(bad, shuffled=1.0), done, 10 * DIAGNOSED_FROM) == []
    assert (
        findings(validation(bad, shuffled=1.0), 1.0, DIAGNOSED_FROM - 1) == []
    )  # a very short training has ended


def test_few_outputs_prove_nothing():
    assert (
        findings(validation([item(f"s{n}", f"t{n}", "x") for n in range(FEW - 1)]), 0.9, DIAGNOSED_FROM) == []
    )


def test_the_same_output_is_right_where_the_references_are_the_same():
    assert (
        findings(validation([item(f"s{n}", "yes", "yes") for n in range(2 * FEW)]), 0.9, DIAGNOSED_FROM) == []
    )


def test_copies_are_right_where_the_task_is_to_copy():
    assert (
        findings(validation([item(f"s{n}", f"s{n}", f"s{n}") for n in range(2 * FEW)]), 0.9, DIAGNOSED_FROM)
        == []
    )


def test_without_a_shuffled_loss_the_source_is_not_diagnosed():
    assert findings(validation(GOOD, shuffled=math.nan), 0.9, DIAGNOSED_FROM) == []


@given(vocabulary=st.integers(5, 100_000))
def test_the_first_loss_is_that_of_guessing(vocabulary):
    guess = math.log(vocabulary)
    assert first_loss(guess, guess) == []
    assert "too large" in first_loss(2 * guess + 1.5, guess)[0]


# In whole trainings ---------------------------------------------------------------------------------


def trained(tmp_path, pairs: list[tuple[str, str]], *changes: str) -> set[str]:
    """All findings of a training."""
    reported: set[str] = set()
    path = tiny.write_pairs(tmp_path / "pairs.tsv", pairs)
    options = ("training.decode=20", "training.validate_every=60", "training.tokens=250", *changes)
    rate = ("training.optimizer.rate=0.01", "training.schedule.warmup=20", "model.dropout=0")
    train(
        tiny.configuration(path, *options, *rate),
        tmp_path / "run",
        listener=lambda report: reported.update(report.findings),
    )
    logged = {line for record in Run.open(tmp_path / "run").records() for line in record.get("findings", ())}
    assert logged == reported
    return reported


def test_a_healthy_training_has_no_findings(tmp_path):
    """Words to their capital letters: learned within seconds."""
    pairs = [(word, word.upper()) for word in tiny.words(300, longest=4)]
    assert trained(tmp_path, pairs, "training.steps=180") == set()


def test_shuffled_pairs_are_noticed(tmp_path):
    pairs = tiny.words(300)
    targets = [word[::-1] for word in pairs]
    random.Random(1).shuffle(targets)
    reported = trained(tmp_path, list(zip(pairs, targets, strict=True)), "training.steps=120")
    assert any("ignores its input" in finding for finding in reported)


def test_an_alphabet_that_training_never_saw_is_noticed(tmp_path):
    greek = str.maketrans(tiny.LETTERS, "αβγδεζ")
    valid = [(word.translate(greek), word[::-1]) for word in tiny.words(30)]
    path = tiny.write_pairs(tmp_path / "valid.tsv", valid)
    pairs = [(word, word[::-1]) for word in tiny.words(200)]
    reported = trained(tmp_path, pairs, f"data.valid={[str(path)]}", "training.steps=10")
    assert any("unknown to the tokenizer" in finding for finding in reported)


def test_a_model_that_learned_to_copy_where_it_should_not_is_noticed(tmp_path):
    valid = tiny.write_pairs(tmp_path / "valid.tsv", [(w, w[::-1] + "f") for w in tiny.words(30, longest=3)])
    pairs = [(word, word) for word in tiny.words(300, longest=3)]
    reported = trained(tmp_path, pairs, f"data.valid={[str(valid)]}", "training.steps=180")
    assert any("copy the input" in finding for finding in reported)


def test_a_training_loss_far_below_the_validation_loss_is_overfitting():
    assert "overfitting: the training loss is 0.03" in overfitting(0.03, 5.3, DIAGNOSED_FROM)[0]
    assert overfitting(1.3, 1.6, DIAGNOSED_FROM) == []
    assert overfitting(0.03, 5.3, DIAGNOSED_FROM - 1) == overfitting(math.nan, 5.3, 1000) == []
