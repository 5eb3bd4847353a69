"""Token classification: layouts, schemes of entities, decoding, spelling, and data that cannot work."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

import seqwright
from seqwright import cli
from seqwright.config import DataConfig
from seqwright.data.batch import SpelledTokens, Tokens
from seqwright.data.glance import recognise
from seqwright.data.lexicon import Lexicon
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.tagged import Tagged, open_tagged
from seqwright.data.results import TagSequence
from seqwright.data.tag_scheme import Scheme, Transitions, entities, repaired, scheme_of
from seqwright.errors import ConfigError, InputError, ModelError
from seqwright.evaluation.metrics import METRICS
from seqwright.models import ENCODERS
from seqwright.models.building import build_model
from seqwright.nn.spelling import Spelling
from seqwright.pipeline.design import design
from seqwright.tasks.token_classification import TokenClassification

FAST = ["--quiet", "threads=1", "training.tokens=256", "training.validations=2", "model.size=32"]
BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
IOBES = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC"))]
ENDINGS = {"ly": "ADV", "ed": "VERB", "s": "NOUN"}


def sentences(count: int = 300, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Words whose tag is their ending; most stems occur once."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        words, tags = list[str](), list[str]()
        for _ in range(draw.randint(2, 6)):
            ending, tag = draw.choice(list(ENDINGS.items()))
            words.append("".join(draw.choices("abcdefgkmnoprt", k=draw.randint(2, 5))) + ending)
            tags.append(tag)
        rows.append((words, tags))
    return rows


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def conll(rows: list[Any], line: str = "{0}\t{1}") -> str:
    blocks = ("".join(f"{line.format(*pair)}\n" for pair in zip(*row, strict=True)) for row in rows)
    return "\n".join(blocks)


def conllu(rows: list[Any]) -> str:
    blocks = []
    for words, tags in rows:
        lines = [
            f"{k}\t{w}\t_\t{t}\tX{t}\t_\t0\t_\t_\t_"
            for k, (w, t) in enumerate(zip(words, tags, strict=True), 1)
        ]
        blocks.append(
            "\n".join(["# text = x", f"1-2\t{words[0]}{words[1]}" + "\t_" * 8, *lines, "2.1" + "\t_" * 9])
        )
    return "\n\n".join(blocks) + "\n"


LAYOUTS = {
    "two columns": ("d.conll", conll),
    "four columns": ("d.txt", lambda rows: "-DOCSTART- -X- O O\n\n" + conll(rows, "{0} NN I-NP {1}")),
    "conllu": ("d.conllu", conllu),
    "lines": ("d.tsv", lambda rows: "".join(f"{' '.join(w)}\t{' '.join(t)}\n" for w, t in rows)),
    "jsonl": (
        "d.jsonl",
        lambda rows: "".join(json.dumps({"id": 1, "tokens": w, "ner_tags": t}) + "\n" for w, t in rows),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_recognised_and_read(layout, tmp_path):
    name, text = LAYOUTS[layout]
    path, rows = write(tmp_path / name, text(sentences())), sentences()
    found = recognise([path], DataConfig(), "text_to_text")
    assert found.task == "token_classification"
    assert found.evidence.startswith(name)
    reader = open_tagged([path], DataConfig())
    read = list(reader.read(ReadReport()))
    assert [(list(example.words), list(example.tags)) for example in read] == rows
    assert reader.form


@pytest.mark.parametrize(
    ("name", "text", "task"),
    [
        ("a.tsv", "".join(f"a b {k}\t{k} b a\n" for k in range(300)), "text_to_text"),
        (
            "a.tsv",
            "".join(f"who is {k} ?\tHUM\nwhere {k} ?\tLOC\n\n" for k in range(99)),
            "text_classification",
        ),
        ("a.txt", "One two three four.\n\nFive six seven.\nEight, nine.\n" * 99, "language_modeling"),
    ],
)
def test_other_files_are_not_taken_for_tags(name, text, task, tmp_path):
    assert recognise([write(tmp_path / name, text)], DataConfig(), "text_to_text").task == task


def test_a_field_of_conllu_and_a_column_are_chosen(tmp_path):
    path = write(tmp_path / "d.conllu", conllu(sentences(30)))
    first = next(open_tagged([path], DataConfig(field="xpos")).read(ReadReport()))
    assert set(first.tags) <= {"XADV", "XVERB", "XNOUN"}
    with pytest.raises(ConfigError, match="CoNLL-U has lemma, upos"):
        list(open_tagged([path], DataConfig(field="pos")).read(ReadReport()))
    four = write(tmp_path / "d.conll", conll(sentences(30), "{0} {1} x O"))
    first = next(open_tagged([four], DataConfig(field="2")).read(ReadReport()))
    assert set(first.tags) <= {"ADV", "VERB", "NOUN"}
    with pytest.raises(ConfigError, match="has 4 columns, and the field of the tags is '5'"):
        list(open_tagged([four], DataConfig(field="5")).read(ReadReport()))


BAD = {
    "tags missing": ("d.tsv", "a b c\tX Y\n", r"d.tsv:\d+: 3 words and 2 tags; each word needs one tag"),
    "a row without a tag": ("d.conll", "a\tX\nb\n\n", r"d.conll:\d+: 1 column instead of 2"),
    "not a list": ("d.jsonl", '{"tokens": 3, "tags": []}\n', r"d.jsonl:\d+: expected a list of texts"),
    "unequal lists": ("d.jsonl", '{"tokens": ["a"], "tags": []}\n', "1 word and 0 tags"),
    "a wrong number": ("d.conllu", "3\ta" + "\t_" * 8 + "\n\n", "has the number 3 instead of 1"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_sentences_are_named_or_skipped(fault, tmp_path):
    name, text, words = BAD[fault]
    layout = {"d.tsv": "lines", "d.conll": "two columns", "d.jsonl": "jsonl", "d.conllu": "conllu"}[name]
    good = LAYOUTS[layout][1](sentences(40)).replace("ner_tags", "tags")
    path = write(tmp_path / name, f"{good.rstrip()}\n{'' if layout in ('lines', 'jsonl') else chr(10)}{text}")
    with pytest.raises(InputError, match=words):
        list(open_tagged([path], DataConfig()).read(ReadReport()))
    report = ReadReport()
    assert len(list(open_tagged([path], DataConfig(skip_bad_rows=True)).read(report))) == 40
    assert report[Reason.BAD_ROW] == 1


def test_empty_sentences_are_counted_and_files_without_any_are_refused(tmp_path):
    report = ReadReport()
    path = write(tmp_path / "d.jsonl", '{"tokens": ["a"], "tags": ["X"]}\n{"tokens": [], "tags": []}\n')
    assert len(list(open_tagged([path], DataConfig()).read(report))) == 1
    assert report[Reason.BLANK_TEXT] == 1
    with pytest.raises(InputError, match="has no sentences"):
        list(open_tagged([write(tmp_path / "e.conll", "\n\n")], DataConfig()).read(ReadReport()))


def test_a_sentence_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("seqwright.data.readers.conll.MOST", 50)
    path = write(tmp_path / "d.conll", "a\tX\nb\tY\n\n" + "a\tX\n" * 60)
    with pytest.raises(InputError, match=r"d.conll:4: the sentence that begins here has more than 50 lines"):
        list(open_tagged([path], DataConfig()).read(ReadReport()))


def test_invalid_entities_are_repaired_and_counted(tmp_path):
    rows = [(["a", "b", "c"], ["O", "I-PER", "I-PER"]), (["d", "e"], ["B-PER", "I-PER"])] * 20
    path, report = write(tmp_path / "d.conll", conll(rows)), ReadReport()
    read = list(open_tagged([path], DataConfig()).read(report))
    assert read[0].tags == ("O", "B-PER", "I-PER")
    assert report[Reason.BROKEN_ENTITY] == 20
    assert report.counts[Reason.BROKEN_ENTITY].places[0].line == 1
    lines = design({"data": {"train": [path]}, "training": {"steps": 1}}).lines()
    assert any("a tag that continues no entity begins one): 20 (first at" in line for line in lines)


# Schemes and decoding ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (BIO, Scheme.BIO),
        (IOBES, Scheme.IOBES),
        (["O", "B", "I"], Scheme.BIO),
        (["I-PER", "O"], Scheme.BIO),
        (["NOUN", "VERB"], None),
        (["O", "B-PER", "PER"], None),
        (["O"], None),
        (["I", "S"], None),
    ],
)
def test_the_scheme_of_tags(tags, scheme):
    assert scheme_of(tags) is scheme


any_tags = st.sampled_from([BIO, IOBES]).flatmap(lambda tags: st.lists(st.sampled_from(tags), max_size=9))


@given(any_tags)
def test_entities_are_those_of_seqeval(tags):
    found = [(entity.type, entity.start, entity.stop - 1) for entity in entities(tags)]
    assert found == get_entities(tags)


@given(any_tags, st.sampled_from(Scheme))
def test_repaired_tags_are_valid_and_have_the_same_entities(tags, scheme):
    new, names = repaired(tags, scheme), BIO if scheme is Scheme.BIO else IOBES
    assert entities(new) == entities(tags)
    assert repaired(new, scheme) == new
    path = np.array([names.index(tag) for tag in new], dtype=int)
    assert not len(path) or Transitions(names, scheme).cost(path) == 0


@given(st.lists(st.tuples(any_tags, any_tags), min_size=1, max_size=6))
def test_entity_metrics_are_those_of_seqeval(pairs):
    pairs = [(known, (output + ["O"] * 9)[: len(known)]) for known, output in pairs]
    known, outputs = [list(each[0]) for each in pairs], [list(each[1]) for each in pairs]
    oracles = {"entity_f1": f1_score, "entity_precision": precision_score, "entity_recall": recall_score}
    if any(map(get_entities, known)) and any(map(get_entities, outputs)):
        for name, oracle in oracles.items():
            measured = METRICS.build(name).measured(outputs, [[each] for each in known])
            assert measured.value() == pytest.approx(100 * oracle(known, outputs, zero_division=0))
    if any(known):
        given, wanted = map(TagSequence, outputs), [[TagSequence(each)] for each in known]
        accuracy = METRICS.build("accuracy").measured(list(given), wanted)
        assert accuracy.value() == pytest.approx(100 * accuracy_score(known, outputs))


@given(
    st.sampled_from([(BIO, Scheme.BIO), (IOBES, Scheme.IOBES), (["X", "Y"], None)]),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
def test_the_best_valid_sequence_is_found(tags, length, seed):
    names, scheme = tags
    scores, rules = np.random.default_rng(seed).normal(size=(length, len(names))), Transitions(*tags)
    found = rules.best(scores)
    paths = map(np.array, product(range(len(names)), repeat=length))
    valid = [path for path in paths if rules.cost(path) == 0]
    every = np.arange(length)
    assert rules.cost(found) == 0
    assert scores[every, found].sum() == pytest.approx(max(scores[every, path].sum() for path in valid))
    assert scheme is None or repaired([names[k] for k in found], scheme) == tuple(names[k] for k in found)


def test_tags_that_cannot_be_valid_still_have_an_answer():
    assert Transitions(["B-X", "I-X"], Scheme.IOBES).best(np.zeros((3, 2))).shape == (3,)


# The model -----------------------------------------------------------------------------------------


def test_the_spelling_of_a_word_does_not_depend_on_its_neighbours():
    part, words = Spelling(9, 5), [[4, 5, 6], [], [7], [8, 4, 4, 5]]
    pieces = torch.tensor([piece for word in words for piece in word])
    together = part(pieces, torch.tensor([len(word) for word in words]))
    for number, word in enumerate(words):
        alone = part(torch.tensor(word, dtype=torch.long), torch.tensor([len(word)]))
        torch.testing.assert_close(alone[0], together[number])
    torch.testing.assert_close(together[1], part.linear.bias)
    turned = part(torch.tensor([6, 5, 4]), torch.tensor([3]))
    assert (turned[0] - together[0]).abs().max() > 1e-3  # the order of the pieces counts


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_padding_changes_no_word_and_rolled_rows_keep_their_spelling(kind):
    encoder = ENCODERS.build({"kind": kind, "size": 16}, vocabulary=9, pieces=9).eval()
    ids, lengths = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
    spelling = {"pieces": torch.tensor([4, 5, 6, 7, 8, 8]), "counts": torch.tensor([2, 1, 1, 0, 2, 0])}
    both = encoder(SpelledTokens(ids, lengths, **spelling)).hidden
    part = SpelledTokens(ids[1:, :2], None, pieces=torch.tensor([8, 8]), counts=torch.tensor([2, 0]))
    torch.testing.assert_close(encoder(part).hidden[0], both[1, :2])
    plain = encoder(Tokens(ids, lengths)).hidden
    assert (plain - both)[0, 0].abs().max() > 1e-3
    rolled = encoder(SpelledTokens(ids, lengths, **spelling).rolled()).hidden
    torch.testing.assert_close(rolled[0, :2], both[1, :2])
    torch.testing.assert_close(rolled[1], both[0])


@pytest.mark.parametrize(
    "options", [{"preset": "tiny-tagger", "causal": True}, {"preset": "lstm-tagger", "bidirectional": False}]
)
def test_a_causal_tagger_does_not_see_the_future(options):
    torch.manual_seed(0)
    model = build_model({**options, "size": 32}, vocabulary=20, pieces=9, classes=3).double().eval()
    for weight in model.parameters():  # blocks start as the identity
        torch.nn.init.normal_(weight, std=0.3)
    counts, pieces = torch.ones(6, dtype=torch.long), torch.tensor([4, 5, 6, 7, 8, 4])
    ids = torch.tensor([[4, 5, 6, 7, 8, 9]])
    first = model.predictions(SpelledTokens(ids, pieces=pieces, counts=counts))
    ids[0, 4:], pieces[4:] = 11, 8
    other = model.predictions(SpelledTokens(ids, pieces=pieces, counts=counts))
    torch.testing.assert_close(first[:, :4], other[:, :4])
    assert (first - other)[:, 4:].abs().max() > 1e-3


# From files to answers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tagged")
    path = write(folder / "d.conllu", conllu(sentences(400)))
    assert cli.main(["train", path, "--out", str(folder / "run"), *FAST, "--steps=120"]) == 0
    return folder / "run"


def test_new_words_are_tagged_by_their_endings(run, tmp_path, capsys):
    test = write(tmp_path / "t.conllu", conllu(sentences(80, seed=9)))
    assert cli.main(["evaluate", str(run), test, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"].keys() == {"accuracy"}
    assert found["metrics"]["accuracy"] > 90 > 60 > found["baseline"]["accuracy"]
    assert found["items"] == 80
    assert {row[0] for row in found["tables"]["tag"]["rows"]} == set(ENDINGS.values())
    assert (run / "report.html").exists()


def test_files_are_answered_line_by_line_or_word_by_word(run, tmp_path, capsys):
    lines = write(tmp_path / "in.txt", "kanoly metoted\n\npars\n")
    assert cli.main(["predict", str(run), lines]) == 0
    assert capsys.readouterr().out == "ADV VERB\n\nNOUN\n"
    tagged = write(tmp_path / "in.tsv", "kanoly metoted\tX Y\n")
    assert cli.main(["predict", str(run), tagged, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["tokens"], answer["tags"]) == (["kanoly", "metoted"], ["ADV", "VERB"])
    assert all(0.3 < chance <= 1 for chance in answer["probabilities"])
    column = write(tmp_path / "in.conll", "kanoly\nmetoted\n\npars\ntred\n")
    assert cli.main(["predict", str(run), column]) == 0
    assert capsys.readouterr().out == "kanoly\tADV\nmetoted\tVERB\n\npars\tNOUN\ntred\tVERB\n\n"
    (tmp_path / "in.conllu").write_text(conllu([(["kanoly", "metoted"], ["_", "_"])]))
    assert (
        cli.main(["predict", str(run), str(tmp_path / "in.conllu"), "--output", str(tmp_path / "out")]) == 0
    )
    assert (tmp_path / "out").read_text() == "kanoly\tADV\nmetoted\tVERB\n\n"


def test_python_takes_texts_and_lists_of_words(run):
    model = seqwright.load(run)
    expected = ("ADV", "VERB")
    assert model("kanoly metoted") == expected
    assert model(("kanoly", "metoted")) == expected
    assert model([["kanoly", "metoted"], "pars"]) == [expected, ("NOUN",)]
    assert model({"tokens": ["kanoly", "metoted"]}) == expected
    (answer,) = model.predict("kanoly metoted")
    assert model.score([("kanoly metoted", "ADV VERB")]) == pytest.approx(
        [math.log(math.prod(answer.probabilities))]
    )
    assert model.score([("kanoly", ["OTHER"])]) == [-math.inf]
    assert model.evaluate([("kanoly metoted", ["ADV", "VERB"])]).metrics == {"accuracy": 100}
    for wrong in (3, [["a", 3]], [["a", " "]]):
        with pytest.raises(InputError, match=r"not a sentence|empty word"):
            model.predict(wrong)
    with pytest.raises(InputError, match="has 1 words and 2 tags"):
        model.evaluate([("kanoly", "ADV VERB")])


def test_a_very_long_sentence_is_tagged_in_parts(run):
    model, words = seqwright.load(run), ["kanoly", "metoted"] * 2000
    (answer,) = model.predict([words])
    assert model.task.longest < 100 < len(answer.tags) == 4000
    assert answer.tags == ("ADV", "VERB") * 2000
    (answer,) = model.predict("o" * 100_000 + "ly")
    assert answer.tags == ("ADV",)


def test_one_tag_is_refused(tmp_path, capsys):
    rows = [(words, ["X"] * len(words)) for words, _ in sentences(60)]
    command = ["train", write(tmp_path / "d.conll", conll(rows)), "--task", "token_classification"]
    assert cli.main([*command, "--out", str(tmp_path / "run"), *FAST]) == 2
    error = capsys.readouterr().err
    assert "every word has the tag 'X'; a tagger needs at least two tags" in error
    assert error.count("\n") == 1


def test_a_head_without_tags_is_refused(tmp_path, capsys):
    command = ["train", write(tmp_path / "d.conll", conll(sentences(60))), "--out", str(tmp_path / "run")]
    assert cli.main([*command, *FAST, "model.head=classes"]) == 2
    assert "model.head is 'classes'; a tagger needs a tag for each word" in capsys.readouterr().err


def test_a_tag_that_is_only_in_the_validation_file_is_never_right(tmp_path):
    train = write(tmp_path / "d.conll", conll(sentences(60)))
    valid = write(tmp_path / "v.conll", conll([*sentences(20, seed=1), (["ab", "cd"], ["ODD", "NOUN"])]))
    command = ["train", train, "--valid", valid, "--out", str(tmp_path / "run"), *FAST, "--steps=4"]
    assert cli.main(command) == 0
    rows = seqwright.load(tmp_path / "run").evaluate(valid).tables["tag"].rows
    assert next(row[3] for row in rows if row[0] == "ODD") == 0


def test_subwords_are_tagged_at_their_first_piece(tmp_path):
    path = write(tmp_path / "d.conll", conll(sentences(60)))
    command = ["train", path, "--out", str(tmp_path / "run"), *FAST, "--steps=4", "tokenizer.source.kind=bpe"]
    assert cli.main([*command, "tokenizer.source.max_size=60"]) == 0
    model = seqwright.load(tmp_path / "run")
    assert model.task.words is None
    (row,) = model.task.encode([Tagged(("kanoly", "pars"), None, None)])
    assert row.length == len(row.columns["pieces"]) > 2
    (answer,) = model.predict("kanoly pars")
    assert len(answer.tags) == 2


def test_a_tagger_starts_from_a_masked_language_model_or_from_a_tagger(tmp_path, run):
    texts = write(tmp_path / "t.txt", "".join(" ".join(words) + " . \n" for words, _ in sentences(200)))
    small = ["--quiet", "threads=1", "model.size=32", "model.layers=1", "training.validations=1", "--steps=3"]
    masked = str(tmp_path / "masked")
    assert cli.main(["train", texts, "--task", "masked_language_modeling", "--out", masked, *small]) == 0
    path, out = write(tmp_path / "d.conll", conll(sentences(60))), tmp_path / "tagged"
    command = ["train", path, "--quiet", "threads=1", "training.validations=1", "--steps=3"]
    assert cli.main([*command, f"start={masked}", "--out", str(out)]) == 0
    model = seqwright.load(out)
    assert model.task.words is None
    assert model.task.tokenizer.kind == seqwright.load(masked).task.tokenizer.kind
    assert len(model("kanoly pars")) == 2
    new = [([f"{letter}x", "zy"], ["NEW", "NEW"]) for letter in "abcdefgh"]
    more = write(tmp_path / "m.conll", conll([*sentences(60, seed=3), *new]))
    assert cli.main(["train", more, *command[2:], f"start={run}", "--out", str(tmp_path / "more")]) == 0
    model = seqwright.load(tmp_path / "more")
    assert model.task.labels.names[-1] == "NEW"
    assert model("kanoly metoted") == ("ADV", "VERB")  # a few steps do not undo what it knows


def test_a_damaged_lexicon_is_refused(tmp_path):
    lexicon = Lexicon.of([("a", 1), ("b", 0), ("a", 0), ("a", 1)])
    assert dict(lexicon.tags) == {"a": 1, "b": 0}
    lexicon.save(tmp_path / "lexicon.json")
    assert Lexicon.load(tmp_path / "lexicon.json", 2) == lexicon
    with pytest.raises(ModelError, match=r"has a tag that labels.json does not have"):
        Lexicon.load(tmp_path / "lexicon.json", 1)


def test_a_space_inside_a_word_keeps_its_place():
    example = Tagged(("10 000", "pars"), None, None)
    assert TokenClassification.group(example) == "10_000 pars"


def test_a_file_whose_tags_are_all_unknown_is_refused(run, tmp_path, capsys):
    file = tmp_path / "other.conll"
    file.write_text("the X\ndog Y\n\na X\ncat Y\n\n", encoding="utf-8")
    assert cli.main(["evaluate", str(run), str(file)]) == 2
    assert "no tag of this data (X, Y) occurs in the training data" in capsys.readouterr().err


def test_a_damaged_line_of_columns_is_named(tmp_path, capsys):
    file = tmp_path / "damaged.conll"
    file.write_text("the DET\ndog NOUN\n\n" * 100 + "the\ndog NOUN\n\n", encoding="utf-8")
    assert cli.main(["train", str(file), "--steps", "1"]) == 2
    assert "damaged.conll:301: 1 column instead of 2" in capsys.readouterr().err
