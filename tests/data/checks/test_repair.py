"""Laws of the repair: it lists every change, removes every repaired fault, and is idempotent."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqwright.config import DataConfig, override, parse
from seqwright.data.checks.doctor import diagnose
from seqwright.data.checks.duplicates import DIGEST, conflict_flags, digest, duplicate_flags
from seqwright.data.checks.repair import REPAIRED, repair, tidied
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.pairs import PairFiles, open_pairs
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.errors import ConfigError, InputError

LENIENT = {"on_bad_bytes": "replace", "skip_bad_rows": True}
NASTY = st.lists(
    st.sampled_from(
        ["a", "b", "B", " ", "\u2028", "\x01", "\ufeff", "\u3000", "\u2000", "é", "e\u0301", "\u0301"]
    ),
    max_size=5,
).map("".join)
ROWS = st.lists(st.tuples(NASTY, NASTY), min_size=1, max_size=12)


def rows_of(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def repaired(
    folder: Path, paths: list[str], data: DataConfig, tests: list[str] | None = None, drop=(), name="c.tsv"
):
    held_out = [open_pairs(tests, data)] if tests else []
    return repair(open_pairs(paths, data), folder / name, held_out=held_out, drop=drop)


def again(done, data: DataConfig) -> DataConfig:
    """Return the options for reading the copy."""
    base = {"training": {"steps": 1}, "data": {**LENIENT, "max_length": data.max_length}}
    return parse(override(base, done.options)).data


def check_laws(folder: Path, paths: list[str], data: DataConfig, tests: list[str], drop=()):
    done = repaired(folder, paths, data, tests, drop)
    removed = sum(count for remedy, count in done.remedies.items() if remedy.startswith("removed"))
    assert done.kept + removed == done.rows
    listed = [line.split("\t")[1] for line in rows_of(done.listed)[1:]]
    assert Counter(reason for reasons in listed for reason in reasons.split(", ")) == done.remedies
    found = diagnose([str(done.copy)], again(done, data), tests)
    assert {each.name for each in found.findings} & (REPAIRED | set(drop)) == set()
    assert found.statistics.examples == done.kept
    twice = repaired(folder, [str(done.copy)], again(done, data), tests, drop, name="cc.tsv")
    assert twice.copy.read_bytes() == done.copy.read_bytes()
    assert not twice.remedies
    return done


@given(
    rows=ROWS,
    test=NASTY,
    limit=st.sampled_from([1, 512]),
    drop=st.sampled_from([(), ("copies",), ("conflicts",)]),
)
def test_the_laws_for_columns(tmp_path_factory, rows, test, limit, drop):
    folder = tmp_path_factory.mktemp("repair")
    pairs, held_out = folder / "a.tsv", folder / "t.tsv"
    lines = [
        *(f"{source}\t{target}\tV;{target[:1]}PST" for source, target in rows),
        "",
        "one",
        "x\ty\tV",
        f"{'l' * 50}\tm\tV",
    ]
    pairs.write_text("\n".join(lines), encoding="utf-8", newline="")
    held_out.write_text(f"{test}\tz\tV;PST\nq\tr\tV;PST\n", encoding="utf-8", newline="")
    data = DataConfig(columns="1,3+:2", header=False, max_length=limit, **LENIENT)
    done = check_laws(folder, [str(pairs)], data, [str(held_out)], drop)
    assert done.rows == len(lines)
    assert {line.count("\t") for line in rows_of(done.copy)} == {2}


@given(rows=ROWS)
def test_the_laws_for_parallel_files(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("repair")
    paths = []
    for name, side in zip("ab", zip(*[*rows, ("one", "two")], strict=True), strict=True):
        paths.append(str(folder / name))
        Path(paths[-1]).write_text("\n".join(side) + "\n", encoding="utf-8", newline="")
    done = check_laws(folder, paths, DataConfig(format="parallel", **LENIENT), [])
    assert done.rows == len(rows) + 1


@given(rows=ROWS)
def test_the_laws_for_objects(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("repair")
    lines = [json.dumps({"frage": f"{source}\n{source}", "antwort": target}) for source, target in rows]
    lines += ["", "{]", '{"frage": "\\ud800\\u0000b", "antwort": "c"}']
    path = folder / "a.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    done = check_laws(folder, [str(path)], DataConfig(columns="frage:antwort", **LENIENT), [])
    assert done.rows == len(lines)


def test_the_copy_reads_like_the_original_except_for_repairs(tmp_path):
    (tmp_path / "a.csv").write_text('id;answer;question\n1;"vier; ok";four\n2;fünf ;"fi\n\tve"\n1;x;\n')
    data = DataConfig(delimiter=";", quoting=True, **LENIENT)
    files = open_pairs([str(tmp_path / "a.csv")], data)
    done = repair(files, tmp_path / "c.tsv")
    assert rows_of(done.copy) == ["id\tanswer\tquestion", "1\tvier; ok\tfour", "2\tfünf\tfi ve"]
    assert done.options == ()
    copied = list(PairFiles(str(done.copy)).read(ReadReport()))
    assert [pair[:2] for pair in copied] == [("four", "vier; ok"), ("fi ve", "fünf")]
    assert [(tidied(p.source), tidied(p.target)) for p in files.read(ReadReport())] == [p[:2] for p in copied]


def test_options_describe_what_detection_misses_in_the_copy(tmp_path):
    (tmp_path / "a.tsv").write_text("Wort\tLaut\tQuelle\tZahl\nHund\th u n t\tx\t3\n")
    files = PairFiles(str(tmp_path / "a.tsv"), options=FormatOptions(header=True, columns="1:2"))
    done = repair(files, tmp_path / "c.tsv")
    assert done.options == ("data.columns=1:2", "data.header=true")
    assert rows_of(done.copy)[0] == "Wort\tLaut\tQuelle\tZahl"
    assert [p[:2] for p in open_pairs([str(done.copy)], again(done, DataConfig())).read(ReadReport())] == [
        ("Hund", "h u n t")
    ]


def test_headers_of_further_files_are_not_rows_of_the_copy(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"source\ttarget\n{name}\tx\n")
    done = repair(PairFiles([str(tmp_path / "a"), str(tmp_path / "b")]), tmp_path / "c.tsv")
    assert rows_of(done.copy) == ["source\ttarget", "a\tx", "b\tx"]
    assert done.remedies == {"removed: header of a further file": 1}


def test_a_first_row_that_is_not_a_header_is_an_error(tmp_path):
    contents = {"a": "\nsource\ttarget\na\tx\n", "b": "b\tx\nc\tx\n"}
    paths = [tmp_path / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(content)
    done = repair(PairFiles(paths[0]), tmp_path / "c.tsv")
    assert rows_of(done.copy) == ["source\ttarget", "a\tx"]
    assert done.remedies == {"removed: a side is blank": 1}
    with pytest.raises(InputError, match="b:1: the header must be source, target"):
        repair(PairFiles(paths), tmp_path / "d.tsv")
    assert not (tmp_path / "d.tsv").exists()


def test_changes_by_reading_are_listed_except_line_ends(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbfa\tb\r\nc\0c\td\r\ne\rf\tg\n")
    done = repair(open_pairs([str(tmp_path / "a.tsv")], DataConfig(**LENIENT)), tmp_path / "c.tsv")
    assert done.copy.read_bytes() == b"a\tb\nc c\td\ne f\tg\n"
    assert [line.split("\t")[:2] for line in rows_of(done.listed)[1:]] == [
        [f"{tmp_path}/a.tsv:2", "changed: NUL replaced with a space"],
        [f"{tmp_path}/a.tsv:3", "changed: carriage return or line break inside a text replaced with a space"],
    ]


def test_accents_are_composed_only_if_both_forms_occur(tmp_path):
    marks = unicodedata.normalize("NFD", "läuft")
    for others, expected in (("geht", marks), ("weiße Straße ist schön", "läuft")):
        (tmp_path / "a.tsv").write_text(f"runs\t{marks}\nwalks\t{others}\n", encoding="utf-8")
        done = repair(PairFiles(str(tmp_path / "a.tsv")), tmp_path / "c.tsv")
        assert rows_of(done.copy)[0] == f"runs\t{expected}"


def test_copies_and_conflicts_are_dropped_only_on_request(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("same\tsame\na\tx\na\ty\na\tx\na\ty\n")
    assert rows_of(repair(PairFiles(str(path)), tmp_path / "c.tsv").copy) == ["same\tsame", "a\tx", "a\ty"]
    done = repair(PairFiles(str(path)), tmp_path / "c.tsv", drop=("copies", "conflicts"))
    assert rows_of(done.copy) == ["a\tx"]


def test_input_files_are_never_overwritten(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    (tmp_path / "link.tsv").symlink_to(tmp_path / "a.tsv")
    (tmp_path / "x.removed.tsv").symlink_to(tmp_path / "a.tsv")
    files = PairFiles(str(tmp_path / "a.tsv"))
    for copy in ("a.tsv", "link.tsv", "x"):
        with pytest.raises(ConfigError, match="one of the input files"):
            repair(files, tmp_path / copy)
    assert (tmp_path / "a.tsv").read_text() == "a\tb\n"


def test_a_file_that_changes_between_the_passes_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\td\n")
    monkeypatch.setattr(
        "seqwright.data.checks.repair.duplicate_flags", lambda digests: duplicate_flags(digests)[:-1]
    )
    with pytest.raises(InputError, match="changed while it was read"):
        repair(PairFiles(str(path)), tmp_path / "c.tsv")
    assert not (tmp_path / "c.tsv").exists()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=30))
def test_duplicate_and_conflict_flags_equal_a_loop(pairs):
    seen, first = set(), {}
    again, against = [], []
    for source, target in pairs:
        again.append((source, target) in seen)
        seen.add((source, target))
        against.append(first.setdefault(source, target) != target)
    sources = b"".join(digest(source) for source, _ in pairs)
    both = b"".join(digest("\t".join(pair)) for pair in pairs)
    assert len(both) == DIGEST * len(pairs)
    assert duplicate_flags(both).tolist() == again
    assert conflict_flags(sources, both).tolist() == against


@given(NASTY)
def test_tidying_is_idempotent(text):
    once = tidied(text)
    assert tidied(once) == once == once.strip()
