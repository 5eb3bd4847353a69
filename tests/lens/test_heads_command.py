"""`seqwright heads` on the command line: a table, a document, a smaller run."""

from __future__ import annotations

import json
from pathlib import Path

import headed
import pytest

from seqwright import cli
from seqwright.lens.heads.gates import sites
from seqwright.prediction.predictor import load
from seqwright.runs.folder import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return headed.trained(tmp_path_factory.mktemp("heads"), metric="exact_match")


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    file = tmp_path / "dev.tsv"
    file.write_text(
        "".join(f"{source}\t{target}\n" for source, target in headed.pairs(9, 5)), encoding="utf-8"
    )
    return file


def heads(*arguments: object) -> int:
    return cli.main(["heads", *map(str, arguments)])


def test_a_table_of_all_heads(run, dev, capsys):
    assert heads(run, "--data", dev) == 0
    shown = capsys.readouterr()
    assert [line.split()[:3] for line in shown.out.splitlines()[1:13]] == [
        [kind, str(layer), str(head)]
        for kind in ("enc", "dec", "cross")
        for layer in (0, 1)
        for head in (0, 1)
    ]
    assert shown.err == ""
    table, legend = shown.out.split("\n\n")
    titles = table.split("\n")[0].split()
    assert {line.split()[0] for line in legend.splitlines()} >= set(titles) - {"layer", "head"}
    assert heads(run) == 0  # on what the training validates with
    assert "importance" in capsys.readouterr().out


def test_one_json_document_has_all_results(run, dev, tmp_path, capsys):
    out = tmp_path / "smaller"
    arguments = (
        "--json",
        "--method",
        "ablation",
        "--curve",
        "--prune",
        5,
        "--out",
        out,
        "--pairs",
        4,
        "--beam",
        2,
    )
    assert heads(run, "--data", dev, *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["pairs"], document["metric"]) == (4, "exact_match")
    assert all(isinstance(row["ablation"], float) for row in document["heads"])
    assert [point["closed"] for point in document["curve"]["points"]] == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11]
    assert len(document["pruned"]["kept"]) == 7
    assert sum(site.attention.heads for site in sites(load(out).model)) == 7
    least = sorted(
        document["heads"], key=lambda row: (row["ablation"], row["kind"], row["layer"], row["head"])
    )
    assert {(row["kind"], row["layer"], row["head"]) for row in least[5:]} == {
        (head["kind"], head["layer"], head["head"]) for head in document["pruned"]["kept"]
    }


def test_a_smaller_run_by_learned_gates(run, dev, tmp_path, capsys):
    out = tmp_path / "gated"
    assert heads(run, "--data", dev, "--gates", "--keep", 4, "--minutes", 0.01, "--out", out) == 0
    assert f"{out}: kept 4 of 12 heads" in capsys.readouterr().out
    assert sum(site.attention.heads for site in sites(load(out).model)) == 4
    assert cli.main(["predict", str(out), str(dev)]) == 0
    assert not list(tmp_path.glob("gated.*"))


@pytest.mark.parametrize("way", [["--prune", 3], ["--gates", "--keep", 9, "--minutes", 0.01]])
def test_the_smaller_run_can_be_verified_and_has_a_card(run, tmp_path, capsys, way):
    """Its card says what it was made of, not how that was trained."""
    (run / "data.json").write_text('{"format": 1, "name": "mirrors", "pairs": 200, "sources": 198}')
    out = tmp_path / "smaller"
    assert heads(run, *way, "--out", out) == 0
    capsys.readouterr()
    assert cli.main(["verify", str(out)]) == 0
    assert "examples: " in capsys.readouterr().out
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"of run {Run.open(run).id} " in card
    assert "200 pairs of 198 distinct sources" in card
    assert "seqwright verify smaller" in card
    assert "trains the model again" not in card


def test_parses_give_relations(run, tmp_path, capsys):
    rows = ["1\tabc\t_\t_\t_\t_\t2\tnsubj\t_\t_", "2\tde\t_\t_\t_\t_\t0\troot\t_\t_"]
    (tmp_path / "x.conllu").write_text("\n".join([*rows, "", ""]), encoding="utf-8")
    assert heads(run, "--conllu", tmp_path / "x.conllu", "--json") == 0
    first = json.loads(capsys.readouterr().out)["heads"][0]
    assert [relation["name"] for relation in first["relations"]] == ["nsubj", "nsubj"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--prune", "2"], "--out"),
        (["--out", "x"], "--out requires --prune N or --gates"),
        (["--gates", "--out", "x"], "--keep N"),
        (["--gates", "--keep", "2", "--prune", "2", "--out", "x"], "exclude each other"),
        (["--keep", "2"], "--keep requires --gates"),
        (["--prune", "13", "--out", "{tmp}/x"], "--prune is 13; the model has 12 heads"),
        (["--metric", "blue"], "did you mean 'bleu'"),
        (["--data", "nowhere.tsv"], "nowhere.tsv"),
        (["--pairs", "0"], "--pairs is 0"),
        (["--gates", "--keep", "2", "--minutes", "nan", "--out", "{tmp}/x"], "--minutes is nan; it must be"),
    ],
)
def test_refused_options_print_one_line(run, arguments, part, tmp_path, capsys):
    assert heads(run, *(text.format(tmp=tmp_path) for text in arguments)) == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_existing_run_is_refused_before_the_work(run, capsys, monkeypatch):
    monkeypatch.setattr("seqwright.prediction.predictor.load", lambda folder: pytest.fail("it was loaded"))
    assert heads(run, "--prune", 2, "--out", run) == 4
    assert "already contains a run; choose another folder" in capsys.readouterr().err
