"""The doctor on labels: what training refuses is an error, what a model cannot learn is a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqwright.config import DataConfig
from seqwright.data.checks.doctor import DoctorReport, diagnose
from seqwright.data.corpus import task_class
from seqwright.errors import InputError
from seqwright.pipeline.design import design

SENTENCE = "{k}a {first}\n{k}b {second}\n\n"


def diagnosed(path: Path, task: str, content: str) -> DoctorReport:
    path.write_text(content)
    return diagnose([str(path)], DataConfig(), task=task_class(task))


def texts(*further: str) -> str:
    rows = [f"text number {k}\t{'good' if k % 2 else 'bad'}" for k in range(40)]
    return "".join(f"{row}\n" for row in (*rows, *further))


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("text_classification", "".join(f"text number {k}\tgood\n" for k in range(40))),
        (
            "token_classification",
            "".join(SENTENCE.format(k=k, first="NOUN", second="NOUN") for k in range(40)),
        ),
    ],
)
def test_one_label_is_an_error_as_in_training(tmp_path, task, content):
    path = tmp_path / "data.conll"
    found = diagnosed(path, task, content)
    (only,) = found.findings
    assert (only.name, only.severity, str(only.places[0])) == ("one_label", "error", f"{path}:1")
    assert "needs at least two labels" in only.way_out
    assert ("--field" in only.way_out) == (task == "token_classification")
    assert found.verdict == "1 error: training would stop at the errors"
    with pytest.raises(InputError, match="at least two"):
        design({"task": task, "data": {"train": [str(path)]}})


def test_a_label_that_occurs_once_is_a_warning_with_its_place(tmp_path):
    found = diagnosed(tmp_path / "a.tsv", "text_classification", texts("a strange one\tstrange"))
    (single,) = found.findings
    assert (single.name, single.severity, single.count) == ("single_labels", "warning", 1)
    assert single.sentence == "labels that occur only once: 1 of 3: strange"
    assert [place.line for place in single.places] == [41]


def test_the_same_text_with_another_label_is_a_warning_with_its_place(tmp_path):
    further = ("text number 4\tgood", "text number 5\tgood")  # the second one repeats its label
    found = diagnosed(tmp_path / "a.tsv", "text_classification", texts(*further))
    (conflict,) = (each for each in found.findings if each.severity == "warning")
    assert (conflict.name, conflict.count) == ("label_conflicts", 1)
    assert conflict.sentence == "texts that occur earlier with another label: 1 (2.4 %)"
    assert [place.line for place in conflict.places] == [41]
    (example,) = conflict.to_json()["examples"]
    assert (example["text"], example["label"]) == ("text number 4", "good")
    assert json.loads(json.dumps(found.to_json()))["findings"]


def test_the_same_sentence_with_other_tags_is_a_warning(tmp_path):
    rows = "".join(SENTENCE.format(k=k, first="NOUN", second="VERB") for k in range(40))
    again = SENTENCE.format(k=3, first="VERB", second="VERB")
    found = diagnosed(tmp_path / "a.conll", "token_classification", rows + again)
    assert ("label_conflicts", "warning", 1) in {
        (each.name, each.severity, each.count) for each in found.findings
    }


def test_data_without_labels_have_no_findings_about_them(tmp_path):
    rows = "".join(f"source {k}\ttarget {k}\n" for k in range(40))
    assert diagnosed(tmp_path / "a.tsv", "text_to_text", rows).findings == ()
