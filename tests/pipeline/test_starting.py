"""Fine-tuning across tasks: an encoder and its tokenizer are taken over as they are, the rest is new."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import tiny
import torch

from seqwright import cli, load
from seqwright.data.batch import Tokens
from seqwright.data.task import TASKS, Learning
from seqwright.errors import ConfigError, ModelError
from seqwright.models.building.transfer import as_encoder
from seqwright.pipeline import run_design
from seqwright.pipeline.design import design
from seqwright.training.console import Console
from seqwright.training.warm_start import Start, taken_parts, warm_start

SIZES = {"layers": 2, "size": 16, "hidden": 32, "heads": 2}
SENTENCES = ("anna saw the {} film", "bob read a {} book", "the play was {} today")
WORDS = {"good": ("great", "lovely", "superb"), "bad": ("awful", "poor", "sad")}
STARTS = {  # the task and the model of each start
    "mlm": ("masked_language_modeling", {"preset": "tiny-mlm", **SIZES}),
    "lm": ("language_modeling", {"preset": "tiny-lm", **SIZES}),
    "lstm": ("language_modeling", {"preset": "lstm-lm", "size": 16}),
    "classes": ("text_classification", {"preset": "tiny-classifier", **SIZES}),
    "pairs": ("text_to_text", {"preset": "tiny", **SIZES, "share": False}),
    "tags": ("token_classification", {"preset": "tiny-tagger", **SIZES}),
}
QUICK = {"tokens": 256, "accumulate": 1, "validations": 1, "decode": 4, "traces": 0}
SEARCH = {"beam": 1, "max_length": 20}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data file for each task, and a run of each start."""
    folder, draw = tmp_path_factory.mktemp("starts"), random.Random(1)
    rows = []
    for _ in range(400):
        label = draw.choice(list(WORDS))
        rows.append((draw.choice(SENTENCES).format(draw.choice(WORDS[label])), label))
    (folder / "plain.txt").write_text("".join(f"{text}\n" for text, _ in rows))
    (folder / "labels.tsv").write_text(
        "".join(f"{text} no. {k}\t{label}\n" for k, (text, label) in enumerate(rows))
    )
    (folder / "pairs.tsv").write_text(
        "".join(f"{text} {k}\t{text.upper()}\n" for k, (text, _) in enumerate(rows))
    )
    (folder / "tags.tsv").write_text(
        "".join(f"{text} {k}\t{' '.join(['W'] * len(text.split()))} N\n" for k, (text, _) in enumerate(rows))
    )
    for name, (task, model) in STARTS.items():
        table = {"task": task, "data": {"train": [file_of(folder, task)]}, "model": model, "threads": 1}
        made = design({**table, "search": SEARCH, "training": {**QUICK, "steps": 2}})
        run_design(made, folder / name, Console(None))
    return folder


def file_of(folder: Path, task: str) -> str:
    names = {
        "text_classification": "labels.tsv",
        "text_to_text": "pairs.tsv",
        "token_classification": "tags.tsv",
    }
    return str(folder / names.get(task, "plain.txt"))


def designed(home: Path, start: str, task: str, steps: int = 1, **tables):
    training = {**QUICK, "steps": steps, **tables.pop("training", {})}
    data = {"train": [file_of(home, task)]}
    given = {"task": task, "data": data, "start": str(home / start), "threads": 1, "training": training}
    return design({**given, "search": SEARCH, **tables})


def encoded(model, ids: list[int]) -> torch.Tensor:
    """The vectors of the encoder, or of the decoder of a language model."""
    with torch.inference_mode():
        if hasattr(model, "encoder"):
            return model.encoder(Tokens(torch.tensor([ids]))).hidden
        return model.decoder(torch.tensor([ids]), model.start(1))[0]


CROSSINGS = [
    ("mlm", "text_classification"),
    ("lm", "text_classification"),
    ("lstm", "text_classification"),
    ("pairs", "text_classification"),
    ("mlm", "token_classification"),
    ("mlm", "text_to_text"),
    ("classes", "text_to_text"),
    ("classes", "masked_language_modeling"),
    ("lm", "masked_language_modeling"),
]


@pytest.mark.parametrize(("start", "task"), CROSSINGS)
def test_an_encoder_reads_as_before(home: Path, tmp_path: Path, start: str, task: str) -> None:
    """Before anything is learned, the vectors of old texts are those of the start, by the same ids."""
    made = designed(home, start, task, training={"optimizer": {"rate": 1e-12}})
    run_design(made, tmp_path / "new", Console(None))
    old, new = load(home / start), load(tmp_path / "new")
    text = "anna saw the lovely book"
    ids = old.task.reads.encode(text)
    assert new.task.reads.encode(text) == ids
    assert new.task.reads.size >= old.task.reads.size
    torch.testing.assert_close(encoded(new.model, ids), encoded(old.model, ids))
    record = json.loads((tmp_path / "new" / "start.json").read_text())
    assert (record["run"], record["task"]) == (str(home / start), STARTS[start][0])
    counts = {**record["taken"], **record["new"]}
    assert list(record["taken"]) == ["encoder"]
    assert sum(counts.values()) == new.parameters
    texts = [choice["what"] for choice in json.loads((tmp_path / "new" / "data.json").read_text())["choices"]]
    assert any(text.startswith(f"tokenizer of {home / start}, ") for text in texts)
    assert any(f" of {home / start}" in text and " parameters" in text for text in texts)
    assert any(text.startswith("new ") for text in texts)


def test_a_training_with_a_start_resumes_exactly(home: Path, tmp_path: Path) -> None:
    config = designed(home, "mlm", "text_classification", steps=6, training={"save_seconds": 1e6}).config
    tiny.train(config, tmp_path / "whole")
    assert tiny.interrupted(config, tmp_path / "parts", "train:step", 4) > 0
    tiny.train(config, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")


def test_what_is_taken_over_learns_slowly(home: Path) -> None:
    made = designed(home, "mlm", "text_classification")
    assert made.config.training.optimizer["part_rates"] == {"encoder": 0.5}
    assert made.config.training.schedule["warmup"] == 50
    assert made.config.model["encoder"]["dropout"] <= 0.2
    own = designed(home, "mlm", "text_classification", model={"dropout": 0.4})
    assert own.config.model["encoder"]["dropout"] == 0.4


def test_a_text_is_as_long_as_the_tokenizer_of_the_start_makes_it(home: Path) -> None:
    pieces, characters = (designed(home, start, "text_classification") for start in ("mlm", "lm"))
    assert characters.config.data.max_length > 1.5 * pieces.config.data.max_length


@pytest.mark.parametrize(
    ("tokenizer", "start"), [(None, "mlm"), (None, "lm"), ("bpe", None), ("characters", None)]
)
def test_a_tagger_reads_whole_sentences_by_their_pieces(home, tmp_path, tokenizer, start) -> None:
    """A sentence of 3 words may have 30 pieces; a tagger that spells its words counts words."""
    names = ["bartholomew", "wilhelmina", "quetzalcoatl", "xylophone", "jacqueline"]
    rows = [f"{name} {k} {other}\tW N W\n" for k in range(60) for name in names for other in names[:2]]
    (tmp_path / "tags.tsv").write_text("".join(rows))
    table = {"data": {"train": [str(tmp_path / "tags.tsv")]}, "task": "token_classification", "threads": 1}
    table |= {"start": str(home / start)} if start else {}
    table |= {"tokenizer": {"source": {"kind": "bpe", "max_size": 40}}} if tokenizer == "bpe" else {}
    made = design({**table, "training": {**QUICK, "steps": 1}, "model": {"size": 16} if not start else {}})
    if tokenizer == "characters":
        assert made.config.data.max_length == 16
    run_design(made, tmp_path / "run", Console(None))
    notes = [json.loads(path.read_text()) for path in (tmp_path / "run").rglob("*_left_out.json")]
    assert [note["left_out"] for note in notes] == [0] * len(notes)
    assert notes


def test_inputs_fit_the_positions_of_the_start(home: Path, tmp_path: Path) -> None:
    model = {"preset": "tiny-mlm", **SIZES, "position": {"kind": "learned", "length": 12}}
    table = {
        "task": "masked_language_modeling",
        "data": {"train": [str(home / "plain.txt")], "max_length": 12},
    }
    made = design({**table, "model": model, "threads": 1, "training": {**QUICK, "steps": 1}})
    run_design(made, tmp_path / "short", Console(None))
    assert designed(home, str(tmp_path / "short"), "text_classification").config.data.max_length == 11


def test_the_preset_of_another_encoder_gives_only_its_head(home: Path, tmp_path: Path) -> None:
    """tiny-classifier has a convolution below its encoder, which a masked model does not have."""
    asked = {"preset": "tiny-classifier", "head": {"pooling": "attention"}}
    made = designed(home, "mlm", "text_classification", model=asked)
    run_design(made, tmp_path / "new", Console(None))
    model = load(tmp_path / "new").model
    assert model.encoder.neighbours is None
    assert hasattr(model.head.pooling, "query")


# Refusals


@pytest.mark.parametrize(
    ("start", "task", "tables", "message"),
    [
        (
            "mlm",
            "text_classification",
            {"model": {"size": 32}},
            r"mlm has another encoder \(size: 16 -> 32\)",
        ),
        ("mlm", "text_classification", {"model": {"encoder": "rnn"}}, 'kind: "transformer" -> "rnn"'),
        ("mlm", "language_modeling", {}, "language_modeling has no encoder, so it cannot start from .*mlm"),
        ("nothing", "text_classification", {}, "the folder .*nothing does not exist"),
        ("plain.txt", "text_classification", {}, "is a file, not a run"),
        (
            "tags",
            "text_classification",
            {},
            "a run of token_classification, which does not read plain",
        ),
        ("mlm", "text_classification", {"tokenizer": {"source": "words"}}, "reads with its own tokenizer"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(home, tmp_path, start, task, tables, message) -> None:
    with pytest.raises((ModelError, ConfigError), match=message) as caught:
        run_design(designed(home, start, task, **tables), tmp_path / "new", Console(None))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_an_unfinished_run_is_no_start(home: Path, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_bytes((home / "mlm" / "config.json").read_bytes())
    with pytest.raises(ModelError, match="half has no weights yet; finish its training"):
        designed(home, str(tmp_path / "half"), "text_classification")


def test_only_tasks_that_read_text_take_over_from_each_other(home: Path, tmp_path: Path, monkeypatch) -> None:
    made = designed(home, "mlm", "text_classification")
    monkeypatch.setattr(TASKS.get("masked_language_modeling"), "reads", None)
    with pytest.raises(ModelError, match="which does not read plain text; text_classification cannot"):
        run_design(made, tmp_path / "new", Console(None))
    monkeypatch.setattr(TASKS.get("text_classification"), "learning", Learning())
    with pytest.raises(ModelError, match="text_classification can only start from a run of text_class"):
        run_design(made, tmp_path / "new", Console(None))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "ensemble"}, "a model of the kind ensemble has no encoder"),
        ({"kind": "decoder_only", "decoder": {"kind": "rnn"}}, "recurrent with a feed or a readout"),
    ],
)
def test_models_without_an_encoder_have_none_to_take_over(model, message) -> None:
    with pytest.raises(ModelError, match=message):
        as_encoder(model)


def test_new_labels_get_rows_of_the_new_model(home: Path, tmp_path: Path) -> None:
    """Fine-tuning on the same task: a new label is not a copy of an old one."""
    lines = (home / "labels.tsv").read_text().replace("lovely", "odd").replace("\tgood", "\tmixed")
    (tmp_path / "more.tsv").write_text(lines)
    table = {"data": {"train": [str(tmp_path / "more.tsv")]}, "start": str(home / "classes"), "threads": 1}
    made = design({**table, "training": {**QUICK, "steps": 1, "optimizer": {"rate": 1e-12}}})
    run_design(made, tmp_path / "new", Console(None))
    old, new = (load(path).model.head.linear.weight for path in (home / "classes", tmp_path / "new"))
    assert (len(old), len(new)) == (2, 3)
    torch.testing.assert_close(new[:2], old)
    assert (new[2] - old).abs().max() > 0.1 * old.std()


def test_the_command_prints_what_it_takes_over(home: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(home)
    options = ["--steps", "2", "--threads", "1", "training.accumulate=1", "--out", str(tmp_path / "run")]
    assert cli.main(["train", "labels.tsv", "start=mlm", *options]) == 0
    printed = capsys.readouterr().err
    assert "encoder of mlm, " in printed
    assert "new head, classes: mlm has the head tokens" in printed
    assert "0.5 times the rate for the encoder" in printed
    assert cli.main(["train", "labels.tsv", "start=mlm", *options]) == 0
    assert cli.main(["verify", str(tmp_path / "run")]) == 0


def test_weights_that_are_missing_are_named(home: Path) -> None:
    config = designed(home, "mlm", "text_classification").config
    start = Start.open(home / "mlm")
    assert taken_parts(start, config) == {"encoder.": "encoder."}
    model = load(home / "classes").model  # it has a convolution
    with pytest.raises(ModelError, match=r"has other weights than this model: .*neighbours"):
        warm_start(model, start, config)
