"""Positions from syntax, from CoNLL-U to predictions: what is read, what is learned, and what is said when
there is no parse.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import tiny

from seqwright.config import Config, parse
from seqwright.data.corpus import Corpus
from seqwright.data.read_report import Place, ReadReport
from seqwright.data.readers.parses import Parse, ParsedSource, read_conllu, tree_of
from seqwright.data.readers.tagged import Tagged
from seqwright.data.task import task_class
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.evaluate import evaluate_files
from seqwright.prediction.predictor import load
from seqwright.tasks.token_classification import Cut
from seqwright.training.preparation import prepare
from seqwright.training.run import check_parts

MODEL = {"layers": 1, "size": 32, "hidden": 64, "heads": 2, "dropout": 0.0}


def drawn(count: int, seed: int = 0) -> list[tuple[list[str], list[int]]]:
    """Sentences of letters with a random tree."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        words = draw.choices("abcd", k=draw.randint(3, 6))
        order = list(range(1, len(words) + 1))
        draw.shuffle(order)
        heads = [0] * len(words)
        for i, word in enumerate(order[1:], start=1):
            heads[word - 1] = draw.choice(order[:i])
        found.append((words, heads))
    return found


def conllu(path: Path, sentences: list[tuple[list[str], list[int]]]) -> Path:
    """The tag of a word is whether its head is the root of the sentence: it depends on the tree alone."""
    blocks = []
    for words, heads in sentences:
        root = heads.index(0) + 1
        rows = (
            f"{n}\t{word}\t_\t{'yes' if head == root else 'no'}\t_\t_\t{head}\t_\t_\t_"
            for n, (word, head) in enumerate(zip(words, heads, strict=True), start=1)
        )
        blocks.append("\n".join(rows) + "\n")
    path.write_text("\n".join(blocks))
    return path


def tagger(file: Path, **training: object) -> Config:
    return parse(
        {
            "task": "token_classification",
            "data": {"train": [str(file)], "held_out": 0.1},
            "model": {"kind": "encoder_only", "head": "tags", "position": "syntax", **MODEL},
            "training": {
                "tokens": 256,
                "steps": 6,
                "validations": 2,
                "average": 0.9,
                "optimizer": {"kind": "adamw", "rate": 1e-2},
                **training,
            },
            "threads": 1,
        }
    )


def translator(folder: Path, **changes: object) -> Config:
    """The target is the word that the root is."""
    sentences = drawn(150)
    conllu(folder / "parses.conllu", sentences)
    pairs = [("".join(words), words[heads.index(0)]) for words, heads in sentences]
    file = tiny.write_pairs(folder / "pairs.tsv", [*pairs, ("dddddddd", "d")])
    table = {
        "data": {"train": [str(file)], "held_out": 0.1, "syntax": [str(folder / "parses.conllu")]},
        "model": {"preset": "tiny", "share": False, "encoder": {"position": "syntax"}, **MODEL},
        "training": {"tokens": 100, "steps": 6, "average": 0.9, "validations": 2, "decode": 8},
        "threads": 1,
    }
    return parse({**table, **changes})


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ("2 0 2", (2, 0, 2)),
        ("0 0", (0, 0)),
        ("2 1", None),
        ("1", None),
        ("0 3", None),
        ("_ 0", None),
        ("", ()),
    ],
)
def test_heads_are_a_tree_or_nothing(heads, expected):
    assert tree_of(heads.split()) == expected


def test_a_part_of_a_sentence_hangs_from_the_root():
    cut = Cut.of({"words": range(5), "pieces": range(7), "counts": [1, 2, 1, 2, 1], "heads": [2, 0, 4, 5, 2]})
    assert cut.part(0, 5).heads.tolist() == [2, 0, 4, 5, 2]
    assert cut.part(2, 5).heads.tolist() == [2, 3, 0]
    assert cut.part(0, 2).heads.tolist() == [2, 0]
    assert not len(Cut.of({"words": range(3), "counts": [1, 1, 1]}).part(0, 2).heads)


@pytest.mark.parametrize("tokenizer", ["characters", {"kind": "bpe", "max_size": 20}])
def test_the_pieces_of_a_word_are_one_node(tmp_path, tokenizer):
    config = tagger(conllu(tmp_path / "a.conllu", [(["ab", "c", "abd"], [3, 1, 0])] * 30 + drawn(30)))
    config = parse({**config.to_dict(), "tokenizer": {"source": tokenizer}})
    corpus = Corpus.of(config)
    task = task_class(config.task).fit(config, lambda: corpus.examples("train"))
    (row,) = task.encode([Tagged(("ab", "c", "abd"), None, Place("", 0), heads=(3, 1, 0))])
    source = task._source([Cut.of(row.columns)])
    counts = [1, 1, 1] if task.words is not None else row.columns["counts"]
    nodes = [number for number, count in enumerate(counts, start=1) for _ in range(count)]
    assert source.trees.nodes.tolist() == [[*nodes, 0]]
    assert source.trees.heads.tolist() == [[0, 3, 1, 0]]


def test_a_tagger_learns_what_only_the_tree_tells(tmp_path, caplog):
    train = conllu(tmp_path / "train.conllu", drawn(400))
    tiny.train(tagger(train, steps=200), tmp_path / "run")
    model, test = load(tmp_path / "run"), conllu(tmp_path / "test.conllu", drawn(60, seed=9))
    found = evaluate_files(model, [test])
    assert found.metrics["accuracy"] >= 97
    assert not any("tree" in line for line in found.findings)
    blocks = [f"{block}\n" for block in test.read_text().rstrip().split("\n\n")]
    parsed = [model.task.from_line(block) for block in blocks]
    tags = [each.value for each in model.predict(parsed)]
    assert not caplog.records
    plain = [each.value for each in model.predict([each.words for each in parsed])]
    assert "60 of 60 inputs have no dependency tree; their positions are linear" in caplog.text
    expected = [block.split("\t")[3::9] for block in blocks]
    right = [sum(map(str.__eq__, one, other)) for one, other in zip(tags, expected, strict=True)]
    without = [sum(map(str.__eq__, one, other)) for one, other in zip(plain, expected, strict=True)]
    assert sum(right) > 1.2 * sum(without)


def test_training_reports_sentences_without_a_tree(tmp_path, caplog):
    file = conllu(tmp_path / "a.conllu", drawn(40))
    folders = [tmp_path / name for name in ("whole", "partly", "none")]
    for folder in folders:
        folder.mkdir()
    prepare(tagger(file), folders[0])
    assert not caplog.records
    file.write_text(file.read_text().replace("\t0\t_", "\t_\t_", 20))
    prepare(tagger(file), folders[1])
    assert re.search(r"1\d of 3\d sentences have no dependency tree; their positions are linear", caplog.text)
    (tmp_path / "b.conll").write_text(
        "\n".join(f"{letter}\tyes\n{other}\tno\n" for letter in "abcdefgh" for other in "abcdefgh")
    )
    prepare(tagger(tmp_path / "b.conll"), folders[2])
    assert "no sentence has a dependency tree; their positions are linear" in caplog.text


@pytest.mark.parametrize("kind", ["tagger", "translator"])
def test_a_stopped_training_resumes_exactly(tmp_path, kind):
    if kind == "tagger":
        whole = tagger(conllu(tmp_path / "a.conllu", drawn(120)), validate_every=3, save_seconds=1e6)
    else:
        whole = translator(tmp_path)
    tiny.train(whole, tmp_path / "whole")
    assert tiny.interrupted(whole, tmp_path / "parts", "train:step", 4) > 0
    tiny.train(whole, tmp_path / "parts")
    assert tiny.digest(tmp_path / "parts") == tiny.digest(tmp_path / "whole")


def test_sources_find_their_parses(tmp_path):
    """By their letters: parses have spaces between the words, the sources have none."""
    config = translator(tmp_path)
    pairs = list(task_class("text_to_text").reader(config.data.train, config.data).read(ReadReport()))
    assert [pair.source.parse is None for pair in pairs] == [False] * 150 + [True]
    one = parse({**config.to_dict(), "data": {**config.to_dict()["data"], "syntax": config.data.syntax[0]}})
    assert task_class("text_to_text").files((), one.data) == list(config.data.syntax)
    assert set(task_class("text_to_text").files(config.data.train, config.data)) >= set(config.data.syntax)


def test_letters_belong_to_the_words_of_a_parse(tmp_path):
    (parse,) = read_conllu(conllu(tmp_path / "a.conllu", [(["ab", "c", "de"], [2, 0, 2])]))
    assert parse.heads == (2, 0, 2)
    assert parse.words_at("abcde", range(5)) == [1, 1, 2, 3, 3]
    assert parse.words_at("a bc  de ", range(9)) == [1, 1, 1, 2, 3, 3, 3, 3, 0]


def test_translation_reads_trees_and_says_what_has_none(tmp_path, caplog):
    config = translator(tmp_path)
    tiny.train(config, tmp_path / "run")
    assert "1 of 125 pairs have no dependency tree" in caplog.text
    model = load(tmp_path / "run")
    first, second = (Parse("ab c", ((0, 2), (3, 4)), governors, ("", "")) for governors in ((-1, 0), (1, -1)))
    caplog.clear()
    scores = model.score([(first.source, "a"), (second.source, "a"), (ParsedSource("ab c", None), "a")])
    assert len(set(scores)) == 3
    assert scores[2] == pytest.approx(model.score([("ab c", "a")])[0])
    together = [each.score for each in model.predict([first.source, "ab c", second.source])]
    assert "1 of 3 inputs have no dependency tree" in caplog.text
    alone = [model.predict([each])[0].score for each in (first.source, "ab c", second.source)]
    assert together == pytest.approx(alone, abs=1e-5)
    assert len(set(alone)) == 3
    block = (tmp_path / "parses.conllu").read_text().split("\n\n")[0] + "\n"
    assert model.task.in_blocks(block.splitlines())
    assert isinstance(model.task.from_line(block).source, ParsedSource)
    found = evaluate_files(model, [tmp_path / "pairs.tsv"])
    assert any("without a dependency tree" in line and "1 of" in line for line in found.findings)


def test_what_cannot_be_read_is_refused(tmp_path):
    task, config = task_class("text_to_text"), translator(tmp_path)
    with pytest.raises(ConfigError, match=r"set model.encoder.position = syntax"):
        task.check(translator(tmp_path, model="tiny"))
    missing = translator(tmp_path, data={"train": list(config.data.train), "syntax": ["no.conllu"]})
    with pytest.raises(InputError, match=r"no.conllu does not exist"):
        next(iter(task.reader(missing.data.train, missing.data).read(ReadReport())))
    with pytest.raises(ConfigError, match=r"set tokenizer.sampled = false"):
        task.check(parse({**config.to_dict(), "tokenizer": {"sampled": True}}))


def test_other_tasks_have_no_trees(tmp_path):
    model = {"kind": "encoder_only", "position": "depth", **MODEL}
    table = {"task": "text_classification", "model": model, "training": {"steps": 1}}
    with pytest.raises(ConfigError, match=r"text_classification reads no dependency trees.*position = shaw"):
        check_parts(parse(table))
