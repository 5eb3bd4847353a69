"""What every task must satisfy, on its toy: those of the package, and one from outside.

A new task in seqwright/tasks is covered without an edit here, once `MODELS` has a small model of its kind.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from seqwright.config import Config, parse
from seqwright.data.corpus import Corpus
from seqwright.data.read_report import ReadReport
from seqwright.data.task import TASKS, group_items, task_class
from seqwright.errors import ConfigError
from seqwright.models.building import build_model
from seqwright.pipeline.design import design, recipe_of
from seqwright.prediction.predictor import Predictor, load
from seqwright.prediction.verification import verify
from seqwright.serve.dispatcher import Dispatcher
from seqwright.serve.host import WorkerThread
from seqwright.serve.inputs import input_roles, read_input
from seqwright.serve.limits import Limits
from seqwright.serve.metrics import Metrics
from seqwright.serve.models import Served
from seqwright.training.preparation import prepare
from seqwright.training.run import check_parts

NAMES = [*TASKS.names(), "vowels:Vowels"]
SMALL = {"layers": 1, "size": 32, "hidden": 64, "heads": 2, "dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {  # by model kind
    "encoder_decoder": {"preset": "tiny", "share": False, **SMALL},
    "decoder_only": {"kind": "decoder_only", **SMALL},
    "encoder_only": {"kind": "encoder_only", **SMALL},
    "forecaster": {"kind": "forecaster", **SMALL},
}
RETRIEVER = {"kind": "dual_encoder", **SMALL}
PARTS = {  # of models, where they are not the default ones
    "masked_language_modeling": {"head": "tokens"},
    "token_classification": {"head": "tags"},
    "image_classification": {"encoder": {"kind": "patches", "patch": 4}},
    "image_captioning": {"encoder": {"kind": "patches", "patch": 4}},
}
KILLED = {  # points at which a training is killed in turn, and after how many times there
    "prepare:train": 1,
    "train:step": 2,
    "save:optimizer.safetensors:writing": 1,
    "train:validated": 2,
}
TRAINING = {"tokens": 256, "validations": 2, "decode": 40, "average": 0.9, "smoothing": 0.0}


def small_model(task: Any) -> dict[str, Any]:
    model = MODELS[task.models[0]]
    name = (task if isinstance(task, type) else type(task)).__module__.rpartition(".")[2]
    return {**model, **PARTS.get(name, {})}


def configuration(name: str, folder: Path, steps: int = 6, **training: Any) -> Config:
    """A small training on the toy of a task."""
    file = toy_file(name, folder)
    options = {**TRAINING, "steps": steps, "optimizer": {"kind": "adamw", "rate": 1e-2}, **training}
    return parse(
        {
            "task": name,
            "data": {"train": [str(file)], "held_out": 0.1},
            "model": small_model(task_class(name)),
            "training": options,
            "search": {"beam": 2},
            "threads": 1,
        }
    )


def toy_file(name: str, folder: Path) -> Path:
    """The toy of a task: lines of cells in the order of the roles, or JSON objects of a single role."""
    task = task_class(name)
    roles = [role.name for role in task.roles]
    file = folder / ("toy.tsv" if len(roles) > 1 else "toy.jsonl")
    lines = ("\t".join(row[role] for role in roles) for row in task.toy(0))
    if len(roles) == 1:
        lines = map(json.dumps, task.toy(0))
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def examples(name: str, folder: Path, part: str = "train") -> list[Any]:
    return list(Corpus.of(configuration(name, folder)).examples(part))


def fitted(name: str, folder: Path) -> Any:
    config = configuration(name, folder)
    return task_class(name).fit(config, lambda: examples(name, folder))


@pytest.mark.parametrize("name", NAMES)
def test_importing_a_task_loads_no_torch(name):
    module = name.partition(":")[0] if ":" in name else f"seqwright.tasks.{name}"
    program = f"import sys, {module}\nprint('torch' in sys.modules)"
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=paths
    )
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("name", NAMES)
def test_a_task_has_roles_with_names_of_their_own_and_a_model(name):
    task = task_class(name)
    assert len({role.name for role in task.roles}) == len(task.roles) > 0
    assert any(role.needed == "train" for role in task.roles)  # the target may be absent in a prediction
    with torch.device("meta"):
        build_model(small_model(task), **task.sample_facts)
    assert callable(recipe_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_the_split_share_no_group(name, tmp_path):
    groups = [
        {task_class(name).group(e) for e in examples(name, tmp_path, part)}
        for part in ("train", "valid", "test")
    ]
    assert all(groups)
    assert sum(map(len, groups)) == len(set().union(*groups))


@pytest.mark.parametrize("name", NAMES)
def test_reading_twice_gives_the_same_examples(name, tmp_path):
    assert examples(name, tmp_path) == examples(name, tmp_path)
    reader = Corpus.of(configuration(name, tmp_path)).reader((str(toy_file(name, tmp_path)),))
    assert len(list(reader.read(ReadReport()))) == len(task_class(name).toy(0))


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_task_loads_with_its_fingerprint(name, tmp_path):
    task = fitted(name, tmp_path)
    (tmp_path / "saved").mkdir()
    task.save(tmp_path / "saved")
    again = task_class(name).load(tmp_path / "saved", configuration(name, tmp_path))
    assert again.fingerprint == task.fingerprint
    rows = examples(name, tmp_path)[:20]
    for one, other in zip(again.encode(rows), task.encode(rows), strict=True):
        assert one.columns.keys() == other.columns.keys()
        assert all(np.array_equal(one.columns[key], other.columns[key]) for key in one.columns)


@pytest.mark.parametrize("name", NAMES)
def test_a_readable_store_gives_examples_back(name, tmp_path):
    prepared = prepare(configuration(name, tmp_path), tmp_path)
    task, known = prepared.task, examples(name, tmp_path, "valid")
    for number, example in enumerate(known):
        found = task.stored(prepared.valid, number)
        assert (task.group(found), task.truth(found)) == (task.group(example), task.truth(example))
    batch = task.batch(prepared.train, np.arange(3), seed=1, epoch=0)
    assert (batch.rows, batch.index.tolist()) == (3, [0, 1, 2])
    assert 0 < batch.count <= batch.tokens
    assert len(task.lengths(prepared.train).counted) == len(prepared.train)


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_scores_best_and_nothing_scores_better(name, tmp_path):
    task = fitted(name, tmp_path)
    firsts, references, order = group_items(task, examples(name, tmp_path))
    assert len(order) == len(examples(name, tmp_path))
    judge = task.judge(firsts, references)
    answers = [known[0] for known in references]
    wrong = answers[1:] + answers[:1]
    for metric in (metric for metric in judge.metrics if metric.reads_answers):
        best, other = (metric.measured(given, references).value() for given in (answers, wrong))
        assert best > other if metric.better == "higher" else best < other
        assert judge.labels[metric.name]


@pytest.mark.parametrize("name", NAMES)
def test_answers_keep_order_and_count_alone_as_in_a_batch(name, tmp_path):
    task = fitted(name, tmp_path)
    torch.manual_seed(0)
    predictor = Predictor(build_model(small_model(task), **task.facts()).eval(), task)
    inputs = [task.to_line(example) for example in examples(name, tmp_path)[:24]]
    together = [each.value for each in predictor.predict(inputs)]
    assert [predictor.predict([line])[0].value for line in inputs] == together
    turned = predictor.predict(inputs[::-1])
    assert [each.value for each in turned] == together[::-1]
    assert [each.source for each in turned] == inputs[::-1]
    json.dumps([each.to_json() for each in turned], allow_nan=False)
    assert predictor(inputs[0]) == together[0]
    assert list(predictor.stream([])) == []
    if not task.usage.traced:
        with pytest.raises(ConfigError, match="look cannot show"):
            predictor.look(inputs[0])


@pytest.mark.parametrize("name", [name for name in NAMES if task_class(name).usage.traced])
def test_a_trace_is_valid_and_its_page_too(name, tmp_path):
    task = fitted(name, tmp_path)
    torch.manual_seed(0)
    predictor = Predictor(build_model(small_model(task), **task.facts()).eval(), task)
    line = task.to_line(examples(name, tmp_path)[0])
    trace = predictor.look(task.prompt(line)[0] if task.usage.prompted else line)
    trace.checked()
    for entry in trace.document.get("attention", ()):
        rows = trace.attention(entry["kind"], entry["layer"]).sum(-1)
        np.testing.assert_allclose(rows, 1.0, atol=1e-3)
    assert trace.page() == predictor.look(line if task.usage.file == "whole" else trace.text).page()


@pytest.mark.parametrize("name", NAMES)
def test_an_endless_iterator_streams(name, tmp_path, monkeypatch):
    monkeypatch.setattr("seqwright.prediction.predictor.BLOCK", 4)
    task = fitted(name, tmp_path)
    predictor = Predictor(build_model(small_model(task), **task.facts()).eval(), task)
    line = task.to_line(examples(name, tmp_path)[0])

    def endless():
        while True:
            yield line

    stream = predictor.stream(endless())
    assert len([next(stream) for _ in range(6)]) == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_training_resumes_exactly(name, tmp_path):
    whole = configuration(name, tmp_path, validate_every=3, save_seconds=1e6)
    tiny.train(whole, tmp_path / "whole")
    assert tiny.interrupted(whole, tmp_path / "parts", "train:step", 4) > 0
    tiny.train(whole, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")


@pytest.mark.parametrize(("name", "model"), [*((name, {}) for name in NAMES), ("conversation", RETRIEVER)])
def test_a_training_killed_again_and_again_ends_the_same(name, model, tmp_path):
    """SIGKILL after data is prepared, in a step, while a checkpoint is written, and after a validation."""
    config = configuration(name, tmp_path, validate_every=3, save_seconds=1e6)
    config = replace(config, model=model or config.model)
    tiny.train(config, tmp_path / "whole")
    for point, times in KILLED.items():
        code = tiny.train_and_die(config, tmp_path / "killed", tiny.at(point, times, tiny.die))
        assert code == -signal.SIGKILL, point
    tiny.train(config, tmp_path / "killed")
    assert tiny.digest(tmp_path / "killed") == tiny.digest(tmp_path / "whole")


@pytest.mark.parametrize("name", NAMES)
def test_the_toy_is_learned_and_the_run_folder_is_complete(name, tmp_path):
    """From the files to a verified folder with a report, through the pipeline that users take."""
    from seqwright.pipeline import run_design
    from seqwright.training.console import Console

    config = configuration(name, tmp_path, steps=250)
    table = config.to_dict()
    designed = design(table, by_recipe=False)
    evaluation = run_design(designed, tmp_path / "run", Console(None))
    first = evaluation.measured[0]
    baseline = evaluation.baseline[first.metric.name]
    ahead = first.value() - baseline if first.metric.better == "higher" else baseline - first.value()
    margin = 20 if first.metric.unit == " %" else 0.3 * baseline
    assert ahead > margin, f"{first.metric.name} {first.value()}, the trivial answer has {baseline}"
    assert [check.name for check in verify(tmp_path / "run") if not check.passed] == []
    for file in ("report.html", "README.md", "evaluation.json", "data.json"):
        assert (tmp_path / "run" / file).stat().st_size
    again = load(tmp_path / "run").evaluate(str(toy_file(name, tmp_path)))
    assert len(again.items) > len(evaluation.items)
    assert str(again)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_another_kind_is_refused(name, tmp_path):
    task = task_class(name)
    other = next(kind for kind in MODELS if kind not in task.models)
    with pytest.raises(ConfigError, match=f"model.kind is '{other}'; .* takes {task.models[0]}"):
        check_parts(replace(configuration(name, tmp_path), model=MODELS[other]))


@pytest.mark.parametrize("name", NAMES)
def test_a_server_answers_as_the_predictor(name, tmp_path):
    """Inputs as JSON records; the options of a check, and greedy search where there is one."""
    task = fitted(name, tmp_path)
    predictor = Predictor(build_model(small_model(task), **task.facts()), task, threads=1)
    roles = [role.name for role in input_roles(task)]
    records = [{role: row[role] for role in roles} for row in task.toy(1)[:7]]
    if task.usage.schema is not None:
        records = [json.loads(task.to_line(example)) for example in examples(name, tmp_path, "valid")[:7]]
    given = [read_input(task, record, 1) for record in records]
    limits = Limits()
    dispatcher = Dispatcher(name, partial(WorkerThread, predictor), limits, Metrics())
    model = Served(name, predictor, limits, dispatcher)
    try:
        for options in (dict(task.judging.options), {"beam": 1} if task.usage.generates else {}):
            wanted = [each.to_json() for each in predictor.predict(given, **options)]
            found = asyncio.run(model.predict(given, options, time.monotonic() + 60))
            assert [each.to_json()["output"] for each in found] == [each["output"] for each in wanted]
    finally:
        dispatcher.close()
