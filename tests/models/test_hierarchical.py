"""The hierarchical encoder: against a loop over sentences, and what it keeps of the words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import TOLERANCE
from torch.testing import assert_close

from seqwright.config.presets import PINNED
from seqwright.data.batch import Segments, Tokens
from seqwright.errors import ConfigError
from seqwright.lens.capture import capture
from seqwright.models import ENCODERS
from seqwright.models.building import build_model

TEXTS = [[[4, 5, 6], [7]], [[8, 4]], [[5], [6, 7, 8, 4], [4, 4]]]
GRU = {"kind": "rnn", "cell": "gru"}
ATTENDS = {"kind": "transformer", "heads": 2, "hidden": 12}
LEVELS = [(GRU, GRU), (ATTENDS, ATTENDS), ({**ATTENDS, "size": 12}, GRU), (GRU, {**ATTENDS, "size": 6})]


def encoder(**options: Any) -> Any:
    torch.manual_seed(1)
    spec = {"kind": "hierarchical", "size": 8, **options}
    return ENCODERS.build(spec, vocabulary=9).double().eval()


def batch(texts: list[list[list[int]]]) -> Segments:
    """Padding is a word, so that reading it would show."""
    sentences = [sentence for text in texts for sentence in text]
    width = max(map(len, sentences))
    ids = torch.tensor([[*sentence, *[4] * (width - len(sentence))] for sentence in sentences])
    lengths, counts = map(len, sentences), map(len, texts)
    return Segments(Tokens(ids, torch.tensor(list(lengths))), torch.tensor(list(counts)))


def by_loop(part: Any, text: list[list[int]]) -> torch.Tensor:
    """One sentence at a time, then all sentences of one text (S, D)."""
    pooled = []
    for sentence in text:
        words = part.lower.encode(part.embedding(torch.tensor([sentence])), None)
        pooled.append(part.between(part.pooling(words.hidden)))
    return part.upper.encode(torch.cat(pooled)[None], None).hidden[0]


@pytest.mark.parametrize(("lower", "upper"), LEVELS)
def test_a_batch_equals_a_loop_over_sentences(lower, upper):
    part = encoder(lower=lower, upper=upper)
    with torch.no_grad():
        found = part(batch(TEXTS))
        assert found.hidden.shape == (3, 3, part.size)
        assert found.places.seen.tolist() == [[True, True, False], [True, False, False], [True] * 3]
        for row, text in enumerate(TEXTS):
            assert_close(found.hidden[row, : len(text)], by_loop(part, text), **TOLERANCE)


def test_the_words_of_each_sentence_are_kept():
    """A decoder with attention to words needs their vectors, their places and their sentence."""
    part = encoder(lower=GRU, upper=GRU)
    with torch.no_grad():
        words = part(batch(TEXTS)).words
        assert words.rows.tolist() == [0, 0, 1, 2, 2, 2]
        assert words.numbers.tolist() == [0, 1, 0, 0, 1, 2]
        for i, (row, number) in enumerate(zip(words.rows, words.numbers, strict=True)):
            sentence = TEXTS[row][number]
            alone = part.lower.encode(part.embedding(torch.tensor([sentence])), None).hidden[0]
            assert_close(words.hidden[i, : len(sentence)], alone, **TOLERANCE)
            assert words.places.seen[i].tolist() == [place < len(sentence) for place in range(4)]


def test_a_sentence_has_no_influence_on_the_words_of_another():
    """Only the upper level joins sentences, and only those of one text."""
    part, other = encoder(lower=GRU, upper=GRU), [[[4, 5, 6], [8]], *TEXTS[1:]]
    with torch.no_grad():
        one, two = part(batch(TEXTS)), part(batch(other))
    same = (one.words.hidden == two.words.hidden).flatten(1).all(1)
    assert same.tolist() == [True, False, True, True, True, True]
    changed = (one.hidden != two.hidden).any(-1)
    assert changed.tolist() == [[True, True, False], [False] * 3, [False] * 3]


def test_the_order_of_sentences_matters():
    part = encoder(lower=GRU, upper=GRU)
    with torch.no_grad():
        first, second = part(batch([TEXTS[0], TEXTS[0][::-1]])).hidden
    assert not torch.allclose(first, second.flip(0))


def test_without_boundaries_each_token_is_a_sentence():
    part = encoder()
    with torch.no_grad():
        whole = part(Tokens(torch.tensor([[4, 5, 6], [7, 8, 4]]), torch.tensor([3, 1])))
        apart = part(batch([[[4], [5], [6]], [[7]]]))
    assert_close(whole.hidden, apart.hidden)


def test_both_levels_are_captured():
    model = build_model({"preset": "yang2016", "size": 8}, vocabulary=9, classes=2).eval()
    with capture(model) as seen, torch.no_grad():
        model.predictions(batch(TEXTS))
    (words,), (sentences,) = seen["encoder.pooling"], seen["head.pooling"]
    assert words.shape == (6, 1, 1, 4)
    assert sentences.shape == (3, 1, 1, 3)
    for weights in (words, sentences):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_yang_2016_has_the_sizes_of_the_paper():
    """Embeddings of 200, GRUs of 50 for each direction, annotations and queries of 100 (section 3.3)."""
    with torch.device("meta"):
        model = build_model("yang2016", vocabulary=1000, classes=5)
    gru = {inputs: 2 * 3 * 50 * (inputs + 50 + 2) for inputs in (200, 100)}  # two biases, as in torch
    attention = 100 * 100 + 100 + 100
    expected = 1000 * 200 + gru[200] + attention + gru[100] + attention + 100 * 5 + 5
    assert sum(weight.numel() for weight in model.parameters()) == expected


def test_xing_2018_has_the_sizes_of_the_paper():
    """Embeddings of 620, states of 1000 in each direction and in the decoder."""
    with torch.device("meta"):
        model = build_model("xing2018", source_vocabulary=1000, target_vocabulary=1000)
    gru = {inputs: 3 * 1000 * (inputs + 1000 + 2) for inputs in (620, 620 + 1000, 2000)}
    words = 2000 * 1000 + 2000 * 1000 + 1000  # queries of two states, keys of both directions, the score
    turns = gru[2000] + 1000 + 1000 * 1000 + 1000 * 1000 + 1000
    readout = (1000 + 620 + 1000) * 1000 + 1000 + 500 * 1000  # a maxout, and the output layer
    first = 2000 * 1000 + 1000
    expected = 2 * 1000 * 620 + 2 * gru[620] + words + turns + gru[620 + 1000] + readout + first
    assert sum(weight.numel() for weight in model.parameters()) == expected


def test_a_run_keeps_the_earlier_description_of_xing_2018():
    """With a learned query for the words, a GRU over turns in the encoder, and one attention."""
    gru = {"kind": "rnn", "cell": "gru"}
    sizes = {"size": 1000, "dropout": 0.0}
    wiring = {"attention": "bahdanau", "query": "previous", "feed": "context", "readout": "maxout"}
    earlier = {
        "encoder": {"kind": "hierarchical", **sizes, "lower": {**gru, "embedding_size": 620}, "upper": gru},
        "decoder": {**gru, **sizes, "embedding_size": 620, "readout_size": 500, "start": "tanh", **wiring},
        "share": False,
        "tie": False,
    }
    table = {"preset": "xing2018", PINNED: earlier, "size": 8}
    model = build_model(table, source_vocabulary=9, target_vocabulary=9)
    names = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
    assert {"encoder.pooling.map", "encoder.upper.recurrent.layers.0", "decoder.attention.query"} <= names
    assert not any(name.startswith("decoder.attention.words") for name in names)


@pytest.mark.parametrize("preset", ["xing2018", "tiny-turns"])
def test_a_conversation_is_decoded_in_a_batch_as_alone(preset):
    """Turns of different numbers and lengths: selected, joined and in pieces, each row as if alone."""
    torch.manual_seed(1)
    sizes = {"size": 8, "decoder": {"embedding_size": 6}} if preset == "xing2018" else {"size": 8}
    model = build_model({"preset": preset, **sizes}, source_vocabulary=9, target_vocabulary=9)
    model = model.double().eval()
    target = torch.tensor([[5, 6, 7, 8], [8, 4, 5, 6], [6, 6, 4, 7]])
    with torch.no_grad():
        alone = [model.decoder(target[i : i + 1], model.start(batch([TEXTS[i]])))[0][0] for i in range(3)]
        whole, _ = model.decoder(target, model.start(batch(TEXTS)))
        assert_close(whole, torch.stack(alone), **TOLERANCE)
        first, state = model.decoder(target[:, :1], model.start(batch(TEXTS)))
        rows = [2, 0, 0, 1]
        second, state = model.decoder(target[rows, 1:3], state.select(rows))
        assert_close(torch.cat([first[rows], second], 1), whole[rows, :3], **TOLERANCE)
        _, other = model.decoder(target[1:2, :3], model.start(batch([TEXTS[1]])))
        third, _ = model.decoder(target[[*rows, 1], 3:], state.join([other]))
        assert_close(third[:, 0], whole[[*rows, 1], 3], **TOLERANCE)
        _, longest = model.decoder(target[2:, :3], model.start(batch(TEXTS[2:])))
        joined, _ = model.decoder(target[[1, 2], 3:], other.join([longest]))  # more turns join fewer
        assert_close(joined[:, 0], whole[[1, 2], 3], **TOLERANCE)


def test_words_of_another_size_than_the_encoder_are_refused():
    levels = {"kind": "hierarchical", "lower": {"kind": "rnn", "size": 12}, "upper": "rnn", "size": 8}
    description = {"encoder": levels, "decoder": {"kind": "rnn", "attention": "hierarchical", "size": 8}}
    model = build_model({**description, "tie": False}, source_vocabulary=9, target_vocabulary=9)
    with pytest.raises(ConfigError, match=r"words, of size 12, not 8; set encoder.upper = none"):
        model.start(batch(TEXTS))


def test_without_an_upper_level_sentences_are_a_bag():
    part, turned = encoder(lower=GRU, upper="none"), TEXTS[2][::-1]
    with torch.no_grad():
        one, two = part(batch([TEXTS[2]])), part(batch([turned]))
    assert_close(one.hidden.flip(1), two.hidden, **TOLERANCE)
    assert_close(
        one.final[0][-1], part.lower.encode(part.embedding(torch.tensor(TEXTS[2][2:])), None).final[0][-1]
    )


def test_the_levels_share_options_unless_they_have_their_own():
    part = encoder(layers=2, lower={**GRU, "layers": 1}, upper=ATTENDS)
    assert len(part.lower.recurrent.layers) == 1
    assert len(part.upper.stack.blocks) == 2


@pytest.mark.parametrize("level", ["lower", "upper"])
def test_a_level_encodes_sequences(level):
    with pytest.raises(ConfigError, match=f"{level} is 'hierarchical'.*use rnn or transformer"):
        encoder(**{level: "hierarchical"})
