"""A training that is watched is the same training, and what was seen of it is there to be played back."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import tiny
import torch
from tiny import train

from seqwright import cli
from seqwright.config import SearchConfig
from seqwright.data.read_report import Pair, Place
from seqwright.data.results import Text
from seqwright.data.tokenizer import train_tokenizer
from seqwright.errors import ConfigError
from seqwright.lens.trace import history
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.history import TraceHistory, read_learning, thin
from seqwright.models.building import build_model
from seqwright.nn.attention import Attention
from seqwright.prediction.predictor import Predictor, load
from seqwright.runs.folder import Run
from seqwright.tasks.text_to_text import TextToText
from seqwright.training.trainer import Report
from seqwright.training.validation import Item, Validation

RNN = "model={encoder={kind='rnn', size=16}, decoder={kind='rnn', size=16}, tie=false}"
ROOM_FOR_TWO = 90_000  # bytes: so many traces of each of two probes
LETTERS = train_tokenizer("characters", [tiny.LETTERS])


def letters_predictor(model) -> Predictor:
    return Predictor(model, TextToText(LETTERS, LETTERS))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    return tiny.reversals(tmp_path_factory.mktemp("pairs") / "pairs.tsv")


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory) -> Path:
    """Validated, and looked into, at steps 10, 20 and 30."""
    folder = tmp_path_factory.mktemp("watched") / "run"
    train(tiny.configuration(pairs), folder)
    return folder


def files(run: Path) -> dict[str, bytes]:
    """What is in the folder of the traces."""
    folder = run / "traces"
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# It changes nothing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [["model.dropout=0.3"], ["training.average=0"], [RNN]], ids=["average", "no average", "rnn"]
)
def test_the_weights_are_the_same_bit_for_bit(pairs, tmp_path, changes):
    for count in (0, 3):
        config = tiny.configuration(pairs, "training.steps=15", *changes, f"training.traces={count}")
        train(config, tmp_path / str(count))
    assert tiny.digest(tmp_path / "0") == tiny.digest(tmp_path / "3")
    assert not (tmp_path / "0" / "traces").exists()
    assert names(tmp_path / "3" / "traces") == ["probe_1", "probe_2", "probe_3"]


def test_traces_leave_no_state_in_the_model_or_in_torch(pairs, tmp_path, monkeypatch):
    seen, validated = [], TraceHistory.validated

    def state(model) -> list[torch.Tensor]:
        return [torch.get_rng_state(), *(weight.clone() for weight in model.weights().values())]

    def watched(self, model, validation, step):
        model.train()
        before = state(model)
        validated(self, model, validation, step)
        assert all(map(torch.equal, state(model), before))
        assert model.training
        assert not any(part._forward_hooks for part in model.modules())
        attentions = [part for part in model.modules() if isinstance(part, Attention)]
        assert {(part.recorder, part.gate) for part in attentions} == {(None, None)}
        seen.append(step)

    monkeypatch.setattr(TraceHistory, "validated", watched)
    train(tiny.configuration(pairs), tmp_path / "run")
    assert seen == [10, 20, 30]
    assert not [record for record in Run.open(tmp_path / "run").records() if "untraced" in record]


@pytest.mark.parametrize("average", [0.9, 0])
def test_traces_use_the_validated_weights(pairs, tmp_path, average):
    """The last validation is the best, and its weights are those of the run."""
    train(tiny.configuration(pairs, f"training.average={average}"), tmp_path / "run")
    assert Run.open(tmp_path / "run").weights_metadata()["step"] == "30"
    last = read_learning(tmp_path / "run").traces[-1]
    again = load(tmp_path / "run").look(last.text, reference=last.document["reference"]["text"], ablate=False)
    assert last.document["model"] == again.document["model"] | {"step": 30}
    different = {name for name, value in last.document.items() if again.document[name] != value}
    assert different <= {"model", "config", "seed", "branches", "absent"}  # a training goes without branches


def test_without_traces_the_trace_builder_is_not_loaded(pairs, tmp_path):
    def untraced() -> None:
        for name in [name for name in sys.modules if name.startswith("seqwright.lens")]:
            del sys.modules[name]
        train(tiny.configuration(pairs, "training.traces=0"), tmp_path / "run")
        os._exit(7 if any(name.startswith("seqwright.lens.") for name in sys.modules) else 0)

    assert tiny.in_child(untraced) == 0


# Killed, resumed, refused ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thinned(pairs, tmp_path_factory):
    """A training with room for two traces of each of two probes: the configuration, and what is left."""
    folder = tmp_path_factory.mktemp("thinned") / "run"
    ends = ("training.steps=12", "training.validate_every=4")
    config = tiny.configuration(pairs, *ends, "training.traces=2", "training.decode=4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "LIMIT", ROOM_FOR_TWO)
        train(config, folder)
    return config, files(folder)


@pytest.mark.parametrize(
    ("point", "times"),
    [
        ("step_00000004.json:written", 1),
        ("step_00000008.json:renamed", 2),
        ("train:validated", 3),
        ("save:renamed", 4),
        ("train:step", 11),
    ],
)
def test_a_killed_and_resumed_training_ends_with_the_same_files(thinned, tmp_path, monkeypatch, point, times):
    monkeypatch.setattr(history, "LIMIT", ROOM_FOR_TWO)
    config, wanted = thinned
    left = [f"probe_{number}/step_{step:08d}.json" for number in (1, 2) for step in (4, 12)]
    assert sorted(wanted) == left
    killed = tiny.train_and_die(config, tmp_path / "run", tiny.at(point, times, tiny.die))
    assert killed == -signal.SIGKILL
    train(config, tmp_path / "run")
    assert files(tmp_path / "run") == wanted


def test_traces_after_the_resumed_step_are_removed(tmp_path):
    folder = tmp_path / "traces" / "probe_1"
    folder.mkdir(parents=True)
    for name in ("step_00000010.json", "step_00000020.json", ".step_00000030.json.tmp.1234567", "notes.txt"):
        (folder / name).touch()
    kept = TraceHistory(tmp_path / "traces", letters_predictor, SearchConfig(), count=0)
    kept.rewind(10)
    assert names(folder) == ["notes.txt", "step_00000010.json"]


def refuse(point: str) -> None:
    if point.startswith("step_0000") and point.endswith(".json:written"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_for_traces_does_not_stop_the_training(pairs, run, tmp_path, capsys):
    with tiny.hooked(refuse):
        train(tiny.configuration(pairs), tmp_path / "run")
    assert tiny.digest(tmp_path / "run") == tiny.digest(run)
    assert files(tmp_path / "run") == {}
    assert cli.main(["look", str(tmp_path / "run"), "--learning"]) == 3
    assert "No space left" in capsys.readouterr().err


def test_a_part_that_cannot_be_traced_does_not_stop_the_training(pairs, run, tmp_path, monkeypatch):
    def broken(*given, **named):
        raise AttributeError("an encoder from outside has no embedding")

    monkeypatch.setattr("seqwright.lens.trace.build.look", broken)
    reports: list[Report] = []
    train(tiny.configuration(pairs), tmp_path / "run", listener=reports.append)
    assert tiny.digest(tmp_path / "run") == tiny.digest(run)
    reasons = [record.get("untraced") for record in Run.open(tmp_path / "run").records()]
    assert reasons.count("an encoder from outside has no embedding") == 3
    lines = [line for report in reports for line in report.findings]
    assert "no trace was recorded: an encoder from outside has no embedding" in lines


# What is traced, and how much of it -------------------------------------------------------------------


def validation(*sources: str) -> Validation:
    output = Text("", 0.0, 0.0, (), (), "end")
    items = tuple(Item(Pair(source, "abc", Place("", 0)), ("abc",), output) for source in sources)
    return Validation(1.0, 1.0, 0.0, (), items, sources)


def test_long_and_blank_sources_are_skipped(tmp_path):
    size = LETTERS.size
    model = build_model(tiny.TABLE["model"], source_vocabulary=size, target_vocabulary=size)
    kept = TraceHistory(tmp_path / "traces", letters_predictor, SearchConfig(), count=2)
    kept.validated(model, validation("abc" * 20, "fed", "cab"), 5)
    kept.validated(model, validation(" ", "bad", "abc" * 20), 6)
    paths = kept.folder.rglob("*.json")
    found = {str(path.relative_to(kept.folder)): Trace.load(path).text for path in paths}
    assert found == {
        "probe_1/step_00000005.json": "fed",
        "probe_2/step_00000005.json": "cab",
        "probe_1/step_00000006.json": "bad",
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["training.traces=0"], "training.traces is 0"),
        (["training.decode=0"], "training.decode is 0"),
        (["data.train=['{long}']"], "has more than 40 tokens"),
    ],
)
def test_missing_traces_are_explained(pairs, tmp_path, capsys, changes, reason):
    words = [word * 30 for word in tiny.words(60)]
    long = tiny.write_pairs(tmp_path / "long.tsv", [(word, word[:2]) for word in words])
    changes = [change.format(long=long) for change in changes]
    train(tiny.configuration(pairs, "training.steps=2", *changes), tmp_path / "run")
    assert cli.main(["look", str(tmp_path / "run"), "--learning"]) == 3
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def fill(folder: Path, steps: range, limit: int) -> list[int]:
    """The steps that are left when a trace of 10 bytes comes at each of these."""
    folder.mkdir()
    for step in steps:
        (folder / f"step_{step:08d}.json").write_bytes(b"0123456789")
        thin(folder, limit)
    return [int(name[5:13]) for name in names(folder)]


def test_the_remaining_traces_are_spread_over_the_training(tmp_path):
    for last in range(11, 100, 7):
        left = fill(tmp_path / str(last), range(1, last + 1), limit=105)
        gaps = [after - before for before, after in itertools.pairwise(left)]
        assert len(left) == 10
        assert (left[0], left[-1]) == (1, last)
        assert max(gaps) <= 2 * last / 9 + 1
    assert fill(tmp_path / "none", range(1, 5), limit=0) == [1, 4]


def test_interrupted_thinning_is_resumed(tmp_path, monkeypatch):
    wanted = fill(tmp_path / "whole", range(1, 31), limit=1000)
    thin(tmp_path / "whole", 75)
    for times in (0, 1, 5, 12, 22):
        folder = tmp_path / str(times)
        assert fill(folder, range(1, 31), limit=1000) == wanted
        left = times

        def unlink(path: Path) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            os.unlink(path)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink)
            with pytest.raises(KeyboardInterrupt):
                thin(folder, 75)
        thin(folder, 75)
        assert names(folder) == names(tmp_path / "whole")


def test_the_number_of_traced_probes_may_change_up_to_all_probes(pairs, tmp_path):
    train(tiny.configuration(pairs, "training.steps=10"), tmp_path / "run")
    train(tiny.configuration(pairs, "training.steps=20", "training.traces=2"), tmp_path / "run")
    assert names(tmp_path / "run" / "traces" / "probe_2") == ["step_00000020.json"]
    with pytest.raises(ConfigError, match=r"training\.traces is 4"):
        tiny.configuration(pairs, "training.traces=4")


# The command ----------------------------------------------------------------------------------------


def test_a_line_for_each_validation(run, capsys):
    assert cli.main(["look", str(run), "--learning"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["step", "loss"]
    records = tiny.validations(run)
    assert [line.split()[:2] for line in lines] == [
        [str(record["step"]), f"{record['valid_loss']:.3f}"] for record in records
    ]
    assert head.endswith(f"“{records[0]['probes'][0]['source']}”")


def test_a_page_and_the_traces_of_all_validations(run, tmp_path, capsysbinary):
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        assert cli.main(["look", str(run), "--learning", "-o", str(page)]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert cli.main(["look", str(run), "--learning", "--json"]) == 0
    documents = json.loads(capsysbinary.readouterr().out)
    assert [document["model"]["step"] for document in documents] == [10, 20, 30]
    assert len({document["model"]["weights"] for document in documents}) == 3
    assert {document["reference"]["text"] for document in documents} == {documents[0]["text"][::-1]}


def test_a_source_of_several_fields_is_chosen_by_its_line(tmp_path, capsys):
    path = tmp_path / "forms.tsv"
    path.write_text("".join(f"{word}\t{word}s\tN;PL\n" for word in tiny.words(60)), encoding="utf-8")
    changes = ("data.columns='1,3+:2'", "training.steps=2", "training.traces=3")
    train(tiny.configuration(path, *changes), tmp_path / "run")
    folder = str(tmp_path / "run")
    assert cli.main(["look", folder, "nowhere\tN;PL", "--learning"]) == 2
    there = capsys.readouterr().err
    source = tiny.validations(tmp_path / "run")[0]["probes"][1]["source"]
    word = "".join(letter for letter in source if letter in tiny.LETTERS)
    assert repr(f"{word}\tN;PL") in there
    assert cli.main(["look", folder, f"{word}\tN;PL", "--learning"]) == 0
    assert word in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--learning", "--beam", "2"], "--beam cannot be combined with --learning"),
        (["--learning", "--against", "x", "--reference", "y"], "--reference and --against cannot"),
        (["--learning", "zzz"], "'zzz' was not traced"),
        ([], "TEXT is missing"),
    ],
)
def test_refusals_are_one_line(run, capsys, arguments, part):
    assert cli.main(["look", str(run), *arguments]) == 2
    shown = capsys.readouterr()
    assert part in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)
