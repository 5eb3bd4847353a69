"""Replies ranked by another model: the order is that of the formula; wrong pairs of models are refused."""

from __future__ import annotations

import pytest
import torch

from seqwright.config import SearchConfig, parse
from seqwright.data.read_report import Place
from seqwright.data.readers.conversations import Exchange
from seqwright.errors import ConfigError
from seqwright.models.building import build_model
from seqwright.prediction.chat import Chat
from seqwright.prediction.predictor import Predictor
from seqwright.prediction.ranking import Ranking
from seqwright.tasks.conversation import Conversation

SMALL = {"preset": "tiny", "layers": 1, "size": 16, "hidden": 16, "heads": 2, "dropout": 0.0}
TALK = [("hi", "hello there"), ("how are you", "fine"), ("bye", "so long"), ("who are you", "a machine")]
EXCHANGES = [Exchange(("well", q), a, q, Place("f", i)) for i, (q, a) in enumerate(TALK, start=1)]
CONTEXT = ("well", "how are you")


def predictor(seed: int, **model) -> Predictor:
    options = {"data": {"max_length": 12}, "training": {"steps": 1}}
    config = parse({"task": "conversation", "model": {**SMALL, **model}, **options})
    task = Conversation.fit(config, lambda: EXCHANGES)
    torch.manual_seed(seed)
    built = build_model({**SMALL, **model}, **task.facts()).eval()
    return Predictor(built, task, SearchConfig(max_length=6))


def per_token(judge: Predictor, reply: str) -> float:
    (score,) = judge.score([(CONTEXT, reply)])
    return score / (len(judge.task.target.encode(reply)) + 1)


def test_retrieved_replies_are_in_the_order_of_the_generator():
    retrieval, judge = predictor(1, kind="dual_encoder"), predictor(2)
    (found,) = retrieval.ranked(Ranking(judge, "generator")).predict([CONTEXT], n_best=4)
    expected = sorted((reply for _, reply in TALK), key=lambda reply: -per_token(judge, reply))
    assert [each.text for each in found.all] == expected
    assert found.score == pytest.approx(per_token(judge, expected[0]), abs=1e-5)
    (plain,) = retrieval.predict([CONTEXT], n_best=4)
    assert [each.text for each in plain.all] != expected


@pytest.mark.parametrize("options", [{"beam": 6, "n_best": 6}, {}])
def test_mutual_information_adds_both_directions(options):
    model, backward = predictor(1), predictor(2)
    ranking = Ranking(backward, "mutual_information", candidates=6, weight=0.75)
    (found,) = model.ranked(ranking).predict([CONTEXT], **options)

    def score(reply: str) -> float:
        (forward,), (back,) = model.score([(CONTEXT, reply)]), backward.score([(reply, CONTEXT[-1])])
        return 0.25 * forward + 0.75 * back

    assert found.score == pytest.approx(score(found.text), abs=1e-5)
    if options:
        (plain,) = model.predict([CONTEXT], **options)
        assert found.text == max((each.text for each in plain.all), key=score)
        scores = [each.score for each in found.all]
        assert scores == sorted(scores, reverse=True)


def test_a_ranked_reply_does_not_depend_on_its_neighbours():
    ranked = predictor(1).ranked(Ranking(predictor(2), "mutual_information", candidates=3))
    alone = [ranked.predict([each])[0].text for each in (CONTEXT, "hi", " ")]
    assert [each.text for each in ranked.predict([CONTEXT, "hi", " "])] == alone
    assert alone[-1] == ""


def test_another_attempt_is_another_candidate():
    ranked = predictor(1, kind="dual_encoder").ranked(Ranking(predictor(2), "generator", candidates=2))
    chat = Chat(ranked)
    texts = [*chat.reply("how are you"), *chat.retry(), *chat.retry(), *chat.retry()]
    assert len(set(texts)) == len(TALK)


def test_models_that_cannot_rank_are_refused():
    generative, retrieval = predictor(1), predictor(1, kind="dual_encoder")
    with pytest.raises(ConfigError, match="gives no probabilities"):
        Ranking(retrieval, "generator")
    with pytest.raises(ConfigError, match="use --mutual-information"):
        generative.ranked(Ranking(generative, "generator"))
    with pytest.raises(ConfigError, match="with --rank-by"):
        retrieval.ranked(Ranking(generative, "mutual_information"))
    with pytest.raises(ConfigError, match="candidates"):
        Ranking(generative, "generator", candidates=0)
    with pytest.raises(ConfigError, match="weight"):
        Ranking(generative, "generator", weight=1.5)
