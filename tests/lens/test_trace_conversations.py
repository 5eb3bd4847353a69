"""Traces of conversations: turns, replies that were given, one sequence, and what a retrieval finds near."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from talking import MODELS, TALK, TURNS, talker

from seqwright.data.fields import FIELD
from seqwright.data.store import Ragged
from seqwright.errors import ConfigError, InputError
from seqwright.lens.capture import capture
from seqwright.lens.neighbours import without_each_word
from seqwright.lens.trace.schema import TraceFile
from seqwright.models import evaluating
from seqwright.prediction.chat import Chat
from seqwright.prediction.predictor import Predictor

GENERATIVE = ["flat", "decoder_only", "xing2018", "tiny-turns"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_conversations_is_traced(name):
    trace = talker(name).look(TURNS)
    TraceFile.model_validate(json.loads(trace.to_bytes()))
    turns = trace.document["axes"]["turns"]["pieces"]
    assert [turn["text"] for turn in turns] == ["you", *TURNS[1:]]  # the most recent 24 tokens are read
    assert trace.document["source"]["skipped"] == len("how are ")
    for piece in trace.document["source"]["pieces"]:
        assert trace.text[piece["start"] : piece["end"]] == piece["text"]
    assert str(trace)


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_traced_reply_is_the_one_that_predict_gives(name):
    model = talker(name)
    assert model.look(TURNS).output == model(TURNS)
    assert model.look(TURNS, beam=2).output == model(TURNS, beam=2)


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_given_reply_has_the_probability_of_score(name):
    """The trace of the last reply of a chat, also of a sampled one."""
    chat = Chat(talker(name), temperature=2.0)
    chat.turns = ["hi", "hello", "who are you", "a machine"]
    trace = chat.look()
    assert trace.output == "a machine"
    (score,) = chat.predictor.score([(("hi", "hello", "who are you"), "a machine")])
    assert trace.document["output"]["log_prob"] == pytest.approx(score, abs=1e-4)


def test_a_chosen_reply_is_looked_into():
    model = talker("flat")
    trace = model.look(TURNS, output="a machine")
    assert trace.output == "a machine"
    (score,) = model.score([(tuple(TURNS), "a machine")])
    assert trace.document["output"]["log_prob"] == pytest.approx(score, abs=1e-4)
    with pytest.raises(InputError, match="the output is 3"):
        model.look(TURNS, output=3)


def decoded_again(model, trace):
    """The weights of each attention while the reply of a trace is decoded."""
    tokens = [piece["id"] for piece in trace.document["output"]["pieces"]]
    with capture(model.model) as seen, evaluating(model.model):
        (row,) = model.task.encode(list(model.task.inputs([TURNS])))
        state = model.model.start(model.task.source_of(Ragged.of([row.columns["source"]])))
        model.model.decoder(torch.tensor([[2, *tokens[:-1]]]), state)
    return seen


def test_words_and_turns_have_the_weights_of_both_levels():
    model = talker("tiny-turns", 99)
    trace = model.look(TURNS)
    seen, pieces = decoded_again(model, trace), trace.document["source"]["pieces"]
    words = trace.attention("words", 0)[0]  # (turns, tokens)
    assert words.shape == (3, len(pieces))
    for number, (turn, weights) in enumerate(zip(TURNS, seen["encoder.pooling"][0], strict=True)):
        own = [place for place, weight in enumerate(words[number]) if weight > 0]
        assert "".join(pieces[place]["text"] for place in own) == turn
        assert words[number, own] == pytest.approx(weights[0, 0, : len(turn)].numpy(), abs=1e-4)
    expected = seen["decoder.stack.blocks.0.cross"][0][0].numpy()  # (H, T, turns)
    assert trace.attention("cross", 0) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["xing2018", "hierarchical, current query"])
def test_of_a_hierarchical_attention_both_levels_follow_the_step(name):
    """Each turn has words with weights of sum 1 at each step, and they change from step to step."""
    model = talker(name, 99)
    trace = model.look(TURNS)
    seen, steps = decoded_again(model, trace), len(trace.document["steps"])
    words = trace.attention("words", 0)[0]  # (T, tokens)
    assert trace.document["kinds"]["words"]["rows"] == "steps"
    assert words.shape == (steps, sum(map(len, TURNS)))
    ends = np.cumsum([0, *map(len, TURNS)])
    calls = seen["decoder.attention.words"]  # of each step the turns, the last one first
    for number in range(3):
        own = torch.cat([call[0, 0] for call in calls[2 - number :: 3]]).numpy()  # (T, tokens of the turn)
        assert words[:, ends[number] : ends[number + 1]] == pytest.approx(own, abs=1e-4)
        assert own.sum(-1) == pytest.approx(1, abs=1e-4)
        assert np.abs(own - own[0]).max() > 1e-3
    outer = torch.cat(seen["decoder.attention.turns"])[:, 0, 0].numpy()  # (T, turns)
    assert trace.attention("cross", 0)[0] == pytest.approx(outer, abs=1e-4)
    assert trace.layers("cross") == 1


def test_the_weights_after_a_prompt_are_those_of_one_sequence():
    """To the context and to the reply so far: together they sum to 1 at each step."""
    model = talker("decoder_only")
    trace = model.look(TURNS)
    for layer in range(2):
        both = [trace.attention("cross", layer), trace.attention("dec", layer)]
        assert np.concatenate(both, 2).sum(-1) == pytest.approx(1, abs=1e-3)
        assert np.triu(both[1], 1).max() == 0  # causal
    source, prefix = trace.contributions()
    steps = len(trace.document["steps"])
    assert source.shape == (steps, 25)
    assert prefix.shape == (steps, steps)
    assert np.abs(np.triu(prefix, 1)).max() == 0  # no token depends on later ones


def test_the_effect_of_a_word_is_the_fall_of_the_cosine_without_it():
    """The oracle asks the predictor again, without the word."""
    model = talker("dual_encoder", 99)
    found = model.look(TURNS).document["neighbours"]

    def cosines(turns):
        (reply,) = model.predict([turns], n_best=4)
        return {each.text: each.score for each in reply.all}

    whole = cosines(TURNS)
    assert {text["text"]: text["cosine"] for text in found["texts"]} == pytest.approx(whole, abs=1e-5)
    assert [word["text"] for word in found["words"]] == " ".join(TURNS).split()
    without = cosines(("how are you", "fine you", "bye bye"))
    place = [word["text"] for word in found["words"]].index("and")
    for text in found["texts"]:
        assert text["effects"][place] == pytest.approx(whole[text["text"]] - without[text["text"]], abs=1e-5)
    assert max(abs(effect) for text in found["texts"] for effect in text["effects"]) > 1e-3


def test_a_neighbour_has_the_context_of_the_training_data():
    model = talker("dual_encoder")
    found = model.look(("well", "bye")).document["neighbours"]["texts"]
    contexts = {text["text"]: text["context"] for text in found}
    assert contexts == {reply: ["well", asked] for asked, reply in TALK}
    assert {text["text"]: text["alike"] for text in found}["so long"] == pytest.approx(1, abs=1e-5)


def test_without_each_word_leaves_out_empty_turns():
    words, rest = without_each_word(("a b", "c"))
    assert [(word["text"], word["turn"]) for word in words] == [("a", 0), ("b", 0), ("c", 1)]
    assert rest == [("b", "c"), ("a", "c"), ("a b",)]


def test_the_next_nearest_reply_of_a_chat_is_the_one_that_is_traced():
    chat = Chat(talker("dual_encoder"))
    list(chat.reply("hi"))
    (second,) = chat.retry()
    trace = chat.look()
    assert trace.output == second
    assert trace.document["neighbours"]["texts"][0]["text"] == second
    (reply,) = chat.predictor.predict(["hi"], n_best=2)
    log_probs = {each.text: each.log_prob for each in reply.all}
    assert trace.document["output"]["log_prob"] == pytest.approx(log_probs[second], abs=1e-4)


def test_an_index_without_contexts_is_traced():
    """That of a run of an earlier version."""
    model = talker("dual_encoder")
    task = replace(model.task, index=replace(model.task.index, contexts=()))
    trace = Predictor(model.model, task).look("hi")
    assert all(text["alike"] is None for text in trace.document["neighbours"]["texts"])


@pytest.mark.parametrize("name", ["flat", "dual_encoder"])
@pytest.mark.parametrize("given", ["", " ", (), ("", " ")])
def test_a_blank_context_is_refused(name, given):
    with pytest.raises(InputError, match="blank"):
        talker(name).look([given] if given == () else given)


def test_a_reference_is_refused():
    with pytest.raises(ConfigError, match="does not score one"):
        talker("flat").look("hi", reference="hello")


def test_the_marker_is_a_piece_of_a_flat_context_only():
    flat, turns = (talker(name).look(TURNS).document for name in ("flat", "xing2018"))
    assert [FIELD in piece["text"] for piece in flat["source"]["pieces"]].count(True) == 2
    assert not any(FIELD in piece["text"] for piece in turns["source"]["pieces"])


@pytest.mark.parametrize("name", ["flat", "decoder_only", "tiny-turns", "dual_encoder"])
def test_a_reply_to_a_megabyte_is_explained_by_the_part_that_is_read(name):
    chat, text = Chat(talker(name)), " ".join(["how are you"] * 85_000)
    assert list(chat.reply(text))
    source = chat.look().document["source"]
    assert "".join(piece["text"] for piece in source["pieces"]) == " how are you how are you"
    assert [word["text"] for word in source["words"]] == ["how", "are", "you"] * 2
    assert source["skipped"] == len(text) - 24
