"""Tables of toolkits are made from JSON lines and name toolkits that could not run, with the reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.contest import Entry, compete
from bench.peers import results
from bench.peers.__main__ import main
from bench.peers.environments import TOOLKITS, missing
from bench.peers.pairs import Pairs, padding_efficiency, write_ids

TRAIN = {
    "what": "train",
    "asked": "own",
    "shape": "tiny",
    "memory": 1_400_000_000,
    "failure": "",
    "parameters": 2_349_568,
    "first_loss": 9.0,
    "padding_efficiency": 0.9,
}
DECODE = {"what": "decode", "shape": "tiny", "memory": None, "failure": ""}


def trained(name: str, *rates: float, ours: float = 100.0, **more) -> dict:
    return {**TRAIN, "name": name, "rates": list(rates), "seqwright": [ours], **more}


def decoded(name: str, search: tuple[int, int], *rates: float, **more) -> dict:
    beam, rows = search
    return {
        **DECODE,
        "name": name,
        "beam": beam,
        "rows": rows,
        "rates": list(rates),
        "seqwright": [90],
        **more,
    }


def cells(text: str, name: str) -> list[str]:
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_ratio_is_that_of_medians_of_one_run():
    """The latest line counts, with the rate of Seqwright in the same run."""
    text = results.tables(
        [
            trained("Seqwright", 100.0),
            trained("fairseq", 10.0, ours=100.0),
            trained("fairseq", 40.0, 60.0, 50.0, ours=200.0),
        ],
        ["fairseq"],
    )
    assert cells(text, "fairseq")[1:3] == ["50 (40–60)", "× 4.00"]
    assert cells(text, "Seqwright")[1:3] == ["100 (100–100)", "–"]
    assert cells(text, "fairseq")[3:] == ["0.90", "9.00", "2,349,568", "1,400 MB"]
    assert "Not run" not in text


def test_rows_are_in_the_given_order_with_ours_first():
    records = [trained("b", 1.0), trained("a", 1.0), trained("Seqwright", 1.0), trained("else", 1.0)]
    text = results.tables(records, ["a", "b"])
    assert [line.split(" | ")[0][2:] for line in text.splitlines()[4:]] == ["Seqwright", "a", "b", "else"]


def test_shapes_and_batches_have_tables_of_their_own():
    text = results.tables(
        [trained("a", 1.0), trained("a", 3.0, asked="ours"), trained("a", 5.0, shape="base")], []
    )
    assert [line for line in text.splitlines() if line.startswith("**")] == [
        "**Training, `tiny`, each with the batches that it makes itself**",
        "**Training, `tiny`, all with Seqwright's batches**",
        "**Training, `base`, each with the batches that it makes itself**",
    ]


def test_a_toolkit_that_was_not_run_is_named_with_the_reason():
    text = results.tables(
        [trained("Seqwright", 1.0), trained("fairseq", 5.0), trained("fairseq", failure="ImportError: no")],
        ["fairseq", "joeynmt"],
    )
    assert "Not run: joeynmt (not tried); fairseq (ImportError: no)." in text
    assert not [line for line in text.splitlines() if line.startswith("| fairseq")]


def test_searches_are_columns_and_a_failure_is_shown_in_its_cell():
    records = [decoded("Seqwright", search, 90.0) for search in results.SEARCHES]
    records += [
        decoded("joeynmt", (1, 1), 30.0),
        decoded("joeynmt", (5, 32), failure="MemoryError: much"),
        decoded("fairseq", (1, 1), failure="gone"),
    ]
    text = results.tables(records, ["joeynmt", "fairseq"])
    assert cells(text, "Seqwright")[1:] == ["90"] * 4
    assert cells(text, "joeynmt")[1:] == ["30 (× 3.00)", "–", "–", "not run: MemoryError: much"]
    assert "Not run: fairseq (gone)." in text


def test_a_table_without_results_says_so(tmp_path):
    assert results.tables(results.read(tmp_path / "none.jsonl"), ["a"]) == "Not measured yet."


def test_a_toolkit_without_environment_says_how_to_get_one(tmp_path, capsys, monkeypatch):
    """The contest continues without it; the reason is printed and saved."""

    def compete(entries, rounds):
        for entry in entries:
            entry.rates = [1.0] * rounds

    monkeypatch.setattr("bench.peers.__main__.compete", compete)
    file = tmp_path / "lines.jsonl"
    main(["train", "fairseq", f"--envs={tmp_path}", f"--results={file}"])
    reason = missing("fairseq", tmp_path)
    assert reason.endswith("python -m bench.peers install fairseq")
    assert f"not run: {reason}" in capsys.readouterr().out
    lines = results.read(file)
    assert {line["name"]: line["failure"] for line in lines}[TOOLKITS["fairseq"].title] == reason


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["decode", "--shape=tiny", "marian"])
    assert "'marian' is not one of" in capsys.readouterr().err


def test_a_contender_that_fails_gives_the_reason():
    """At its start, in a round, or because its Python does not exist; its output is ignored."""
    entries = [
        Entry("missing", "bench.contest:nothing", {}),
        Entry("no python", "bench.contest:main", {}, python="/no/python"),
    ]
    compete(entries, rounds=1)
    assert entries[0].failure.startswith("AttributeError: module 'bench.contest' has no attribute 'nothing'")
    assert entries[1].failure == "/no/python cannot be run: No such file or directory"


def test_facts_and_rounds_of_a_contender(tmp_path, monkeypatch):
    (tmp_path / "toy_contender.py").write_text(
        "def rounds(work):\n"
        "    print('{noise')\n"
        "    yield {'parameters': 7}\n"
        "    print('more noise')\n"
        "    yield work, 2.0\n"
        "    raise ValueError('tired\\nof it')\n"
        "def dying():\n"
        "    yield None\n"
        "    import os\n"
        "    os._exit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    entry, dying = Entry("toy", "toy_contender:rounds", {"work": 10}), Entry("", "toy_contender:dying", {})
    compete([entry, dying], rounds=3)
    assert dying.failure == "left with code 7"
    assert (entry.facts, entry.rates, entry.failure) == ({"parameters": 7}, [5.0], "ValueError: tired")
    assert entry.memory is None or entry.memory > 1_000_000


def test_ids_on_disk_are_counted_like_ours(tmp_path):
    write_ids(tmp_path / "ids.npz", None, vocabulary=50)
    pairs = Pairs.load(tmp_path / "ids.npz")
    batches = pairs.batches(400)
    assert sorted(np.concatenate(batches)) == list(range(len(pairs)))
    numbers = batches[0]
    with_ends = [len(pairs.closed(side, n, 3)) for side in ("source", "target") for n in numbers]
    assert pairs.batch(numbers).tokens == sum(with_ends)
    longest = sum(max(with_ends[half]) for half in (slice(len(numbers)), slice(len(numbers), None)))
    assert padding_efficiency([pairs.batch(numbers)]) == pytest.approx(
        sum(with_ends) / (len(numbers) * longest)
    )


def test_saved_lines_are_read_back(tmp_path):
    lines = [trained("a", 1.5), trained("ü", failure="x")]
    results.append(tmp_path / "new" / "lines.jsonl", lines)
    results.append(tmp_path / "new" / "lines.jsonl", lines[:1])
    assert results.read(tmp_path / "new" / "lines.jsonl") == json.loads(json.dumps([*lines, lines[0]]))
