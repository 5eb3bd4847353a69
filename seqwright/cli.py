"""Command line. A command is imported only when it is called, so that `--help` is fast."""

from __future__ import annotations

import argparse
import importlib
import io
import logging
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import IO, TYPE_CHECKING, NoReturn

from seqwright import __version__
from seqwright.config.outside import trusting_code
from seqwright.config.registry import nearest, unknown
from seqwright.data.text_display import printable
from seqwright.errors import SeqwrightError, WriteError
from seqwright.runtime import keep_freed_memory
from seqwright.training.interrupt import Interrupted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

COMMANDS = {
    "train": "Train a model. Running the same command again resumes it.",
    "predict": "Predict an output for each input: one line in, one line out.",
    "chat": "Chat with a conversation or language model; replies appear while they are generated.",
    "score": "Show how well a language model predicts each token of a text: as a page or as JSON.",
    "evaluate": "Score a model on test data, with confidence intervals, error analysis and speed.",
    "compare": "Compare two models on the same test data, or train and compare several presets.",
    "demo": "Train, test and try a model on data that Seqwright provides.",
    "doctor": "Check data files for problems and write a repaired copy.",
    "serve": "Serve trained models over HTTP, with a web page to try them.",
    "look": "Show what happens inside a model for one input: as a page, as JSON or in the terminal.",
    "heads": "Show what each attention head does and how much it matters; prune unimportant heads.",
    "report": "Rewrite the report page of a run: scores, curves, data, errors, examples.",
    "verify": "Check that a run folder is complete and that its model still produces the recorded outputs.",
    "describe": "List configuration options with types, defaults and ranges.",
    "presets": "List the named models by task, with the papers they come from.",
}
READ_RUNS = (
    "train",
    "predict",
    "chat",
    "score",
    "evaluate",
    "compare",
    "serve",
    "look",
    "heads",
    "report",
    "verify",
)
ALIKE = 3  # warnings of one kind that are printed
TRUST_CODE = "Import code outside of Seqwright that a run folder names. Only for runs that you trust."
EPILOG = (
    "Exit codes: 0 success, 1 bug, 2 invalid input or configuration, 3 no usable model, 4 cannot write, "
    "5 training diverged, 130 and 143 stopped by a signal."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. An error that a user can cause is printed as one line."""
    if sys.stderr is None:  # the parent process has closed it
        sys.stderr = io.StringIO()
    try:
        with redirect_stdout(_standard_output()), _warnings_as_lines():
            try:
                options = parse(sys.argv[1:] if arguments is None else arguments)
                keep_freed_memory()  # before the first tensor
                with trusting_code(getattr(options, "trust_code", False)):
                    return options.run(options) or 0
            finally:
                sys.stdout.flush()  # an error at interpreter exit could not be reported
    except SeqwrightError as error:
        print(f"seqwright: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of the output has closed it, which is not an error
        return 128 + signal.SIGPIPE
    except Interrupted as stop:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # the progress line
        print(f"{clear}seqwright: stopped by {stop}; run the same command again to resume", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
        print("seqwright: this is a bug; please report it with the lines above", file=sys.stderr)
        return 1


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print the warnings of the package as lines of the command."""
    handler, logger = _Warnings(logging.WARNING), logging.getLogger("seqwright")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    """Prints the first ALIKE warnings of a kind, each once: there may be one for each line of a file."""

    def __init__(self, level: int):
        super().__init__(level)
        self._counts, self._printed = Counter[str](), set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text in self._printed:
            return
        self._counts[record.msg] += 1
        if self._counts[record.msg] <= ALIKE:
            self._printed.add(text)
            print(f"seqwright: {printable(text)}", file=sys.stderr)
        elif self._counts[record.msg] == ALIKE + 1:
            print("seqwright: more warnings of this kind are not shown", file=sys.stderr)


def _standard_output() -> IO[str]:
    """Return standard output that escapes characters it cannot encode and raises WriteError if it is full."""
    out = sys.stdout
    if out is None:
        return open(os.devnull, "w")  # the parent process has closed it
    if not isinstance(out, io.TextIOWrapper):
        return out
    out.flush()  # keep the order with earlier output
    out.reconfigure(errors="backslashreplace")
    raw = getattr(out.buffer, "raw", out.buffer)  # unbuffered (python -u) there is no buffer layer
    if not isinstance(raw, io.RawIOBase):
        return out  # in memory
    line_buffering = out.line_buffering or out.write_through
    buffer = io.BufferedWriter(_CheckedOutput(raw))
    return io.TextIOWrapper(buffer, out.encoding, "backslashreplace", line_buffering=line_buffering)


class _CheckedOutput(io.RawIOBase):
    """Raw output whose first failure is a WriteError. Everything written afterwards is discarded."""

    def __init__(self, raw: io.RawIOBase):
        self.raw, self.failed = raw, False
        self.fileno, self.isatty, self.writable = raw.fileno, raw.isatty, raw.writable  # type: ignore[method-assign]

    def write(self, data: ReadableBuffer, /) -> int | None:
        if self.failed:
            return memoryview(data).nbytes
        try:
            return self.raw.write(data)
        except OSError as error:
            self.failed = True
            if isinstance(error, BrokenPipeError):
                raise
            raise WriteError(
                f"standard output cannot be written: {error.strerror}; free space or redirect it"
            ) from error


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command that is named first. Only the module of this command is imported."""
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        command = importlib.import_module(f"seqwright.commands.{name}")
        parser = Parser(prog=f"seqwright {name}", description=COMMANDS[name], epilog=EPILOG)
        command.arguments(parser)
        if name in READ_RUNS:
            parser.add_argument("--trust-code", action="store_true", help=TRUST_CODE)
        parser.set_defaults(run=command.run)
        return _parse_anywhere(parser, arguments[1:])
    summary = "Train attention models on your data, resume, predict and look inside."
    parser = Parser(prog="seqwright", description=summary, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"seqwright {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for each, summary in COMMANDS.items():
        commands.add_parser(each, help=summary)
    if name and not name.startswith("-"):
        parser.error(unknown("command", name, list(COMMANDS)))
    return parser.parse_args(arguments)


def _parse_anywhere(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments whose positional ones may be anywhere; after `--` all are positional.

    `parse_intermixed_args` does not know `--`: a NUL, which no argument has, hides the dashes from it.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    hidden = [f"\0{text}" if text.startswith("-") else text for text in arguments[end + 1 :]]
    options = parser.parse_intermixed_args([*arguments[:end], *hidden])
    for name, value in vars(options).items():
        if isinstance(value, str):
            setattr(options, name, value.removeprefix("\0"))
        elif isinstance(value, list):
            setattr(options, name, [text.removeprefix("\0") for text in value])
    return options


class Parser(argparse.ArgumentParser):
    """Parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        wrong = next((word for word in message.split() if word.startswith("--")), "")
        unknown_option = message.startswith("unrecognized arguments")
        near = nearest(wrong, list(self._option_string_actions)) if unknown_option and wrong else []
        hint = f"; did you mean {near[0]}?" if near else ""
        self.exit(2, f"seqwright: {printable(message)}{hint}; see {self.prog} --help\n")
