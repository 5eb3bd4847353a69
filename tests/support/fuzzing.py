"""Files that are damaged on purpose, and what may come of using them: success, or a SeqwrightError.

`subjects()` is the table of formats. A subject makes healthy files, names those to damage, and uses them. The
run folder and the data files of every task, and every kind of tokenizer, are in it through their registries.
A new format is one more entry.

A case is a subject, a file, a number and a seed, which always give the same damage. To repeat one:

    python tests/support/fuzzing.py SUBJECT FILE NUMBER [SEED]
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import gzip
import io
import itertools
import json
import lzma
import os
import random
import re
import resource
import select
import shlex
import signal
import sys
import tempfile
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import torch
import zstandard
from mutations import damaged

from seqwright import cli, files
from seqwright.config import Config, DataConfig, parse, to_toml
from seqwright.config.tables import Format
from seqwright.data.checks.doctor import diagnose
from seqwright.data.readers.parses import read_conllu
from seqwright.data.store import Store
from seqwright.data.task import TASKS, task_class
from seqwright.data.tokenizer import TOKENIZERS, load_tokenizer, train_tokenizer
from seqwright.errors import SeqwrightError
from seqwright.lens.trace.document import Kind, Trace
from seqwright.lens.trace.history import read_learning
from seqwright.pipeline import from_file, run_design
from seqwright.pipeline.design import design
from seqwright.prediction.predictor import load
from seqwright.prediction.tracing import trace_observers
from seqwright.prediction.verification import verify
from seqwright.runs.card import write_card
from seqwright.runs.checkpoint import _sealed
from seqwright.runs.folder import Run
from seqwright.runs.report import write_report
from seqwright.training.console import Console
from seqwright.training.run import check_parts, train

SECONDS = 2  # of processor time for one case
STUCK = 60  # seconds after which a case that ignores its alarm is killed
MEMORY = 300_000_000  # bytes that a case may add to those of Torch, about as many
LONGEST = 10_000  # characters of the line that the user sees; several problems are one line
THROUGH_CLI = 20  # each case with a number divisible by it uses the command

PACKAGE = Path(cli.__file__).parent
# What a terminal could act on, and what some programs take for the end of a line.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Subject:
    """Healthy files, and a use of them in their folder.

    make: writes the files into the current folder; subjects with an equal `make` share them.
    files: patterns of the files to damage.
    use, command: the same use in Python and on the command line, if there is one.
    share: of the mutations that each file gets; less than 1 for slow uses with many files.
    seal: adapts sizes and checksums to the damage, so that it gets further.
    """

    name: str
    make: Callable[[], None]
    files: tuple[str, ...]
    use: Callable[[], object]
    command: str = ""
    share: float = 1.0
    seal: Callable[[], None] = lambda: None

    @property
    def folder(self) -> str:
        """A name for the folder of the files: that of `make`, with its arguments."""
        make = self.make if isinstance(self.make, partial) else partial(self.make)
        return "-".join([make.func.__name__, *make.args])


# The table of formats ------------------------------------------------------------------------------


def subjects() -> list[Subject]:
    tasks, kinds = TASKS.names(), TOKENIZERS.names()
    return [
        *itertools.chain.from_iterable(map(run_subjects, tasks)),
        *itertools.chain.from_iterable(map(data_subjects, tasks)),
        *(Subject(f"tokenizer-{kind}", partial(make_tokenizer, kind), ("*",), tokenize) for kind in kinds),
        Subject("predictions", make_predictions, ("out.txt.part*",), partial(run, PREDICT), PREDICT, 0.2),
        Subject("trace", make_trace, ("trace.json",), look),
        Subject("conllu", make_conllu, ("x.conllu",), partial(read_conllu, "x.conllu")),
    ]


def run_subjects(task: str) -> list[Subject]:
    """The uses of a run folder and its configuration, each with the files that it reads."""

    def of(name: str, files: str, use: Callable[[], object], command: str = "", **options: Any) -> Subject:
        make = partial(make_run, task)
        return Subject(f"{task}-{name}", make, tuple(files.split()), use, command, **options)

    model, stores = "run/config.json run/model.safetensors run/tokenizer*.json", "run/data/**/*"
    train = "train run.toml --out run --steps 5"
    found = [
        of("predict", model, predict_first, "predict run inputs.txt"),
        of("verify", f"{model} run/examples.json", verify_run, "verify run", share=0.4),
        of("report", f"{model} run/*.json run/metrics.jsonl", report, "report run", share=0.3),
        of("evaluate", f"run/*.json {stores}", evaluate, "evaluate run few.tsv", share=0.03, seal=seal_all),
        of("checkpoint", "run/checkpoints/**/*", load_checkpoint, share=0.4),
        of("store", stores, read_stores, share=0.2, seal=seal_stores),
        of("resume", "run/**/*", partial(resume, task), train, share=0.02, seal=seal_all),
        of("configuration", "run.toml", configure, "train run.toml --print-config"),
    ]
    if task_class(task).usage.traced and task not in UNTRACED:
        found.append(of("learning", "run/traces/*/* run/metrics.jsonl", learning, LEARNING, share=0.4))
    return found


def data_subjects(task: str) -> Iterator[Subject]:
    """The data files of a task in each format, and compressed; those of a single column are texts."""
    roles, lines = len(task_class(task).roles), "tsv"
    parallel = [role.kind for role in task_class(task).roles] == ["text", "text"]
    forms: list[str] = [form for form in get_args(Format) if form != "parallel" or parallel]
    forms = [form for form in forms if form not in UNREAD.get(task, ())]
    if roles == 1:
        forms, lines = ["jsonl", "txt"], "txt"
    for form, ending in [*((form, "") for form in forms), *((lines, ending) for ending in COMPRESSORS)]:
        make, names = partial(make_data, task, form, ending), data_files(task, form, ending)
        command = f"train {' '.join(names)} --task {task} --print-config"
        yield Subject(f"{task}-{form}{ending}", make, names, partial(read_data, task, names), command)


# Healthy files -------------------------------------------------------------------------------------

SMALL = {"layers": 1, "size": 8, "hidden": 8, "heads": 2, "dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {  # by model kind
    "encoder_decoder": {"preset": "tiny", "share": False, **SMALL},
    "decoder_only": {"kind": "decoder_only", **SMALL},
    "encoder_only": {"kind": "encoder_only", **SMALL},
    "forecaster": {"kind": "forecaster", **SMALL},
}
PARTS: dict[str, dict[str, Any]] = {  # of the models of tasks
    "masked_language_modeling": {"head": "tokens"},
    "token_classification": {"head": "tags"},
    "image_classification": {"encoder": {"kind": "patches", "patch": 4}},
    "image_captioning": {"encoder": {"kind": "patches", "patch": 4}},
}
UNREAD = {"forecasting": ("jsonl",)}  # formats that a task does not read
UNTRACED = (
    "masked_language_modeling",
    "conversation",
    "image_classification",
    "image_captioning",
    "forecasting",
)  # tasks without traces of their trainings
TRAINING = {"steps": 4, "tokens": 256, "validations": 2, "decode": 4, "average": 0.9, "save_seconds": 1e6}
COMPRESSORS = {".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress, ".zst": zstandard.compress}
PREDICT = "predict run inputs.txt --output out.txt"
LEARNING = "look run --learning -o page.html"


def configuration(task: str, **training: Any) -> Config:
    return parse(
        {
            "task": task,
            "data": {"train": ["toy.tsv"], "held_out": 0.1},
            "model": {**MODELS[task_class(task).models[0]], **PARTS.get(task, {})},
            "training": {**TRAINING, **training},
            "search": {"beam": 2, "max_length": 6},
            "threads": 1,
        }
    )


def make_run(task: str) -> None:
    """A run folder from the toy of a task, with its data, its configuration and some inputs."""
    make_data(task, "tsv", "")
    os.rename("data.tsv", "toy.tsv")
    lines = Path("toy.tsv").read_bytes().splitlines(keepends=True)
    few = len(lines) if task == "forecasting" else 8  # a forecast needs a long past
    Path("few.tsv").write_bytes(b"".join(lines[:few]))
    os.utime("toy.tsv", (1e9, 1e9))
    config = configuration(task)
    Path("run.toml").write_text(to_toml(config.to_dict()), encoding="utf-8")
    clock = partial(next, itertools.count(0.0, 1 / 64))
    with (  # the same files every time
        mock.patch("secrets.token_hex", return_value="0123456789abcdef"),
        mock.patch("time.monotonic", clock),
        mock.patch("time.perf_counter", clock),
        mock.patch("seqwright.evaluation.speed.peak_memory", return_value=3e8),
    ):
        run_design(design(config.to_dict(), by_recipe=False), Path("run"), Console(None))
    predictor = load("run")
    examples = predictor.task.reader(["toy.tsv"], config.data).read(mock.MagicMock())
    lines = [predictor.task.to_line(example) for example in itertools.islice(examples, 3)]
    Path("inputs.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def data_files(task: str, form: str, ending: str = "") -> tuple[str, ...]:
    roles = task_class(task).roles
    return tuple(f"data.{role.name}" for role in roles) if form == "parallel" else (f"data.{form}{ending}",)


def make_data(task: str, form: str, ending: str) -> None:
    kind = task_class(task)
    roles, rows = [role.name for role in kind.roles], kind.toy(0)
    if form == "parallel":
        contents = ["".join(f"{row[role]}\n" for row in rows) for role in roles]
    elif form == "jsonl":
        contents = ["".join(json.dumps(row) + "\n" for row in rows)]
    else:
        cells = [roles] * (form == "csv") + [[row[role] for role in roles] for row in rows]
        file = io.StringIO()
        options: Any = {"delimiter": ","} if form == "csv" else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        csv.writer(file, lineterminator="\n", **options).writerows(cells)
        contents = [file.getvalue()]
    for name, content in zip(data_files(task, form, ending), contents, strict=True):
        Path(name).write_bytes(COMPRESSORS.get(ending, bytes)(content.encode()))


def make_tokenizer(kind: str) -> None:
    text = "the cat sat on the mat, the dog sat on the log; a fat rat ran"
    train_tokenizer(kind, [text, text.upper(), "\u0435\u0301 \U0001f600"] * 3).save("tokenizer.json")


class Killed(BaseException):
    """Stops a prediction in the middle."""


def make_predictions() -> None:
    """A run folder, and predictions that were stopped after the first block."""
    make_run("text_to_text")

    def kill(point: str) -> None:
        if point == "predict:note:renamed":
            raise Killed

    with mock.patch.object(files, "hook", kill), contextlib.suppress(Killed):
        run(PREDICT)
    assert Path("out.txt.part.json").exists()


def make_trace() -> None:
    make_run("text_to_text")
    load("run").look("abc", reference="C B A").save("trace.json")


def make_conllu() -> None:
    rows = [("1", "The", "2", "det"), ("2-3", "cannot", "_", "_"), ("2", "can", "0", "root")]
    rows += [("3", "not", "2", "advmod"), ("3.1", "go", "_", "_"), ("4", "fall", "2", "obj")]
    cells = ([number, word, *"____", head, relation, *"__"] for number, word, head, relation in rows)
    text = "# text = The cannot fall\n" + "".join("\t".join(row) + "\n" for row in cells)
    Path("x.conllu").write_text(f"{text}\n{text}", encoding="utf-8")


# Uses ----------------------------------------------------------------------------------------------


def all_of(*uses: Callable[[], object]) -> None:
    """Use files in several ways, and raise the first error at the end."""
    errors = []
    for use in uses:
        try:
            use()
        except SeqwrightError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def predict_first() -> None:
    predictor = load("run")
    line = Path("inputs.txt").read_text(encoding="utf-8").splitlines()[0]
    prediction = next(predictor.stream([predictor.task.from_line(line)]))
    json.dumps(prediction.to_json(), allow_nan=False)


def verify_run() -> None:
    for check in verify("run"):
        str(check)


def report() -> None:
    write_report("run")
    write_card("run")


def evaluate() -> None:
    str(load("run").evaluate("few.tsv"))


def load_checkpoint() -> None:
    checkpoints = Run.open("run").checkpoints()
    checkpoints.steps()
    checkpoints.best()
    checkpoints.load()


def resume(task: str) -> None:
    """One more step; the command also tests and reports."""
    train(configuration(task, steps=5), "run", observers=trace_observers)


def read_stores() -> None:
    for folder in sorted(path.parent for path in Path("run/data").glob("*/store.json")):
        store = Store.open(folder)
        for name in store.header.columns:
            column = store.column(name)
            column.lengths()
            rows = [row for block in column.blocks(64) for row in block.lengths]
            assert len(rows) == len(store)
            if name.endswith("_text"):
                column.text(0)
        for number in (0, len(store) - 1):
            store.place(number)


def configure() -> None:
    config = design(from_file("run.toml"), folder=Path("other"), by_recipe=False).config
    check_parts(config)
    to_toml(config.to_dict())


def read_data(task: str, names: Sequence[str]) -> None:
    """All that happens to data before a training: recognition, the survey, the recipe and the doctor."""
    data = {"data": {"train": list(names)}}
    all_of(
        lambda: design(data).lines(),
        lambda: design({"task": task, **data}).lines(),
        lambda: list(diagnose(names, DataConfig(), task=task_class(task)).lines()),
    )


def tokenize() -> None:
    tokenizer = load_tokenizer("tokenizer.json")
    for text in ("the cat sat", "Ünknown \u0435\u0301 42!"):
        ids = tokenizer.encode(text)
        assert len(tokenizer.pieces(text)) == len(ids)
        tokenizer.decode(ids)
        tokenizer.encode_sampled(text, 1)
        tokenizer.count_unknown([text])
    tokenizer.decode(range(min(tokenizer.size, 10_000)))
    assert len(tokenizer.fingerprint) == 64


def learning() -> None:
    history = read_learning("run")
    str(history)
    history.page()


def look() -> None:
    """Everything that can be done with a trace. Each part of it may be damaged on its own."""
    trace = Trace.load("trace.json")
    parts: list[Callable[[], object]] = [partial(str, trace), trace.page, trace.logits, trace.contributions]
    parts += [lambda: (trace.text, trace.output, trace.log_probs)]
    parts += [partial(trace.cells, "encoder", 0)] if trace.document["recurrent"] else []
    parts += [partial(trace.block, side, 0) for side in ("encoder", "decoder")]
    for kind in get_args(Kind):
        parts += [partial(trace.attention, kind, 0), partial(trace.vectors, kind, 0)]
    all_of(*parts)


def run(command: str) -> None:
    """Run a command and raise its error."""
    with contextlib.redirect_stderr(io.StringIO()):
        options = cli.parse(command.split())
        options.run(options)


def seal_stores() -> None:
    """Write the sizes of the files into the headers of the stores."""
    for path in Path("run/data").glob("*/store.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError, OSError, RecursionError, AttributeError):
            header = json.loads(path.read_bytes())
            for name, known in header["files"].items():
                known["bytes"] = (path.parent / name).stat().st_size
            path.write_text(json.dumps(header))


def seal_checkpoints() -> None:
    """Write sizes and checksums into the manifests of the checkpoints."""
    for path in Path("run/checkpoints").glob("*/manifest.json"):
        with contextlib.suppress(ValueError, TypeError, KeyError, OSError, RecursionError, AttributeError):
            manifest = json.loads(path.read_bytes())
            for name, known in manifest["files"].items():
                found = path.parent / name
                known |= {"bytes": found.stat().st_size, "sha256": files.sha256(found)}
            path.write_text(json.dumps(_sealed(manifest)))


def seal_all() -> None:
    seal_stores()
    seal_checkpoints()


# Cases ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One damaged file and its use."""

    subject: str
    file: str
    number: int
    seed: int = 0

    def damage(self, content: bytes) -> tuple[bytes, str]:
        draw = random.Random(f"{self.seed} {self.subject} {self.file} {self.number}")
        return damaged(self.file, content, draw)

    @property
    def again(self) -> str:
        """The command that repeats this case alone."""
        words = [self.subject, self.file, str(self.number), *([str(self.seed)] if self.seed else [])]
        return shlex.join([sys.executable, os.path.relpath(__file__), *words])


@dataclass(frozen=True)
class Failure:
    """A case with another outcome than success or a SeqwrightError."""

    case: Case
    damage: str
    outcome: str  # one line
    details: str = ""

    def __str__(self) -> str:
        what = f"{self.case.file}, case {self.case.number} ({self.damage}): {self.outcome}"
        return "\n".join(filter(None, [what, self.details, f"repeat it: {self.case.again}"]))


class TooSlow(BaseException):
    """Raised by the alarm."""


class Bench:
    """A folder with healthy files; every case finds them whole."""

    def __init__(self, subject: Subject, home: Path):
        self.subject, self.folder = subject, home / subject.folder
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            with contextlib.chdir(self.folder):
                subject.make()
        self.contents = {path: path.read_bytes() for path in self._files()}
        self.marks = {path: _mark(path) for path in self.contents}

    @cached_property
    def names(self) -> list[str]:
        """The files to damage. Locks are not read, and pages are not read again."""
        found = {path for pattern in self.subject.files for path in self.folder.glob(pattern)}
        unread = (".lock", "README.md", "report.html")
        return sorted(
            str(path.relative_to(self.folder))
            for path in found
            if path.is_file() and not path.name.endswith(unread)
        )

    def cases(self, amount: int, seed: int = 0) -> list[Case]:
        """Return `amount` cases per file, times the share of the subject; below 1, for some of the files."""
        each = amount * self.subject.share
        names = self.names[:: max(1, round(1 / each))]
        return [Case(self.subject.name, name, n, seed) for name in names for n in range(max(1, round(each)))]

    def run(self, case: Case) -> Failure | None:
        """Damage the file of a case, use it, and restore all files."""
        path = self.folder / case.file
        content, damage = case.damage(self.contents[path])
        try:
            path.write_bytes(content)
            with contextlib.chdir(self.folder):
                self.subject.seal()
                outcome, details = _outcome(self.subject, by_command=self._by_command(case))
        finally:
            self.restore()
        return None if outcome is None else Failure(case, damage, outcome, details)

    def _by_command(self, case: Case) -> bool:
        """Whether a case uses the command: some of each file, or of the first file if the use is slow."""
        chosen = case.number % THROUGH_CLI == 0 and (self.subject.share > 0.1 or case.file == self.names[0])
        return chosen and bool(self.subject.command)

    def restore(self) -> None:
        for path in self._files():
            if path not in self.contents:
                path.unlink()
        for path, content in self.contents.items():
            if not path.exists() or _mark(path) != self.marks[path]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                os.utime(path, ns=(self.marks[path][1],) * 2)
                self.marks[path] = _mark(path)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


def _mark(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def _outcome(subject: Subject, *, by_command: bool) -> tuple[str | None, str]:
    """Return what is wrong with the outcome of a use, if anything is, and its details."""
    _reset_peak()
    before = _peak()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        if not by_command:
            subject.use()
        elif wrong := through_cli(subject.command):
            return wrong, ""
    except SeqwrightError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if wrong := _printed(error):
            return wrong, _frames(error)
    except TooSlow as error:
        return f"took more than {SECONDS} s", _frames(error)
    except Exception as error:
        return f"{type(error).__name__}: {_excerpt(str(error))}", _frames(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if (used := _peak() - before) > MEMORY:
        return f"used {used / 1e6:,.0f} MB", ""
    return None, ""


def _printed(error: SeqwrightError) -> str | None:
    """Print an error as the command line does; return what is wrong with its line."""

    def fail(options: Namespace) -> None:
        raise error

    with mock.patch.object(cli, "parse", return_value=Namespace(run=fail)):
        return through_cli("", error.exit_code)


def through_cli(command: str, expected: int | None = None) -> str | None:
    """Run a command; return what is wrong with its exit code or its last line."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogatepass") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(command.split())
    err.flush()
    printed = err.buffer.getvalue().decode("utf-8", "surrogatepass")  # type: ignore[attr-defined]
    lines = printed.removesuffix("\n").split("\n")
    last = lines[-1]
    if code == 1:
        return f"exit code 1: {_excerpt(' / '.join(lines[-4:-1]))}"
    if code not in (0, 2, 3, 4, 5) or expected not in (None, code):
        return f"exit code {code}"
    if expected and len(lines) > 1:
        return f"an error of {len(lines)} lines: {_excerpt(printed)}"
    if expected and not last.startswith("seqwright: "):
        return f"no line of an error: {_excerpt(last)}"
    if found := RAW.search(last):
        return f"a raw {found[0]!a} in the line: {_excerpt(last[max(0, found.start() - 80) :])}"
    if len(last) > LONGEST:
        return f"a line of {len(last):,} characters: {_excerpt(last)}"
    return None


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 200 else f"{text[:200]}…")[1:-1]


def _frames(error: BaseException, last: int = 5) -> str:
    """The last calls inside the package."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if Path(each.filename).is_relative_to(PACKAGE)][-last:]
    places = (f"{Path(each.filename).relative_to(PACKAGE.parent)}:{each.lineno} {each.name}" for each in own)
    return "\n".join(f"  {place}: {each.line}" for place, each in zip(places, own, strict=True))


def _peak() -> int:
    """Return the largest amount of memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _reset_peak() -> None:
    """Return freed memory to the system, and measure from here on."""
    with contextlib.suppress(OSError, AttributeError):  # Linux with glibc only
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


# The child process ---------------------------------------------------------------------------------


def run_cases(bench: Bench, cases: Sequence[Case]) -> list[Failure]:
    """Run cases in a child process, one after the other; after a crash, the rest in a new one."""
    failures: list[Failure] = []
    left = list(cases)
    while left:
        done, found = _in_child(bench, left)
        failures += found
        if done < len(left):  # the child died in a case
            damage = left[done].damage(bench.contents[bench.folder / left[done].file])[1]
            failures.append(Failure(left[done], damage, "killed the process, or ignored the alarm"))
            bench.restore()
        left = left[done + 1 :]
    return failures


def _in_child(bench: Bench, cases: Sequence[Case]) -> tuple[int, list[Failure]]:
    """Return how many cases a child has finished, and the failures among them."""
    receive, send = os.pipe()
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        os.close(receive)
        try:
            _work(bench, cases, send)
        finally:
            os._exit(0)
    os.close(send)
    done, failures, rest = 0, list[Failure](), b""
    with open(receive, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], STUCK)[0] and (data := pipe.read(1 << 16)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if (outcome := json.loads(line)) is not None:
                    failures.append(Failure(cases[done], *outcome))
                done += 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return done, failures


def _work(bench: Bench, cases: Sequence[Case], send: int) -> None:
    """Run the cases and send a line for each."""
    prepare_process()
    for case in cases:
        failure = bench.run(case)
        outcome = None if failure is None else [failure.damage, failure.outcome, failure.details]
        os.write(send, json.dumps(outcome).encode() + b"\n")


def prepare_process() -> None:
    """Limit this process. Nothing is synced to the disk, which only matters in a power cut."""

    def ring(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, ring)
    os.fsync = lambda descriptor: None
    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 4 * MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # warnings of the package and of its libraries


def main(name: str, file: str, number: str, seed: str = "0") -> int:
    """Repeat one case, and leave its damaged file in a temporary folder."""
    (subject,) = (each for each in subjects() if each.name == name)
    folder = Path(tempfile.mkdtemp(prefix="seqwright-fuzzing-"))
    bench, case = Bench(subject, folder), Case(name, file, int(number), int(seed))
    content, damage = case.damage(bench.contents[bench.folder / file])
    (folder / Path(file).name).write_bytes(content)
    print(f"{damage}\nThe damaged file is {folder / Path(file).name}; {bench.folder} has the others.")
    failures = run_cases(bench, [case])
    print(*failures or ["The outcome is as it should be: success, or a SeqwrightError."])
    return len(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
