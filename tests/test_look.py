"""`seqwright look` on the command line: text, JSON, page, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqwright import cli
from seqwright.config import parse
from seqwright.lens.trace.document import Trace
from seqwright.prediction.predictor import load
from seqwright.training.run import train

SMALL = {"preset": "tiny", "share": False, "layers": 1, "size": 16, "hidden": 32, "heads": 2}
RNN = {"encoder": {"kind": "rnn", "size": 16}, "decoder": {"kind": "rnn", "size": 16, "attention": "none"}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    """A Transformer over lemmas with features, and a recurrent model over words."""
    home = tmp_path_factory.mktemp("look")
    words = [a + b + c for a in "abcd" for b in "efgh" for c in "ij"]
    (home / "forms.tsv").write_text("".join(f"{w}\t{w}s\tN;PL\n{w}\t{w}\tN;SG\n" for w in words))
    (home / "words.tsv").write_text("".join(f"{w}\t{w[::-1].upper()}\n" for w in words))
    common = {"training": {"steps": 3, "tokens": 100, "decode": 0}, "search": {"beam": 3, "max_length": 8}}
    for name, data, model in (
        ("forms", {"columns": "1,3+:2"}, SMALL),
        ("words", {}, RNN | {"tie": False}),
    ):
        data = {"train": [str(home / f"{name}.tsv")], "held_out": 0.2, **data}
        train(parse({**common, "data": data, "model": model, "threads": 1}), home / name)
    return home / "forms", home / "words"


def look(capsysbinary, *arguments: str | Path) -> tuple[int, bytes, str]:
    code = cli.main(["look", *map(str, arguments)])
    out, err = capsysbinary.readouterr()
    return code, out, err.decode()


def test_in_the_terminal(runs, capsysbinary):
    code, out, err = look(capsysbinary, runs[1], "ae", "--beam", "2", "--reference", "EA")
    assert (code, err) == (0, "")
    lines = out.decode().splitlines()
    assert lines[0].startswith("ae → ")
    assert sum(line.startswith("  or: ") for line in lines) == 1
    assert any(line.startswith("  reference: EA  p = ") for line in lines)
    assert lines[-1].startswith("No alignment: ")


def test_as_json_it_is_one_document_and_that_of_python(runs, capsysbinary):
    code, out, _ = look(capsysbinary, runs[0], "ae\tN;PL", "--json")
    assert code == 0
    document = json.loads(out)
    assert out == Trace.load(document).to_bytes() == load(runs[0]).look(("ae", "N;PL")).to_bytes()
    assert [word["text"][1:] for word in document["source"]["words"]][1:] == ["N", "PL"]
    assert document["seed"] == 1
    assert document["config"]["search"]["beam"] == document["search"]["beam"] == 3
    assert "data" not in document["config"]  # the page may be given away; the paths stay at home


def test_the_alignment_has_a_row_for_each_step_and_a_column_for_each_piece(runs, capsysbinary):
    _, out, _ = look(capsysbinary, runs[0], "ae\tN;PL")
    trace = load(runs[0]).look(("ae", "N;PL"))
    _, drawn = out.decode().split("Cross-attention, mean of all heads")
    assert len([line for line in drawn.splitlines() if line.strip()]) >= len(trace.document["steps"]) + 2
    assert "█" in drawn


def test_a_trace_in_a_file(runs, tmp_path, capsysbinary):
    code, out, err = look(capsysbinary, runs[0], "ae\tN;SG", "-o", tmp_path / "x.json")
    assert (code, out) == (0, b"")
    assert str(tmp_path / "x.json") in err
    assert Trace.load(tmp_path / "x.json").document["text"].startswith("ae")


def test_a_page_behind_a_link(runs, tmp_path, capsysbinary):
    (tmp_path / "page.html").symlink_to(tmp_path / "real.html")
    assert look(capsysbinary, runs[0], "ae\tN;SG", "-o", tmp_path / "page.html")[0] == 0
    assert (tmp_path / "page.html").is_symlink()
    assert b"<html" in (tmp_path / "real.html").read_bytes()


def test_two_models_in_one_file(runs, tmp_path, capsysbinary):
    again = [runs[1], "ae", "--against", runs[1]]
    code, out, _ = look(capsysbinary, *again, "--json", "-o", tmp_path / "two.json")
    assert code == 0
    one, other = json.loads(out)
    assert one == other
    assert json.loads((tmp_path / "two.json").read_bytes()) == [one, other]


def test_a_page(runs, tmp_path, capsysbinary):
    """The same bytes each time, with nothing to load from elsewhere."""
    pages = []
    for name in ("a.html", "b.html"):
        assert look(capsysbinary, runs[0], "ae\tN;PL", "-o", tmp_path / name)[0] == 0
        pages.append((tmp_path / name).read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    assert pages[0].lstrip().lower().startswith("<!doctype html>")
    assert 'src="http' not in pages[0]


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["{words}", ""], 2, "is blank; a trace needs a text"),
        (["{words}", " "], 2, "is blank; a trace needs a text"),
        (
            ["{words}", "ae", "--beam", "0"],
            2,
            "seqwright: beam is 0; it must be a whole number from 1 to 4096\n",
        ),
        (["{words}", "ae", "-o", "x.pdf"], 2, "it must end in .html for a page or .json"),
        (["{words}", "ae", "-o", "{nowhere}/x.json"], 4, "cannot be written"),
        (["{words}", "ae", "-o", "{folder}"], 4, "is a folder; pass a file name in it"),
        (["{forms}", "ae"], 2, "1 field, but the model takes 2"),
        (["{nowhere}", "ae"], 3, "does not exist"),
    ],
)
def test_refusals_are_one_line_and_a_code(arguments, code, part, runs, tmp_path, capsysbinary):
    (tmp_path / "folder.html").mkdir()
    places = {"nowhere": tmp_path / "nowhere", "folder": tmp_path / "folder.html"}
    places |= {"forms": runs[0], "words": runs[1]}
    found, out, err = look(capsysbinary, *(text.format(**places) for text in arguments))
    assert (found, out) == (code, b"")
    assert part in err
    assert err.count("\n") == 1
