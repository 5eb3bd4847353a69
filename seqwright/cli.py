"""The command line: verbs to functions. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import IO, TYPE_CHECKING, NoReturn

from seqwright import __version__
from seqwright.config.registry import unknown
from seqwright.errors import SeqwrightError, WriteError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

VERBS = {
    "train": "train a model from a file of pairs; run again, it goes on where it stopped",
    "predict": "outputs for inputs: one line in, one line out",
    "evaluate": "scores on pairs, with intervals; where it fails, and how fast it is",
    "compare": "two models on the same pairs, or several families trained on them",
    "demo": "the whole way on data that need not be brought: train, test, predict",
    "doctor": "what is wrong with files of pairs, and a copy that is mended",
    "look": "what happens inside for one text: as a page, as JSON, or in the terminal",
    "heads": "what every attention head does, how much it matters, and a model without the others",
    "report": "the page of a run anew: scores, curves, data, errors, examples",
    "verify": "is a run folder whole, and does its model say what it said when it was new?",
    "describe": "what can be configured, with types, defaults and ranges",
    "presets": "the models that have a name, and where they come from",
}
EPILOG = (
    "Exit codes: 0 fine, 1 a bug, 2 input or configuration, 3 no usable model, 4 cannot write, "
    "5 training diverged, 130 and 143 signals."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a verb. An error that a user can cause is one line and an exit code; anything else is a bug."""
    try:
        with redirect_stdout(_standard_output()):
            try:
                options = parse(sys.argv[1:] if arguments is None else arguments)
                return options.run(options) or 0
            finally:
                sys.stdout.flush()  # what fails when the interpreter ends could not be said any more
    except SeqwrightError as error:
        print(f"seqwright: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output left: nothing is wrong
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
        print("seqwright: this is a bug; please report it with the lines above", file=sys.stderr)
        return 1


def _standard_output() -> IO[str]:
    """As it is, but that a terminal without a character shows its number, and that a failure is told from
    those of other files.
    """
    out = sys.stdout
    if out is None:
        return open(os.devnull, "w")  # closed by whoever started us
    if not isinstance(out, io.TextIOWrapper):
        return out
    out.flush()  # what was written before comes before
    out.reconfigure(errors="backslashreplace")
    raw = getattr(out.buffer, "raw", out.buffer)  # unbuffered (python -u) there is one layer less
    if not isinstance(raw, io.RawIOBase):
        return out  # in memory, where nothing fails
    at_once = out.line_buffering or out.write_through
    guarded = io.BufferedWriter(_Guarded(raw))
    return io.TextIOWrapper(guarded, out.encoding, "backslashreplace", line_buffering=at_once)


class _Guarded(io.RawIOBase):
    """Standard output that cannot be written is a WriteError, once: what is left after it goes nowhere."""

    def __init__(self, raw: io.RawIOBase):
        self.raw, self.failed = raw, False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.raw.fileno()

    def isatty(self) -> bool:
        return self.raw.isatty()

    def write(self, data: ReadableBuffer, /) -> int | None:
        if self.failed:
            return memoryview(data).nbytes
        try:
            return self.raw.write(data)
        except BrokenPipeError:
            self.failed = True
            raise
        except OSError as error:
            self.failed = True
            raise WriteError(
                f"standard output cannot be written: {error.strerror}; free space or send it elsewhere"
            ) from error


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the verb that is named first; only its file is imported."""
    verb = arguments[0] if arguments else ""
    if verb in VERBS:
        command = importlib.import_module(f"seqwright.commands.{verb}")
        described = VERBS[verb][0].upper() + VERBS[verb][1:]
        described += "" if described.endswith("?") else "."
        parser = Parser(prog=f"seqwright {verb}", description=described, epilog=EPILOG)
        command.arguments(parser)
        parser.set_defaults(run=command.run)
        return parser.parse_intermixed_args(arguments[1:])  # key=value may stand anywhere
    if verb and not verb.startswith("-"):
        _overview().error(unknown("verb", verb, list(VERBS)))
    return _overview().parse_args(arguments)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"seqwright: {message}; see {self.prog} --help\n")


def _overview() -> argparse.ArgumentParser:
    """What there is without a verb: help and version."""
    parser = Parser(
        prog="seqwright",
        description="Attention models from a file of pairs: train, resume, predict, look inside.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"seqwright {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, summary in VERBS.items():
        verbs.add_parser(name, help=summary)
    return parser


if __name__ == "__main__":
    sys.exit(main())
