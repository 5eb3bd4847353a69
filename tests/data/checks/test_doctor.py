"""The doctor on the command line: its output, its JSON document, and the repaired copy."""

from __future__ import annotations

import json
import os
import shlex
import threading
from pathlib import Path

import pytest

from seqwright import cli
from seqwright.data.text_display import MOST, excerpt
from seqwright.errors import InputError
from seqwright.pipeline import design

WORDS = ["dog:Hund", "cat:Katze", "house:Haus", "tree:Baum", "water:Wasser", "green:grün", "small:klein"]
FAULTS = {
    5: "a\u2028dog\tein Hund",
    9: "  two  spaces\tx y",
    11: "green dog 3\tgrün Hund 3",
    12: "green dog 3\tgrün Hund 3",
    15: "\tleer",
    20: "same\tsame",
    25: "green water\tgru\u0308n Wasser",
    30: "only one column",
    35: "caf\u00c3\u00a9\tKaffee",
    40: "zero\u200bwidth\tnull",
}


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Write sixty lines, some of them with faults, and a test file that leaks."""
    lines = [f"{a} {b} {k}\t{A} {B} {k}" for k, (a, A, b, B) in enumerate(_phrases(60))]
    lines = [FAULTS.get(number, line) for number, line in enumerate(lines, 1)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    held_out = [lines[50], lines[51].upper().replace(" ", "  "), "new\tneu"]
    (tmp_path / "test.tsv").write_text("\n".join(held_out), encoding="utf-8")
    return path


def _phrases(count: int) -> list[tuple[str, str, str, str]]:
    both = [word.split(":") for word in WORDS]
    return [(*both[k % 7], *both[(k * k + 1) % 7]) for k in range(count)]


def document(*arguments: object, capsys: pytest.CaptureFixture) -> dict:
    assert cli.main(["doctor", *map(str, arguments), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out)


def test_all_faults_are_reported_and_the_exit_code_is_0(faulty, capsys):
    assert cli.main(["doctor", str(faulty)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{faulty}: 58 pairs, 57 distinct sources\n")
    assert (
        printed.index("error: lines skipped (bad row): 1")
        < printed.index("warning: ")
        < printed.index("note: ")
    )
    assert f"{faulty}:5: “a\\u2028dog” → “ein Hund”" in printed
    assert "“gru\\u0308n Wasser”" in printed
    assert "\u2028" not in printed
    assert (
        printed.splitlines()[-1]
        == f"next: seqwright doctor {faulty} --fix {faulty.with_suffix('.clean.tsv')}"
    )


def test_the_document_has_all_findings(faulty, capsys):
    found = document(faulty, "--test", faulty.with_name("test.tsv"), capsys=capsys)
    names = {each["name"]: each for each in found["findings"]}
    assert names.keys() == {
        *("bad_row", "blank_source", "control_characters", "spacing", "duplicates", "copies"),
        *("mixed_normalisation", "mojibake", "invisible_characters", "leaks", "near_leaks"),
    }
    assert [each["severity"] for each in found["findings"]] == sorted(
        (each["severity"] for each in found["findings"]), key=["error", "warning", "note"].index
    )
    assert names["duplicates"]["places"] == [f"{faulty}:12"]
    assert names["copies"]["examples"] == [{"place": f"{faulty}:20", "source": "same", "target": "same"}]
    test = faulty.with_name("test.tsv")
    assert [names[name]["places"] for name in ("leaks", "near_leaks")] == [[f"{test}:1"], [f"{test}:2"]]
    assert (found["pairs"], found["fixed"]) == (58, None)
    assert found["source"]["alphabet"]["d"] > 5
    assert found["target"]["scripts"] == {"LATIN": 1.0}
    assert sum(found["source"]["characters"]["counts"].values()) == 58


def test_clean_pairs_have_no_findings_and_are_ready_for_training(tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word{k}\tWort{k}\n" for k in range(30)))
    found = document(path, capsys=capsys)
    assert found["findings"] == []
    assert found["verdict"] == "no findings: ready for training"
    assert found["next"] == f"seqwright train {path}"


def test_the_copy_has_no_repairable_findings(faulty, capsys):
    copy = faulty.with_name("clean.tsv")
    test = faulty.with_name("test.tsv")
    fixed = document(faulty, "--test", test, "--fix", copy, capsys=capsys)
    assert fixed["next"] == f"seqwright train {copy} --test {test}"
    assert fixed["fixed"]["rows"] == 60
    assert fixed["fixed"]["kept"] == len(copy.read_text().splitlines()) == 56
    again = document(copy, "--test", test, capsys=capsys)
    assert {each["name"] for each in again["findings"]} <= {
        "copies",
        "mojibake",
        "invisible_characters",
        "near_leaks",
    }
    listed = Path(f"{copy}.removed.tsv").read_text(encoding="utf-8").split("\n")
    assert f"{faulty}:30\tremoved: does not fit the columns\tonly one column" in listed
    assert (
        f"{faulty}:5\tchanged: control characters and tabs replaced with spaces\ta\u2028dog\tein Hund"
        in listed
    )
    dropped = document(copy, "--fix", faulty.with_name("c.tsv"), "--drop", "copies", capsys=capsys)
    assert dropped["fixed"]["remedies"] == {"removed: the target equals the source": 1}


def test_a_finding_names_the_option_that_drops_it(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(b"word%d,sound%d\r\n" % (k, k) for k in range(30)) + b"same,same\r\n")
    assert cli.main(["doctor", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "remove them unless copying is the task (--fix OUT --drop copies does this)" in printed
    assert "lines from Windows and in CSV end like this; this is normal\n" in printed


def test_a_tab_in_a_text_is_escaped_in_the_list_of_changes(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"source": "a\tb", "target": "c"}) + "\n" + '{"source": "d", "target": "e"}\n' * 3
    )
    document(path, "--fix", tmp_path / "c.tsv", capsys=capsys)
    rows = (tmp_path / "c.tsv.removed.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[1].split("\t")[1:] == [
        "changed: control characters and tabs replaced with spaces",
        "a\\tb",
        "c",
    ]


def test_the_next_command_works(faulty, tmp_path, capsys, monkeypatch):
    """Even with columns, a header and spaces in the names."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my pairs.csv"
    path.write_text("Wort;Zahl;Laut\nHund;1;h u n t\nHund;2;h u n t\nMaus;3;m au s\n")
    reading = ("data.delimiter=;", "data.header=true", "--columns", "Wort:Laut")
    first = document("my pairs.csv", *reading, "--fix", "my clean.tsv", capsys=capsys)
    command = shlex.split(first["next"])
    assert command[:3] == ["seqwright", "train", "my clean.tsv"]
    again = document(*command[2:], capsys=capsys)
    assert (again["pairs"], again["columns"]) == (2, "Wort=:Laut")
    assert "Zahl" in (tmp_path / "my clean.tsv").read_text()


def test_the_next_command_keeps_the_task(faulty, quoted, tmp_path, capsys):
    """In each branch: training, a repair, training of the repaired copy, and another reading."""
    given, copy = ("--task", "text_to_text"), tmp_path / "c.tsv"
    clean = tmp_path / "clean.tsv"
    clean.write_text("".join(f"source {k}\ttarget {k}\n" for k in range(30)))
    commands = [
        document(clean, *given, capsys=capsys)["next"],
        document(faulty, "data.skip_bad_rows=true", *given, capsys=capsys)["next"],
        document(faulty, *given, "--fix", copy, capsys=capsys)["next"],
        document(quoted, *given, capsys=capsys)["next"],
    ]
    verbs = [command.split()[1] for command in commands]
    assert verbs == ["train", "doctor", "train", "doctor"]
    assert "--fix" in commands[1]
    assert "data.quoting=true" in commands[3]
    assert all("--task text_to_text" in command for command in commands)


def test_the_field_of_the_tags_can_be_chosen(tmp_path, capsys):
    path = tmp_path / "t.conllu"
    word = "{n}\tword{k}{n}\t_\tNOUN\tN{n}\t_\t0\troot\t_\t_\n"
    path.write_text("".join("".join(word.format(k=k, n=n) for n in (1, 2)) + "\n" for k in range(30)))
    found = document(path, "--field", "xpos", capsys=capsys)
    assert found["form"] == ["CoNLL-U: the tags are those of the field xpos; --field changes it"]
    assert found["next"] == f"seqwright train {path} data.field=xpos"
    columns = tmp_path / "c.conll"
    columns.write_text("".join(f"a{k} X 1\nb{k} Y 2\n\n" for k in range(30)))
    found = document(columns, "--task", "token_classification", "--field", "2", capsys=capsys)
    assert found["next"] == f"seqwright train {columns} 'data.field=\"2\"' --task token_classification"
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"source {k}\ttarget {k}\n" for k in range(30)))
    assert cli.main(["doctor", str(pairs), "--task", "text_to_text", "--field", "xpos"]) == 2
    assert "the task here is text_to_text: leave out --field" in capsys.readouterr().err


def test_a_wrong_encoding_is_guessed_and_no_copy_is_written(tmp_path, capsys):
    path, copy = tmp_path / "a.tsv", tmp_path / "c.tsv"
    path.write_bytes("süß\tdoux\nplain\tx\nStraße\true\n".encode("latin-1"))
    found = document(path, capsys=capsys)
    assert found["next"] == f"seqwright doctor {path} data.encoding=latin-1"
    assert found["findings"][0]["places"] == [f"{path}:1", f"{path}:3"]
    assert cli.main(["doctor", str(path), "--fix", str(copy)]) == 2
    assert "no copy is written" in capsys.readouterr().err
    assert not copy.exists()
    document(path, "--encoding", "latin-1", "--fix", copy, capsys=capsys)
    assert copy.read_text(encoding="utf-8").startswith("süß\tdoux\n")


@pytest.fixture
def quoted(tmp_path: Path) -> Path:
    """Write thirty rows, every third with a tab inside quotes."""
    rows = [f'"word\t{k}"\t"say ""{k}"""' if k % 3 == 0 else f"word {k}\tsay {k}" for k in range(1, 31)]
    path = tmp_path / "quoted.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_quoted_cells_are_reported_and_no_copy_is_written_without_them(quoted, tmp_path, capsys):
    found = document(quoted, capsys=capsys)
    first = found["findings"][0]
    assert (first["name"], first["severity"], first["count"]) == ("quoted", "error", 10)
    assert "set data.quoting=true, and all of them fit" in first["way_out"]
    assert found["next"] == f"seqwright doctor {quoted} data.quoting=true"
    copy = tmp_path / "c.tsv"
    assert cli.main(["doctor", str(quoted), "--fix", str(copy)]) == 2
    printed = capsys.readouterr()
    assert "(--fix does this)" not in printed.out
    assert "no copy is written" in printed.err
    assert "set data.quoting=true" in printed.err
    assert not copy.exists()
    again = document(*shlex.split(found["next"])[2:], "--fix", copy, capsys=capsys)
    assert (again["pairs"], again["fixed"]["kept"]) == (30, 30)
    assert 'say "3"' in copy.read_text()


def test_a_copy_of_quoted_csv_has_the_content_of_its_cells(tmp_path, capsys):
    path, copy = tmp_path / "quoted.csv", tmp_path / "c.tsv"
    path.write_text('"word, 1","say ""1"""\nword 2,say 2\n')
    assert document(path, "--fix", copy, capsys=capsys)["fixed"]["kept"] == 2
    assert copy.read_text().splitlines() == ['word, 1\tsay "1"', "word 2\tsay 2"]


def test_rows_that_do_not_fit_even_with_quoting_are_counted(quoted, tmp_path, capsys):
    with quoted.open("a") as rows:
        rows.write("one\ttwo\tthree\n")
    assert "and all but 1 fit" in document(quoted, capsys=capsys)["findings"][0]["way_out"]
    with quoted.open("a") as rows:
        rows.write('"cut"\t off\there\n')
        rows.write('"cut" off\there\n')
    found = document(quoted, capsys=capsys)
    assert found["findings"][0]["name"] == "bad_row"  # with quoting it is unreadable
    assert found["next"].endswith(f"--fix {quoted.with_suffix('.clean.tsv')}")


def test_quotes_can_be_declared_text(quoted, tmp_path, capsys):
    copy = tmp_path / "c.tsv"
    found = document(quoted, "data.skip_bad_rows=true", "--fix", copy, capsys=capsys)
    assert [(each["name"], each["severity"]) for each in found["findings"]] == [("quoted", "warning")]
    assert found["fixed"]["kept"] == 20
    assert found["next"] == f"seqwright train {copy}"


@pytest.mark.parametrize("tested", [False, True])
def test_few_sources_are_judged_as_by_training(tmp_path, capsys, tested):
    """The next command is never a training run that would stop."""
    test = tmp_path / "test.tsv"
    test.write_text("new\tneu\n")
    judged = set()
    for number in range(16):
        path = tmp_path / f"{number}.tsv"
        path.write_text("".join(f"{number} {k}\t{k}\n" for k in range(1 + number % 4)))
        given = ["--test", str(test)] if tested else []
        found = document(path, *given, capsys=capsys)
        (few,) = (each for each in found["findings"] if each["name"] == "few")
        try:
            design({"data": {"train": [str(path)], "test": [str(test)] * tested}}).check_parts()
        except InputError:
            assert few["severity"] == "error"
            assert few["sentence"].startswith("too few distinct sources")
            assert found["next"] is None
        else:
            assert few["severity"] == "warning"
            assert found["next"] == shlex.join(["seqwright", "train", str(path), *given])
        judged.add(few["severity"])
    assert judged == {"error", "warning"}


def test_training_is_not_proposed_for_a_copy_with_too_few_pairs(tmp_path, capsys):
    path, copy = tmp_path / "a.tsv", tmp_path / "c.tsv"
    path.write_text("a\tb\n" + "".join(f"{k}\n" for k in range(30)))
    fixed = document(path, "--fix", copy, capsys=capsys)
    assert fixed["next"] is None
    assert [each["name"] for each in fixed["fixed"]["errors"]] == ["few"]
    assert cli.main(["doctor", str(path), "--fix", str(copy)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2].startswith(f"{copy}: error: too few distinct sources")
    assert printed[-1] == "next: fix the errors, and run the doctor again"


def test_options_that_do_not_concern_the_format_apply_to_the_copy(tmp_path, capsys):
    path, copy = tmp_path / "a.csv", tmp_path / "c.tsv"
    path.write_text("".join(f"{k};{'x' * 21_000}\n" for k in range(6)))
    options = ("data.delimiter=;", "data.max_length=1000")
    fixed = document(path, *options, "--fix", copy, capsys=capsys)
    assert fixed["next"] == f"seqwright train {copy} data.max_length=1000"


def test_a_copy_can_have_too_few_sources_left(tmp_path, capsys):
    """The file has thirty sources, and all but one are in the test file."""
    path, test, copy = tmp_path / "a.tsv", tmp_path / "t.tsv", tmp_path / "c.tsv"
    rows = [f"source {k}\ttarget {k}\n" for k in range(30)]
    path.write_text("".join(rows))
    test.write_text("".join(rows[1:]))
    fixed = document(path, "--test", test, "--fix", copy, capsys=capsys)
    assert "few" not in {each["name"] for each in fixed["findings"]}
    assert [each["name"] for each in fixed["fixed"]["errors"]] == ["few"]
    assert fixed["next"] is None


def test_a_pipe_can_be_diagnosed_but_not_repaired(tmp_path, capsys):
    pipe = tmp_path / "pipe"
    for extra, code in (([], 0), (["--fix", str(tmp_path / "c.tsv")], 2)):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_text, args=("a\tb\nc\td\n",), daemon=True).start()
        assert cli.main(["doctor", str(pipe), *extra]) == code
    printed = capsys.readouterr()
    assert "only once; save it to a file first" in printed.err
    assert "next: save the input to a file" in printed.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["{pairs}", "--fix", "{pairs}"], 2, "one of the input files"),
        (["{pairs}", "--fix", "{tmp}/no/where.tsv"], 4, "cannot be written"),
        (["{pairs}", "--drop", "copies"], 2, "pass --fix OUT"),
        (["{pairs}", "--drop", "copys", "--fix", "{tmp}/c"], 2, "did you mean 'copies'"),
        (["{pairs}", "model.layers=3"], 2, "is not a reading option"),
        (["{pairs}", "data.quotin=true"], 2, "did you mean 'data.quoting'"),
        (["{pairs}", "--encoding", "utf-9"], 2, "encoding 'utf-9' is unknown"),
        (["{pairs}", "--columns", "1:3"], 2, "no column 3"),
        (["{pairs}", "--columns", "12"], 2, "columns '12' have no colon"),
        (["{pairs}", "--columns", "1,1:2"], 2, "use 1 twice"),
        (["{tmp}/binary"], 2, "binary is not text"),
        (
            ["{tmp}/nested.jsonl", "--columns", "src:tgt"],
            2,
            "expected text under 'src', not an object with the key en",
        ),
        (["data.quoting=true"], 2, "no file of pairs; name one"),
        (["{tmp}/blank.tsv", "--fix", "{tmp}/c"], 2, "the repair would remove all pairs"),
    ],
)
def test_bad_arguments_are_refused(faulty, tmp_path, capsys, arguments, code, words):
    (tmp_path / "blank.tsv").write_text("\x01\t\x02\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\t\t\t" + bytes(range(256)) * 4)
    (tmp_path / "nested.jsonl").write_text('{"src": {"en": "a"}, "tgt": {"de": "b"}}\n')
    assert cli.main(["doctor", *(text.format(pairs=faulty, tmp=tmp_path) for text in arguments)]) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.startswith("seqwright: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "“plain”"),
        ("tab\tand\x1b[31m", "“tab\\tand\\x1b[31m”"),
        ("a\u202eb\U000e0001", "“a\\u202eb\\U000e0001”"),
        ("क्षि", "“क्षि”"),
        ("\u0301", "“\\u0301”"),
        ("gehen\ufdd1V\ufdd1PST", "“gehen\\tV;PST”"),
        ("frage\ufdd0text", "“frage\\ttext”"),
        ("x" * (MOST + 1), f"“{'x' * MOST}…”"),
        ("a" + "\u0301" * 10_000, "“a\\u0301"),
    ],
)
def test_texts_are_shown_so_that_they_can_be_seen(text, expected):
    assert excerpt(text).startswith(expected)
    assert len(excerpt(text)) <= 10 * MOST
