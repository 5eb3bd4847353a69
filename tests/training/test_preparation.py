"""From files to stores: once, streaming, nothing lost without a count, nothing changed without notice."""

from __future__ import annotations

import itertools
import os
import signal
import tracemalloc

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from seqwright.config import DataConfig
from seqwright.data import fingerprints
from seqwright.data.corpus import Corpus
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.task import Learning
from seqwright.errors import InputError, ModelError
from seqwright.tasks.text_to_text import TextToText
from seqwright.training.interrupt import Interrupted
from seqwright.training.preparation import prepare
from seqwright.training.run import train


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that are read from the beginning, one entry for each time."""
    seen: list[str] = []
    original = PairFiles.read

    def read(self, tally):
        seen.append(self.name)
        return original(self, tally)

    monkeypatch.setattr(PairFiles, "read", read)
    return seen


def examples(store) -> list[tuple[list[int], list[int]]]:
    return [
        (store.column("source").row(i).tolist(), store.column("target").row(i).tolist())
        for i in range(len(store))
    ]


def test_the_second_start_opens_without_reading(tmp_path, reads, monkeypatch):
    config = tiny.configuration(tiny.reversals(tmp_path / "pairs.tsv"))
    first = prepare(config, tmp_path)
    assert len(reads) == 5  # one look whether there is anything, for each tokenizer, for each store
    reads.clear()
    monkeypatch.setattr(fingerprints, "_digest", lambda file: pytest.fail(f"{file.name} was hashed again"))
    second = prepare(config, tmp_path)
    assert reads == []
    assert second.task.fingerprint == first.task.fingerprint
    assert examples(second.train) == examples(first.train)


@pytest.mark.parametrize("same_size", [True, False])
def test_a_changed_file_is_noticed_and_prepared_again(tmp_path, same_size):
    """While nothing is trained yet, the new content is simply taken."""
    path = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(path)
    before = prepare(config, tmp_path)
    text = path.read_text()
    path.write_text(text.replace("a", "g") if same_size else text + "gg\tgg\n")
    os.utime(path, ns=(1, 1))
    after = prepare(config, tmp_path)
    assert after.train.fingerprint != before.train.fingerprint
    assert "g" in after.task.source.vocabulary.entries


def test_a_file_that_was_only_touched_changes_nothing(tmp_path, reads):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    prepare(tiny.configuration(path), tmp_path)
    reads.clear()
    os.utime(path, ns=(1, 1))
    prepare(tiny.configuration(path), tmp_path)
    assert reads == []


def test_24_changed_data_are_refused_and_leave_the_model_as_it_was(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(path, "training.steps=5")
    train(config, tmp_path / "run")
    tokenizer = (tmp_path / "run" / "tokenizer.source.json").read_bytes()
    text = path.read_text()
    path.write_text(text.replace("a", "z"))
    with pytest.raises(ModelError, match=r"pairs\.tsv changed since this training began"):
        train(config, tmp_path / "run")
    assert (tmp_path / "run" / "tokenizer.source.json").read_bytes() == tokenizer
    path.write_text(text)
    assert train(config, tmp_path / "run").finished


def test_24_changed_data_are_refused_where_one_file_is_several_parts(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(path, f"data.valid={[str(path)]}", "training.steps=1")
    train(config, tmp_path / "run")
    path.write_text(path.read_text().replace("a", "z"))
    with pytest.raises(ModelError, match=r"^\S+pairs\.tsv changed since this training began"):
        train(config, tmp_path / "run")


def test_24_changed_data_are_refused_even_if_the_stores_were_removed(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    config = tiny.configuration(path, "training.steps=5")
    train(config, tmp_path / "run")
    text = path.read_text()
    for file in sorted((tmp_path / "run" / "data").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.write_text(text.replace("ab", "ba"))
    with pytest.raises(ModelError, match="training data are not those of"):
        train(config, tmp_path / "run")
    path.write_text(text)
    assert train(config, tmp_path / "run").finished


def test_long_pairs_are_left_out_and_named_with_their_place_at_every_start(tmp_path):
    pairs = [(word, word) for word in tiny.words(100)]
    pairs[10], pairs[20] = ("a" * 30, "b"), ("b", "a" * 31)
    train_file = tiny.write_pairs(tmp_path / "pairs.tsv", pairs)
    valid_file = tiny.write_pairs(tmp_path / "valid.tsv", [("ab", "ba"), ("a" * 25, "b")])
    config = tiny.configuration(train_file, "data.max_length=20", f"data.valid={[str(valid_file)]}")
    for _ in range(2):  # built, and found built
        prepared = prepare(config, tmp_path)
        of_training, of_validation = prepared.left_out
        assert (of_training.count, of_validation.count) == (2, 1)
        assert of_training.line() == (
            "warning: training pairs with a side of more than 20 tokens: 2 of 100, the longest has 31 (first "
            f"at {train_file}:11); they are left out; raise data.max_length, or shorten them"
        )
        assert [place.line for place in of_training.places] == [11, 21]
        assert "validation pairs with a side of more than 20 tokens: 1 of 2" in of_validation.sentence
        kept = prepared.lengths
        assert len(kept.context) == 98
        assert max(kept.context.max(), kept.counted.max()) <= 20
    assert prepare(tiny.configuration(train_file, "data.max_length=40"), tmp_path).left_out == ()


def test_12_all_pairs_too_long_shows_how_long_they_are(tmp_path):
    path = tiny.write_pairs(tmp_path / "pairs.tsv", [("a" * n, "b" * n) for n in range(5, 40)])
    with pytest.raises(InputError, match=r"longer than data\.max_length = 3 tokens") as error:
        prepare(tiny.configuration(path, "data.max_length=3"), tmp_path)
    assert "under 8 tokens" in str(error.value)
    assert "under 64 tokens" in str(error.value)
    prepare(tiny.configuration(path, "data.max_length=300"), tmp_path)  # and the way out is one


def test_a_training_that_never_began_may_be_reconfigured(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    with pytest.raises(InputError, match="raise it"):
        train(tiny.configuration(path, "data.max_length=1"), tmp_path / "run")
    train(tiny.configuration(path, "training.steps=1", "tokenizer.joint=true"), tmp_path / "run")
    assert sorted(file.name for file in (tmp_path / "run").glob("tokenizer*")) == ["tokenizer.json"]


def test_40_killed_while_it_is_prepared_again_it_keeps_no_tokenizers_of_the_other_configuration(tmp_path):
    path = tiny.reversals(tmp_path / "pairs.tsv")
    before, after = tiny.configuration(path), tiny.configuration(path, "tokenizer.source=bytes")
    folder = _folder(tmp_path, "run")
    prepare(before, folder)

    def killed() -> None:
        with tiny.hooked(tiny.at("prepare:tokenizer", 1, tiny.die)):
            prepare(after, folder)

    assert tiny.in_child(killed) == -signal.SIGKILL
    assert prepare(before, folder).task.source.kind == "characters"


@given(split=st.integers(0, 1000), held_out=st.floats(0.05, 0.3))
def test_parts_are_disjoint_whole_and_keep_equal_sources_together(tmp_path_factory, split, held_out):
    path = tmp_path_factory.mktemp("parts") / "pairs.tsv"
    words = tiny.words(80, longest=3)
    tiny.write_pairs(path, [(word, f"{word}{n}") for n, word in enumerate(words)])
    corpus = Corpus(TextToText, DataConfig(train=(str(path),), held_out=held_out, split=split))
    parts = {part: list(corpus.examples(part)) for part in ("train", "valid", "test")}
    assert sorted(pair.target for pair in itertools.chain(*parts.values())) == sorted(
        f"{word}{n}" for n, word in enumerate(words)
    )
    sources = [{pair.source for pair in pairs} for pairs in parts.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == len(set(words))


def test_files_of_their_own_take_nothing_from_the_training(tmp_path):
    paths = [tiny.reversals(tmp_path / f"{name}.tsv", 50, seed) for seed, name in enumerate("abc")]
    train_file, valid, test = map(str, paths)
    corpus = Corpus(TextToText, DataConfig(train=(train_file,), valid=(valid,), test=(test,)))
    for part, path in (("train", train_file), ("valid", valid), ("test", test)):
        pairs = list(corpus.examples(part))
        assert len(pairs) == 50
        assert {pair.place.file for pair in pairs} == {path}
    held_out = Corpus(TextToText, DataConfig(train=(train_file,), valid=(valid,)))
    assert len(list(held_out.examples("train"))) == 50
    assert list(held_out.examples("test")) == []


def test_two_files_of_one_side_each_keep_their_places(tmp_path):
    words = tiny.words(60)
    sides = [tmp_path / "in.txt", tmp_path / "out.txt"]
    sides[0].write_text("".join(f"{word}\n" for word in words))
    sides[1].write_text("".join(f"{word[::-1]}\n" for word in words))
    config = tiny.configuration(sides[0], f"data.train={[str(side) for side in sides]}")
    prepared = prepare(config, tmp_path)
    assert prepared.train.place(0).startswith(f"{sides[0]}:")
    assert prepared.task.source.decode(prepared.train.column("source").row(3)) in words


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_13_a_path_that_is_not_a_file_is_named(tmp_path, kind):
    path = tmp_path / "thing"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match="thing"):
        prepare(tiny.configuration(path), tmp_path)


def test_too_few_pairs_for_a_validation_name_the_way_out(tmp_path):
    path = tiny.write_pairs(tmp_path / "pairs.tsv", [("ab", "b")] * 5)
    with pytest.raises(InputError, match="add pairs, or give files with --"):
        prepare(tiny.configuration(path), tmp_path)


def test_it_can_be_left_in_every_pass(tmp_path, monkeypatch):
    """The check is called in each pass over the files; after it has raised, a second run succeeds."""
    monkeypatch.setattr(TextToText, "learning", Learning(block=50))
    config = tiny.configuration(tiny.reversals(tmp_path / "pairs.tsv"))
    calls = itertools.count(1)
    prepare(config, _folder(tmp_path, "whole"), lambda: next(calls))
    called = next(calls) - 1
    assert called >= 12
    for number in range(1, called + 1):
        left = itertools.count(1)

        def check(left=left, number=number) -> None:
            if next(left) == number:
                raise Interrupted(15)

        with pytest.raises(Interrupted):
            prepare(config, _folder(tmp_path, str(number)), check)
    again = prepare(config, tmp_path / str(called))
    assert again.train.fingerprint == prepare(config, tmp_path / "whole").train.fingerprint


def _folder(above, name):
    folder = above / name
    folder.mkdir()
    return folder


def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(TextToText, "learning", Learning(block=200))
    monkeypatch.setattr("seqwright.data.store.CHUNK", 2000)
    for name in ("BLOCK", "COMPRESSED_BLOCK"):
        monkeypatch.setattr(f"seqwright.data.readers.files.{name}", 1 << 12)
    monkeypatch.setattr("seqwright.data.readers.lines.BLOCK", 1 << 12)  # read by format detection
    peaks = []
    for count in (4_000, 20_000):
        config = tiny.configuration(tiny.reversals(tmp_path / f"{count}.tsv", count))
        folder = _folder(tmp_path, str(count))
        tracemalloc.start()
        prepare(config, folder)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
