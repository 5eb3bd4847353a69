"""A store gives back what was put in, opens only when it is whole, and survives being killed."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import pair_store

from seqwright.data import store as store_module
from seqwright.data.store import Ragged, Store
from seqwright.errors import InputError, WriteError

PAIRS = [([5, 6, 7], [8]), ([], [9, 9]), ([4], [])]
rows_of_ids = st.lists(st.integers(0, 69_999), max_size=6)
any_text = st.text(st.characters(), max_size=5)  # lone surrogates included


def build(folder: Path, pairs=PAIRS, **options) -> Store:
    return pair_store(folder, pairs, **options)


def contents(store: Store) -> list[tuple[list[int], list[int]]]:
    source, target = store.column("source"), store.column("target")
    return [(source.row(i).tolist(), target.row(i).tolist()) for i in range(len(store))]


def texts(store: Store, number: int) -> tuple[str, str]:
    return store.column("source_text").text(number), store.column("target_text").text(number)


def hidden(folder: Path) -> set[str]:
    return {path.name for path in folder.parent.iterdir()} - {folder.name}


@settings(max_examples=60, deadline=None)
@given(
    examples=st.lists(
        st.tuples(rows_of_ids, rows_of_ids, any_text, any_text, st.integers(1, 1 << 31)), max_size=8
    ),
    extras=st.booleans(),
    arrays=st.booleans(),
    chunk=st.integers(1, 30),
)
def test_everything_comes_back(examples, extras, arrays, chunk):
    form = (lambda row: np.array(row, dtype=np.uint32)) if arrays else list
    pairs = [
        (form(x), form(y), (a, b) if extras else None, (1, line) if extras else None)
        for x, y, a, b, line in examples
    ]
    with tempfile.TemporaryDirectory() as scratch, mock.patch.object(store_module, "CHUNK", chunk):
        store = build(
            Path(scratch, "s"), iter(pairs), vocabulary=70_000, texts=extras, inputs=["a.tsv", "b.tsv"]
        )
        assert contents(store) == [(x, y) for x, y, *_ in examples]
        assert store.column("source").lengths().tolist() == [len(x) for x, *_ in examples]
        assert store.column("target").lengths().tolist() == [len(y) for _, y, *_ in examples]
        assert store.column("source").lengths().dtype == np.int32
        if extras:
            assert [texts(store, i) for i in range(len(store))] == [(a, b) for _, _, a, b, _ in examples]
            assert [store.place(i) for i in range(len(store))] == [f"b.tsv:{line}" for *_, line in examples]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_gather_takes_rows_in_the_order_asked_for(data):
    numbers = np.array(data.draw(st.lists(st.integers(0, 2), max_size=6)), dtype=np.int32)
    with tempfile.TemporaryDirectory() as scratch:
        store = build(Path(scratch, "s"))
        for column in (store.column("source"), store.column("target")):
            gathered = column.gather(numbers)
            expected = Ragged.of([column.row(number) for number in numbers])
            assert gathered.flat.tolist() == expected.flat.tolist()
            assert gathered.lengths.tolist() == expected.lengths.tolist()


@pytest.mark.parametrize(("vocabulary", "dtype"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<u4")])
def test_ids_are_as_small_as_the_vocabulary_allows(tmp_path, vocabulary, dtype):
    store = build(tmp_path / "s", [([vocabulary - 1], [0])], vocabulary=vocabulary)
    assert store.column("source").row(0).dtype == np.dtype(dtype)
    assert contents(store) == [([vocabulary - 1], [0])]


def test_fingerprint_is_of_the_content_alone(tmp_path):
    first = build(tmp_path / "a", key="one")
    with mock.patch.object(store_module, "CHUNK", 1):
        again = build(tmp_path / "b", key="other")
    shifted = build(tmp_path / "c", [([5, 6], [7, 8]), *PAIRS[1:]])
    assert first.fingerprint == again.fingerprint != shifted.fingerprint


def test_a_known_key_opens_and_another_builds(tmp_path):
    def untouched() -> Iterator[tuple]:
        raise AssertionError("the pairs were read")
        yield

    build(tmp_path / "s", key="one")
    assert contents(build(tmp_path / "s", untouched(), key="one")) == PAIRS
    assert contents(build(tmp_path / "s", PAIRS[:1], key="two")) == PAIRS[:1]
    assert hidden(tmp_path / "s") == {".s.lock"}


@pytest.mark.parametrize("harm", ["shorter", "longer", "gone"])
def test_a_damaged_file_is_named_and_then_built_again(tmp_path, harm):
    folder = tmp_path / "s"
    pairs = [([1], [2], ("a", "b"), (0, 1))]
    names = list(build(folder, pairs, texts=True, inputs=["f"]).header.files)
    assert len(names) == 9
    for name in names:
        path = folder / name
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] if harm == "shorter" else path.read_bytes() + b"x")
        with pytest.raises(InputError, match=name):
            Store.open(folder)
        store = build(folder, pairs, key="k", texts=True, inputs=["f"])
        assert texts(store, 0) == ("a", "b")


@pytest.mark.parametrize("offsets", [[0, 3, 3, 5], [0, 9, 3, 4], [0, -1, 3, 4], [1, 3, 3, 4]])
def test_offsets_that_do_not_fit_are_refused(tmp_path, offsets):
    build(tmp_path / "s")
    path = tmp_path / "s" / "source.offsets"
    path.write_bytes(np.array(offsets, dtype="<i8").tobytes())
    with pytest.raises(InputError, match=r"source\.offsets"):
        Store.open(tmp_path / "s")


def test_rows_that_changed_are_built_again(tmp_path):
    """The sizes are the same, so only the content shows it."""
    for damage in (b"\x06", b"\xff"):  # another id, and one outside the vocabulary
        build(tmp_path / "s", key="k")
        path = tmp_path / "s" / "source.flat"
        path.write_bytes(damage + path.read_bytes()[1:])
        assert contents(build(tmp_path / "s", key="k")) == PAIRS


def test_ids_outside_the_vocabulary_are_built_again_even_with_a_valid_hash(tmp_path):
    folder = tmp_path / "s"
    fields = json.loads((build(folder, key="k").folder / "store.json").read_text())
    content = b"\xff\xff" + (folder / "source.flat").read_bytes()[2:]
    (folder / "source.flat").write_bytes(content)
    fields["files"]["source.flat"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "store.json").write_text(json.dumps(fields))
    assert contents(build(folder, key="k")) == PAIRS


def test_a_damaged_text_or_place_is_an_input_error(tmp_path):
    store = build(tmp_path / "s", [([1], [2], ("a", "b"), (0, 1))], texts=True, inputs=["f"])
    assert store.place(0) == "f:1"
    (tmp_path / "s" / "source_text.flat").write_bytes(b"\xff")
    (tmp_path / "s" / "places").write_bytes(np.array([7, 1], dtype="<u4").tobytes())
    store = Store.open(tmp_path / "s")
    with pytest.raises(InputError, match="example 1 in the store is damaged"):
        texts(store, 0)
    with pytest.raises(InputError, match="names an input file that"):
        store.place(0)


def test_foreign_headers_are_refused(tmp_path):
    build(tmp_path / "s")
    path = tmp_path / "s" / "store.json"
    fields = json.loads(path.read_text())
    for text, rule in [
        (json.dumps({**fields, "format": 99}), "format 99"),
        (json.dumps({**fields, "count": "many"}), "count"),
        (json.dumps({**fields, "columns": {"source": "O"}}), "columns"),
        (json.dumps({**fields, "columns": {"../source": "<u2"}}), "columns"),
        (json.dumps({**fields, "columns": {"other": "<u2"}}), r"does not list other\.flat"),
        (json.dumps({**fields, "files": [1]}), "files"),
        ("{", "header"),
        ("[]", "header"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=rule):
            Store.open(tmp_path / "s")
    with pytest.raises(InputError, match="not a store"):
        Store.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("pairs", "rule"),
    [
        ([([1], [2]), ([3, 100], [4])], "source of example 2 has the id 100"),
        ([([1], [2]), ([], []), ([3], [4, -1])], "target of example 3 has the id -1"),
    ],
)
def test_bad_pairs_are_named_and_leave_nothing(tmp_path, pairs, rule):
    with pytest.raises(InputError, match=rule):
        build(tmp_path / "s", pairs)
    assert not (tmp_path / "s").exists()
    assert hidden(tmp_path / "s") == {".s.lock"}


def test_a_store_of_format_1_opens(tmp_path):
    """It always had two sides of ids, and maybe their texts."""
    pairs = [([1], [2], ("a", "b"), (0, 1))]
    fields = json.loads((build(tmp_path / "s", pairs, texts=True).folder / "store.json").read_text())
    del fields["columns"]
    old = {**fields, "format": 1, "vocabulary": 100, "dtype": "<u2", "texts": True}
    (tmp_path / "s" / "store.json").write_text(json.dumps(old))
    store = Store.open(tmp_path / "s")
    assert contents(store) == [([1], [2])]
    assert texts(store, 0) == ("a", "b")


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(InputError, match="no column 'image', only source, target"):
        build(tmp_path / "s").column("image")


def test_what_is_not_a_store_is_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "notes").write_text("weeks of work")
    for name in ("thesis", "notes"):
        with pytest.raises(WriteError, match="not a store"):
            build(tmp_path / name)
    assert (tmp_path / "thesis" / "chapter.txt").exists()
    assert (tmp_path / "notes").is_file()


def test_a_full_disk_keeps_the_old_store(tmp_path):
    build(tmp_path / "s")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(WriteError, match="cannot be written"):
            build(tmp_path / "s", [([1] * 5000, [1])] * 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert contents(Store.open(tmp_path / "s")) == PAIRS
    assert hidden(tmp_path / "s") == {".s.lock"}


def test_trouble_with_the_input_is_not_called_trouble_with_the_output(tmp_path):
    def broken() -> Iterator[tuple]:
        yield PAIRS[0]
        raise OSError("the input went away")

    with pytest.raises(OSError, match="went away"):
        build(tmp_path / "s", broken())
    assert not (tmp_path / "s").exists()


KILLED = """
import os, pathlib, signal, sys
from seqwright.data import store
folder, moment, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = 0
def deadly(function):
    def call(*arguments):
        global calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call
if moment == "pair":
    pairs = deadly(lambda: store.StoredRow({"source": [1, 2], "target": [3]}))
else:
    pairs = lambda: store.StoredRow({"source": [1, 2], "target": [3]})
    home = os if moment == "fsync" else pathlib.Path
    setattr(home, moment, deadly(getattr(home, moment)))
store.CHUNK = 20
columns = [store.ColumnSpec.ids(side, 100) for side in ("source", "target")]
store.Store.open_or_build(folder, (pairs() for _ in range(50)), columns, key="new")
"""


@pytest.mark.parametrize(
    ("moment", "number"), [("pair", 40), ("fsync", 1), ("fsync", 5), ("fsync", 7), ("rename", 2)]
)
@pytest.mark.parametrize("before", ["nothing", "a store"])
def test_a_killed_build_never_looks_finished(tmp_path, moment, number, before):
    folder = tmp_path / "s"
    if before == "a store":
        build(folder, key="old")
    elif moment == "rename":
        number = 1  # without an old store to move, the first rename is the one that counts
    child = subprocess.run([sys.executable, "-c", KILLED, str(folder), moment, str(number)], check=False)
    assert child.returncode == -signal.SIGKILL
    if folder.exists():
        found = Store.open(folder)
        assert contents(found) == (PAIRS if found.header.key == "old" else [([1, 2], [3])] * 50)
    assert contents(build(folder, key="mine")) == PAIRS
    assert hidden(folder) == {".s.lock"}


AT_ONCE = """
import sys, time
from pathlib import Path
from seqwright.data.store import ColumnSpec, Store, StoredRow
folder, name = Path(sys.argv[1]), sys.argv[2]
def pairs():
    folder.with_name(name).touch()
    for number in range(20):
        time.sleep(.02)
        yield StoredRow({"source": [number]})
assert len(Store.open_or_build(folder, pairs(), [ColumnSpec.ids("source", 100)], key="k")) == 20
"""


def test_of_several_processes_one_builds(tmp_path):
    command = [sys.executable, "-c", AT_ONCE, str(tmp_path / "s")]
    children = [subprocess.Popen([*command, f"built-{number}"]) for number in range(3)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    assert len(list(tmp_path.glob("built-*"))) == 1
