"""Language modelling: texts come back exactly, windows and samples are functions of their seeds, and every
token is scored once with its context.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.corpus import Corpus
from seqwright.data.fingerprints import fingerprints
from seqwright.data.language_results import Surprise
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.texts import PASSAGE, open_texts
from seqwright.data.tokenizer import END
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.comparison import compare
from seqwright.evaluation.evaluate import Judging, evaluate
from seqwright.evaluation.metrics import METRICS
from seqwright.models.building import build_model
from seqwright.pipeline.design import design
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.language_modeling import LanguageModeling
from seqwright.training.preparation import prepare

SMALL = {"layers": 2, "size": 32, "hidden": 64, "heads": 2, "dropout": 0.0}
POEM = "Tyger Tyger, burning bright,\nIn the forests of the night;\n\n  What immortal hand\tor eye,\n" * 200


def configuration(file, tokenizer="characters", window=32, **data):
    return parse(
        {
            "task": "language_modeling",
            "data": {"train": [str(file)], "held_out": 0.1, "max_length": window, **data},
            "tokenizer": {"source": tokenizer},
            "model": {"preset": "tiny-lm", **SMALL},
            "training": {"steps": 4, "tokens": 128, "smoothing": 0.0, "decode": 2},
            "threads": 1,
        }
    )


def passages(*paths, **data):
    return list(open_texts([str(path) for path in paths], DataConfig(**data)).read(ReadReport()))


@pytest.fixture
def poem(tmp_path):
    file = tmp_path / "poem.txt"
    file.write_text(POEM)
    return file


def fitted(file, tokenizer="characters", window=32):
    config = configuration(file, tokenizer, window)
    return LanguageModeling.fit(config, lambda: Corpus.of(config).examples("train"))


def predictor(file, **options):
    task = fitted(file, **options)
    torch.manual_seed(0)
    model = build_model({"preset": "tiny-lm", **SMALL, "zero_start": False}, **task.facts()).eval()
    return Predictor(model, task)


# Reading


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["word", " ", "\n", "\n\n", "x" * 700, "é", "\t", "字"]), max_size=400))
def test_the_passages_of_a_text_are_the_text(tmp_path_factory, parts):
    text, file = "".join(parts), tmp_path_factory.mktemp("texts") / "a.txt"
    file.write_text(text, encoding="utf-8")
    found = passages(file)
    assert "".join(passage.text for passage in found) == (text if text.strip() else "")
    assert all(0 < len(passage.text) <= PASSAGE for passage in found)
    assert [passage.ends for passage in found] == [False] * (len(found) - 1) + [True] * bool(found)
    assert [passage.before for passage in found[1:]] == [passage.text for passage in found[:-1]]
    lines = "".join(passage.text for passage in found[:-1]).count("\n")
    assert not found or found[-1].place.line == 1 + lines


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["word", " ", "\n", "\n\n", "\n \n", "x" * 700, "é"]), max_size=200))
def test_blank_lines_separate_documents_if_requested(tmp_path_factory, parts):
    text, file = "".join(parts), tmp_path_factory.mktemp("texts") / "a.txt"
    file.write_text(text, encoding="utf-8")
    found = passages(file, documents="blank_lines")
    documents, lines = [""], [0]
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            lines[-1] = lines[-1] or number
            documents[-1] += f"{line}\n"
        elif documents[-1]:
            documents.append("")
            lines.append(0)
    read, starts = [""], []
    for passage in found:
        starts += [] if read[-1] else [passage.place.line]
        read[-1] += passage.text
        assert bool(passage.before) == (passage.text != read[-1])
        read += [""] if passage.ends else []
    expected = [document for document in documents if document]
    ended = text.endswith("\n") or not documents[-1]
    assert "".join(read) == "".join(expected)[: None if ended else -1]
    assert len(read) - 1 == len(expected)
    assert starts == [line for line in lines if line]


def test_folders_archives_and_json_lines_are_documents(tmp_path):
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.md").write_text("# Title\n\nText\n")
    (folder / "more" / "b.txt.gz").write_bytes(gzip.compress(b"packed\r\nlines\n"))
    (folder / "c.jsonl").write_text('{"text": "one\\ntwo"}\n\n{"text": " "}\n{"text": "three"}\n')
    (folder / "picture.png").write_bytes(b"\0\1")
    (folder / ".hidden.txt").write_text("hidden")
    report = ReadReport()
    reader = open_texts([str(folder)], DataConfig())
    found = list(reader.read(report))
    assert [each.text for each in found] == ["# Title\n\nText\n", "one\ntwo", "three", "packed\nlines\n"]
    assert all(each.ends for each in found)
    assert "1 file of other kinds ignored" in "; ".join(reader.form)
    assert len(report.summary()) == 2  # the blank text, and the carriage return
    before = fingerprints([str(folder)])
    (folder / "a.md").write_text("# Other\n")
    assert fingerprints([str(folder)]) != before


def test_a_line_of_50_megabytes_is_read_in_pieces(tmp_path):
    file = tmp_path / "line.txt"
    file.write_bytes("日本 ".encode() * (50_000_000 // 7))
    found = passages(file)
    assert sum(len(passage.text) for passage in found) == 3 * (50_000_000 // 7)
    assert max(len(passage.text) for passage in found) <= PASSAGE


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_text_is_refused(tmp_path, content, capsys):
    (tmp_path / "empty.txt").write_text(content)
    command = [
        "train",
        str(tmp_path / "empty.txt"),
        "--task",
        "language_modeling",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.main(command) == 2
    assert "has 0 distinct passages" in capsys.readouterr().err
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="no files that end in"):
        passages(tmp_path / "nothing")


def test_the_last_part_of_the_text_is_held_out(poem):
    corpus = Corpus.of(configuration(poem))
    parts = ["".join(e.text for e in corpus.examples(part)) for part in ("train", "valid", "test")]
    assert "".join(parts) == POEM
    assert all(parts)


# Tokens


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "words", "bpe", "unigram"])
def test_the_ids_of_passages_are_those_of_the_text_and_come_back(poem, tokenizer):
    task = fitted(poem, tokenizer if tokenizer != "bpe" else {"kind": "bpe", "max_size": 120})
    ids = [token for passage in passages(poem) for token in task.ids(passage)]
    assert ids[-1] == END
    assert task.text(ids[:-1]) == POEM
    (whole,) = task.exact_ids([POEM])
    assert whole == ids[:-1] or tokenizer == "unigram"  # a longer context may segment differently
    for text in (" bright", "\nIn", "  What", "the night"):
        assert task.text(task.exact_ids([text])[0]) == text or tokenizer == "words"


def test_a_tokenizer_that_loses_line_ends_is_refused(poem):
    with pytest.raises(ConfigError, match="loses line ends"):
        LanguageModeling.check(configuration(poem, "symbols"))


# Windows


def test_windows_are_a_function_of_seed_and_epoch(poem, tmp_path):
    prepared = prepare(configuration(poem), tmp_path)
    task, numbers = prepared.task, np.array([2, 0])
    one, again, other = (task.batch(prepared.train, numbers, seed=1, epoch=e) for e in (0, 0, 1))
    assert torch.equal(one.target.ids, again.target.ids)
    assert not torch.equal(one.target.ids, other.target.ids)
    assert torch.equal(one.target.ids[:, 1:], one.expected[:, :-1])
    alone = task.batch(prepared.train, numbers[1:], seed=1, epoch=0)
    assert torch.equal(alone.target.ids[0], one.target.ids[1])
    assert one.target.ids.shape == (2, 32)
    text = task.text(one.target.ids[0].tolist())
    assert text in POEM


def test_a_text_shorter_than_the_window_is_trained_on(tmp_path):
    file = tmp_path / "short.txt"
    file.write_text(POEM[:3000])
    config = configuration(file, window=5000, held_out=0.3)
    prepared = prepare(config, tmp_path)
    batch = prepared.task.batch(prepared.train, np.arange(len(prepared.train)), seed=1, epoch=0)
    assert batch.target.ids.shape[1] == len(prepared.train.column("text").flat) - 1


# Scores


def test_every_token_is_scored_once_as_by_the_model_alone(poem):
    model = predictor(poem, window=64)
    text = POEM[:40]
    found = model.score(text)
    ids = [*model.task.start, *model.task.exact_ids([text])[0]]
    with torch.inference_mode():
        hidden, _ = model.model.decoder(torch.tensor([ids[:-1]]), model.model.start(1))
        expected = model.model.output(hidden).log_softmax(-1)[0, range(len(ids) - 1), ids[1:]]
    assert found.token_scores == pytest.approx(expected.tolist(), abs=1e-5)
    assert found.log_prob == float(found) == pytest.approx(expected.sum().item(), abs=1e-4)
    assert "".join(found.tokens) == text
    assert found._repr_html_().count("nats") >= len(found.tokens)


def test_a_long_text_is_scored_with_at_least_half_a_window_of_context(poem):
    model = predictor(poem, window=16)
    text = POEM[:100]
    found, late = model.score([text, text[30:]])
    assert len(found.token_scores) == 100
    ids = [*model.task.start, *model.task.exact_ids([text])[0]]
    for place in (16, 24, 64):  # the first tokens of strides see half a window
        with torch.inference_mode():
            hidden, _ = model.model.decoder(torch.tensor([ids[place - 8 : place]]), model.model.start(1))
            expected = model.model.output(hidden)[0, -1].log_softmax(-1)[ids[place]].item()
        assert found.token_scores[place - 1] == pytest.approx(expected, abs=1e-5)
    assert len(late.token_scores) == 70


def test_the_metrics_of_a_known_text():
    values = [Surprise("ab", -2.0, 1), Surprise("é", -1.0, 2)]
    references = [[Surprise(value.text)] for value in values]
    expected = {
        "loss": 1.0,
        "perplexity": math.e,
        "nats_per_character": 1.0,
        "bits_per_character": 1 / math.log(2),
        "bits_per_byte": 3 / 4 / math.log(2),
    }
    for name, value in expected.items():
        assert METRICS.build(name).measured(values, references).value() == pytest.approx(value)


def test_the_baseline_draws_tokens_by_their_frequency(poem):
    task = fitted(poem)
    passage = passages(poem)[0]
    total = sum(task.counts)
    expected = sum(math.log(task.counts[token] / total) for token in task.ids(passage))
    assert task.baseline(passage).log_prob == pytest.approx(expected)


def test_the_survey_says_whether_blank_lines_divide_a_text(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n\n \nthree\n\nfour\n")
    form = "; ".join(open_texts([str(file)], DataConfig()).form)
    assert "blank lines divide its first 23 characters into 3 texts" in form
    assert "set data.documents=blank_lines" in form
    assert "divide" not in "; ".join(open_texts([str(file)], DataConfig(documents="blank_lines")).form)
    file.write_text("one\ntwo\n\n")
    assert "divide" not in "; ".join(open_texts([str(file)], DataConfig()).form)


@pytest.mark.parametrize("keys", [{"meta": {"a": 1}}, {"id": "7"}, {"url": "x", "timestamp": 3}])
@pytest.mark.parametrize("folder", [True, False])
def test_json_lines_with_metadata_are_a_text(keys, folder, tmp_path):
    file = tmp_path / "texts" / "a.jsonl"
    file.parent.mkdir()
    file.write_text("".join(json.dumps({"text": f"{line} x", **keys}) + "\n" for line in POEM.splitlines()))
    table = {"data": {"train": [str(file.parent if folder else file)]}}
    made = design(table)
    assert made.config.task == "language_modeling"
    assert "--task overrides" in "\n".join(made.lines())


def test_json_lines_with_other_keys_and_a_long_line_name_the_task(tmp_path, capsys):
    odd, long = tmp_path / "odd.jsonl", tmp_path / "long.txt"
    odd.write_text('{"text": "a b", "x": "c", "y": "d"}\n' * 30)
    long.write_text("word " * 300_000)
    for file in (odd, long):
        command = ["train", str(file), "--out", str(tmp_path / "run"), "data.max_line=1000000"]
        assert cli.main(command) == 2
        assert "add --task language_modeling" in capsys.readouterr().err
        table = {"data": {"train": [str(file)], "max_line": 1_000_000}, "task": "language_modeling"}
        assert design(table).survey.report.examples > 20


# Continuations


def test_greedy_continuation_is_that_of_the_model_without_a_cache(poem):
    model = predictor(poem, window=64)
    (found,) = model.predict("Tyger", length=20, temperature=0)
    ids = [*model.task.start, *model.task.exact_ids(["Tyger"])[0]]
    silent = [0, 1, 2]
    with torch.inference_mode():
        for _ in range(20):
            hidden, _ = model.model.decoder(torch.tensor([ids]), model.model.start(1))
            scores = model.model.output(hidden[:, -1])[0]
            scores[silent] = -torch.inf
            ids.append(int(scores.argmax()))
            if ids[-1] == END:
                break
    written = ids[len(model.task.start) + 5 :]
    assert found.continuation == model.task.text([token for token in written if token != END])
    assert found.text == "Tyger" + found.continuation


def test_samples_depend_on_seed_and_prompt_alone(poem):
    model = predictor(poem)
    together = model.predict(["In", "What"], length=12, seed=3)
    assert model.predict("What", length=12, seed=3)[0].text == together[1].text
    assert model.predict("What", length=12, seed=4)[0].text != together[1].text
    first, second = model.predict("In", length=12, seed=3, samples=2)[0].all
    assert (first.text, first.text == second.text) == (together[0].text, False)
    assert list(model.typed("What", length=12, seed=3))[-1] == together[1].continuation


def test_a_terminal_shows_characters_that_arrive_in_pieces_and_unknown_ones(poem, monkeypatch, capsys):
    model = predictor(poem)
    grown = ["\ufffd", "\ufffd\ufffd", "—", "— \ufffd", "— 日\ufffd\ufffd", "— 日本", "— 日本 there"]
    monkeypatch.setattr(model, "typed", lambda prompt, **given: iter(grown))
    monkeypatch.setattr("seqwright.prediction.predictor.load", lambda folder, threads: model)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["predict", "run", "hi ☃ "]) == 0
    printed = capsys.readouterr()
    assert printed.out == "hi ☃ — 日本 there\n"
    assert "unknown to the model: '☃'" in printed.err


def test_a_text_longer_than_the_window_slides_and_says_so(poem, caplog):
    model = predictor(poem, window=16)
    with caplog.at_level(logging.WARNING):
        (found,) = model.predict("Tyger Tyger, burning bright", length=50, temperature=0)
    assert "longer than the window of 16 tokens" in caplog.text
    assert found.output_tokens == 50 or found.finish_reason == "end"
    assert found.reading.unread == len("Tyger Tyger, burning bright") - 16


def test_a_stop_text_ends_a_continuation(poem):
    model = predictor(poem)
    (whole,) = model.predict("In", length=30, seed=1)
    stop = whole.continuation[4:6]
    (found,) = model.predict("In", length=30, seed=1, stop=stop)
    assert found.continuation == whole.continuation[: whole.continuation.index(stop)]
    assert found.finish_reason == "stop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0"),
        ({"samples": "x"}, "samples is 'x'"),
        ({"stop": ""}, "stop must be"),
        ({"beam": 4}, "samples, without a beam"),
        ({"temperature": -1}, "temperature is -1"),
    ],
)
def test_wrong_options_are_refused(poem, options, message):
    with pytest.raises(ConfigError, match=message):
        predictor(poem).predict("In", **options)


def test_the_beginning_of_a_long_prompt_is_ignored(poem, caplog):
    model = predictor(poem, window=32)
    end = POEM[20:40]
    one, other = (
        model.predict(prompt, length=1, temperature=0)[0] for prompt in (POEM[:40] + end, "a" * 40 + end)
    )
    assert one.token_scores == other.token_scores
    assert "longer than the 32 tokens that are read; the beginning is ignored" in caplog.text


# Comparisons


@pytest.fixture
def few_letters(tmp_path):
    """Write 64 words of two letters: a character is easier to guess than a word."""
    words = ["".join("ab"[number >> bit & 1] for bit in range(6)) for number in range(64)]
    file = tmp_path / "letters.txt"
    file.write_text("\n".join(" ".join(words[row:] + words[:row]) for row in range(40)))
    return file


def by_tokenizer(file, tokenizer, **judging):
    model = predictor(file, tokenizer=tokenizer)
    return evaluate(model, passages(file)[-3:], judging=Judging(samples=50, **judging))


def test_models_with_different_tokenizers_are_compared_by_characters(few_letters):
    characters, words = (by_tokenizer(few_letters, name) for name in ("characters", "words"))
    assert characters.metrics["loss"] < words.metrics["loss"]
    assert characters.metrics["nats_per_character"] > words.metrics["nats_per_character"]
    found = compare(characters, words, ("characters", "words"))
    assert found.verdict.startswith("words is better than characters: nats per character ")
    assert (found.wins, found.losses, found.ties) == (3, 0, 0)
    assert found.findings[0].startswith("the tokenizers differ, so scores per token do not compare: loss and")
    document = found.to_json()
    assert [*document["metrics"]] == ["nats_per_character", "bits_per_character", "bits_per_byte"]
    assert document["not_compared"] == ["loss", "perplexity"]
    assert found.confusions == []
    for shown in (str(found), found._repr_html_()):
        assert "do not compare: loss and perplexity" in shown


def test_models_with_one_tokenizer_are_compared_by_every_metric(few_letters):
    one, other = (by_tokenizer(few_letters, "characters") for _ in range(2))
    found = compare(one, other)
    assert [each.first.name for each in found.comparisons] == [*one.metrics]
    assert found.comparisons[0].first.name == "loss"
    assert found.not_compared == []
    assert found.findings == list(one.findings)


def test_scores_per_token_of_different_tokenizers_do_not_compare(few_letters):
    one, other = (by_tokenizer(few_letters, name, metrics=("loss",)) for name in ("characters", "words"))
    found = compare(one, other, ("one", "other"))
    assert found.verdict == "The scores of one and other do not compare: their tokenizers differ."
    assert str(found).split("\n")[3:] == ["", found.verdict]
    assert found.to_json()["metrics"] == {}


# The command


def test_the_command_trains_continues_and_evaluates(poem, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = [f"model.{name}={value}" for name, value in SMALL.items()]
    command = ["train", "poem.txt", "--steps", "3", "--threads", "1", "training.validations=1", *sizes]
    assert cli.main([*command, "--quiet", "training.accumulate=1"]) == 0
    capsys.readouterr()
    assert cli.main(["predict", "runs/poem", "The ☃", "--length", "9", "--json", "--samples", "2"]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["text"].startswith("The ☃") for row in rows] == [True, True]
    assert "unknown to the model: '☃'" in printed.err
    assert cli.main(["evaluate", "runs/poem", "poem.txt", "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    names = ["loss", "perplexity", "bits_per_character", "bits_per_byte", "nats_per_character"]
    assert [*metrics] == names
    assert metrics["bits_per_character"] == pytest.approx(metrics["nats_per_character"] / math.log(2))
    assert cli.main(["verify", "runs/poem"]) == 0
    assert cli.main(["doctor", "poem.txt"]) == 0
    capsys.readouterr()
    assert cli.main(["look", "runs/poem", "abc"]) == 0
    assert cli.main(["predict", "runs/poem", "The", "--length", "-1"]) == 2
    assert "--length is -1" in capsys.readouterr().err


def test_the_recipe_reads_small_texts_by_characters_and_large_ones_by_pieces(poem, monkeypatch):
    small = design({"data": {"train": [str(poem)]}})
    assert (small.config.task, small.config.tokenizer.source) == ("language_modeling", "characters")
    assert small.config.training.smoothing == 0
    monkeypatch.setattr("seqwright.recipes.language_modeling.CHARACTERS", 100)
    large = design({"data": {"train": [str(poem)]}, "training": {"minutes": 30}})
    assert large.config.tokenizer.source["kind"] == "bpe"
    assert large.config.data.max_length > small.config.data.max_length
    assert any("held out" in line for line in large.lines())
