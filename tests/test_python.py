"""The functions of `import seqwright`, which do what the commands do."""

from __future__ import annotations

import pytest
from tiny_runs import make_run

import seqwright

PAIRS = [("ab", "AB"), ("ba", "BA"), ("abba", "ABBA")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("python") / "run")


def test_every_name_is_there():
    for name in seqwright.__all__:
        assert getattr(seqwright, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'tain'"):
        _ = seqwright.tain


def test_a_run_is_checked_reported_and_analysed(run):
    *passed, examples = seqwright.verify(run)
    assert [check.name for check in passed if check.passed] == ["configuration", "tokenizers", "weights"]
    assert not examples.passed  # the run was made without a training, which records some
    assert seqwright.report(run).name == "report.html"
    assert seqwright.heads(seqwright.load(run), PAIRS).rows


def test_two_evaluations_are_compared(run):
    model = seqwright.load(run)
    one, other = model.evaluate(PAIRS), model.evaluate(PAIRS)
    assert (seqwright.compare(one, other).wins, seqwright.compare(one, other).ties) == (0, len(PAIRS))


def test_the_doctor_recognises_what_a_file_holds(tmp_path):
    file = tmp_path / "labels.tsv"
    file.write_text("".join(f"a text of number {n}\t{'odd' if n % 2 else 'even'}\n" for n in range(60)))
    found = seqwright.doctor(str(file))
    assert "label" in "\n".join(found.lines())
    assert seqwright.doctor([str(file)]).to_json() == found.to_json()
