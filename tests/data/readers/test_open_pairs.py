"""Every reading option of a configuration has its effect."""

from __future__ import annotations

import pytest

from seqwright.config import DataConfig
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.pairs import LONGEST_TOKEN, open_pairs
from seqwright.errors import ConfigError


def texts(paths, **options):
    return [pair[:2] for pair in open_pairs(paths, DataConfig(**options)).read(ReadReport())]


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return written


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a;b\nc;d\n", {"delimiter": ";"}, [("a", "b"), ("c", "d")]),
        ("a,b\nc,d\n", {"format": "csv"}, [("a", "b"), ("c", "d")]),
        ('"a, b",c\n', {"format": "csv", "delimiter": ",", "quoting": True}, [("a, b", "c")]),
        ("Wort\tLaut\nx\ty\n", {"header": True}, [("x", "y")]),
        ("source\ttarget\nx\ty\n", {"header": False}, [("source", "target"), ("x", "y")]),
        ("a\tb\tc\n", {"columns": "3:1"}, [("c", "a")]),
        ("ä\tö\n".encode("latin-1"), {"encoding": "latin-1"}, [("ä", "ö")]),
        (b"\xff\tb\n", {"on_bad_bytes": "replace"}, [("\ufffd", "b")]),
        ("a\tb\nc\nd\te\n", {"skip_bad_rows": True}, [("a", "b"), ("d", "e")]),
        ('{"q": "a", "a": "b"}\n', {"format": "jsonl", "columns": "q:a"}, [("a", "b")]),
    ],
)
def test_options_have_their_effect(write, content, options, expected):
    assert texts([write("pairs", content)], **options) == expected


def test_sides_may_have_several_files_and_tabs(write):
    paths = [write(name, f"{name}\tx\n") for name in "abcd"]
    assert texts(paths, format="parallel") == [("a\tx", "c\tx"), ("b\tx", "d\tx")]
    with pytest.raises(ConfigError, match="not 3 files; name the sources first"):
        open_pairs(paths[:3], DataConfig(format="parallel"))


def test_a_larger_max_length_allows_longer_lines(write):
    path = write("a.tsv", f"{'x' * (2 * LONGEST_TOKEN)}\ty\nb\tc\n")
    assert [len(texts([path], max_length=length)) for length in (1, 2)] == [1, 2]
