"""Trainings of classifiers and language models are traced like others, and are the same trainings."""

from __future__ import annotations

import pytest
import tiny
from read_off import TASKS, toy_configuration

from seqwright import cli
from seqwright.lens.trace.history import MAX_OUTPUT, read_learning
from seqwright.runs.folder import Run

every_task = pytest.mark.parametrize("task", TASKS)


@every_task
def test_a_traced_training_is_the_same_training(task, tmp_path, capsys):
    for name, traces in (("traced", 2), ("plain", 0)):
        tiny.train(toy_configuration(task, tmp_path, traces=traces), tmp_path / name)
    assert tiny.digest(tmp_path / "traced") == tiny.digest(tmp_path / "plain")
    assert not [record for record in Run.open(tmp_path / "traced").records() if "untraced" in record]
    found = read_learning(tmp_path / "traced")
    assert [trace.document["model"]["step"] for trace in found.traces] == [6, 12]
    assert len(found.traces[0].document["steps"]) <= MAX_OUTPUT + 1
    assert cli.main(["look", str(tmp_path / "traced"), "--learning", "-o", str(tmp_path / "x.html")]) == 0
    assert cli.main(["look", str(tmp_path / "traced"), found.traces[0].text, "--learning"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3  # a title, and a line per validation


@every_task
def test_a_resumed_training_has_the_same_traces(task, tmp_path):
    config = toy_configuration(task, tmp_path, save_seconds=1e6)
    tiny.train(config, tmp_path / "whole")
    assert tiny.interrupted(config, tmp_path / "parts", "train:step", 9) > 0
    tiny.train(config, tmp_path / "parts")
    texts = [[one.to_bytes() for one in read_learning(tmp_path / name).traces] for name in ("whole", "parts")]
    assert texts[0] == texts[1]
