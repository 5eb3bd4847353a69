"""Conversations as a task: contexts, replies, sampling, ranks of candidates, hostile inputs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from talking import talker

from seqwright.config import SearchConfig, parse
from seqwright.data.fields import FIELD
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.conversations import Exchange
from seqwright.data.replies import wrong_replies
from seqwright.data.store import Ragged
from seqwright.data.survey import survey
from seqwright.data.tokenizer import END
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.comparison import compare
from seqwright.evaluation.evaluate import Judging, evaluate
from seqwright.evaluation.metrics import METRICS
from seqwright.models.building import build_model
from seqwright.prediction.predictor import Predictor
from seqwright.recipes.conversation import choose
from seqwright.tasks import conversation
from seqwright.tasks.bases.generated_text import SIDES
from seqwright.tasks.bases.retrieval import context_vectors
from seqwright.tasks.conversation import Conversation

SMALL = {"preset": "tiny", "layers": 1, "size": 16, "hidden": 16, "heads": 2, "dropout": 0.0}
TALK = [("hi", "hello there"), ("how are you", "fine"), ("bye", "so long"), ("who are you", "a machine")]
EXCHANGES = [Exchange(("well", q), a, q, Place("f", i)) for i, (q, a) in enumerate(TALK, start=1)] * 5


def configuration(**model):
    options = {"data": {"max_length": 12}, "training": {"steps": 1}}
    return parse({"task": "conversation", "model": {**SMALL, **model}, **options})


def fitted(**model) -> Conversation:
    return Conversation.fit(configuration(**model), lambda: EXCHANGES)


def predictor(task: Conversation, **model) -> Predictor:
    torch.manual_seed(2)
    built = build_model({**SMALL, **model}, **task.facts()).eval()
    return Predictor(built, task, SearchConfig(max_length=8))


def test_the_most_recent_tokens_of_a_context_are_read():
    task = fitted()
    (row,) = task.encode([Exchange(("who are you", "how are you"), None, "", Place("", 0))])
    assert task.source.decode(row.columns["source"]).endswith("how are you")
    assert len(row.columns["source"]) == 12
    (reply,) = predictor(task).predict([("who are you", "how are you")])
    assert reply.reading.unread > 0


def test_a_validation_shows_replies_as_a_chat_gives_them():
    task = fitted()
    model = predictor(task).model
    items = [(example, [example.reply]) for example in EXCHANGES[:4]]
    drafted = [reply.value for reply in task.draft(model, items, lambda: None)]
    longest = 2 * max(len(task.source.encode(example.reply)) for example, _ in items) + 10
    chatted = Predictor(model, task, SearchConfig(max_length=longest)).predict(
        [example.context for example, _ in items]
    )
    assert drafted == [reply.value for reply in chatted]
    greedy = Predictor(model, task, SearchConfig(max_length=longest)).predict(
        [example.context for example, _ in items], temperature=0
    )
    assert drafted != [reply.value for reply in greedy]


def test_the_tokenizer_does_not_depend_on_how_many_turns_are_read(tmp_path):
    file = tmp_path / "talk.jsonl"
    turns = [["hello", "hello you", "bye", "bye"], ["who is it", "me", "who is me"]]
    file.write_text("\n".join(json.dumps({"turns": each}) for each in turns))

    def fingerprint(context):
        data = replace(configuration().data, context=context)
        examples = list(Conversation.reader([str(file)], data).read(ReadReport()))
        return Conversation.fit(configuration(), lambda: examples).fingerprint

    assert fingerprint(1) == fingerprint("all")


def test_a_short_training_on_much_data_reads_less_of_a_context(tmp_path):
    file = tmp_path / "talk.tsv"
    long = " ".join(["word"] * 100)
    file.write_text("context\treply\n" + f"{long}\tyes\n" * 300)
    found = survey(parse({"task": "conversation", "data": {"train": [str(file)]}, "training": {"steps": 1}}))

    def choice(**training):
        table = choose(found, {"training": training}).table()
        return table["data"]["max_length"], table["model"]["dropout"]

    assert choice(minutes=0.02) == (96, 0.1)
    assert choice(minutes=5.0) == (256, 0.3)


def test_a_retrieval_model_detects_ngrams_unless_another_model_is_named(tmp_path):
    file = tmp_path / "talk.tsv"
    file.write_text("context\treply\n" + "".join(f"well {i}\tyes {i}\n" for i in range(300)))
    found = survey(parse({"task": "conversation", "data": {"train": [str(file)]}, "training": {"steps": 1}}))

    def chosen(**model):
        table = choose(found, {"model": model, "training": {"minutes": 1.0}}).table()
        return table["model"]["preset"], table["training"]["tokens"]

    assert chosen(kind="dual_encoder") == ("tiny-retriever", 4096)
    assert chosen(preset="tiny-retriever")[1] == 4096
    assert chosen(kind="dual_encoder", layers=1) == ("tiny", 4096)
    assert chosen(kind="decoder_only") == ("tiny", 512)


def test_several_turns_are_read_without_an_encoder_unless_one_is_named(tmp_path):
    file = tmp_path / "talk.tsv"
    file.write_text("context\treply\n" + "".join(f"well {i}\tyes {i}\n" for i in range(300)))
    found = survey(parse({"task": "conversation", "data": {"train": [str(file)]}, "training": {"steps": 1}}))

    def kind(**requested):
        table = choose(found, {"training": {"minutes": 1.0}, **requested}).table()["model"]
        assert ("source_loss" in table) == (table.get("kind") == "decoder_only")
        return table.get("kind")

    assert kind() == kind(data={"context": 3}) == kind(model={"kind": "decoder_only"}) == "decoder_only"
    assert kind(data={"context": 1}) is None
    for model in ({"kind": "encoder_decoder"}, {"encoder": "rnn"}, {"preset": "tiny-turns"}):
        assert kind(model=model) is None


def test_a_model_of_one_turn_reads_one_turn_of_a_longer_chat():
    config = parse(
        {
            "task": "conversation",
            "model": SMALL,
            "data": {"max_length": 12, "context": 1},
            "training": {"steps": 1},
        }
    )
    task = Conversation.fit(config, lambda: EXCHANGES)
    model = predictor(task)
    long, short = model.predict([("bye", "hi"), ("hi",)], beam=2)
    assert long.text == short.text
    assert long.log_prob == pytest.approx(short.log_prob, abs=1e-5)
    assert long.source == "bye\thi"
    request = task.request(SearchConfig())
    shown = task.readout(model.model, Exchange(("bye", "hi"), None, "", Place("", 0)), request)
    assert "bye" not in shown.text


@pytest.mark.parametrize(
    ("line", "turns"),
    [
        ('{"turns": ["hi", {"speaker": "b", "text": "bye"}]}', ("hi", "bye")),
        (
            '{"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "you"}]}',
            ("hi you",),
        ),
        ('{"context": "hi\\tbye"}', ("hi", "bye")),
        ('{"context": ["hi", "bye"]}', ("hi", "bye")),
        ("hi\t\tbye", ("hi", "bye")),
        ('{"other": 1}', ('{"other": 1}',)),
        ("{hi", ("{hi",)),
    ],
)
def test_a_line_of_input_may_be_an_object_as_in_a_file(line, turns):
    assert fitted().from_line(line).context == turns


def test_an_object_without_a_list_of_turns_is_no_input():
    with pytest.raises(InputError, match="needs a list"):
        fitted().from_line('{"turns": 5}')


def test_the_last_turn_of_a_context_is_shown_to_people():
    model = predictor(fitted())
    found = model.evaluate([EXCHANGES[0]])
    assert found.row(0)[0] == "… hi"
    assert found.items[0].output.source == "well\thi"
    assert model.task.caption(EXCHANGES[0]._replace(context=("hi",))) == "hi"


def test_a_reply_is_one_turn():
    model = predictor(fitted())
    assert not any(FIELD in reply.text for reply in model.predict(["hi", "bye"], temperature=5.0))


def test_no_reply_is_empty():
    model = predictor(fitted(output_bias=True), output_bias=True)
    with torch.no_grad():  # would end every reply at once
        model.model.output.bias[END] = 50.0
    replies = [model("hi", seed=seed) for seed in range(5)] + [model("hi", beam=2)]
    assert all(replies)


def test_turns_become_segments_for_an_encoder_that_reads_them():
    task = replace(fitted(), segmented=True)
    (row,) = task.encode([Exchange(("a", "bye", "hi"), None, "", Place("", 0))])
    found = task.source_of(Ragged.of([row.columns["source"]]))
    assert found.counts.tolist() == [3]
    assert found.words.lengths.tolist() == [1, 3, 2]


def test_a_hierarchical_model_replies():
    model = {"encoder": {"kind": "hierarchical", "size": 16}, "share": False}
    task = fitted(**model)
    assert task.segmented
    (reply,) = predictor(task, **model).predict([("hi", "hello", "bye")])
    assert reply.text is not None


def test_a_reply_depends_on_its_context_and_the_seed_alone():
    model = predictor(fitted())
    alone = model("hi", seed=1)
    assert model(["bye", "hi"], seed=1)[1] == alone
    drawn = {model("hi", seed=seed) for seed in range(8)}
    assert len(drawn) > 1
    assert model("hi", beam=2) == model("hi", beam=2, n_best=1)


def test_no_reply_repeats_three_tokens():
    model = predictor(fitted())
    for reply in model.predict([("hi",)] * 3 + [("bye",)], temperature=0.1, max_length=40):
        grams = list(zip(reply.tokens, reply.tokens[1:], reply.tokens[2:], strict=False))
        assert len(set(grams)) == len(grams)


def test_an_evaluation_scores_and_ranks_the_expected_reply():
    model = predictor(fitted())
    model.task = replace(model.task, pool=tuple(f"fine {i}" for i in range(12)))
    found = model.evaluate(EXCHANGES[:4])
    assert {"perplexity", "distinct_1", "distinct_2", "recall_at_1_of_10"} <= found.metrics.keys()
    scores = model.task.score(model.model, EXCHANGES[:4])
    tokens = sum(len(model.task.source.encode(each.reply)) + 1 for each in EXCHANGES[:4])
    assert found.metrics["perplexity"] == pytest.approx(math.exp(-sum(scores) / tokens), rel=1e-4)
    assert all(1 <= item.output.ranks[10] <= 10 for item in found.items)
    assert "perplexity" in found.baseline
    assert found.beam == 0  # replies are sampled
    assert model.evaluate(EXCHANGES[:4], beam=2).beam == 2
    json.dumps(found.to_json(), allow_nan=False)


def retriever(replies: int = 0) -> Predictor:
    """A model with an index; with `replies`, the training has so many different ones."""
    task = fitted(kind="dual_encoder")
    task = replace(task, pool=tuple(f"fine {i}" for i in range(replies)) or task.pool)
    model = predictor(task, kind="dual_encoder")
    model.task = task.indexed(model.model, EXCHANGES).calibrated(model.model, EXCHANGES[:4])
    return model


def test_the_nearest_reply_is_found_by_comparing_with_all():
    model = retriever()
    task, index = model.task, model.task.index
    assert set(index.texts) == {reply for _, reply in TALK}
    (found,) = model.predict([("hi",)], n_best=3)
    context = context_vectors(task, model.model, task.encode(list(task.inputs([("hi",)]))))[0]
    cosines = {text: float(vector @ context) for text, vector in zip(index.texts, index.vectors, strict=True)}
    assert [each.text for each in found.all] == sorted(cosines, key=cosines.__getitem__, reverse=True)[:3]
    assert found.score == pytest.approx(max(cosines.values()), abs=1e-5)
    assert list(model.typed(("hi",))) == [found.text]


@pytest.mark.parametrize(
    "option",
    [
        {"temperature": 0.5},
        {"top_k": 3},
        {"top_p": 0.5},
        {"sample": True},
        {"max_length": 5},
        {"prefix": "h"},
    ],
)
def test_a_retrieved_reply_takes_no_options_of_a_written_one(option):
    with pytest.raises(ConfigError, match=f"{next(iter(option))} is .*retrieves replies .*; leave it out"):
        retriever().predict("hi", **option)


def test_a_retrieval_model_has_recall_and_says_when_nothing_fits():
    model = retriever(100)
    found = model.evaluate(EXCHANGES[:4])
    metrics = found.metrics
    assert {"recall_at_1_of_10", "recall_at_5_of_10", "recall_at_1_of_100"} <= metrics.keys()
    assert not any(finding.startswith("recall") for finding in found.findings)
    assert found.speed.tokens == found.speed.sentences  # the speed counts replies, not tokens
    assert "perplexity" not in metrics
    strict = replace(model.task, index=replace(model.task.index, least=1.1))
    model.task = strict
    assert not model.predict(["hi"])[0].fits


@pytest.mark.parametrize("replies", [1, 9, 10, 99])
@pytest.mark.parametrize("retrieves", [True, False])
def test_recall_is_absent_where_candidates_are_too_few(replies, retrieves):
    model = retriever(replies) if retrieves else predictor(fitted())
    model.task = replace(model.task, pool=tuple(f"fine {i}" for i in range(replies)))
    present, absent = ((10,), (100,)) if replies >= 10 else ((), (10, 100))
    absent = absent if retrieves else absent[: 1 - len(present)]
    found = model.evaluate(EXCHANGES[:4])
    for count in present:
        assert 0 <= found.metrics[f"recall_at_1_of_{count}"] <= 100
    for count in absent:
        assert f"recall_at_1_of_{count}" not in found.metrics
    assert all(set(item.output.ranks) == set(present) for item in found.items)
    counts = " and of ".join(str(count) for count in absent)
    known = "1 different reply" if replies == 1 else f"{replies} different replies"
    if absent:
        assert f"recall of {counts} candidates is left out: training has only {known}" in found.findings
        assert f"! recall of {counts}" in str(found)
    with pytest.raises(ConfigError, match=f"recall_at_1_of_100 needs 100 .* training has {known}; leave it"):
        model.evaluate(EXCHANGES[:4], judging=Judging(metrics=("recall_at_1_of_100",)))


def test_a_generator_ranks_a_hundred_candidates_only_if_it_is_requested(monkeypatch):
    """Each candidate is scored with the context, so the first items alone are ranked."""
    model = predictor(fitted())
    model.task = replace(model.task, pool=tuple(f"fine {i}" for i in range(100)))
    monkeypatch.setattr(conversation, "RANKED", {10: 3, 100: 2})
    scored = []

    def score(self, model, examples, found=Conversation.score):
        scored.append(len(examples))
        return found(self, model, examples)

    monkeypatch.setattr(Conversation, "score", score)
    usual = model.evaluate(EXCHANGES[:4])
    assert "recall_at_1_of_100" not in usual.metrics
    assert scored == [4, 9, 9, 9, *[1] * 4]  # and the expected reply of each single input
    scored.clear()
    found = model.evaluate(EXCHANGES[:4], judging=Judging(metrics=("recall_at_1_of_100",)))
    assert scored == [4, 99, 99, *[1] * 4]
    ranks = [item.output.ranks[100] for item in found.items[:2]]
    assert found.metrics == {"recall_at_1_of_100": 100 * sum(rank == 1 for rank in ranks) / 2}
    assert found.measured[0].signature == "refs:1|ranked:2"
    assert not any(item.output.ranks for item in found.items[2:])


def test_a_training_reply_of_ten_is_ranked_among_the_nine_others():
    pool = tuple(f"fine {i}" for i in range(10))
    drawn = wrong_replies(pool, "fine 3", 0, 9)
    assert sorted([*drawn, "fine 3"]) == sorted(pool)


def test_a_recall_of_some_items_states_how_many():
    metric = METRICS.build("recall_at_1_of_10")
    some = metric.measured([1, 2, None], [["x"]] * 3)
    assert (some.value(), some.signature) == (50.0, "refs:1|ranked:2")
    assert metric.measured([1, 2], [["x"]] * 2).signature == "refs:1"


def test_a_validation_of_a_retrieval_model_ranks_replies():
    """So that a training can select the weights by recall."""
    model = retriever(10)
    model.task = replace(model.task, index=None)
    drafted = model.task.draft(model.model, [(each, [each.reply]) for each in EXCHANGES[:4]], lambda: None)
    assert all(1 <= reply.ranks[10] <= 10 for reply in drafted)


@pytest.mark.parametrize(
    ("retrieves", "replies", "metric", "problem"),
    [
        (True, 9, "recall_at_1_of_10", "needs 10 different replies"),
        (True, 9, "perplexity", "has none"),
        (False, 10, "recall_at_1_of_10", "not computed by validations"),
        (False, 10, "perplexity", "not computed by validations"),
    ],
)
def test_a_training_is_not_selected_by_a_metric_that_its_validations_do_not_have(
    retrieves, replies, metric, problem
):
    task = replace(fitted(), retrieves=retrieves, pool=tuple(f"fine {i}" for i in range(replies)))
    with pytest.raises(ConfigError, match=f"{metric} .*{problem}.*; use training.metric=loss"):
        task.judge(EXCHANGES[:1], [["x"]], metrics=(metric,), validation=True)


def test_the_index_is_saved_with_the_task(tmp_path):
    task = retriever().task
    task.save(tmp_path)
    found = Conversation.load(tmp_path, configuration(kind="dual_encoder"))
    assert found.index.texts == task.index.texts
    assert np.array_equal(found.index.vectors, task.index.vectors)
    (tmp_path / "index.json").write_text('{"replies": ["a"], "least": 0.0}')
    with pytest.raises(ModelError, match="do not belong together"):
        Conversation.load(tmp_path, configuration(kind="dual_encoder"))


def test_equal_replies_are_not_wrong_ones():
    """A batch in which all targets are equal has nothing to tell apart."""
    task = fitted(kind="dual_encoder")
    model = predictor(task, kind="dual_encoder").model
    rows = task.encode([EXCHANGES[0], EXCHANGES[0]._replace(context=("bye",))])
    batch = task.collated(*(Ragged.of([row.columns[side] for row in rows]) for side in SIDES), np.arange(2))
    assert float(model.loss(batch).total.detach()) == pytest.approx(0.0, abs=1e-6)
    assert model.loss(batch).count == 2


def test_distinct_counts_words_over_all_outputs():
    metric = METRICS.build("distinct_1")
    rows = metric.statistics(["a b", "b c", ""], [["x"]] * 3)
    assert metric.value(metric.total(rows)) == pytest.approx(100 * 3 / 4)
    assert METRICS.build("distinct_2").value(np.array([0.0, 0.0])) == 0


@pytest.mark.parametrize("given", [5, ["a", 3], {"context": 4}, [("a", 1)]])
def test_what_is_not_a_context_is_refused(given):
    with pytest.raises(InputError):
        list(fitted().inputs(given))


def test_blank_and_strange_contexts_have_a_reply():
    model = predictor(fitted())
    blank, strange, long = model.predict(["", "\u202e\x00☃", "x" * 100_000])
    assert blank.text == ""
    assert strange.reading.unknown
    assert long.reading.unread == 100_000 - 12


def test_options_of_another_task_are_refused():
    with pytest.raises(ConfigError, match="unknown option"):
        predictor(fitted()).predict("hi", samples=3)


def test_damaged_replies_are_refused(tmp_path):
    task = fitted()
    task.save(tmp_path)
    config = configuration()
    assert Conversation.load(tmp_path, config).pool == task.pool
    (tmp_path / "replies.json").write_text('{"replies": [1], "counts": []}')
    with pytest.raises(ModelError, match=r"replies\.json does not have replies"):
        Conversation.load(tmp_path, config)


@pytest.mark.parametrize("preset", ["xing2018", "tiny-turns"])
def test_the_hierarchical_presets_reply_turn_by_turn(preset):
    small = {"preset": preset, "size": 16, "dropout": 0.0}
    task = Conversation.fit(
        parse({"task": "conversation", "model": small, "data": {"max_length": 12}, "training": {"steps": 1}}),
        lambda: EXCHANGES,
    )
    assert task.segmented
    built = build_model(small, **task.facts()).eval()
    found = Predictor(built, task, SearchConfig(max_length=8)).predict([("hi", "bye"), ("hi",)])
    assert len(found) == 2


def test_generators_with_different_tokenizers_are_compared_by_characters():
    exchanges = [(("well", asked), reply) for asked, reply in TALK]
    one, other = (
        evaluate(talker("flat", tokenizer=name), exchanges, judging=Judging(samples=20))
        for name in ("characters", "words")
    )
    assert one.metrics["nats_per_character"] == pytest.approx(
        -sum(item.output.surprise.log_prob for item in one.items) / sum(len(reply) for _, reply in TALK)
    )
    found = compare(one, other)
    assert found.comparisons[0].first.name == "nats_per_character"
    assert "distinct_2" in found.to_json()["metrics"]
    assert found.to_json()["not_compared"] == ["perplexity", "loss"]
    again = compare(one, evaluate(talker("decoder_only"), exchanges, judging=Judging(samples=20)))
    assert again.comparisons[0].first.name == "perplexity"
