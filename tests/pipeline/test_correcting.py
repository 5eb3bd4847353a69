"""Fine-tuning on corrections: what is trained on, what is replayed, and the scores before and after."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import tiny

from seqwright import cli
from seqwright.data.corpus import Corpus
from seqwright.data.corrections import CORRECTIONS, SHARE
from seqwright.errors import ConfigError, InputError
from seqwright.pipeline import run_design
from seqwright.pipeline.design import Design, design
from seqwright.serve.corrections import add_correction
from seqwright.training.console import Console

SIZES = {"layers": 1, "size": 16, "hidden": 32, "heads": 2}
QUICK = {"tokens": 256, "accumulate": 1, "validations": 1, "decode": 4, "traces": 0, "save_seconds": 1e6}
MODELS = {
    "text_to_text": {"preset": "tiny", **SIZES},
    "text_classification": {"preset": "tiny-classifier", **SIZES},
    "token_classification": {"preset": "tiny-tagger", **SIZES},
    "language_modeling": {"preset": "tiny-lm", **SIZES},
}
NAMES = ("anna", "bob", "carl", "dora", "emil")


def data_of(task: str) -> list[str]:
    """200 lines of a file for a task; sentence k contains the number k."""
    draw = random.Random(1)
    lines = []
    for number in range(200):
        text = f"{draw.choice(NAMES)} saw {draw.choice(NAMES)} {number}"
        target = {"text_to_text": text.upper(), "token_classification": "N V N C"}
        label = target.get(task, draw.choice(("good", "bad")))
        lines.append(f"{text} .\n" if task == "language_modeling" else f"{text}\t{label}\n")
    return lines


def corrections_of(task: str, count: int = 20) -> list[dict[str, str]]:
    """Corrections of new inputs."""
    inputs = [f"{NAMES[number % 5]} met {number + 500}" for number in range(count)]
    if task == "text_classification":
        return [{"text": text, "label": "bad"} for text in inputs]
    if task == "token_classification":
        return [{"sentence": text, "tags": "N V C"} for text in inputs]
    return [{"source": text, "target": text.title()} for text in inputs]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each task, called like the task."""
    folder = tmp_path_factory.mktemp("corrected")
    for task, model in MODELS.items():
        file = folder / f"{task}.{'txt' if task == 'language_modeling' else 'tsv'}"
        file.write_text("".join(data_of(task)))
        training, search = {**QUICK, "steps": 2}, {"beam": 1, "max_length": 20}
        table = {"task": task, "data": {"train": [str(file)], "held_out": 0.1}, "model": model, "threads": 1}
        run_design(design({**table, "training": training, "search": search}), folder / task, Console(None))
    return folder


def corrected(
    run: Path, corrections: Any, *, out: Path | None = None, steps: int = 2, **tables: Any
) -> Design:
    """A training from a run on corrections, which are a path or JSON objects."""
    if isinstance(corrections, list):
        path = run.parent / f"{random.Random(repr(corrections)).random()}.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in corrections))
        corrections = path
    training = {**QUICK, "steps": steps, **tables.pop("training", {})}
    table = {"start": str(run), "data": {"corrections": str(corrections)}, "training": training, **tables}
    return design({**table, "threads": 1, "search": {"beam": 1, "max_length": 20}}, folder=out)


@pytest.mark.parametrize("task", ["text_to_text", "text_classification", "token_classification"])
def test_training_on_corrections_scores_both_models_on_old_and_new_inputs(
    home: Path, tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = home / task, tmp_path / "new"
    for columns in corrections_of(task):
        add_correction(run, columns, None, 10**6)
    try:
        quick = [f"training.{name}={value}" for name, value in QUICK.items()]
        wanted = [f"start={run}", f"data.corrections={run}", "search.beam=1", "search.max_length=20", *quick]
        assert cli.main(["train", *wanted, "--steps", "3", "--threads", "1", "--out", str(out)]) == 0
    finally:
        (run / CORRECTIONS).unlink()
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    found = json.loads((out / "evaluation.json").read_text())
    old, new = found["corrections"]["old"], found["corrections"]["corrections"]
    assert new["items"] == 4
    assert old["items"] == found["items"]
    assert f"{old['after']:.2f}" == f"{found['metrics'][found['corrections']['metric']]:.2f}"
    before = json.loads((run / "evaluation.json").read_text())["metrics"][found["corrections"]["metric"]]
    assert old["before"] == pytest.approx(before)  # the same split as that of the run
    assert ["items", "before", "after"] in lines
    assert ["held-out", "corrections", "4", f"{new['before']:.2f}", f"{new['after']:.2f}"] in lines
    assert (tmp_path / f"new.{CORRECTIONS}").read_text().count("\n") == 20


def test_a_correction_is_learned(home: Path, tmp_path: Path) -> None:
    """Held-out corrections of the same kind as those that are trained on get their label."""
    made = corrected(
        home / "text_classification",
        corrections_of("text_classification", 40),
        steps=40,
        training={"optimizer": {"rate": 0.01}},
    )
    run_design(made, tmp_path / "new", Console(None))
    scores = json.loads((tmp_path / "new" / "evaluation.json").read_text())["corrections"]
    assert scores["corrections"]["before"] < scores["corrections"]["after"] == 100


def test_a_training_on_corrections_resumes_exactly_while_the_server_adds_more(
    home: Path, tmp_path: Path
) -> None:
    run = home / "text_to_text"
    file = tmp_path / "served.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in corrections_of("text_to_text")))

    def config(name: str) -> Any:
        out = tmp_path / name
        return corrected(run, file, out=out, steps=6).keeping_corrections(out).config

    tiny.train(config("whole"), tmp_path / "whole")
    assert tiny.interrupted(config("parts"), tmp_path / "parts", "train:step", 4) > 0
    with file.open("a") as more:
        more.write('{"source": "later", "target": "Later"}\n')
    resumed = corrected(run, file, out=tmp_path / "parts", steps=6)
    tiny.train(resumed.keeping_corrections(tmp_path / "parts").config, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")
    assert any("for later corrections, train in another folder" in line for line in resumed.lines())
    unchanged = corrected(run, tmp_path / f"parts.{CORRECTIONS}", out=tmp_path / "parts", steps=6)
    assert not any("later corrections" in line for line in unchanged.lines())


def corpus_of(made: Design) -> Corpus:
    return made.survey.corpus


def test_corrections_replace_and_never_leak(home: Path) -> None:
    """The old example of a corrected input is gone, held-out inputs of either kind are not trained on, and
    every other old example is replayed.
    """
    run = home / "text_to_text"
    plain = corpus_of(corrected(run, corrections_of("text_to_text")))
    old = {part: [pair.source for pair in plain.originals(part)] for part in ("train", "valid", "test")}
    sources = [*old["train"][:10], *old["valid"][:1], *old["test"][:1]]
    corrections = [{"source": source, "target": "?"} for source in sources]
    made = corrected(run, [*corrections, {"source": sources[0], "target": "!"}])
    corpus = corpus_of(made)
    trained = {pair.source: pair.target for pair in corpus.examples("train")}
    held_out = [pair.source for pair in corpus.corrections.parts["test"]]
    assert trained[sources[0]] == "!"  # the last correction counts
    assert [*held_out, corpus.corrections.parts["valid"][0].source] == [sources[1], sources[6], sources[3]]
    assert trained.keys().isdisjoint([*held_out, *old["valid"], *old["test"]])
    assert set(old["train"]) - set(sources) <= trained.keys()
    assert [pair.source for pair in corpus.examples("test")] == old["test"]
    text = "\n".join(made.lines())
    assert "12 corrected inputs: 7 for training, 1 for validation, 2 held out" in text
    assert "1 earlier correction of the same inputs left out" in text
    assert all(
        f"1 correction left out: the input is in the {part} split" in text for part in ("validation", "test")
    )


@pytest.mark.parametrize("count", [5, 20, 100])
def test_corrections_are_a_fifth_of_the_training(home: Path, count: int) -> None:
    made = corrected(home / "text_to_text", corrections_of("text_to_text", count))
    corpus = corpus_of(made)
    own = {correction.source for correction in corpus.corrections.parts["train"]}
    examples = list(corpus.examples("train"))
    share = sum(pair.source in own for pair in examples) / len(examples)
    assert share == pytest.approx(SHARE, abs=0.03) if count < 100 else share > SHARE


def test_a_correction_at_the_end_moves_none_of_the_others(home: Path) -> None:
    fewer, more = (
        corpus_of(corrected(home / "text_to_text", corrections_of("text_to_text", count))).corrections.parts
        for count in (20, 33)
    )
    for part in fewer:
        assert [pair[:2] for pair in fewer[part]] == [pair[:2] for pair in more[part][: len(fewer[part])]]


def test_bad_lines_are_counted_and_named(home: Path, tmp_path: Path) -> None:
    good = [json.dumps(each) for each in corrections_of("token_classification")]
    bad = [
        "{",
        "[1]",
        '{"sentence": "a b", "tags": "N"}',
        '{"sentence": "a b"}',
        '{"sentence": 1, "tags": "N"}',
    ]
    file = tmp_path / "c.jsonl"
    file.write_text("\n".join([*good[:3], *bad, *good[3:], '{"sentence": "cut o']))
    made = corrected(home / "token_classification", file)
    text = "\n".join(made.lines())
    assert "20 corrected inputs" in text
    assert "6 bad lines left out:" in text
    assert f"{file}:4: not JSON at column 2" in text
    assert f"{file}:6: 2 words and 1 tag; each word needs one tag" in text
    assert "and 3 more" in text


def test_a_label_that_the_data_does_not_have_is_a_bad_line(home: Path) -> None:
    """Otherwise one mistyped label among the held-out corrections would end the training."""
    corrections = corrections_of("text_classification")
    made = corrected(home / "text_classification", [{"text": "x", "label": "bda"}, *corrections])
    text = "\n".join(made.lines())
    assert "20 corrected inputs" in text
    assert ":1: the label “bda” is not in the training data" in text


def refusal(run: Path, corrections: Any, **tables: Any) -> str:
    with pytest.raises((ConfigError, InputError)) as error:
        corrected(run, corrections, **tables)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_what_cannot_be_trained_on_is_refused_in_one_line(home: Path, tmp_path: Path) -> None:
    pairs, empty = home / "text_to_text", tmp_path / "empty.jsonl"
    assert "has no corrections; run seqwright serve" in refusal(pairs, pairs)
    empty.write_text("\n")
    assert f"{empty} has no corrections" in refusal(pairs, empty)
    empty.write_text("{\n")
    assert f"{empty} has only bad lines ({empty}:1: not JSON" in refusal(pairs, empty)
    assert "does not exist" in refusal(pairs, tmp_path / "none")
    assert "run of language_modeling, which cannot be trained on corrections (text_classification" in refusal(
        home / "language_modeling", home / "language_modeling"
    )
    assert "task is 'text_classification'; corrections are of the outputs of" in refusal(
        pairs, corrections_of("text_to_text"), task="text_classification"
    )
    assert "name its run folder, as in start=RUN" in refusal(
        pairs, corrections_of("text_to_text"), start=None, task="text_to_text"
    )
    assert not list(tmp_path.glob(f"*.{CORRECTIONS}"))


def test_corrections_of_a_corrected_run_are_added_to_its_own(home: Path, tmp_path: Path) -> None:
    """The second round trains on all corrections, and holds the same ones out."""
    task = "text_to_text"
    first = corrected(home / task, corrections_of(task)[:10])
    run_design(first, tmp_path / "first", Console(None))
    second = corpus_of(corrected(tmp_path / "first", corrections_of(task)[10:]))
    assert sum(map(len, second.corrections.parts.values())) == 20
    held_out = [pair.source for pair in corpus_of(first).corrections.parts["test"]]
    assert [pair.source for pair in second.corrections.parts["test"]][: len(held_out)] == held_out


def test_a_short_gentle_training_is_chosen_unless_its_length_is_given(home: Path) -> None:
    table = {"start": str(home / "text_to_text"), "threads": 1}
    file = home / "chosen.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in corrections_of("text_to_text")))
    made = design({**table, "data": {"corrections": str(file)}})
    usual = design({**table, "task": "text_to_text", "data": {"train": [str(home / "text_to_text.tsv")]}})
    rates = [each.config.training.optimizer["rate"] for each in (made, usual)]
    assert rates[0] == pytest.approx(0.5 * rates[1])
    assert made.config.training.minutes is None
    assert made.config.training.epochs == pytest.approx(60 / 3)  # each comes 3 times per epoch
    assert not any("minutes of training" in line for line in made.lines())
