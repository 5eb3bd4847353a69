"""Masked language modelling: what is hidden is a function of its seed, and blanks are filled as by the model
alone.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.corpus import Corpus
from seqwright.data.masked_results import Guesses
from seqwright.data.masking import BLANK, masked
from seqwright.data.read_report import ReadReport
from seqwright.data.tokenizer import END, FIRST, PAD, UNK
from seqwright.errors import ConfigError
from seqwright.evaluation.comparison import compare
from seqwright.evaluation.evaluate import Judging, evaluate
from seqwright.evaluation.metrics import METRICS
from seqwright.models.building import build_model
from seqwright.pipeline.design import design
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.language_modeling import LanguageModeling
from seqwright.tasks.masked_language_modeling import MaskedLanguageModeling
from seqwright.training.preparation import prepare

SMALL = {"layers": 2, "size": 32, "hidden": 64, "heads": 2, "dropout": 0.0}
TEXT = "The tyger sat in the forest of the night.\nWhat hand dared to frame it? \n\n" * 200


def configuration(file, tokenizer="characters", window=32):
    return parse(
        {
            "task": "masked_language_modeling",
            "data": {"train": [str(file)], "held_out": 0.1, "max_length": window},
            "tokenizer": {"source": tokenizer},
            "model": {"preset": "tiny-mlm", **SMALL},
            "training": {"steps": 4, "tokens": 128, "smoothing": 0.0, "decode": 2},
            "threads": 1,
        }
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def fitted(file, tokenizer="characters", window=32, task=MaskedLanguageModeling):
    config = configuration(file, tokenizer, window)
    return task.fit(config, lambda: Corpus.of(config).examples("train"))


def predictor(file, **options):
    task = fitted(file, **options)
    torch.manual_seed(0)
    model = build_model({"preset": "tiny-mlm", **SMALL, "zero_start": False}, **task.facts()).eval()
    return Predictor(model, task)


def probabilities(model, ids, place):
    """Of all symbols at one place, by the whole model."""
    from seqwright.data.batch import Tokens

    with torch.inference_mode():
        return model.model.predictions(Tokens(torch.tensor([ids])))[0, place].double().softmax(-1).numpy()


# Masking


@given(st.lists(st.integers(0, 19), max_size=60), st.integers(0, 1 << 62))
def test_only_tokens_are_hidden_and_the_rest_stays(ids, seed):
    given_ids, blank = np.array(ids, np.int64), 19
    read, expected = masked(given_ids, blank=blank, vocabulary=20, seed=seed)
    chosen = expected != PAD
    assert (expected[chosen] == given_ids[chosen]).all()
    assert (read[~chosen] == given_ids[~chosen]).all()
    assert ((given_ids[chosen] >= FIRST) & (given_ids[chosen] != blank)).all()
    maskable = ((given_ids >= FIRST) & (given_ids != blank)).sum()
    assert chosen.sum() == min(max(round(0.15 * maskable), 1), maskable)
    again = masked(given_ids, blank=blank, vocabulary=20, seed=seed)
    assert (again[0] == read).all()
    assert (again[1] == expected).all()


@pytest.mark.parametrize("blank", [FIRST, 500, 1003])
def test_15_percent_are_hidden_80_10_10(blank):
    ids = np.random.default_rng(1).integers(FIRST, 1004, 200_000)
    ids = ids[ids != blank]
    read, expected = masked(ids, blank=blank, vocabulary=1004, seed=5)
    chosen = expected != PAD
    assert chosen.mean() == pytest.approx(0.15, abs=1e-5)
    assert (read[chosen] == blank).mean() == pytest.approx(0.8, abs=0.01)
    assert (read[chosen] == ids[chosen]).mean() == pytest.approx(0.1, abs=0.01)
    others = read[chosen & (read != blank) & (read != ids)]
    assert len(np.unique(others)) > 900  # of 1,000: a random token is any token
    assert others.min() >= FIRST
    assert others.max() <= 1003


def test_hidden_tokens_are_a_function_of_seed_epoch_and_passage(file, tmp_path):
    prepared = prepare(configuration(file), tmp_path)
    task, numbers = prepared.task, np.array([2, 0])
    batches = [task.batch(prepared.train, numbers, seed=1, epoch=epoch) for epoch in (0, 0, 1, None, None)]
    one, again, other, fixed, same = batches
    assert torch.equal(one.source.ids, again.source.ids)
    assert not torch.equal(one.source.ids, other.source.ids)
    assert torch.equal(fixed.source.ids, same.source.ids)
    assert torch.equal(fixed.expected, same.expected)
    alone = task.batch(prepared.train, numbers[1:], seed=1, epoch=0)
    assert torch.equal(alone.source.ids[0], one.source.ids[1])
    assert torch.equal(alone.expected[0], one.expected[1])
    assert one.count == int((one.expected != PAD).sum()) == 2 * 5
    whole = torch.where(one.expected == PAD, one.source.ids, one.expected)
    assert task.text(whole[0].tolist()) in TEXT


# Tokenizers


@pytest.mark.parametrize("tokenizer", ["characters", "bpe", "words", "bytes", "unigram"])
def test_the_blank_has_an_id_of_its_own_and_no_other_id_moves(file, tokenizer):
    task, plain = fitted(file, tokenizer), fitted(file, tokenizer, task=LanguageModeling)
    assert task.tokenizer.size == plain.tokenizer.size + 1
    assert task.blank == plain.tokenizer.size
    assert task.tokenizer.encode(TEXT[:200]) == plain.tokenizer.encode(TEXT[:200])
    assert task.blank not in task.tokenizer.encode("a [MASK] b MASK")
    assert task.exact_ids([TEXT[:90]]) == plain.exact_ids([TEXT[:90]])


@pytest.mark.parametrize("tokenizer", ["characters", "bpe", "words", "unigram"])
@pytest.mark.parametrize(
    "text", ["The [MASK] of", "[MASK] tyger", "The\n[MASK]", "[MASK]", "The [MASK] [MASK] of"]
)
def test_a_filled_text_has_the_words_around_its_blanks(file, tokenizer, text):
    (found,) = predictor(file, tokenizer=tokenizer).predict(text)
    pieces = text.split(BLANK)
    expected = "".join(piece + token for piece, token in zip(pieces, (*found.tokens, ""), strict=True))
    assert found.text == expected
    assert len(found.tokens) == len(found.candidates) == text.count(BLANK)
    assert all(token == best[0].text for token, best in zip(found.tokens, found.candidates, strict=True))


def test_a_text_without_a_blank_stays_and_says_so(file, caplog):
    (found,) = predictor(file).predict("the night")
    assert (found.text, found.candidates) == ("the night", ())
    assert "'the night' has no [MASK]" in caplog.text


# Predictions


def test_candidates_have_the_probabilities_of_the_model(file):
    model = predictor(file)
    (found,) = model.predict("the t[MASK]ger", n_best=4)
    (ids,) = model.task.exact_ids(["the t[MASK]ger"])
    chances = probabilities(model, ids, 5)
    chances[:FIRST] = chances[model.task.blank] = 0.0
    chances /= chances.sum()
    best = np.argsort(-chances)[:4]
    assert [each.text for each in found.candidates[0]] == [model.task.text([token]) for token in best]
    assert [each.probability for each in found.candidates[0]] == pytest.approx(
        chances[best].tolist(), abs=1e-6
    )
    assert found.log_prob == pytest.approx(math.log(chances[best[0]]), abs=1e-5)


def test_a_blank_in_a_long_text_is_filled_from_the_window_around_it(file):
    model = predictor(file, window=16)
    text = TEXT[:100] + BLANK + TEXT[100:200]
    (found,) = model.predict(text)
    (around,) = model.predict(TEXT[92:100] + BLANK + TEXT[100:107])
    assert [each.text for each in found.candidates[0]] == [each.text for each in around.candidates[0]]
    near = [each.probability for each in around.candidates[0]]
    assert [each.probability for each in found.candidates[0]] == pytest.approx(near, abs=1e-6)
    assert found.text == TEXT[:100] + found.tokens[0] + TEXT[100:200]


@pytest.mark.parametrize("options", [{"beam": 3}, {"n_best": 0}, {"temperature": 1.0}])
def test_wrong_options_are_refused(file, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        predictor(file).predict("the [MASK]", **options)


# Scores


def test_hidden_tokens_are_scored_as_by_the_model_alone(file):
    model = predictor(file, window=24)
    (row,) = model.task.encode(list(model.task.inputs(TEXT[:60])))
    (found,) = model.task.scored(model.model, [row])
    scores, right = [], 0
    for read, expected in model.task._windows(row):
        for place in np.flatnonzero(expected != PAD):
            chances = probabilities(model, read.tolist(), place)
            scores.append(math.log(chances[expected[place]]))
            right += int(chances.argmax() == expected[place])
    assert found.token_scores == pytest.approx(scores, abs=1e-5)
    assert (found.right, found.value.tokens) == (right, len(scores)) == (found.right, 3 * 3)
    assert model.predict(TEXT[:60], scored=True)[0].value == found.value


def test_the_metrics_of_known_guesses():
    outputs = [Guesses("ab", -2.0, 3, 2), Guesses("c", -1.0, 1, 0)]
    references = [[Guesses("ab")], [Guesses("c")]]
    assert METRICS.build("masked_accuracy").measured(outputs, references).value() == 50.0
    assert METRICS.build("loss").measured(outputs, references).value() == pytest.approx(0.75)


def test_the_baseline_guesses_the_most_frequent_token(file):
    task = fitted(file, window=64)
    (passage,) = task.inputs(TEXT[:600])
    (row,) = task.encode([passage])
    hidden = [token for _, expected in task._windows(row) for token in expected.tolist() if token != PAD]
    found, total = task.baseline(passage), sum(task.counts[FIRST:])
    assert found.tokens == len(hidden) >= 80
    assert found.right == hidden.count(task.exact_ids([" "])[0][0])  # a space
    assert found.log_prob == pytest.approx(sum(math.log(task.counts[token] / total) for token in hidden))


# The command


def test_scores_of_different_tokenizers_do_not_compare(file):
    examples = list(Corpus.of(configuration(file)).examples("test"))
    one, other, same = (
        evaluate(predictor(file, tokenizer=name), examples, judging=Judging(samples=5))
        for name in ("characters", "words", "words")
    )
    found = compare(one, other, ("one", "other"))
    assert found.verdict == "The scores of one and other do not compare: their tokenizers differ."
    assert str(found).count("\n") == 4 + len(found.findings)
    assert found.verdict in found._repr_html_()
    document = found.to_json()
    assert (document["metrics"], document["wins"], document["examples"]) == ({}, 0, [])
    assert [each.first.name for each in compare(other, same).comparisons] == ["masked_accuracy", "loss"]


def test_the_command_trains_fills_blanks_and_evaluates(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = [f"model.{name}={value}" for name, value in SMALL.items()]
    command = ["train", "text.txt", "--task", "masked_language_modeling", "--steps", "3", "--threads", "1"]
    assert cli.main([*command, "training.validations=1", "training.accumulate=1", *sizes]) == 0
    assert "[MASK]'  # fills the blanks" in capsys.readouterr().err
    assert cli.main(["predict", "runs/text", "The [MASK] of [MASK] ☃", "--json"]) == 0
    printed = capsys.readouterr()
    row = json.loads(printed.out)
    assert (len(row["tokens"]), len(row["candidates"][0])) == (2, 5)
    assert row["text"] == f"The {row['tokens'][0]} of {row['tokens'][1]} ⁇" == row["output"]
    assert "unknown to the model: '☃'" in printed.err
    assert cli.main(["predict", "runs/text", "The [MASK] night"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("The ")
    assert second.startswith("  blank 1: ")
    (tmp_path / "lines.txt").write_text("The [MASK]\nnothing\n")
    assert cli.main(["predict", "runs/text", "lines.txt"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "nothing"
    assert cli.main(["evaluate", "runs/text", "text.txt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [*found["metrics"]] == ["masked_accuracy", "loss"] == [*found["baseline"]]
    assert cli.main(["verify", "runs/text"]) == 0


def test_the_task_is_never_inferred_and_its_recipe_fits_the_text(file):
    assert design({"data": {"train": [str(file)]}}).config.task == "language_modeling"
    chosen = design({"data": {"train": [str(file)]}, "task": "masked_language_modeling"})
    assert chosen.config.tokenizer.source == {"kind": "bpe", "max_size": 1000}
    assert chosen.config.model["preset"] == "tiny-mlm"
    assert chosen.config.training.metric == "loss"
    assert any("hidden" in choice.reason for choice in chosen.choices)


def test_a_window_beyond_the_positions_is_refused(file):
    config = configuration(file, window=600)
    with pytest.raises(ConfigError, match=r"data\.max_length is 600, but the model has 512 positions"):
        MaskedLanguageModeling.check(parse({**config.to_dict(), "model": "devlin2019-base"}))


def test_unknown_and_end_are_never_expected(file):
    task = fitted(file)
    ids = np.array([UNK, END, *task.exact_ids(["tyger"])[0], END])
    for seed in range(50):
        _, expected = task._hidden(ids, seed)
        assert set(expected[[0, 1, -1]]) == {PAD}


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_the_texts_of_a_labelled_table_are_read_without_labels(name, tmp_path):
    mark = "\t" if name.endswith("tsv") else ","
    rows = [f"a film number {number}{mark}{'good' if number % 3 else 'bad'}\n" for number in range(60)]
    path = tmp_path / name
    path.write_text("".join(rows), encoding="utf-8")
    reader = MaskedLanguageModeling.reader([str(path)], DataConfig())
    passages = list(reader.read(ReadReport()))
    assert [passage.text for passage in passages] == [f"a film number {number}" for number in range(60)]
    assert all(passage.ends and not passage.before for passage in passages)
    assert passages[7].place == (str(path), 8)
    assert "labels are not read" in " ".join(reader.form)
