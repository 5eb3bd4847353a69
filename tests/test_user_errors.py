"""User errors: one line that begins with `seqwright:`, the exit code, and a message that helps.

Input that is odd but valid is accepted and reported.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from tiny_runs import make_run

from seqwright import cli
from seqwright.files import locked

PAIRS = "".join(f"{a}{b}{c}\t{c} {b} {a}\n" for a in "abcdef" for b in "ghijk" for c in "mn")
SMALL = (
    "model.layers=1",
    "model.size=16",
    "model.hidden=32",
    "model.heads=2",
    "training.decode=4",
    "training.validations=1",
    "threads=1",
)

Fails = Callable[..., str]


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def fails(capsys: pytest.CaptureFixture) -> Fails:
    """Run a command that must fail with this exit code and one line that contains all these words."""

    def run(code: int, *arguments: str, words: tuple[str, ...] | str) -> str:
        capsys.readouterr()
        assert cli.main([*arguments]) == code, capsys.readouterr().err
        printed = capsys.readouterr()
        assert printed.err.startswith("seqwright: ")
        assert printed.err.count("\n") == 1, printed.err
        assert printed.out == ""
        for word in [words] if isinstance(words, str) else words:
            assert word in printed.err, printed.err
        return printed.err

    return run


def write(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def train(*arguments: str, steps: int = 2) -> list[str]:
    return ["train", *SMALL, *arguments, "--steps", str(steps), "--quiet", "--out", "run"]


def examined(*arguments: str, capsys: pytest.CaptureFixture) -> dict:
    """Return the document of the doctor without the finding "few": most files here are very short."""
    capsys.readouterr()
    assert cli.main(["doctor", *arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    findings = [each for each in document["findings"] if each["name"] != "few"]
    return {**document, "findings": findings}


def found(*arguments: str, capsys: pytest.CaptureFixture) -> dict[str, int]:
    return {each["name"]: each["count"] for each in examined(*arguments, capsys=capsys)["findings"]}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_run(tmp_path_factory.mktemp("faults") / "model"))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A run folder that a test may damage."""
    return make_run(tmp_path / "model")


def predicted(
    model: str, text: str | bytes, *arguments: str, capsys: pytest.CaptureFixture
) -> tuple[str, str]:
    """Return standard output and standard error."""
    capsys.readouterr()
    assert cli.main(["predict", model, write("in.txt", text), *arguments]) == 0
    return tuple(capsys.readouterr())


# Files with invalid text ---------------------------------------------------------

LATIN = "a\tb\nna\u00efve\td\n".encode("latin-1")


@pytest.mark.parametrize(
    ("content", "words", "way_out"),
    [
        (LATIN, (":2: byte 0xef at offset 6 is not utf-8", "may be latin-1"), "data.encoding=latin-1"),
        (LATIN, "is not utf-8", "data.on_bad_bytes=replace"),
        (PAIRS.encode("utf-16"), "looks like UTF-16", "data.encoding=utf-16"),
        (PAIRS.encode("utf-32"), "looks like UTF-32", "data.encoding=utf-32"),
        (b"a\tb\nc\0\td\n", (":2: a NUL character at position 2", "Convert it"), "data.on_bad_bytes=replace"),
        (b"a\tb\nc\td\te\n", ":2: 3 columns instead of 2, separated", "data.skip_bad_rows=true"),
        (b'{"source":"a","target":"b"}\n{"source":1}\n', ":2: ", "data.skip_bad_rows=true"),
        (b'{"a":"1","b":"2","c":"3"}\n', "the keys are a, b, c", "--columns question:answer"),
        (b"a\tb\tc\td\n", "has 4 columns (“a”, “b”, “c”, “d”); choose the columns", "--columns 1:2"),
        (b"a;b\n", ":1: no tab between source and target in 'a;b'", "data.delimiter="),
    ],
)  # fmt: skip
def test_an_unreadable_file_names_the_option_that_helps(fails, capsys, content, words, way_out):
    path = write("pairs", content)
    message = fails(2, *train(path), words=words)
    assert way_out in message
    assert not Path("run").exists()
    option = {
        "--columns question:answer": "--columns=a:b",
        "--columns 1:2": "--columns=1:2",
        "data.delimiter=": "data.delimiter=;",
    }
    assert cli.main([*train(path, option.get(way_out, way_out)), "--print-config"]) == 0, (
        capsys.readouterr().err
    )


def test_quoted_cells_that_break_rows_are_recognised(fails):
    path = write("pairs.tsv", 'a\tb\n"c\td"\te\n')
    fails(2, *train(path), words=("pairs.tsv:2: 3 columns instead of 2", "data.quoting=true"))
    assert cli.main([*train(path, "data.quoting=true"), "--print-config"]) == 0
    open_quote = write("open.csv", 'a,b\n"c,d\ne,f\n')
    fails(2, *train(open_quote, "data.quoting=true"), words=("open.csv:2: ", "data.quoting=false"))


def test_a_spreadsheet_export_is_read(fails):
    path = write("pairs.csv", 'a,b\n"c, d",e\n')
    assert cli.main([*train(path), "--print-config"]) == 0
    three = write("three.csv", 'word,sound,source\n"c, d",e,f\n')
    fails(2, *train(three), words=("has 3 columns (“word”, “sound”, “source”)", "--columns word:sound"))
    assert cli.main([*train(three), "--columns", "word:sound", "--print-config"]) == 0


def test_a_header_is_recognised_and_can_be_set(fails, capsys):
    path = write("pairs.tsv", "Wort\tLaut\nHund\th u n t\n")
    assert examined(path, capsys=capsys)["pairs"] == 2
    assert examined(path, "data.header=true", capsys=capsys)["pairs"] == 1
    fails(2, "doctor", path, "--columns", "Word:Laut", words=("did you mean 'Wort'", "in the first row"))
    fails(2, "doctor", path, "data.header=false", "--columns", "Wort:Laut", words="cannot be found by name")
    fails(2, "doctor", path, "data.header=true", "--columns", "Word:Laut", words="did you mean 'Wort'")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"source": "a" "target": "b"}', ":2: not JSON at column 16"),
        ('{"source": "a", "target": 3}', ":2: expected text under 'target', not a number"),
        ('{"source": "a", "target": "b", "source": "c"}', ":2: duplicate key “source”, the second"),
        ('{"source": "a", "target": NaN}', ":2: NaN is not JSON"),
        ('["a", "b"]', ":2: expected a JSON object at column 1, not an array"),
        ('{"source": "a", "traget": "b"}', ":2: unknown key 'target'; did you mean 'traget'"),
    ],
)  # fmt: skip
def test_invalid_json_is_reported_with_its_column(fails, line, words):
    fails(2, *train(write("pairs.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')), words=words)


def test_a_byte_order_mark_is_not_part_of_the_first_word(capsys):
    seen = examined(write("pairs.tsv", b"\xef\xbb\xbfa\tb\nc\td\n"), capsys=capsys)
    assert "\ufeff" not in seen["source"]["alphabet"]
    assert [each["name"] for each in seen["findings"]] == ["byte_order_mark"]


def test_line_ends_of_other_systems_are_removed(model, capsys):
    path = write("pairs.tsv", "a\tb\r\nc\rd\te\r\n")
    assert found(path, capsys=capsys) == {"carriage_return": 2, "line_break": 1}
    assert "\r" not in predicted(model, "ab\r\ncd\r\n", capsys=capsys)[0]


def test_only_a_newline_ends_a_line(model, capsys):
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    path = write("pairs.tsv", f"{odd}\t{odd}!\nx\ty")
    seen = examined(path, capsys=capsys)
    assert seen["pairs"] == 2  # the last line counts without a newline
    assert "control_characters" in [each["name"] for each in seen["findings"]]
    assert predicted(model, f"{odd}\nab", capsys=capsys)[0].count("\n") == 2


def test_sides_of_unequal_length_are_refused(fails):
    left, right = write("a.en", "one\ntwo\nthree\n"), write("a.de", "eins\nzwei\n")
    for command in (train(left, right), ["doctor", left, right]):
        fails(2, *command, words=("a.en has 3 lines, a.de has 2", "both need the same number", "near line"))
    fails(2, *train(left, right, left, "data.format=parallel"), words=("not 3 files", "the sources first"))


def test_blank_lines_are_skipped_and_counted_and_never_shift_others(model, capsys):
    left, right = write("a.en", "one\n\nthree\n\n"), write("a.de", "eins\nzwei\n \n\n")
    assert found(left, right, capsys=capsys) == {"blank_source": 1, "blank_target": 1, "blank_pair": 1}
    out, _ = predicted(model, "\nab\n \n\n", capsys=capsys)
    assert [bool(line) for line in out.split("\n")[:-1]] == [False, True, False, False]


@pytest.mark.parametrize("content", ["", "\n\n", " \t \n"])
def test_a_file_without_pairs(fails, content):
    for command in (train, lambda path: ["doctor", path]):
        fails(2, *command(write("pairs.tsv", content)), words="pairs.tsv has no pairs")


def test_a_line_of_a_megabyte(model, capsys):
    long = "a" * 1_000_000
    assert found(write("pairs.tsv", f"{long}\tb\nc\td\n"), capsys=capsys) == {"too_long": 1}
    out, error = predicted(model, f"{long}\nab\n", capsys=capsys)
    assert out.count("\n") == 2
    assert "in.txt:1" in error


def test_the_error_for_overlong_pairs_gives_their_length(fails):
    path = write("pairs.tsv", PAIRS)
    fails(2, *train(path, "data.max_length=1"), words=("data.max_length = 1", "under 4 tokens", "raise it"))
    far = write("far.tsv", f"{'a' * 50}\tb\n")
    words = ("the longest side has 50 code points", "raise data.max_length")
    fails(2, *train(far, "data.max_length=1"), words=words)


# Missing files and other paths ---------------------------------------------------------------


def test_paths_that_are_not_files(fails, model):
    os.mkdir("folder")
    os.symlink("nothing", "link.tsv")
    for path, words in (
        ("none.tsv", "none.tsv does not exist"),
        ("folder", "folder is a folder; name a file in it"),
        ("link.tsv", "link.tsv is a link to nothing, which does not exist"),
    ):
        for command in (train(path), ["doctor", path], ["predict", model, path]):
            fails(2, *command, words=words)
    assert not Path("run").exists()


def test_a_file_without_read_permission(fails, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write("pairs.tsv", PAIRS)
    monkeypatch.setattr("seqwright.data.readers.files.open", refuse, raising=False)  # root may read all
    fails(2, *train(path), words="pairs.tsv cannot be read: permission denied")


def test_training_refuses_a_pipe(fails):
    os.mkfifo("pipe")
    threading.Thread(target=Path("pipe").write_text, args=(PAIRS,), daemon=True).start()
    fails(2, *train("pipe"), words=("pipe is a pipe", "save it to a file"))


def test_compressed_files_are_recognised_and_truncation_is_located(fails, capsys):
    packed = gzip.compress(PAIRS.encode())
    assert examined(write("pairs.tsv", packed), capsys=capsys)["pairs"] == 60
    fails(2, *train(write("cut.tsv", packed[:100])), words=("truncated gzip", "at byte 100", "copy it again"))


# Texts with unusual characters ---------------------------------------------------------------------


def test_an_unpaired_surrogate_is_replaced(capsys):
    path = write("pairs.jsonl", '{"source": "\\ud83d", "target": "b"}\n')
    assert found(path, capsys=capsys)["surrogate"] == 1


def test_control_characters_are_escaped(capsys):
    path = write("pairs.tsv", f"\x1b[2Jred\u202e\tb\na{chr(0x301) * 10_000}\tc\n")
    assert cli.main(["doctor", path]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[2Jred\\u202e" in printed
    assert not set("\x1b\u202e") & set(printed)
    assert max(map(len, printed.splitlines())) < 1000


def test_text_that_looks_like_a_special_symbol_is_text(capsys):
    """It has as many tokens as characters, and </s> does not end the text."""
    texts = ["<s>", "</s>", "<unk>", "<pad>", "[END]", "\ufdd0x\ufdd1y"]
    path = write("pairs.tsv", "".join(f"{text}{k}\t{text}{k}\n" for k in range(10) for text in texts))
    characters = ("tokenizer.source=characters", "tokenizer.target=characters")
    assert cli.main(train(path, *characters)) == 0, capsys.readouterr().err
    out, _ = predicted("run", "\n".join(f"{text}{text}" for text in texts), "--json", capsys=capsys)
    read = [json.loads(line) for line in out.splitlines()]
    assert [each["reading"]["tokens"] for each in read] == [2 * len(text) for text in texts]
    assert {each["reading"]["unknown"] for each in read} == {0}


def test_a_vocabulary_of_one_symbol_is_enough(capsys):
    path = write("pairs.tsv", "".join(f"{'a' * k}\t{'a' * k}\n" for k in range(1, 60)))
    assert cli.main(train(path)) == 0, capsys.readouterr().err


def test_unknown_symbols_are_predicted_with_a_warning(model, capsys):
    out, error = predicted(model, "щщщщ\n", capsys=capsys)
    assert out.count("\n") == 1
    assert "100 % unknown symbols: wrong language or tokenizer?" in error


def test_test_pairs_in_the_training_data_are_found(capsys):
    path, test = (
        write("pairs.tsv", PAIRS),
        write("test.tsv", "".join(PAIRS.splitlines(True)[:7]) + "new\tx\n"),
    )
    assert found(path, "--test", test, capsys=capsys) == {"leaks": 7}


def test_copies_and_swapped_sides_are_found(capsys):
    number = [f"eins {k} zwei" for k in range(200)]
    rows = [(f"one {k} two", text) for k, text in enumerate(number)]
    rows[20:24] = [(target, source) for source, target in rows[20:24]]
    rows += [(f"same {k}", f"same {k}") for k in range(40)]
    path = write("pairs.tsv", "".join(f"{source}\t{target}\n" for source, target in rows))
    seen = found(path, capsys=capsys)
    assert (seen["copies"], seen["swapped"]) == (40, 4)


# Configurations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["modle.layers=2"], ("unknown key 'modle'", "did you mean 'model'")),
        (["model.layer=2"], ("'layer'", "did you mean 'layers'")),
        (["model.presett=small"], ("'presett'", "did you mean 'preset'")),
        (["training.dropout=0.1"], ("'training.dropout'", "did you mean 'model.dropout'")),
        (["data.encodng=utf-8"], "did you mean 'data.encoding'"),
        (["tokenizer.source=bpee"], "did you mean 'bpe'"),
        (["training.metric=blue"], "did you mean 'bleu'"),
        (["model=huge"], ("unknown preset 'huge'", "tiny")),
        (["model.heads=3"], ("heads is 3, which does not divide size 16", "try 2")),
        (["seed=-1", "training.smoothing=3", "threads=0"], ("seed is -1", "smoothing is 3", "threads is 0")),
        (
            ["model.dropout=1.5", "training.optimizer.rate=-1", "training.schedule.warmup=-3"],
            ("dropout is 1.5", "rate of optimizer adamw is -1", "warmup of schedule linear is -3"),
        ),
        (["data.encoding=utf-9"], ("encoding 'utf-9' is unknown", "try utf-8")),
        (["data.format=xml"], ("data.format is 'xml'", "or jsonl")),
        (["data.delimiter=::"], ("data.delimiter is '::'", "exactly 1 character")),
        (["data.header=maybe"], ("data.header is 'maybe'", "true or false")),
        (["data.on_bad_bytes=ignore"], ("data.on_bad_bytes is 'ignore'", "or replace")),
        (["data.columns=1:1"], ("columns '1:1' use 1 as source and as target")),
        (["=3"], "'=3' is not key=value"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_with_valid_values(fails, changes, words):
    fails(2, *train(write("pairs.tsv", PAIRS), *changes), words=words)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[training]\nsteps = 1\nsteps = 2\n", ("config.toml is not TOML", "line 3")),
        ("seed = no\n", ("config.toml is not TOML", "line 1")),
        ("[training]\nsteps = 1\n", "no data file is named"),
        (b"\xff\xfe", "config.toml is not UTF-8"),
    ],
)
def test_an_invalid_configuration(fails, text, words):
    fails(2, "train", write("config.toml", text), words=words)


def test_a_model_of_a_newer_version(fails, damaged):
    config = damaged / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "format": 99}))
    fails(3, "predict", str(damaged), words=("has format 99", "reads format 1", "upgrade"))


# Folders and machines ----------------------------------------------------------------------------------


def test_folders_that_cannot_become_a_run(fails):
    path = write("pairs.tsv", PAIRS)
    os.mkdir("mine")
    write("mine/letter.txt", "dear")
    for folder, words in (
        ("mine", ("mine is not empty and not a run: it contains letter.txt", "choose another folder")),
        ("pairs.tsv", ("cannot be written: pairs.tsv is a file", "choose another folder")),
        ("pairs.tsv/below", ("cannot be written: pairs.tsv is a file", "choose another folder")),
    ):
        fails(4, *train(path), "--out", folder, words=words)
        fails(4, "heads", "nowhere", "--prune", "1", "--out", folder, words=words)  # before it is loaded
    assert os.listdir("mine") == ["letter.txt"]


def test_a_full_disk_is_found_before_training(fails, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    fails(4, *train(write("pairs.tsv", PAIRS)), words=("0.0 MB free", "free space or choose another folder"))


def test_a_closed_pipe_and_an_ascii_terminal_are_not_errors():
    write("pairs.tsv", "größe\u2028\tsize\n" * 2)
    program = [sys.executable, "-m", "seqwright", "doctor", "pairs.tsv"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(program, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\\xf6" in done.stdout
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


# Resuming a training ------------------------------------------------------------------------------


def test_a_training_resumes_only_with_its_own_configuration_and_data(fails, capsys):
    path = write("pairs.tsv", PAIRS)
    assert cli.main(train(path)) == 0, capsys.readouterr().err
    weights = Path("run/model.safetensors").read_bytes()
    fails(3, *train(path, "model.size=32"), words=("model.size: 16 -> 32", "train in another folder"))
    fails(3, *train(path, "data.on_bad_bytes=replace"), words='data.on_bad_bytes: "error" -> "replace"')
    write(path, PAIRS + "x\ty\n")
    fails(3, *train(path), words=("pairs.tsv changed since this training began", "restore the old content"))
    write(path, PAIRS)
    with locked(Path("run/.lock")):
        fails(4, *train(path), words=("run is in use by process", str(os.getpid()), "choose another folder"))
    assert cli.main(train(path)) == 0  # already finished
    assert Path("run/model.safetensors").read_bytes() == weights


# Missing and damaged models ----------------------------------------------------------------------


def test_a_model_and_its_input_in_the_wrong_order(fails, model):
    path = write("in.txt", "ab\n")
    fails(
        2,
        "predict",
        path,
        model,
        words=(f"{model} is a run folder and in.txt is not", "pass the run folder first"),
    )
    fails(2, "look", "abc", model, words="pass the run folder first")


def test_folders_that_are_not_a_run(fails):
    fails(
        3,
        "predict",
        "nowhere",
        words=("the folder nowhere does not exist", "pass a run folder that training created"),
    )


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda old: b"", "is empty"),
        (lambda old: old[:100], "not a safetensors file"),
        (lambda old: old[:-4], "not a safetensors file"),
        (lambda old: b"\xff" * 8 + old[8:], "not a safetensors file"),
        (lambda old: b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.", "is a pickle, which can run code"),
        (lambda old: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    ],
)
def test_damaged_weights(fails, damaged, damage, words):
    weights = damaged / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    fails(3, "predict", str(damaged), write("in.txt", "ab\n"), words=("model.safetensors", words))
    assert not Path("owned").exists()


def test_weights_of_another_shape_or_with_nan(fails, damaged):
    weights = damaged / "model.safetensors"
    tensors = load_tensors(weights.read_bytes())
    name = "decoder.embedding.weight"
    for wrong, words in (
        (tensors[name][:1].clone(), "decoder.embedding.weight has the shape [1, 16] instead of"),
        (torch.full_like(tensors[name], torch.nan), ("has a non-finite value in", "restore it from a copy")),
    ):
        weights.write_bytes(save_tensors({**tensors, name: wrong}))
        fails(3, "predict", str(damaged), write("in.txt", "ab\n"), words=words)


# Predicting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--beam", "0"], ("beam is 0", "from 1 to 4096")),
        (["--beam", "1000000000"], ("beam is 1000000000", "from 1 to 4096")),
        (["--beam", "2", "--nbest", "9"], "--nbest is 9; it must be at most --beam, 2"),
        (["--sample", "--temperature", "-1"], ("temperature is -1.0", "at least 0")),
        (["--sample", "--temperature", "nan"], "temperature is nan"),
        (["--sample", "--top-p", "2"], "--top-p is 2.0; it must be a number, above 0 and at most 1"),
        (["--sample", "--top-k", "-3"], "--top-k is -3"),
        (["--length-penalty", "1000"], "--length-penalty is 1000.0; it must be a number from -10 to 10"),
        (["--max-length", "0"], "--max-length is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--prefix", "щ"], ("the prefix 'щ' has symbols that the model does not know", "remove them")),
        (["--prefix", "ABCDEFGHABCDEFGH"], "shorten the prefix or raise --max-length"),
    ],
)
def test_invalid_search_options_are_refused_with_their_range(fails, model, arguments, words):
    fails(2, "predict", model, write("in.txt", "ab\n"), *arguments, words=words)


def test_errors_of_predict_name_its_flags(fails, model):
    fails(2, "predict", model, write("in.txt", LATIN), words=("in.txt:2: byte 0xef", "--encoding latin-1"))
    fails(2, "predict", model, write("in.txt", "a\0b\n"), words=("in.txt:1: a NUL", "--on-bad-bytes replace"))


def test_a_beam_wider_than_the_vocabulary_and_temperature_zero(model, capsys):
    for arguments in (
        ["--beam", "50"],
        ["--beam", "50", "--nbest", "20"],
        ["--sample", "--temperature", "0"],
    ):
        assert predicted(model, "ab\ncd\n", *arguments, capsys=capsys)[0].count("\n") == 2


def test_an_output_depends_only_on_its_line_and_ends(model, capsys):
    lines = ["ab", "", "abcdefgh" * 20, "c"]
    together, _ = predicted(model, "\n".join(lines), capsys=capsys)
    alone = "".join(predicted(model, line + "\n", capsys=capsys)[0] for line in lines)
    assert together == alone
    assert max(map(len, together.split("\n"))) <= 8  # the longest source has 160 characters


# docs/when-it-goes-wrong.md ---------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]


def literals(folder: Path) -> list[str]:
    """Return all strings in the source code, with … in place of inserted values."""
    found = []
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def matches(message: str, text: str) -> bool:
    """Whether a text contains all parts of a message, in order."""
    words = [re.escape(part.strip()) for part in message.split("…") if part.strip(" :;,.")]
    return re.search(".*".join(words), text, re.DOTALL) is not None


@pytest.fixture(scope="module")
def explained() -> list[str]:
    """Messages that the page quotes."""
    page = (ROOT / "docs" / "when-it-goes-wrong.md").read_text("utf-8")
    return "".join(re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)).splitlines()


def test_the_page_quotes_only_real_messages(explained):
    texts = literals(ROOT / "seqwright")
    assert len(explained) > 40
    assert [message for message in explained if not any(matches(message, text) for text in texts)] == []
    assert not any(matches("… is too blue; paint it", text) for text in texts)


def test_the_page_explains_every_finding_of_the_diagnostics(explained, tmp_path):
    (tmp_path / "diagnostics.py").write_bytes(
        (ROOT / "seqwright" / "training" / "diagnostics.py").read_bytes()
    )
    findings = [text for text in literals(tmp_path) if "…" in text and len(text) > 40]
    assert len(findings) == 9
    assert [text for text in findings if not any(matches(message, text) for message in explained)] == []
