"""Reading yields every pair with its place in every format, and counts every skipped or changed line."""

import bz2
import csv
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from seqwright.config import DataConfig
from seqwright.data.fields import FIELD, SYMBOL, join_fields, plain, split_parts, symbols_in
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.lines import Decoding
from seqwright.data.readers.pairs import PairFiles, SkipRules, open_pairs, read_lines, source_from_cells
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.errors import ConfigError, InputError

NASTY = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x1f"
CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0" + FIELD + SYMBOL), min_size=1
)
FILLED = CELLS.filter(lambda text: not text.isspace())


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read(*args, **kwargs):
    report = ReadReport()
    return list(PairFiles(*args, **kwargs).read(report)), report


def texts(pairs):
    return [(pair.source, pair.target) for pair in pairs]


@given(rows=st.lists(st.tuples(FILLED, FILLED), min_size=1, max_size=20), last=st.sampled_from(["", "\n"]))
def test_every_format_gives_the_same_pairs(tmp_path_factory, rows, last):
    folder = tmp_path_factory.mktemp("formats")
    left, right = ("\n".join(side) + last for side in zip(*rows, strict=True))
    # a byte order mark at the beginning of a file is not text
    rows = [
        (source.removeprefix("\ufeff") if not k else source, target)
        for k, (source, target) in enumerate(rows)
    ]
    tsv = "\n".join(f"{source}\t{target}" for source, target in rows) + last
    objects = "\n".join(json.dumps({"source": source, "target": target}) for source, target in rows) + last
    expected = [pair for pair in rows if pair[0]]
    form = FormatOptions(format="tsv", header=False)
    assert texts(read(write(folder, "a.tsv", tsv), options=form)[0]) == expected
    assert texts(read(write(folder, "a.jsonl", objects))[0]) == expected
    parallel, _ = read(write(folder, "a.src", left), write(folder, "a.tgt", right))
    assert [p.source for p in parallel] == [source for source, _ in expected]


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_compression_is_recognised_by_content(tmp_path, pack):
    content = "".join(f"source {k}\ttarget {k}\n" for k in range(20_000)).encode()
    half = content.index(b"\n", len(content) // 2) + 1
    packed = pack(content[:half]) + pack(content[half:])  # two frames, as `cat a.gz b.gz` makes them
    pairs, _ = read(write(tmp_path, "pairs.txt", packed))
    assert len(pairs) == 20_000
    assert str(pairs[-1].place).endswith("pairs.txt:20000")
    for cut in (len(packed) // 2, len(packed) - 3):
        with pytest.raises(InputError, match=rf"truncated .* byte {cut:,}"):
            read(write(tmp_path, "cut.gz", packed[:cut]))


def test_a_damaged_archive_is_reported(tmp_path):
    packed = bytearray(gzip.compress(os.urandom(5000)))
    packed[100:200] = bytes(100)
    with pytest.raises(InputError, match="gzip archive"):
        read(write(tmp_path, "a.gz", bytes(packed)))


def test_zstd_without_its_library_names_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match=r"seqwright\[zstd\]"):
        read(write(tmp_path, "a", zstandard.ZstdCompressor().compress(b"a\tb\n")))


@given(lines=st.lists(st.text(st.sampled_from("ab é" + NASTY), max_size=6), max_size=30), ended=st.booleans())
def test_only_newline_ends_a_line(tmp_path_factory, lines, ended):
    content = "\n".join(lines) + ("\n" if ended else "")
    path = write(tmp_path_factory.mktemp("lines"), "a.txt", content)
    assert (
        list(read_lines(path, ReadReport()))
        == (content[:-1] if content.endswith("\n") else content).split("\n")[: None if content else 0]
    )


def test_the_line_count_equals_that_of_wc(tmp_path):
    path = write(tmp_path, "a.txt", f"one{NASTY}two\n\n{NASTY}\nlast\n")
    counted = int(subprocess.run(["wc", "-l", path], capture_output=True, check=True).stdout.split()[0])
    assert len(list(read_lines(path, ReadReport()))) == counted == 4


def test_carriage_returns_are_removed_and_counted(tmp_path):
    pairs, report = read(write(tmp_path, "a.tsv", "a\tb\r\nc\td\ne\rf\tg\r\n"))
    assert texts(pairs) == [("a", "b"), ("c", "d"), ("e f", "g")]
    assert report[Reason.CARRIAGE_RETURN] == 2
    assert report[Reason.LINE_BREAK] == 1
    assert [place.line for place in report.counts[Reason.CARRIAGE_RETURN].places] == [1, 3]


def test_a_byte_order_mark_is_not_text(tmp_path):
    pairs, report = read(write(tmp_path, "a.tsv", b"\xef\xbb\xbfa\tb\n"))
    assert texts(pairs) == [("a", "b")]
    assert report[Reason.BYTE_ORDER_MARK] == 1


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "sep=;;;"])
def test_the_separator_line_of_spreadsheets_is_not_a_row(tmp_path, first):
    content = f'\ufeff{first}\r\nsource;target\r\na;b, c\r\n"d\ne";f\r\ng;h\r\n'
    pairs, report = read(write(tmp_path, "a.CSV", content.encode()))
    assert texts(pairs) == [("a", "b, c"), ("d e", "f"), ("g", "h")]
    assert [pair.place.line for pair in pairs] == [3, 4, 6]
    assert report[Reason.SEPARATOR_LINE] == 1
    assert report[Reason.BLANK_PAIR] == 0


def test_a_separator_line_is_text_elsewhere(tmp_path):
    pairs, report = read(write(tmp_path, "a.csv", "a;b\nsep=;\n"))
    assert (texts(pairs), report[Reason.SEPARATOR_LINE]) == ([("a", "b"), ("sep=", "")][:1], 0)
    assert list(read_lines(write(tmp_path, "b.csv", "sep=;\na\n"), ReadReport())) == ["sep=;", "a"]


def test_a_column_that_numbers_the_rows_is_left_out(tmp_path):
    rows = "".join(f"{number},Satz {number},sentence {number}\n" for number in range(7, 40, 2))
    for head, first in (("Nr,Deutsch,Satz auf Englisch\n", 2), ("", 1)):
        pairs, _ = read(write(tmp_path, "a.csv", head + rows))
        assert (len(pairs), pairs[0].place.line) == (17, first)
        assert texts(pairs)[0] == ("Satz 7", "sentence 7")
    numbers = "".join(f"{number}\tword {number}\n" for number in range(30))
    assert len(read(write(tmp_path, "b.tsv", "a\tb\n" + numbers))[0]) == 31  # two columns stay a pair


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "cp1252", "gb18030", "latin-1"])
def test_encodings_can_be_given(tmp_path, encoding):
    text = "".join(f"süß {k}\tdoux {k}\n" for k in range(3000))
    pairs, _ = read(write(tmp_path, "a.tsv", text.encode(encoding)), decoding=Decoding(encoding))
    assert texts(pairs) == [(f"süß {k}", f"doux {k}") for k in range(3000)]


def test_bad_bytes_can_be_replaced_and_are_counted_by_lines(tmp_path):
    path = write(tmp_path, "a.tsv", b"a\tb\nc\xff\xfe\td\xff\ne\tf\n")
    pairs, report = read(path, decoding=Decoding(on_bad_bytes="replace"))
    assert texts(pairs) == [("a", "b"), ("c\ufffd\ufffd", "d\ufffd"), ("e", "f")]
    assert report[Reason.BAD_BYTES] == 1
    nul, report = read(write(tmp_path, "n.tsv", "a\0b\tc\n"), decoding=Decoding(on_bad_bytes="replace"))
    assert texts(nul) == [("a b", "c")]
    assert report[Reason.NUL] == 1


def test_blank_and_long_sides_are_skipped_and_counted(tmp_path):
    content = "a\tb\n\tb\na\t \n\t\n\nlong line\tc\nd\te\n"
    pairs, report = read(write(tmp_path, "a.tsv", content), rules=SkipRules(max_length=5))
    assert texts(pairs) == [("a", "b"), ("d", "e")]
    assert [pair.place.line for pair in pairs] == [1, 7]
    reasons = (Reason.BLANK_SOURCE, Reason.BLANK_TARGET, Reason.BLANK_PAIR, Reason.TOO_LONG)
    assert [report[reason] for reason in reasons] == [1, 1, 2, 1]
    assert "1 skipped: too long" in "\n".join(report.summary())


def test_a_source_of_blank_fields_is_blank(tmp_path):
    content = "a\tV;PST\t1\tx\n\tPST\t\tx\n \t\t\tx\nb\t\t \tx\n"
    pairs, report = read(write(tmp_path, "a.tsv", content), options=FormatOptions(columns="1,2+,3:4"))
    assert [pair.place.line for pair in pairs] == [1, 2, 4]
    assert report[Reason.BLANK_SOURCE] == 1


def test_blank_lines_never_shift_a_side(tmp_path):
    """If each side were filtered separately, one blank line would misalign everything after it."""
    left = write(tmp_path, "a", "1\n\n3\n4\n")
    pairs, _ = read(left, write(tmp_path, "b", "eins\nzwei\n\nvier\n"))
    assert texts(pairs) == [("1", "eins"), ("4", "vier")]


def test_several_files_follow_each_other(tmp_path):
    names = [write(tmp_path, name, f"{name} one\n{name} two\n") for name in "abcd"]
    pairs, _ = read(names[:2], names[2:])
    assert texts(pairs)[1:3] == [("a two", "c two"), ("b one", "d one")]
    assert [(os.path.basename(p.place.file), p.place.line) for p in pairs] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("b", 2),
    ]


def test_a_file_can_be_read_again(tmp_path):
    files = PairFiles(write(tmp_path, "a.tsv", "a\tb\nc\td\n"))
    assert list(files.read(ReadReport())) == list(files.read(ReadReport()))


def test_a_pipe_can_be_sniffed_and_read_once(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    rows = "".join(f"{k}\t{k}\n" for k in range(50_000))
    threading.Thread(target=Path(path).write_text, args=(rows,), daemon=True).start()
    files = PairFiles(path)
    assert files.sniffed.format == "tsv"
    assert sum(1 for _ in files.read(ReadReport())) == 50_000
    with pytest.raises(InputError, match="only once"):
        next(files.read(ReadReport()))


def test_two_pipes_are_parallel_files_from_their_first_line_on(tmp_path):
    paths = [str(tmp_path / name) for name in ("left", "right")]
    lines = "".join(f"line {number}\n" for number in range(150_000))  # more than format detection reads
    for path in paths:
        os.mkfifo(path)
        threading.Thread(target=Path(path).write_text, args=(lines,), daemon=True).start()
    pairs = list(open_pairs(paths, DataConfig()).read(ReadReport()))
    assert len(pairs) == 150_000
    assert texts(pairs[:1]) == [("line 0", "line 0")]


def test_standard_input():
    program = (
        "from seqwright.data.readers.pairs import *; from seqwright.data.read_report import ReadReport;"
        "print([tuple(p)[:2] for p in PairFiles('-').read(ReadReport())])"
    )
    done = subprocess.run([sys.executable, "-c", program], input="a\tb\n", capture_output=True, text=True)
    assert done.stdout.strip() == "[('a', 'b')]", done.stderr


def test_a_long_line_costs_linear_time(tmp_path):
    path = write(tmp_path, "a.tsv", "a\tb\n" + "x" * 3_000_000 + "\ty\n" + "c\td\n")
    pairs, report = read(path)
    assert texts(pairs) == [("a", "b"), ("c", "d")]
    assert report[Reason.TOO_LONG] == 1
    assert len(read(path, rules=SkipRules(max_length=10**7))[0]) == 3


@pytest.mark.parametrize(
    "content", ["{}\tb\nc\td\n", '{{"source": "{}", "target": "b"}}\n{{"source": "c", "target": "d"}}']
)
def test_the_format_is_detected_despite_a_long_first_line(tmp_path, content):
    pairs, report = read(write(tmp_path, "a", content.format("x" * 3_000_000)))
    assert texts(pairs) == [("c", "d")]
    assert report[Reason.TOO_LONG] == 1
    with pytest.raises(InputError, match="no tab between source and target"):
        read(write(tmp_path, "b", "x" * 3_000_000))


def test_quotes_are_text_except_in_csv(tmp_path):
    stray = write(tmp_path, "a.tsv", 'say "hi\tdis "salut\nb\tc\n')
    assert texts(read(stray)[0]) == [('say "hi', 'dis "salut'), ("b", "c")]
    quoted = write(tmp_path, "a.csv", '"a, b","say ""hi"""\n"two\nlines",c\n')
    pairs, report = read(quoted)
    assert texts(pairs) == [("a, b", 'say "hi"'), ("two lines", "c")]
    assert [pair.place.line for pair in pairs] == [1, 2]
    assert report[Reason.LINE_BREAK] == 1


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.csv", '"two\nlines",c\nd,e\n', [("two lines", "c"), ("d", "e")]),
        ("a.csv", 'source;target\n"two\nlines";"c;\n,d"\n', [("two lines", "c; ,d")]),
        ("a.tsv", '"two\nlines"\tc\nd\te\n', [("two lines", "c"), ("d", "e")]),
        ("a.csv", 'source,target\n"a\tb",c\n', [("a\tb", "c")]),
        ("a.csv", f'"{"a" * 200_000}",b\n', [("a" * 200_000, "b")]),
        ("a.csv", "a\rb,c\n", [("a b", "c")]),
    ],
    ids=["first row", "delimiters", "tabs", "tab in a cell", "long cell", "carriage return"],
)
def test_quoted_cells_are_read(tmp_path, name, content, pairs):
    csv.field_size_limit(1 << 17)  # the default
    found, _ = read(
        write(tmp_path, name, content),
        options=FormatOptions(quoting=True),
        rules=SkipRules(max_length=1_000_000),
    )
    assert texts(found) == pairs


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('b,c\n"a, b",c\n', "a.tsv:2: 3 columns"),
        ('b,c\n"a, b\n1, 2, 3\nx",c\nd,e\n', "a.tsv:3: 3 columns"),
        ('"a, b",c\nd,e\n', "a.tsv: "),  # which has three columns, unless they are quoted
        ('"a, b",c\n"d, e",f\n', "a.tsv: "),
    ],
)
def test_quoting_is_tried_where_reading_stops(tmp_path, content, place):
    path = write(tmp_path, "a.tsv", content.replace(",", "\t"))
    with pytest.raises(InputError) as error:
        read(path)
    assert f"{tmp_path}/{place}" in str(error.value)
    advice = "quotes enclose cells here; set data.quoting=true"
    assert advice in str(error.value)
    assert "skip_bad_rows" not in str(error.value).partition(advice)[0]
    assert read(path, options=FormatOptions(quoting=True))[0]


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ('"a" b,c\nd,e\n', [('"a" b', "c"), ("d", "e")]),  # closed inside a cell
        ('a,b\n"c,d\n', [("a", "b"), ('"c', "d")]),  # never closed
        ('a 3" pipe,b\n"c",d\n', [('a 3" pipe', "b"), ("c", "d")]),
    ],
)
def test_quotes_in_csv_are_text_if_only_that_fits(tmp_path, content, pairs):
    assert texts(read(write(tmp_path, "a.csv", content))[0]) == pairs


def test_a_quote_that_encloses_many_lines_is_an_error(tmp_path):
    rows = [f"a {k},b {k}\n" for k in range(1200)]  # more lines than format detection reads
    path = write(tmp_path, "a.csv", "".join([*rows, '"stray,c\n', *rows[:200], 'd,e"\n']))
    with pytest.raises(
        InputError, match=r"a.csv:1201: a quote that opens here closes 201 lines later; .*=false"
    ):
        read(path)
    assert len(read(path, options=FormatOptions(quoting=False))[0]) == 1402
    assert (
        read(path, options=FormatOptions(quoting=True), rules=SkipRules(skip_bad_rows=True))[1][
            Reason.BAD_ROW
        ]
        == 1
    )


@pytest.mark.parametrize(
    "content",
    [
        'a,b\n"c,d,e\nf,g\n',  # never closed
        'a,b\n"c, d" e,f\ng,h\n',  # closed inside a cell
        'a,b\n"c",d,e\n',  # too many either way
    ],
)
def test_quoting_that_does_not_help_is_not_suggested(tmp_path, content):
    with pytest.raises(InputError, match=r":2: 3 columns instead of 2, .*skip_bad_rows=true$"):
        read(write(tmp_path, "a.tsv", content.replace(",", "\t")))


def test_names_with_dots_lead_into_objects(tmp_path):
    lines = [
        {"translation": {"en": "tree", "de": "Baum"}},
        {"translation": {"en": "house", "de": "Haus"}, "translation.de": "a key with a dot comes first"},
    ]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))
    pairs, _ = read(path, options=FormatOptions(columns="translation.en:translation.de"))
    assert texts(pairs) == [("tree", "Baum"), ("house", "a key with a dot comes first")]
    deep = {"a.b": {"c": {"d": "x"}}, "a": {"z": "y"}, "tags": {"of": ["N", "PL"]}}
    pairs, _ = read(
        write(tmp_path, "b.jsonl", json.dumps(deep)), options=FormatOptions(columns="a.b.c.d,tags.of:a.z")
    )
    assert texts(pairs) == [(join_fields(["x", ["N", "PL"]]), "y")]


def test_columns_are_selected_and_joined(tmp_path):
    path = write(tmp_path, "a.tsv", "gehen\tging\tV;IND;PST\nBluff\tBluff\tN;DAT\n")
    files = PairFiles(path)
    assert str(files.sniffed.columns) == "1=,3+:2"
    expected = join_fields(["gehen", ["V", "IND", "PST"]])
    assert (
        next(files.read(ReadReport())).source
        == expected
        == source_from_cells(["gehen", "V;IND;PST"], ["text", "symbols"])
    )
    pairs, _ = read(path, options=FormatOptions(columns="1,3=:2"))
    assert pairs[0].source == join_fields(["gehen", "V;IND;PST"])
    swapped, _ = read(path, options=FormatOptions(columns="2:1"))
    assert texts(swapped) == [("ging", "gehen"), ("Bluff", "Bluff")]


def test_columns_by_name(tmp_path):
    path = write(tmp_path, "a.csv", "id,answer,question\n1,vier,four\n2,fünf,five\n")
    files = PairFiles(path)
    assert files.sniffed.header
    assert texts(files.read(ReadReport())) == [("four", "vier"), ("five", "fünf")]
    pairs, _ = read(path, options=FormatOptions(columns="id,answer:question"))
    assert pairs[0].source == join_fields(["1", "vier"])
    objects = write(tmp_path, "a.jsonl", '{"q": "four", "tags": ["N", "PL"], "a": "vier"}\n')
    assert read(objects, options=FormatOptions(columns="q,tags:a"))[0][0].source == join_fields(
        ["four", ["N", "PL"]]
    )


@pytest.mark.parametrize("first", ["Hund\tdog", "{a}\t{b}", "x\ty", "source\tSource", "en\ten"])
def test_a_header_is_recognised_only_by_well_known_names(tmp_path, first):
    assert len(read(write(tmp_path, "a.tsv", f"{first}\nb\tc\n"))[0]) == 2


@pytest.mark.parametrize(
    ("first", "columns", "words"),
    [
        ("nr,word,klang", "wrd:klang", "unknown column 'wrd'; did you mean 'word'? there are: nr, word"),
        ("a b,c,d", "word:sound", "there are: “a b”, c, d in the first row; name one of them, or, if"),
    ],
)
def test_an_unknown_column_is_reported_with_the_known_ones(tmp_path, first, columns, words):
    path = write(tmp_path, "a.csv", f"{first}\nb,c,d\n")
    with pytest.raises(InputError) as error:
        read(path, options=FormatOptions(columns=columns))
    assert words in str(error.value)
    assert "--columns 1:2" in str(error.value)


def test_a_key_that_no_object_has_is_not_a_fault_of_a_line(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"en": "a", "fr": "b"}\n{"en": "c", "de": "d"}\n')
    with pytest.raises(InputError, match=r"unknown key 'es'.* name others") as error:
        read(path, options=FormatOptions(columns="en:es"))
    assert "skip_bad_rows" not in str(error.value)
    with pytest.raises(InputError, match=r":1: unknown key 'de'.*skip_bad_rows"):
        read(path, options=FormatOptions(columns="en:de"))


def test_names_of_languages_make_a_header_even_with_numbered_columns(tmp_path):
    path = write(tmp_path, "a.csv", "code,kind,english,greek\n1,x,one,ένα\n")
    assert texts(read(path, options=FormatOptions(columns="3:4"))[0]) == [("one", "ένα")]
    files = PairFiles(write(tmp_path, "b.csv", "nr,mots,sons\na,b,c\n"), options=FormatOptions(columns="2:3"))
    assert (
        "no header: the first row is a pair; if it has names, set data.header=true" in files.sniffed.reasons
    )


def test_paths_from_a_command_line(tmp_path):
    left, right = write(tmp_path, "a", "one\n"), write(tmp_path, "b", "eins\n")
    tsv = write(tmp_path, "c", "x\ty\n")
    assert texts(open_pairs([left, right], DataConfig()).read(ReadReport())) == [("one", "eins")]
    assert texts(open_pairs([tsv, tsv], DataConfig()).read(ReadReport())) == [("x", "y")] * 2


def test_parallel_files_may_have_a_few_tabs_and_braces(tmp_path):
    lines = ["one", "{} is two", "a\ttab", *["more"] * 60]
    paths = [write(tmp_path, name, "\n".join(lines)) for name in ("a.en", "a.de")]
    assert texts(open_pairs(paths, DataConfig()).read(ReadReport())) == [(line, line) for line in lines]


@given(st.lists(st.one_of(CELLS, st.lists(st.text("VN123", min_size=1), min_size=1)), min_size=1))
def test_joined_fields_can_be_split(fields):
    parts = split_parts(join_fields(fields))
    names = [part[1:] for part in parts[1::2] if part[0] == SYMBOL]
    assert names == [name for field in fields if isinstance(field, list) for name in field]
    assert "".join(parts[::2]) == "".join(field for field in fields if isinstance(field, str))


def test_text_from_outside_cannot_be_a_marker(tmp_path):
    pairs, report = read(write(tmp_path, "a.tsv", f"a{SYMBOL}V{FIELD}b\tc\n"))
    assert len(split_parts(pairs[0].source)) == 1
    assert pairs[0].source == plain(f"a{SYMBOL}V{FIELD}b") == "a\ufffdV\ufffdb"
    assert report[Reason.NONCHARACTER] == 1
    escaped, report = read(write(tmp_path, "a.jsonl", '{"source": "a\\ufdd1V", "target": "\\ud83d!"}\n'))
    assert texts(escaped) == [("a\ufffdV", "\ufffd!")]
    assert report[Reason.SURROGATE] == report[Reason.NONCHARACTER] == 1


def test_symbols_of_known_conventions():
    assert (
        symbols_in("V;IND;PST")
        == symbols_in("V|IND|PST")
        == symbols_in(" V IND  PST ")
        == ["V", "IND", "PST"]
    )


@pytest.mark.parametrize("columns", ["", "1", "1:", ":2", "1:2,3", "0:1", "1:1", "1,1:2", "1,:2", "1:2+"])
def test_invalid_columns_are_refused(tmp_path, columns):
    with pytest.raises(ConfigError, match="columns"):
        read(write(tmp_path, "a.tsv", "a\tb\tc\n"), options=FormatOptions(columns=columns or ":"))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("12", "columns '12' have no colon"),
        ("1:1", "use 1 as source and as target"),
        ("1:word", "use 1 = word as source and as target"),
        ("1,3,1+:2", "use 1 twice in the source"),
        ("sound,2:1", "use sound = 2 twice in the source"),
    ],
)
def test_a_column_is_used_once_under_all_its_names(tmp_path, columns, words):
    path = write(tmp_path, "a.tsv", "word\tsound\ttags\na\tb\tc\n")
    with pytest.raises(ConfigError) as error:
        read(path, options=FormatOptions(columns=columns, header=True))
    assert words in str(error.value)


def test_misalignment_is_found_where_it_begins(tmp_path):
    generator = random.Random(3)
    sentences = ["x" * generator.randint(5, 120) for _ in range(600)]
    translated = ["y" * round(len(text) * generator.uniform(0.9, 1.3)) for text in sentences]
    del translated[400:402]
    left, right = write(tmp_path, "a", "\n".join(sentences)), write(tmp_path, "b", "\n".join(translated))
    with pytest.raises(InputError, match=r"600 lines, .* 598") as error:
        read(left, right)
    assert abs(int(str(error.value).rsplit(" ", 1)[1]) - 401) <= 3
