"""A data file that was made to do harm is read in bounded memory, or refused with one short line."""

import gzip
import json
import lzma
import os
import socket
import subprocess
import sys
import threading
import time
import zlib

import pytest
import zstandard
from tiny_runs import make_run

from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.checks.doctor import diagnose
from seqwright.data.glance import look_at, recognise
from seqwright.data.read_report import ReadReport
from seqwright.data.readers import files
from seqwright.data.readers.lines import Decoding
from seqwright.data.readers.pairs import PairFiles, open_pairs, read_lines
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.data.survey import survey
from seqwright.errors import InputError

PAIRS = [f"a {k}\tb {k}" for k in range(300)]
SMALL = Decoding(max_line=2_000_000)
TAG = "\U000e0041"  # ten characters when it is escaped

ONE_FILE = "list(PairFiles(path).read(ReadReport()))"
TWO_FILES = "list(PairFiles(path, path).read(ReadReport()))"
LINES = "list(read_lines(path, ReadReport()))"
CHILD = """
import sys, time
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.pairs import PairFiles, read_lines
from seqwright.errors import InputError
path, began = sys.argv[1], time.monotonic()
try:
    {}
except InputError as error:
    print(error)
print(time.monotonic() - began)
"""


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def fault(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        list(PairFiles(*args, **kwargs).read(ReadReport()))
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def texts(*args, **kwargs):
    return [pair[:2] for pair in PairFiles(*args, **kwargs).read(ReadReport())]


def in_a_child(path, reading):
    """Return the message and the seconds of a process with little memory that reads a file."""
    run = [sys.executable, "-c", CHILD.format(reading), str(path)]
    limited = ["bash", "-c", 'ulimit -v 300000; exec "$@"', "-", *run]  # kilobytes
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    message, seconds = done.stdout.splitlines()
    return message, float(seconds)


# Lines and archives without end --------------------------------------------------------------------


def gzip_bomb():
    """Return 2 GB of one line in 2 MB."""
    piece = zlib.compressobj(wbits=-15)
    block = piece.compress(b"x" * (1 << 20)) + piece.flush(zlib.Z_FULL_FLUSH)  # it can be repeated
    return gzip.compress(b"")[:10] + 2000 * block


def xz_bomb():
    return 60 * lzma.compress(b"x" * (32 << 20), preset=0)


def zstd_bomb():
    """Return 2 GB of one line in 64 KB, all in one block of input (RFC 8878, 3.1.1.2: RLE blocks)."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([7 << 3])  # a window of 128 KiB
    return header + 16_000 * ((128 << 10 << 3 | 1 << 1).to_bytes(3, "little") + b"x")


@pytest.mark.parametrize("reading", [ONE_FILE, TWO_FILES, LINES], ids=["one file", "two files", "lines"])
@pytest.mark.parametrize("bomb", [gzip_bomb, xz_bomb, zstd_bomb])
def test_a_bomb_is_refused_at_the_limit_of_a_line(tmp_path, bomb, reading):
    message, seconds = in_a_child(write(tmp_path, "a", bomb()), reading)
    assert (
        message
        == f"{tmp_path}/a:1: the line has more than 10,000,000 bytes; shorten it, or raise data.max_line"
    )
    assert seconds < 2


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
@pytest.mark.parametrize("reading", [ONE_FILE, LINES], ids=["one file", "lines"])
def test_an_endless_device_is_not_text(device, reading):
    message, seconds = in_a_child(device, reading)
    assert message.startswith(f"{device} is not text")
    assert seconds < 2


def test_an_endless_archive_of_zeros_is_not_text(tmp_path):
    zeros = zlib.compressobj(wbits=-15)
    block = zeros.compress(bytes(1 << 20)) + zeros.flush(zlib.Z_FULL_FLUSH)
    assert " is not text" in fault(write(tmp_path, "a", gzip.compress(b"")[:10] + 500 * block))


@pytest.mark.parametrize("before", [0, 5, 1 << 20, 3_000_000])
def test_the_limit_is_exact(tmp_path, before):
    lines = "x\n" * (before // 2)
    number = before // 2 + 1
    longest = write(tmp_path, "a", lines + "y" * 2_000_000 + "\nz")
    assert len(list(read_lines(longest, ReadReport(), SMALL))) == number + 1
    longer = write(tmp_path, "b", lines + "y" * 2_000_001 + "\nz")
    with pytest.raises(InputError, match=f"b:{number}: the line has more than 2,000,000 bytes"):
        list(read_lines(longer, ReadReport(), SMALL))


def test_the_limit_is_an_option(tmp_path):
    path = write(tmp_path, "a.tsv", "x" * 1_500_000 + "\tb\nc\td\n")
    assert len(list(open_pairs([path], DataConfig()).read(ReadReport()))) == 1  # one is skipped as too long
    with pytest.raises(InputError, match=r"raise data\.max_line"):
        list(open_pairs([path], DataConfig(max_line=1_000_000)).read(ReadReport()))


def with_window(packed):
    """Return an xz archive whose header asks for a dictionary of 4 GB."""
    header = bytearray(packed[12 : 12 + 4 * (packed[12] + 1)])
    header[4] = 40
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    return packed[:12] + header + packed[12 + len(header) :]


def test_the_window_of_an_archive_is_limited(tmp_path):
    rule = "archive needs more than 134 MB of memory; decompress it first"
    assert f"a: decompressing this xz {rule}" in fault(
        write(tmp_path, "a", with_window(lzma.compress(b"a\tb\n")))
    )
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([20 << 3])  # a window of 1 GB
    assert f"b: decompressing this zstd {rule}" in fault(write(tmp_path, "b", frame + b"\x21\x00\x00a"))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress])
def test_zeros_between_two_archives_lose_nothing(tmp_path, pack):
    assert texts(write(tmp_path, "a", pack(b"a\tb\n") + bytes(300_000) + pack(b"c\td\n"))) == [
        ("a", "b"),
        ("c", "d"),
    ]


def test_an_archive_that_arrives_byte_by_byte_is_recognised(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def dribble():
        with open(tmp_path / "pipe", "wb", 0) as pipe:
            for byte in gzip.compress(b"a\tb\n"):
                pipe.write(bytes([byte]))
                time.sleep(0.002)

    threading.Thread(target=dribble, daemon=True).start()
    assert texts(tmp_path / "pipe") == [("a", "b")]


def test_a_quote_that_never_closes_is_found_at_the_limit(tmp_path):
    path = write(tmp_path, "a.csv", "a,b\n" * 1500 + '"c,d\n' + "e,f\n" * 1_000_000)
    message = fault(path, decoding=SMALL, options=FormatOptions(quoting=True))
    assert "a.csv:1501: more than 2,000,000 characters in the row that begins here; fix its quotes" in message
    cells = write(tmp_path, "b.csv", "a,b\n" * 1500 + '"' + '\n","' * 1_000_000)  # a row of many short cells
    assert "b.csv:1501: more than 2,000,000 characters" in fault(cells, decoding=SMALL)
    assert look_at([path], DataConfig(max_line=1_000_000)).rows >= 1500


def test_a_glance_keeps_little_of_each_row(tmp_path):
    cells = write(tmp_path, "a.tsv", ("x" * 100_000 + "\ty\n") * 20)
    assert (
        max(len(cell) for column in look_at([cells], DataConfig()).columns for cell in column.sample) <= 200
    )
    objects = [json.dumps({f"{row}-{k}" + "k" * 500: "x" for k in range(300)}) for row in range(20)]
    found = look_at([write(tmp_path, "a.jsonl", "\n".join(objects))], DataConfig())
    assert found.width == 100
    assert max(len(column.name) for column in found.columns) <= 200


# Blank lines ---------------------------------------------------------------------------------------


def test_pairs_behind_half_a_million_blank_lines(tmp_path):
    path = write(tmp_path, "a.tsv", "\n" * 500_000 + "\n".join(PAIRS) + "\n")
    assert look_at([path], DataConfig()).width == 2
    assert diagnose([path], DataConfig()).statistics.examples == 300
    config = parse({"data": {"train": [path]}, "training": {"steps": 1}})
    assert survey(config).report.examples == 300


def test_blank_lines_without_end_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    stop = threading.Event()

    def fill():
        try:
            with open(tmp_path / "pipe", "wb", 0) as pipe:
                while not stop.is_set():
                    pipe.write(b"\n" * 60_000)
        except BrokenPipeError:
            pass

    threading.Thread(target=fill, daemon=True).start()
    message = fault(tmp_path / "pipe", decoding=SMALL)
    stop.set()
    assert (
        "pipe begins with more than 2,000,000 bytes of blank lines; remove them, or raise data.max" in message
    )


# Carriage returns ----------------------------------------------------------------------------------

OBJECTS = [json.dumps({"source": f"a {k}", "target": f"b {k}"}) for k in range(300)]


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("a.tsv", "\r".join(PAIRS) + "\n", "a.tsv:1 has 299"),
        ("a.tsv", "\r".join(PAIRS) + "\r\n", "a.tsv:1 has 300"),
        ("a.tsv", "a\tb\rc\td\re\tf\n", "a.tsv has 2"),
        ("a.tsv", "\r".join(PAIRS * 1000), "a.tsv:1 has "),
        ("a.tsv", "\n".join(PAIRS) + "\n" + "\r".join(PAIRS) + "\r", "a.tsv:301 has 300"),
        ("a.csv", "\r".join(PAIRS).replace("\t", ",") + "\n", "a.csv:1 has 299"),
        ("a.jsonl", "\r".join(OBJECTS) + "\n", "a.jsonl:1 has 299"),
        ("a.jsonl", "\n".join(OBJECTS) + "\n" + "\r".join(OBJECTS), "a.jsonl:301 has 299"),
    ],
    ids=["last lf", "last crlf", "short", "long", "second half", "csv", "jsonl", "half jsonl"],
)
def test_carriage_returns_as_line_ends_are_named(tmp_path, name, content, where):
    message = fault(write(tmp_path, name, content), decoding=SMALL)
    assert where in message
    assert message.endswith(
        "so it would be read as one line; convert its line ends, for example with tr '\\r' '\\n'"
    )


def test_a_few_carriage_returns_in_a_line_are_text(tmp_path):
    path = write(tmp_path, "a.txt", "10%\r20%\r30%\rdone\n")
    assert list(read_lines(path, ReadReport())) == ["10% 20% 30% done"]


# Short messages ------------------------------------------------------------------------------------

MANY = [f"name{k}" for k in range(100_000)]
KEYS = [TAG * k for k in range(1, 100)]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.tsv", "\t".join(MANY) + "\n", {}),
        ("a.tsv", "\t".join(MANY) + "\n", {"columns": "name:nome", "header": True}),
        ("a.tsv", "\t".join(MANY) + "\n", {"columns": "name:nome"}),
        ("a.tsv", "\t".join(KEYS) + "\n", {}),
        ("a.tsv", "\t".join(KEYS) + "\n", {"columns": f"{TAG}x:y"}),
        ("a.tsv", f"{TAG * 10**6}\t" * 9 + "\n", {"columns": "a:b", "header": True}),
        ("a.tsv", TAG * 10**6, {}),
        ("a.jsonl", json.dumps(dict.fromkeys(MANY, "x")), {}),
        ("a.jsonl", json.dumps(dict.fromkeys(MANY, "x")), {"columns": "name:nome"}),
        ("a.jsonl", json.dumps(dict.fromkeys(KEYS, "x")), {}),
        ("a.jsonl", json.dumps(dict.fromkeys(KEYS, "x")), {"columns": f"{TAG}x:y"}),
        ("a.jsonl", json.dumps({"a": dict.fromkeys(KEYS, "x"), "b": "x"}), {"columns": "a:b"}),
        ("a.jsonl", '{"%s": "a", "b": "c"}\n{"b": "c"}' % ("k" * 10**6), {}),
        ("a.jsonl", '{"%s": 1, ' % (TAG * 10**5) + '"%s": 2}' % (TAG * 10**5), {}),
        ("a.jsonl", '{"a": "b", "c": "d"}\n{"a": "b", "%s": "d"}' % ("k" * 10**6), {}),
    ],
)  # fmt: skip
def test_the_message_about_any_content_is_short(tmp_path, name, content, options):
    fault(write(tmp_path, name, content), options=FormatOptions(**options))


# JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[" * 100_000, "not usable: objects or arrays nested too deeply"),
        ('{"a":' * 100_000, "not usable: objects or arrays nested too deeply"),
        ("1" * 5000, "not usable: an integer of more than 4,300 digits"),
        ("1e400", "expected text under 'target', not a number"),
        ("1" + "0" * 400 + ".5", "expected text under 'target', not a number"),
    ],
)
def test_extreme_values_are_reported_with_their_line(tmp_path, value, words):
    path = write(tmp_path, "a.jsonl", f'{OBJECTS[0]}\n{{"source": "a", "target": {value}}}\n')
    assert f"a.jsonl:2: {words}" in fault(path)


def test_deep_values_of_a_field_are_reported(tmp_path):
    """Python reads more levels than it can turn into text."""
    for depth in (100, 300, 500, 700, 900):
        line = f'{{"a": "b", "s": {"[" * depth}{"]" * depth}, "t": "c"}}\n'
        path = write(tmp_path, "a.jsonl", line * 2)
        assert "a.jsonl:1: " in fault(path, options=FormatOptions(columns="a,s:t"))


def test_unpaired_surrogates_in_keys(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"\\ud800": "a", "b": "c", "d": "e"}\n')
    assert "the keys are \\ud800, b, d" in fault(path)
    assert texts(path, options=FormatOptions(columns="b:d")) == [("c", "e")]


def test_a_key_of_dots_costs_linear_time(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"%s": "a", "b": "c"}\n{"b": "c"}\n' % ("." * 200_000))
    began = time.monotonic()
    fault(path)
    assert time.monotonic() - began < 2


def test_a_duplicate_key_with_escapes_has_no_column(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"\\u0061": "b", "\\u0061": "c"}\n')
    assert fault(path).endswith("a.jsonl:1: duplicate key “a”, the second on this line")


def test_a_late_line_that_is_not_an_object_does_not_stop_the_recognition(tmp_path):
    path = write(tmp_path, "a.jsonl", "\n".join(OBJECTS) + '\n["a"]\n3\nnull\n')
    assert recognise([path], DataConfig(), "none").task == "text_to_text"
    assert ":301: expected a JSON object at column 1, not an array" in fault(path)


# Pipes, devices and names --------------------------------------------------------------------------


def test_waiting_for_a_pipe_is_reported(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    os.mkfifo(tmp_path / "pipe")

    def later():
        time.sleep(0.4)
        (tmp_path / "pipe").write_text("a\tb\n")

    threading.Thread(target=later, daemon=True).start()
    assert texts(tmp_path / "pipe") == [("a", "b")]
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for data from the pipe {tmp_path}/pipe"
    ]


def test_a_slow_process_substitution_is_read(tmp_path):
    program = CHILD.format("print(len(" + LINES + "))")
    run = f"{sys.executable} -c '{program}' <(sleep 0.3; printf 'a\\n'; sleep 0.3; printf 'b\\n')"
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[0] == "2", done.stderr


def test_training_refuses_a_pipe_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    config = parse({"data": {"train": [str(tmp_path / "pipe")]}, "training": {"steps": 1}})
    with pytest.raises(InputError, match="pipe is a pipe"):
        survey(config)


def test_a_socket_and_an_empty_device_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "socket cannot be opened" in fault("socket")
    assert "/dev/null has no pairs" in fault("/dev/null")


def test_a_name_with_a_nul_is_refused():
    for name in ("a\0b", "\0"):
        with pytest.raises(InputError, match="the name of a file has no NUL character"):
            PairFiles([name, name]).named_twice  # noqa: B018


# Standard input ------------------------------------------------------------------------------------


def test_closed_standard_input_is_reported(tmp_path):
    command = f"exec {sys.executable} -m seqwright doctor - <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "seqwright: standard input is closed; name a file, or redirect it from one\n"


@pytest.mark.parametrize("closed", [None, open(os.devnull)])  # noqa: SIM115
def test_predict_reports_closed_standard_input(tmp_path, monkeypatch, capsys, closed):
    run = make_run(tmp_path / "run")
    if closed is not None:
        closed.close()
    monkeypatch.setattr(sys, "stdin", closed)
    assert cli.main(["predict", str(run)]) == 2
    assert capsys.readouterr().err == (
        "seqwright: standard input is closed; name a file, or redirect it from one\n"
    )


def test_predict_names_the_limit_of_a_line(tmp_path, capsys):
    run, path = make_run(tmp_path / "run"), write(tmp_path, "a.txt", "x" * 10_000_001)
    assert cli.main(["predict", str(run), path]) == 2
    assert capsys.readouterr().err.endswith("a.txt:1: the line has more than 10,000,000 bytes; shorten it\n")
