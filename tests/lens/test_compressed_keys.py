"""A model with compressed keys: its traces leave out weights over blocks, and its heads are refused."""

from __future__ import annotations

import pytest
from tiny_runs import make_run

from seqwright import cli
from seqwright.lens.trace.schema import TraceFile
from seqwright.prediction.predictor import load


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs with compressed keys in all layers, and in every second one."""
    ways = {"all": "compressed", "some": ["append", "compressed"]}
    return {
        name: make_run(tmp_path_factory.mktemp("compressed") / name, model={"layers": 2, "growth": growth})
        for name, growth in ways.items()
    }


@pytest.mark.parametrize("text", ["a", "b", "ab", "abba"])
@pytest.mark.parametrize("name", ["all", "some"])
def test_weights_over_blocks_are_left_out_whatever_the_length(folders, name, text):
    trace = load(folders[name]).look(text)
    TraceFile.model_validate(trace.document)
    found = {(entry["kind"], entry["layer"]) for entry in trace.document["attention"]}
    assert found == {("cross", 0), ("cross", 1)} | ({("enc", 0), ("dec", 0)} if name == "some" else set())
    if name == "all":
        assert "compressed keys" in trace.why("enc")
        assert "compressed keys" in trace.why("dec")
    assert len(trace.document["blocks"]) == 4


def test_heads_are_refused_in_one_sentence(folders, tmp_path, capsys):
    data = tmp_path / "dev.tsv"
    data.write_text("ab\tAB\nba\tBA\n", encoding="utf-8")
    assert cli.main(["heads", str(folders["some"]), "--data", str(data)]) == 2
    printed = capsys.readouterr()
    assert printed.err.strip() == (
        "seqwright: this model attends to compressed keys; its heads cannot be analysed yet"
    )
