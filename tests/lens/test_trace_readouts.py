"""Traces of models without a decoder or without an encoder agree with the models."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from read_off import (
    BLANKS,
    CASES,
    CHARACTERS,
    RNN,
    SENTENCES,
    TEXT,
    TRANSFORMER,
    WORDS,
    case,
    classifier,
    hierarchical,
    language_model,
    masked_model,
    tagger,
)

from seqwright.data.batch import HeadBatch, Tokens
from seqwright.errors import ConfigError, InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import without_heads
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.readout import Pooled, repeated
from seqwright.lens.trace.schema import TraceFile
from seqwright.nn.pooling import POOLINGS

every_case = pytest.mark.parametrize("name", CASES)
classifiers = pytest.mark.parametrize("name", ["attention", "mean", "first", "rnn", "rotary"])
language_models = pytest.mark.parametrize("name", ["language", "lstm"])


@every_case
def test_a_trace_is_complete_and_the_same_every_time(name, tmp_path):
    subject, trace = case(name)
    TraceFile.model_validate(trace.document)
    trace.save(tmp_path / "x.json")
    assert Trace.load(tmp_path / "x.json").document == trace.document
    assert subject.look(TEXT).to_bytes() == trace.to_bytes()
    assert str(trace).splitlines()[0].startswith("look at the\\nglass")


@every_case
def test_rows_of_attention_sum_to_one(name):
    _, trace = case(name)
    for entry in trace.document["attention"]:
        weights = trace.attention(entry["kind"], entry["layer"])
        assert weights.sum(-1) == pytest.approx(1.0, abs=1e-3)
        rows, columns = (trace.document["kinds"][entry["kind"]][side] for side in ("rows", "columns"))
        axes = {"source": "source", "steps": "output", "prefix": "output"}
        lengths = [len(trace.document[axes[axis]]["pieces"]) for axis in (rows, columns)]
        assert weights.shape == (entry["heads"], *lengths)


@every_case
def test_recording_changes_nothing(name):
    subject, _ = case(name)
    readout = subject.task.readout(subject.model, next(subject.task.inputs(TEXT)))
    with torch.inference_mode():
        before = readout.logits(subject.model)
    subject.look(TEXT)
    with torch.inference_mode():
        assert torch.equal(readout.logits(subject.model), before)
    assert not [part for part in subject.model.modules() if getattr(part, "recorder", None) is not None]


@classifiers
def test_the_probabilities_of_labels_are_those_of_predict(name):
    subject, trace = case(name)
    (predicted,) = subject.predict(TEXT)
    (step,) = trace.document["steps"]
    names = trace.document["symbols"]
    found = {names[str(number)]: math.exp(score) for number, score in step["top"]}
    assert trace.output == predicted.label
    assert found == pytest.approx(dict(predicted.probabilities), abs=1e-5)


def test_the_temperature_of_a_classifier_is_that_of_predict():
    subject = classifier(TRANSFORMER, "mean")
    subject.task = replace(subject.task, labels=replace(subject.task.labels, temperature=2.5))
    probability = subject.predict(TEXT)[0].probability
    assert math.exp(subject.look(TEXT).log_probs[0]) == pytest.approx(probability, abs=1e-5)


@language_models
def test_the_steps_of_a_text_are_its_scores(name):
    subject, trace = case(name)
    scored = subject.score(TEXT)
    assert trace.log_probs[:-1] == pytest.approx(scored.token_scores, abs=1e-5)
    assert trace.document["output"]["log_prob"] == pytest.approx(scored.log_prob, abs=1e-4)
    pieces = trace.document["output"]["pieces"]
    assert "".join(piece["text"] for piece in pieces) == TEXT
    assert pieces[-1]["special"] == "next"
    (written,) = subject.predict(TEXT, length=1, temperature=0)
    assert trace.document["symbols"][str(pieces[-1]["id"])] == written.continuation


@every_case
def test_attention_is_what_capture_sees(name):
    subject, trace = case(name)
    readout = subject.task.readout(subject.model, next(subject.task.inputs(TEXT)))
    with torch.no_grad(), capture(subject.model) as seen:
        subject.model(readout.batch)
    own = trace.document["attention"]
    assert [entry["name"] for entry in own] == list(seen)
    for entry in own:
        weights = seen[entry["name"]][0][0].numpy()
        assert np.abs(trace.attention(entry["kind"], entry["layer"]) - weights).max() < 1e-4


def test_pooling_weights_make_the_vector_that_the_head_reads():
    subject, trace = case("attention")
    readout = subject.task.readout(subject.model, next(subject.task.inputs(TEXT)))
    pooled = []
    head = subject.model.head
    hook = head.pooling.register_forward_hook(lambda module, inputs, output: pooled.append((inputs, output)))
    with torch.no_grad():
        subject.model(readout.batch)
    hook.remove()
    ((hidden, _), vector), *_ = pooled
    weights = torch.from_numpy(trace.attention("pool", 0)[0])
    torch.testing.assert_close(weights @ hidden[0], vector, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(("name", "part"), [("mean", "the same weight"), ("first", "the first token alone")])
def test_another_pooling_is_explained(name, part):
    _, trace = case(name)
    assert part in trace.why("pool")
    assert trace.layers("pool") == 0


@every_case
def test_contributions_are_derivatives(name):
    """Σ_j x_j ∂log p/∂x_j is the derivative of log p by the scale of all embeddings."""
    subject, trace = case(name)
    readout = subject.task.readout(subject.model, next(subject.task.inputs(TEXT)))
    model = copy.deepcopy(subject.model).double()
    (embedding,) = [part for key, part in model.named_modules() if key.endswith("coder.embedding")]
    chosen, step = torch.tensor(readout.tokens), 1e-3
    scores = []
    for factor in (1 - step, 1 + step):
        hook = embedding.register_forward_hook(lambda module, inputs, output, factor=factor: factor * output)
        with torch.no_grad():
            logs = readout.logits(model)[0].double().log_softmax(-1)
        hook.remove()
        scores.append(logs.gather(1, chosen[:, None])[:, 0])
    slopes = (scores[1] - scores[0]) / (2 * step)
    found = np.concatenate(trace.contributions(), 1).sum(1)
    assert found == pytest.approx(slopes.numpy(), abs=5e-3)


@language_models
def test_no_token_contributes_to_an_earlier_one(name):
    _, trace = case(name)
    source, prefix = trace.contributions()
    assert source.shape == (len(TEXT) + 1, 0)
    assert not np.triu(prefix, 1).any()


@pytest.mark.parametrize("name", ["attention", "language"])
def test_an_ablation_is_the_model_without_the_head(name):
    subject, trace = case(name)
    readout = subject.task.readout(subject.model, next(subject.task.inputs(TEXT)))
    for row in trace.document["ablations"]:
        with torch.inference_mode(), without_heads(subject.model, [(row["kind"], row["layer"], row["head"])]):
            logs = readout.logits(subject.model)[0].log_softmax(-1)
        own = logs.gather(1, torch.tensor(readout.tokens)[:, None])[:, 0]
        kept = own[:-1] if name == "language" else own
        assert row["output_log_prob"] == pytest.approx(float(kept.sum()), abs=1e-4)
        if name == "attention":
            assert row["text"] == readout.symbol(int(logs.argmax()))
            assert row["changed"] == (row["text"] != trace.output)


def test_a_long_text_is_traced_as_far_as_it_is_read():
    subject = classifier(TRANSFORMER, "attention", longest=5)
    trace = subject.look(TEXT)
    source = trace.document["source"]
    assert len(source["pieces"]) == 6
    assert source["unread"] == len(subject.task.tokenizer.encode(TEXT)) - 5
    assert trace.output == subject.predict(TEXT)[0].label


@pytest.mark.parametrize(
    ("subject", "text", "options", "part"),
    [
        (lambda: classifier(RNN, "mean"), "  ", {}, "is blank"),
        (lambda: language_model(RNN), "", {}, "is blank"),
        (
            lambda: language_model(RNN, window=8),
            "looking glass",
            {},
            "13 tokens, and the model reads at most 7",
        ),
        (lambda: language_model(RNN), "look", {"beam": 3}, "does not search"),
        (lambda: classifier(RNN, "mean"), "look", {"reference": "warm"}, "does not search"),
    ],
)
def test_what_cannot_be_traced_is_refused(subject, text, options, part):
    with pytest.raises((InputError, ConfigError), match=part):
        subject().look(text, **options)


def test_weights_of_parts_are_spread_over_the_whole():
    """As a hierarchical encoder needs it: each row has its own columns, and padding has none."""
    places = np.array([[0, 1, -1], [2, 3, 4]])
    found = Pooled("words", "Words", "sentences", "source", places).spread(
        np.array([[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]]), 6
    )
    assert found.tolist() == [[0.25, 0.75, 0, 0, 0, 0], [0, 0, 0.5, 0.25, 0.25, 0]]


def test_a_batch_is_repeated_row_by_row():
    one = HeadBatch(Tokens(torch.tensor([[5, 3]])), torch.tensor([1]), np.array([7]), 1)
    three = repeated(one, 3)
    assert three.source.ids.tolist() == [[5, 3]] * 3
    assert (three.expected.tolist(), three.index.tolist(), three.count) == ([1] * 3, [7] * 3, 1)


def test_a_text_by_sentences_has_their_weights():
    """The weights of words and of sentences, each on their own axes, and contributions of the words."""
    subject = hierarchical()
    trace = subject.look(SENTENCES)
    TraceFile.model_validate(trace.document)
    pieces = trace.document["source"]["pieces"]
    assert [piece["text"] for piece in trace.document["axes"]["sentences"]["pieces"]] == SENTENCES.split("\n")
    assert [trace.text[piece["start"] : piece["end"]] for piece in pieces] == [
        piece["text"] for piece in pieces
    ]
    words, sentences = trace.attention("words", 0)[0], trace.attention("sentences", 0)[0]
    assert words.shape == (3, len(pieces))
    assert sentences.shape == (1, 3)
    assert words.sum(1) == pytest.approx(1, abs=1e-3)
    assert ((words > 0).sum(0) <= 1).all()  # each word belongs to one sentence
    assert trace.contributions()[0].shape == (1, len(pieces))
    assert trace.output == subject.predict(SENTENCES)[0].label


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS], ids=["characters", "bpe"])
def test_the_probabilities_of_fillings_are_those_of_predict(tokenizer):
    """Of tokens that fit into a blank: with a space after a space, where spaces belong to tokens."""
    subject = masked_model(tokenizer)
    trace = subject.look(BLANKS)
    TraceFile.model_validate(trace.document)
    (predicted,) = subject.predict(BLANKS)
    assert trace.output.split() == [candidates[0].text for candidates in predicted.candidates]
    for step, candidates in zip(trace.document["steps"], predicted.candidates, strict=True):
        found = [math.exp(score) for _, score in step["top"][: len(candidates)]]
        assert found == pytest.approx([candidate.probability for candidate in candidates], abs=1e-5)
    pieces = trace.document["source"]["pieces"]
    assert [piece["text"] for piece in pieces if piece["text"] == "[MASK]"] == ["[MASK]"] * 2
    assert all(BLANKS[piece["start"] : piece["end"]] == piece["text"] for piece in pieces)
    assert trace.contributions()[0].shape == (2, len(pieces))


def test_a_text_without_a_blank_is_refused():
    with pytest.raises(InputError, match=r"no \[MASK\]; write it where"):
        masked_model().look("look at the glass")


@pytest.mark.parametrize("name", POOLINGS.names())
def test_every_pooling_says_what_the_head_reads(name):
    trace = classifier(RNN, name).look(TEXT)
    assert (trace.layers("pool") == 1) == (name == "attention")
    assert name == "attention" or trace.why("pool").startswith("the head reads ")


@pytest.mark.parametrize("spelled", [True, False], ids=["words", "pieces"])
def test_the_tags_of_a_trace_are_those_of_predict(spelled):
    subject = tagger(spelled=spelled)
    words = ("glass", "look", "unseen", "at")
    trace = subject.look(words)
    TraceFile.model_validate(trace.document)
    (predicted,) = subject.predict([words])
    assert trace.output.split() == list(predicted.tags)
    assert np.exp(trace.log_probs) == pytest.approx(predicted.probabilities, abs=1e-5)
    pieces = trace.document["source"]["pieces"]
    assert all(trace.text[piece["start"] : piece["end"]] == piece["text"] for piece in pieces)
    assert len(pieces) == (len(words) if spelled else sum(map(len, words))) + 1
    assert trace.attention("enc", 0).shape == (2, len(pieces), len(pieces))


def test_the_spelling_of_a_word_contributes():
    """The derivative of log p by the scale of a word's whole vector: its entry and its spelling."""
    subject = tagger(spelled=True)
    words, step = ("glass", "look", "unseen", "at"), 1e-3
    trace, model = subject.look(words), copy.deepcopy(subject.model).double()
    readout = subject.task.readout(subject.model, next(subject.task.inputs(words)))
    embed, place = model.encoder.embed, 2  # the word that has no entry
    scores = []
    for factor in (1 - step, 1 + step):

        def scaled(source, factor=factor):
            vectors = embed(source).clone()
            vectors[:, place] *= factor
            return vectors

        model.encoder.embed = scaled
        with torch.no_grad():
            scores.append(readout.logits(model)[0].double().log_softmax(-1))
    slopes = (scores[1] - scores[0]) / (2 * step)
    wanted = slopes.gather(1, torch.tensor(readout.tokens)[:, None])[:, 0]
    assert trace.contributions()[0][:, place] == pytest.approx(wanted.numpy(), abs=5e-3)


@pytest.mark.parametrize(("level", "missing"), [("rnn", "recurrent"), ("transformer", "enc")])
def test_layers_that_read_parts_are_left_out_with_a_reason(level, missing):
    kind = level if level == "rnn" else {"kind": level, "heads": 2, "hidden": 16}
    trace = hierarchical(lower=kind, upper=kind).look(SENTENCES)
    TraceFile.model_validate(trace.document)
    assert "reads its input in parts" in trace.why(missing)
    assert not [entry for entry in trace.document["attention"] if entry["kind"] == "enc"]
    assert trace.document["recurrent"] == []
