"""The weights of both levels: the equations, words of several tokens, cuts, and escaped HTML."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any

import pytest
import torch

from seqwright import build_model
from seqwright.data.labels import Labels
from seqwright.data.sentences import SentenceLimits
from seqwright.data.tokenizer import train_tokenizer
from seqwright.errors import ConfigError, InputError
from seqwright.lens.sentence_weights import sentence_weights
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_classification import TextClassification

TEXT = "The food was good. Bad <b>service</b>! I left"

LIMITS = SentenceLimits(60, 9, 99)


def predictor(tokenizer: str = "words", limits: SentenceLimits | None = LIMITS, **model: Any):
    learned = train_tokenizer(tokenizer, [TEXT, "<script>alert(1)</script> & so on"])
    task = TextClassification(learned, Labels(("no", "yes"), (1, 1)), 99, sentences=limits)
    torch.manual_seed(1)
    return Predictor(build_model({"preset": "yang2016", "size": 8, **model}, **task.facts()).eval(), task)


def test_weights_are_those_of_the_equations():
    """p_w = softmax(v · tanh(W h)) in each sentence (Yang et al. 2016, eq. 5 and 6), p_s over sentences."""
    model = predictor()
    found, task = sentence_weights(model, TEXT), model.task
    encoder, pooled = model.model.encoder, []
    with torch.no_grad():
        for sentence, part in zip(found.sentences, task.parts(TEXT), strict=True):
            hidden = encoder.lower.encode(
                encoder.embedding(torch.tensor([task.tokenizer.encode(part)])), None
            ).hidden[0]
            pooling = encoder.pooling
            weights = (torch.tanh(pooling.map(hidden)) @ pooling.query).softmax(0)
            assert math.fsum(word.weight for word in sentence.words) == pytest.approx(1)
            pieces = [piece.text.strip() for piece in task.tokenizer.pieces(part)]
            joined = "".join(word.text for word in sentence.words)
            assert joined == "".join(pieces)
            if len(pieces) == len(sentence.words):
                assert [word.weight for word in sentence.words] == pytest.approx(weights.tolist(), rel=1e-4)
            pooled.append(weights @ hidden)
        hidden = encoder.upper.encode(torch.stack(pooled)[None], None).hidden[0]
        pooling = model.model.head.pooling
        weights = (torch.tanh(pooling.map(hidden)) @ pooling.query).softmax(0)
    assert [sentence.weight for sentence in found.sentences] == pytest.approx(weights.tolist(), rel=1e-4)
    assert found.label == model(TEXT)


def test_a_trace_has_the_same_weights():
    model = predictor("characters")
    found, trace = sentence_weights(model, TEXT), model.look(TEXT)
    outer, inner = trace.attention("sentences", 0)[0, 0], trace.attention("words", 0)[0]
    assert outer.tolist() == pytest.approx([sentence.weight for sentence in found.sentences], abs=1e-4)
    for sentence, row in zip(found.sentences, inner, strict=True):
        assert max(row) <= max(word.weight for word in sentence.words) + 1e-4
        assert row.sum() == pytest.approx(1, abs=1e-3)
    for sentence, part in zip(found.sentences, model.task.parts(TEXT), strict=True):
        (line,) = [
            line for line in str(trace).splitlines() if line.startswith("  0.") and line.endswith(part)
        ]
        assert float(line.split()[0]) == pytest.approx(sentence.weight, abs=1e-3)
    tokens = [line.split() for line in str(trace).splitlines() if line.startswith("  T ")]
    assert float(tokens[0][1]) == pytest.approx(float(outer @ inner[:, 0]), abs=1e-3)


def test_a_word_of_several_tokens_has_the_sum_of_their_weights():
    found = sentence_weights(predictor("characters"), TEXT)
    assert [[word.text for word in sentence.words] for sentence in found.sentences] == [
        ["The", "food", "was", "good."],
        ["Bad", "<b>service</b>!"],
        ["I", "left"],
    ]
    for sentence in found.sentences:
        assert math.fsum(word.weight for word in sentence.words) == pytest.approx(1)


def test_cuts_are_stated():
    found = sentence_weights(predictor("characters", SentenceLimits(6, 2, 99)), TEXT)
    assert [[word.text for word in sentence.words] for sentence in found.sentences] == [
        ["The", "fo"],
        ["od", "was"],
    ]
    assert found.unread == sum(map(len, ["The food was good.", "Bad <b>service</b>!", "I left"])) - 12
    assert f"{found.unread} tokens beyond" in str(found)


def test_json_has_the_shade_of_the_paper():
    found = json.loads(json.dumps(sentence_weights(predictor(), TEXT).to_json()))
    for sentence in found["sentences"]:
        for word in sentence["words"]:
            assert word["shade"] == pytest.approx(sentence["weight"] ** 0.5 * word["weight"])
    assert found["shade"] == "√p_sentence · p_word"


def test_the_table_escapes_words_and_has_the_numbers():
    found = sentence_weights(predictor("characters"), "<script>alert(1)</script> & so. On")
    page = found._repr_html_()
    assert "<script" not in page
    assert html.escape("<script>alert(1)</script>") in page
    for sentence in found.sentences:
        assert f"{sentence.weight:.3f}" in page
    strengths = [float(each) for each in re.findall(r"rgba\(47, 98, 173, ([\d.]+)\)", page)]
    shades = [shade for sentence in found.sentences for shade in sentence.shades]
    assert strengths == pytest.approx([0.75 * shade / max(shades) for shade in shades], abs=1e-3)


def test_what_has_no_weights_is_refused():
    with pytest.raises(ConfigError, match="does not read sentences"):
        sentence_weights(predictor(limits=None), TEXT)
    with pytest.raises(InputError, match="no words"):
        sentence_weights(predictor(), " \n ")
    with pytest.raises(ConfigError, match=r"encoder.pooling has no weights; train with pooling"):
        sentence_weights(predictor(encoder={"pooling": "mean"}), TEXT)
