"""Every fault of a file raises an error of one line with the place, the rule and the way out."""

import codecs
import io
import json
import os
import re
import threading
import zipfile
from dataclasses import replace

import pytest

from seqwright.config import DataConfig
from seqwright.data.checks.doctor import diagnose
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.lines import Decoding, guess_encoding
from seqwright.data.readers.pairs import PairFiles, SkipRules, read_lines
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.errors import ConfigError, InputError


def fault(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        list(PairFiles(*args, **kwargs).read(ReadReport()))
    message = str(caught.value)
    assert "\n" not in message
    return message


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no pairs"),
        (b"\n \n\n", "no pairs"),
        (b"\t\n \t\n", "no pairs"),
        (b"just text\nmore text\n", "expected source<TAB>target"),
        (b"a\tb\nc\n", ":2: 1 column instead of 2"),
        (b"a\tb\nc\td\te\n", ":2: 3 columns instead of 2"),
        (b"a\tb\tc\td\n", r"4 columns \(“a”, “b”, “c”, “d”\); choose the columns"),
        (b"a\tb\nc\0\td\n", ":2: a NUL character at position 2"),
        (b"a\tb\nna\xefve\td\n", ":2: byte 0xef at offset 6 .*latin-1"),
        (b"\xef\xbb\xbfa\tb\nna\xefve\td\n", ":2: byte 0xef at offset 9"),
        ("a\tb\n".encode("utf-16"), "UTF-16"),
        (codecs.BOM_UTF16_BE + "a\tb\n".encode("utf-16-be"), "UTF-16"),
        ("a\tb\n".encode("utf-32"), "UTF-32"),
        (b'{"source": "a", "target": "b"}\n{"source": "a" "target"}\n', ":2: not JSON at column 16"),
        (
            b'{"source": "a", "target": "b"}\n["a", "b"]\n',
            ":2: expected a JSON object at column 1, not an array",
        ),
        (
            b'{"source": "a", "target": "b"}\n{"source": "a", "target": 3}\n',
            ":2: expected text under 'target', not a number",
        ),
        (
            b'{"source": "a", "target": "b"}\n{"source": "a", "targte": "b"}\n',
            ":2: unknown key 'target'; did you",
        ),
        (
            b'{"source": "a", "target": "b", "source": "c"}\n',
            ":1: duplicate key “source”, the second at column 32",
        ),
        (b'{"source": "a", "target": "b", "weight": NaN}\n', ":1: NaN is not JSON.* at column 42"),
        (b'{"source": "a", "target": "b", "weight": -Infinity}\n', "Infinity is not JSON"),
        (b'{"source": "a", "target": "b", "x": ' + b"[" * 100_000 + b"}\n", "nested too deeply"),
        (b'{"source": "a", "target": "b", "x": ' + b"1" * 5000 + b"}\n", "not usable"),
        (b'{"a": "1", "b": "2", "c": "3"}\n', "the keys are a, b, c"),
        (b'{"t": {"en": "a", "de": "b"}}\n', r"the keys are t\.en, t\.de.*a dot leads into an object"),
    ],
)
def test_bad_content_is_reported(tmp_path, content, words):
    message = fault(write(tmp_path, "pairs", content))
    assert re.search(words, message), message
    assert str(tmp_path) in message


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            "src:tgt",
            "expected text under 'src', not an object with the keys en, fr; name one of them, as in src.en",
        ),
        ("src.en:tgt", "expected text under 'tgt', not an object with the key de;"),
        ("src.en:tgt.ed", "unknown key 'tgt.ed'; did you mean 'tgt.de'"),
        ("src.en:empty", "expected text under 'empty', not an object"),
        ("src.en:none", "expected text under 'none', not null"),
    ],
)
def test_objects_instead_of_text_are_reported_even_if_all_are_skipped(tmp_path, columns, words):
    line = '{"src": {"en": "a", "fr": "c"}, "tgt": {"de": "b"}, "empty": {}, "none": null}\n'
    path, form = write(tmp_path, "a.jsonl", line), FormatOptions(columns=columns)
    assert words in fault(path, options=form)
    assert words in fault(path, options=form, rules=SkipRules(skip_bad_rows=True))


PROGRAM = b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\x3e\0\1\0\0\0\t\t\t\n" + bytes(range(256)) * 8


def spreadsheet():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sheet1.xml", "".join(f"<c>{number * number}</c>" for number in range(2000)))
    return packed.getvalue()


@pytest.mark.parametrize("replaced", ["error", "replace"])
@pytest.mark.parametrize(
    "content", [PROGRAM, spreadsheet(), ("a\tb\n" * 20).encode("utf-16-be")], ids=["elf", "zip", "utf-16"]
)
def test_binary_files_are_reported_before_their_columns(tmp_path, content, replaced):
    decoding, path = Decoding(on_bad_bytes=replaced), write(tmp_path, "a.tsv", content)
    assert "a.tsv is not text: " in fault(path, decoding=decoding)
    assert "a.tsv is not text: " in fault(path, path, decoding=decoding)
    with pytest.raises(InputError, match="is not text"):
        list(read_lines(path, ReadReport(), decoding))


def test_the_byte_order_of_utf16_without_a_mark_is_detected(tmp_path):
    for order in ("le", "be"):
        path = write(tmp_path, "a.tsv", ("a\tb\n" * 20).encode(f"utf-16-{order}"))
        assert f"data.encoding=utf-16-{order} " in fault(path)
        assert len(list(PairFiles(path, decoding=Decoding(f"utf-16-{order}")).read(ReadReport()))) == 20


def test_a_text_with_a_few_nuls_is_text(tmp_path):
    path = write(
        tmp_path, "a.tsv", "".join(f"word {k}\tWort{chr(0) * (k % 9 == 0)} {k}\n" for k in range(99))
    )
    assert "a.tsv:1: a NUL character" in fault(path)
    assert len(list(PairFiles(path, decoding=Decoding(on_bad_bytes="replace")).read(ReadReport()))) == 99


def test_bad_paths_are_reported(tmp_path):
    missing, link = tmp_path / "none.tsv", tmp_path / "link.tsv"
    link.symlink_to(missing)
    assert "does not exist" in fault(str(missing))
    assert "is a link to" in fault(link)
    assert "is a folder" in fault(tmp_path)
    assert "cannot be opened" in fault("a\0b")
    with pytest.raises(ConfigError, match="no file"):
        PairFiles([])


def test_missing_permission_is_reported(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, "a.tsv", "a\tb\n")
    monkeypatch.setattr(
        "seqwright.data.readers.files.open", refuse, raising=False
    )  # root may read every file
    assert "permission denied" in fault(path)


def test_unequal_files_stop_before_the_first_pair(tmp_path):
    left, right = write(tmp_path, "a", "1\n2\n3\n"), write(tmp_path, "b", "1\n2\n")
    reading = PairFiles(left, right).read(ReadReport())
    with pytest.raises(InputError, match=r"a has 3 lines, .*b has 2;.*near line"):
        next(reading)
    assert "near line 1" in fault(left, write(tmp_path, "c", ""))


def test_a_pipe_that_ends_early_is_reported(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=("1\n2\n",), daemon=True).start()
    assert "pipe ended after 2 lines" in fault(pipe, write(tmp_path, "b", "1\n2\n3\n"))


def test_wide_text_with_bad_bytes(tmp_path):
    content = (
        "a\tb\nc\td\n".encode("utf-16-le") + b"\x00\xdc" + "e\tf\n".encode("utf-16-le")
    )  # half a surrogate pair
    path = write(tmp_path, "a.tsv", content)
    assert "are not utf-16-le" in fault(path, decoding=Decoding("utf-16-le"))
    report = ReadReport()
    files = PairFiles(path, decoding=Decoding("utf-16-le", "replace"))
    assert [pair.source for pair in files.read(report)] == ["a", "c", "\ufffde"]
    assert [place.line for place in report.counts[Reason.BAD_BYTES].places] == [3]


def test_the_doctor_does_not_guess_the_encoding_of_wide_text(tmp_path):
    path = write(tmp_path, "a.tsv", "a\tb\n".encode("utf-16") + b"\x00\xdc" + "e\tf\n".encode("utf-16-le"))
    found = diagnose([path], DataConfig(encoding="utf-16"))
    assert found.options == ()
    (bad,) = (each for each in found.findings if each.name == "bad_bytes")
    assert (bad.severity, [place.line for place in bad.places]) == ("error", [2])


def test_lines_of_wide_text_are_counted_by_their_characters(tmp_path):
    """In UTF-16 the byte 10 is also a part of other characters, and not the last byte of a line end."""
    decoding = Decoding("utf-16-le")
    sides = [
        write(tmp_path, name, text.encode("utf-16-le"))
        for name, text in (("a", "Ċ\nb\n"), ("b", "c\nd"), ("c", "e\n"))
    ]
    assert len(list(PairFiles(*sides[:2], decoding=decoding).read(ReadReport()))) == 2
    assert "a has 2 lines, " in fault(sides[0], sides[2], decoding=decoding)


def test_unequal_files_are_compared_one_by_one(tmp_path):
    names = [write(tmp_path, name, "x\n" * count) for name, count in zip("abcd", (3, 2, 2, 3), strict=True)]
    assert "a has 3 lines" in fault(names[:2], names[2:])


def test_bad_rows_can_be_skipped_and_are_counted(tmp_path):
    for content in (
        "a\tb\nc\nd\te\n",
        '{"source":"a","target":"b"}\n{"source":1}\n{"source":"d","target":"e"}\n',
    ):
        report = ReadReport()
        files = PairFiles(write(tmp_path, "pairs", content), rules=SkipRules(skip_bad_rows=True))
        assert [pair.source for pair in files.read(report)] == ["a", "d"]
        assert report[Reason.BAD_ROW] == 1
        assert report.counts[Reason.BAD_ROW].places[0].line == 2


def test_the_longest_length_is_reported_if_all_are_too_long(tmp_path):
    path = write(tmp_path, "a.tsv", "abc\tabcdefgh\n")
    message = fault(path, rules=SkipRules(max_length=2))
    assert "the longest side has 8 code points (limit 2)" in message


def test_an_open_quote_is_reported_with_its_first_row(tmp_path):
    path = write(tmp_path, "a.csv", 'a,b\nc,"d\ne,f\n')
    assert "a.csv:2: " in fault(path, options=FormatOptions(quoting=True))


def test_headers_of_further_files_must_agree(tmp_path):
    first, second = write(tmp_path, "a", "source\ttarget\na\tb\n"), write(tmp_path, "b", "c\td\n")
    assert "header must be source, target" in fault([first, second])
    third = write(tmp_path, "c", "\n\t\nsource\ttarget\ne\tf\n")  # blank lines before it are allowed
    assert [pair.source for pair in PairFiles([third, first, third]).read(ReadReport())] == ["e", "a", "e"]


def test_unknown_columns_suggest_the_nearest(tmp_path):
    path = write(tmp_path, "a.tsv", "question\tanswer\na\tb\n")
    assert "did you mean 'question'" in fault(
        path, options=FormatOptions(header=True, columns="qestion:answer")
    )
    assert "no column 3" in fault(path, options=FormatOptions(columns="1:3"))
    assert "no header" in fault(path, options=FormatOptions(header=False, columns="frage:answer"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.xlsx",
            b"PK\x03\x04" + bytes(range(256)) * 9,
            "a document of another program; .* as CSV",
        ),
        ("a.PDF", b"%PDF-1.4\n" + bytes(range(256)) * 9, r"another program; .* as plain text \(.txt\)"),
        ("a.json", b'[{"a": "b", "c": "d"}]', "a.json begins with a JSON list; write JSON lines"),
        ("a.json", b'[\n  {"a": "b", "c": "d"}\n]\n', "a.json begins with a JSON list; write JSON lines"),
    ],
)
def test_other_formats_are_named_with_the_way_out(tmp_path, name, content, message):
    assert re.search(message, fault(write(tmp_path, name, content)))


def test_bad_options_are_reported():
    for encoding in ("utf-9", "hex", "undefined", "utf\0"):
        with pytest.raises(ConfigError, match="is unknown; try utf-8"):
            Decoding(encoding)
    with pytest.raises(ConfigError, match="on_bad_bytes"):
        Decoding(on_bad_bytes="ignore")
    with pytest.raises(ConfigError, match="format 'xml'"):
        FormatOptions(format="xml")
    with pytest.raises(ConfigError, match="delimiter"):
        FormatOptions(delimiter="::")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Die Straße ist schön", "latin-1"), ("“déjà vu” – naïve", "cp1252"), ("Привет, как дела?", "cp1251"),
     ("Süße Grüße", "latin-1"), ("你好，世界，今天天气很好", "gb18030")],
)  # fmt: skip
def test_guess_of_the_encoding(text, encoding):
    assert guess_encoding(text.encode(encoding)) == encoding


def test_prediction_reads_every_line(tmp_path):
    path = write(tmp_path, "a.txt", "a\n\n \nb")
    assert list(read_lines(path, ReadReport())) == ["a", "", " ", "b"]
    assert list(read_lines(write(tmp_path, "b.txt", ""), ReadReport())) == []


@pytest.mark.parametrize("line", ["a {k}\tb {k}\n", '{{"source": "a {k}", "target": "b {k}"}}\n'])
def test_pairs_after_very_many_blank_lines_are_found(tmp_path, line):
    path = write(tmp_path, "a", "\n" * 500_000 + "".join(line.format(k=k) for k in range(300)))
    pairs = list(PairFiles(path).read(ReadReport()))
    assert len(pairs) == 300
    assert pairs[0].place.line == 500_001
    blank = write(tmp_path, "b", " \n" * 600_000)
    assert "has no pairs: it is empty or blank" in fault(blank)
    prose = write(tmp_path, "c", "\n" * 5000 + "just text\n")
    assert "c:5001: no tab between source and target" in fault(prose)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_carriage_returns_as_line_ends_are_refused(tmp_path, encoding):
    decoding = Decoding(encoding)
    words = "carriage returns and no line feed, so it would be read as one line; convert its line ends"
    path = write(tmp_path, "a.tsv", "a\tb\rc\td\re\tf\r".encode(encoding))
    assert f"a.tsv has 3 {words}" in fault(path, decoding=decoding)
    assert words in fault(path, path, decoding=decoding)
    assert words in fault(path, write(tmp_path, "b", "a\nb\nc\n".encode(encoding)), decoding=decoding)
    with pytest.raises(InputError, match="3 carriage returns"):
        list(read_lines(path, ReadReport(), decoding))
    single = write(tmp_path, "c.tsv", "a\tb\r".encode(encoding))
    assert [pair[:2] for pair in PairFiles(single, decoding=decoding).read(ReadReport())] == [("a", "b")]


def test_an_error_about_very_many_or_long_names_is_short(tmp_path):
    many = [f"name{k}" for k in range(100_000)]
    table = write(tmp_path, "a.csv", ",".join(many) + "\n" + ",".join("x" * 100_000) + "\n")
    message = fault(table)
    assert "has 100,000 columns (“name0”, “name1”, " in message
    assert "and 99,980 more)" in message
    unknown = FormatOptions(columns="name1000000:name2", header=True)
    objects = write(tmp_path, "a.jsonl", json.dumps(dict.fromkeys(many, "x")) + "\n")
    nested = write(tmp_path, "b.jsonl", json.dumps({"q": dict.fromkeys(many, "x"), "a": "x"}) + "\n")
    long = write(tmp_path, "b.csv", f"{'x' * 100_000},{'y' * 100_000},{'z' * 100_000}\n")
    twice = write(tmp_path, "c.jsonl", f'{{"{"x" * 100_000}": 1, "{"x" * 100_000}": 2}}\n')
    further = write(tmp_path, "b", "a,b\n")
    messages = [
        message,
        fault(table, options=unknown),
        fault([table, further], options=FormatOptions(columns="1:2", delimiter=",", header=True)),
        fault(objects),
        fault(objects, options=replace(unknown, format="jsonl")),
        fault(nested, options=FormatOptions(columns="q:a")),
        fault(long),
        fault(twice),
    ]
    assert max(map(len, messages)) < 2000
    assert "did you mean 'name" in messages[1]
