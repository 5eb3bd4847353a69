"""Recipes: the kinds of pairs that they distinguish, and that each is a configuration that can be built."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from pair_statistics import pair_statistics

from seqwright.config import parse
from seqwright.config.recipe import Recipe
from seqwright.data.fields import join_fields
from seqwright.data.read_report import Pair, Place
from seqwright.recipes.text_to_text import DECAY, GREEDY, LITTLE, LONG, SPEED, choose_for
from seqwright.training.run import check_parts

PHONES = "AA AE AH B D DH EH ER F G HH IH IY K L M N NG OW P R S SH T TH UW V W Y Z".split()  # noqa: SIM905
WORDS = [f"{a}{b}{c}{d}" for a in "bcdfglmnst" for b in "aeiou" for c in "lmnrst" for d in ("", "ing", "er")]


def word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9)))


def pronunciation(draw: random.Random) -> tuple[str, str]:
    return word(draw), " ".join(draw.choices(PHONES, k=draw.randint(2, 8)))


def syllables(draw: random.Random) -> tuple[str, str]:
    return "".join(chr(draw.randrange(0xAC00, 0xD7A4)) for _ in range(3)), pronunciation(draw)[1]


def inflection(draw: random.Random) -> tuple[str, str]:
    lemma = word(draw)
    return join_fields([lemma, ["V", draw.choice(("PST", "PRS"))]]), lemma + "ed"


def two_words(draw: random.Random) -> tuple[str, str]:
    return join_fields([word(draw), word(draw)]), word(draw)


def sentence(draw: random.Random) -> tuple[str, str]:
    return tuple(" ".join(draw.choices(WORDS, k=draw.randint(5, 15))) for _ in range(2))  # type: ignore[return-value]


def turns(draw: random.Random) -> tuple[str, str]:
    return join_fields([sentence(draw)[0], sentence(draw)[0]]), sentence(draw)[0]


def figures(draw: random.Random) -> tuple[str, str]:
    said = ["one", "two", "three", "thousand", "hundred", "and", "twenty-one", "million"]
    return str(draw.randrange(10**6)), " ".join(draw.choices(said, k=draw.randint(3, 9)))


def recipe_for(make: Callable[[random.Random], tuple[str, str]], count: int = 300, **asked: object) -> Recipe:
    draw = random.Random(0)
    pairs = [Pair(*make(draw), Place("pairs.tsv", line)) for line in range(1, count + 1)]
    return choose_for(pair_statistics(pairs), pairs, asked)


@pytest.mark.parametrize(
    ("make", "source", "target", "metric"),
    [
        (pronunciation, "characters", "symbols", "exact_match"),
        (syllables, "letters", "symbols", "exact_match"),
        (inflection, "characters", "characters", "exact_match"),
        (two_words, "characters", "characters", "exact_match"),
        (sentence, "bpe", "bpe", "chrf"),
        (turns, "bpe", "bpe", "chrf"),
        (figures, "characters", "symbols", "exact_match"),
    ],
)
def test_kinds_of_pairs_are_told_apart(make, source, target, metric):
    config = parse(recipe_for(make).table())

    def kind(spec):
        return spec if isinstance(spec, str) else spec["kind"]

    assert (kind(config.tokenizer.source), kind(config.tokenizer.target)) == (source, target)
    assert config.training.metric == metric


@pytest.mark.parametrize(("common", "target"), [(1.0, "symbols"), (0.5, "bpe")])
def test_a_closed_set_of_syllables_is_told_from_words_of_which_half_are_rare(common, target):
    onsets, rests = "bcdfghjklmnprstwz", ["a", "e", "i", "o", "u", "an", "en", "in", "on", "ai", "ao", "ou"]
    often = [onset + rest + tone for onset in onsets for rest in rests for tone in "1234"]

    def romanised(draw: random.Random) -> tuple[str, str]:
        said = draw.choices(often, k=3)
        if draw.random() >= common:
            said[0] = "".join(draw.choices("bcdaeiou", k=4))  # one of 4,096
        return chr(draw.randrange(0x4E00, 0x9FA5)) * 3, " ".join(said)

    table = recipe_for(romanised, count=4000).table()["tokenizer"]["target"]
    assert (table if isinstance(table, str) else table["kind"]) == target


@pytest.mark.parametrize("make", [pronunciation, syllables, inflection, sentence, figures])
def test_a_recipe_can_be_built_and_says_why(make):
    recipe = recipe_for(make)
    check_parts(parse(recipe.table()))
    assert all(choice.what and choice.reason for choice in recipe.choices)
    assert len(recipe.choices) <= 8


def test_one_vocabulary_only_where_both_sides_are_written_alike():
    assert parse(recipe_for(sentence).table()).tokenizer.joint
    other = recipe_for(lambda draw: (word(draw) + " " + word(draw), "слово другое " * draw.randint(2, 4)))
    assert not parse(other.table()).tokenizer.joint


@pytest.mark.parametrize("end", ["minutes", "steps", "epochs"])
def test_an_end_that_was_asked_for_is_not_chosen(end):
    table = recipe_for(pronunciation, training={end: 3}).table()
    assert not {"minutes", "steps", "epochs"} & table["training"].keys()


def test_nothing_is_held_out_by_recipe_where_there_is_a_file_for_validation():
    assert "data" in recipe_for(pronunciation).table()
    assert "data" not in recipe_for(pronunciation, data={"valid": ["v.tsv"]}).table()


def test_no_more_outputs_are_promised_than_are_held_out():
    def said(**asked):
        return next(
            choice.what for choice in recipe_for(pronunciation, **asked).choices if "greedy" in choice.what
        )

    assert said(training={"minutes": 60}).endswith("of all greedy outputs")
    assert said(training={"minutes": 60}, data={"valid": ["v.tsv"]}).endswith("up to 4,581 greedy outputs")
    assert said(training={"minutes": 0.05}, data={"held_out": 0.4}).endswith("up to 100 greedy outputs")


def test_words_take_a_recurrent_model_unless_something_is_asked_of_it():
    def preset(make, **asked):
        return recipe_for(make, **asked).table()["model"]["preset"]

    assert preset(pronunciation) == preset(pronunciation, training={"epochs": 3}) == "tiny-rnn"
    assert preset(pronunciation, model={"dropout": 0.1}) == "tiny-rnn"
    assert preset(pronunciation, model={"heads": 2}) == "tiny"
    assert preset(inflection) == preset(inflection, training={"epochs": 3}) == "tiny-rnn"
    assert preset(sentence) == "tiny"


def minutes(passes: float, pairs: int = 300) -> dict[str, float]:
    """In which one model reads `pairs` pronunciations about so often."""
    return {"minutes": passes * pairs * 6 / (60 * SPEED)}


def test_how_many_models_can_be_said_by_itself():
    def chosen(**model: object) -> tuple[str, str | None, int | None]:
        table = recipe_for(pronunciation, training=minutes(1000), model=model).table()["model"]
        return table["preset"], table.get("kind"), table.get("members")

    one = "tiny-rnn", None, None
    assert chosen() == chosen(kind="encoder_decoder") == chosen(members=1) == one
    assert chosen(members=3) == ("tiny-rnn", "ensemble", 3)
    assert chosen(kind="ensemble") == ("tiny-rnn", "ensemble", 2)
    assert recipe_for(sentence, model={"members": 2}).table()["model"]["kind"] == "ensemble"


def test_several_models_share_the_time_and_neither_steps_nor_epochs():
    def dropout(training: dict[str, float], members: int) -> float:
        asked = {"training": training, "model": {"members": members}}
        return recipe_for(pronunciation, **asked).table()["model"]["dropout"]

    assert dropout(minutes(50), 4) < dropout(minutes(50), 1)
    assert dropout({"epochs": 50}, 4) == dropout({"epochs": 50}, 1)


def test_many_words_that_will_be_read_often_take_a_transformer_in_larger_batches():
    draw = random.Random(0)
    pairs = [Pair(*pronunciation(draw), Place("pairs.tsv", line)) for line in range(1, LONG[0] + 1)]
    report = pair_statistics(pairs)

    def many(**asked: object) -> Recipe:
        return choose_for(report, pairs, asked)

    few = partial(recipe_for, pronunciation)
    assert few(training={"epochs": 100}).table()["model"]["preset"] == "tiny-rnn"
    assert many(training={"epochs": LONG[1] - 1}).table()["model"]["preset"] == "tiny-rnn"
    chosen = many(training={"epochs": LONG[1]}).table()
    assert (chosen["model"]["preset"], chosen["model"]["dropout"]) == ("tiny-words", LITTLE)
    assert chosen["training"]["tokens"] == 1024
    assert chosen["training"]["optimizer"]["decay"] == DECAY
    for asked in ({"preset": "tiny"}, {"preset": "tiny-words"}, {"dropout": 0.2}, {"heads": 2}):
        same = many(training={"epochs": LONG[1]}, model=asked).table()
        assert same == chosen  # as without it
    recurrent = many(training={"epochs": LONG[1]}, model={"preset": "tiny-rnn"}).table()
    assert recurrent["training"]["tokens"] == 512
    started = many(training={"epochs": LONG[1]}, start="runs/other").table()["training"]
    assert started["tokens"] == 512  # whose model is that of the other


@pytest.mark.parametrize("make", [sentence, pronunciation])
def test_decoding_takes_a_small_share_of_a_training_however_long_it_and_its_targets_are(make):
    lengths = {sentence: 10 * 1.3 + 1, pronunciation: 5 + 1}
    for minutes in (3, 10, 60):
        table = recipe_for(make, training={"minutes": minutes}).table()
        said = table["training"]["validations"] * table["training"]["decode"] * lengths[make]
        tokens = said * table["model"].get("members", 1)
        assert 0.02 < tokens / GREEDY / (60 * minutes) < 0.06
    assert recipe_for(make, training={"minutes": 1000}).table()["training"]["decode"] == 6000
    assert recipe_for(make, training={"minutes": 0.05}).table()["training"]["decode"] == 100


def test_a_preset_that_is_asked_for_shares_an_embedding_only_if_it_does_so_itself():
    def shares(preset):
        return recipe_for(sentence, model={"preset": preset}).table()["model"]["share"]

    assert shares("tiny")
    assert not shares("bahdanau2015")


def test_dropout_grows_with_the_number_of_passes():
    shares = [
        recipe_for(sentence, training={"epochs": epochs}).table()["model"]["dropout"]
        for epochs in (1, 10, 30, 100)
    ]
    assert shares == sorted(set(shares))
    assert shares[0] == 0
    words = [
        recipe_for(pronunciation, training=minutes(passes)).table()["model"]["dropout"]
        for passes in (1, 10, 30, 45)
    ]
    assert words == sorted(words)
