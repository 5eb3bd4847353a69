"""Syntax by parses: what is read from CoNLL-U, and which heads follow a relation."""

from __future__ import annotations

from pathlib import Path

import headed
import pytest
import torch

from seqwright.data.readers.parses import Parse, read_conllu
from seqwright.errors import InputError
from seqwright.lens.heads import syntax_roles
from seqwright.lens.heads.analysis import analyse
from seqwright.lens.heads.syntax_roles import questions, syntax

BIRDS = """# text = Big birds sing well.
1\tBig\tbig\tADJ\t_\t_\t2\tamod\t_\t_
2\tbirds\tbird\tNOUN\t_\t_\t3\tnsubj:pass\t_\t_
3\tsing\tsing\tVERB\t_\t_\t0\troot\t_\t_
3.1\tgone\tgo\tVERB\t_\t_\t_\t_\t_\t_
4\twell\twell\tADV\t_\t_\t3\tadvmod\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""
RANGE = """1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
3\tal\ta\tADP\t_\t_\t1\tobl\t_\tSpaceAfter=No
4\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_
"""


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "x.conllu").write_text(text, encoding="utf-8")
    return tmp_path / "x.conllu"


def test_sentences_words_and_relations_are_read(tmp_path):
    birds, going = read_conllu(written(tmp_path, BIRDS + RANGE))
    assert [birds.text[start:end] for start, end in birds.spans] == ["Big", "birds", "sing", "well", "."]
    assert (birds.governors, birds.relations[1]) == ((1, 2, -1, 2, 2), "nsubj")
    assert going.text == "vámonos al!"
    assert going.spans == ((0, 7), (0, 7), (8, 10), (10, 11))
    assert list(questions(birds)) == [
        (("amod", "dependent to head"), 0, 1),
        (("amod", "head to dependent"), 1, 0),
        (("nsubj", "dependent to head"), 1, 2),
        (("nsubj", "head to dependent"), 2, 1),
        (("advmod", "dependent to head"), 3, 2),
        (("advmod", "head to dependent"), 2, 3),
    ]
    assert not list(questions(going))  # both words of the object stand at one place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x.conllu has no sentences"),
        (BIRDS.replace("\tADJ\t", " "), r"x.conllu:2 is not a CoNLL-U row: ten columns"),
        (BIRDS.replace("5\t.", "five\t."), r"x.conllu:7 is not a CoNLL-U row"),
        (BIRDS.replace("\t2\tamod", "\t9\tamod"), r"x.conllu:2 has the head '9'"),
        (BIRDS.replace("\t2\tamod", "\t²\tamod"), r"x.conllu:2 has the head '²'"),
        (BIRDS.replace("5\t.", "9\t."), r"x.conllu:7 has the number 9 instead of 5"),
        (RANGE.replace("1-2", "1-999999999"), r"x.conllu:1 has the range 1-999999999, .* 4 words"),
        (BIRDS.replace("\tbirds\t", "\tbirdies\t"), r"x.conllu:3: 'birdies' does not occur in the rest"),
    ],
)
def test_errors_in_a_file_name_the_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_conllu(written(tmp_path, text))


def test_accuracy_and_baseline_are_shares_of_the_words(monkeypatch):
    """A head that looks at the governor always, and one that always looks one word ahead."""
    sentences = [  # an object stands two behind its verb, twice one behind
        Parse("ab cd ef", ((0, 2), (3, 5), (6, 8)), (-1, 0, 0), ("root", "advmod", "obj")),
        Parse("ab cd", ((0, 2), (3, 5)), (-1, 0), ("root", "obj")),
        Parse("cd ab", ((0, 2), (3, 5)), (-1, 0), ("root", "obj")),
    ]

    def looked(predictor, parse):
        governor = torch.tensor(parse.governors).clamp(min=0)
        ahead = torch.arange(len(governor)) + 1
        return {"encoder.stack.blocks.0.attention": torch.stack([governor, ahead])}, len(governor)

    monkeypatch.setattr(syntax_roles, "_attended", looked)
    found = syntax(headed.predictor(layers=1), sentences)
    finder, ahead = ({(r.name, r.direction): r for r in relations} for relations in found.values())
    obj, back = ("obj", "dependent to head"), ("obj", "head to dependent")
    assert (finder[obj].accuracy, finder[obj].count) == (1.0, 3)
    assert finder[obj].baseline == pytest.approx(2 / 3)
    assert finder[obj].syntactic
    assert ahead[back].accuracy == pytest.approx(2 / 3)
    assert not ahead[back].syntactic  # no better than the commonest distance
    assert ahead[obj].accuracy == 0


def test_pieces_are_combined_into_words(monkeypatch):
    """Weights are summed over the letters of a key word and averaged over those of a query word."""
    predictor = headed.predictor(layers=1, heads=1)
    parse = Parse("ab  cde", ((0, 2), (4, 7)), (-1, 0), ("root", "obj"))
    letters = torch.zeros(1, 1, 8, 8)  # the seven and the end
    letters[..., 0, :] = torch.tensor([0.3, 0.0, 0, 0, 0.2, 0.2, 0.2, 0.1])  # a: 0.3 to itself, 0.6 to cde
    letters[..., 1, :] = torch.tensor([0.4, 0.3, 0, 0, 0.1, 0.1, 0.1, 0.0])  # b: 0.7, 0.3; so ab: 0.5, 0.45
    letters[..., 4:7, 7] = 1.0  # cde look at the end, which is no word ...
    letters[..., 5, :2] = 0.1  # ... and a little at ab
    monkeypatch.setattr(
        syntax_roles, "capture", lambda model: _given({"encoder.stack.blocks.0.attention": [letters]})
    )
    attended, read = syntax_roles._attended(predictor, parse)
    assert [found.tolist() for found in attended.values()] == [[[0, 0]]]
    assert read == 2


class _given:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *error):
        return None


def test_a_table_names_syntactic_heads(tmp_path):
    parses = read_conllu(written(tmp_path, BIRDS))
    table = analyse(headed.predictor(), headed.pairs(3), parses=parses)
    names = {relation["name"] for relation in table.to_json()["heads"][0]["relations"]}
    assert names == {"amod", "nsubj", "advmod"}
    for row in table.rows:
        assert bool(row.relations) == (row.kind == "enc")
        assert ("syntactic" in row.roles) == any(r.accuracy >= r.baseline + 0.1 for r in row.relations)
