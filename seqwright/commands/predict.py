"""`seqwright predict`: texts in, texts out, line by line."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.data.readers.lines import Decoding
    from seqwright.prediction.bulk.blocks import Share
    from seqwright.prediction.predictor import Asked

Made = TypeVar("Made")
ASKED = (  # of a search
    "beam",
    "n_best",
    "length_penalty",
    "max_length",
    "sample",
    "temperature",
    "top_k",
    "top_p",
    "seed",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "input",
        nargs="?",
        default="-",
        metavar="INPUT",
        help="a file; standard input if none is named. A source of several fields has tabs between them",
    )
    parser.add_argument(
        "--output",
        metavar="F",
        help="a file, written as a whole; run again after a kill, the same command goes on where it stopped",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each line, with scores")
    parser.add_argument(
        "--shard", metavar="i/n", help="only the i-th of n parts of the file; --output F is F.i-of-n"
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="what each output must begin with")
    parser.add_argument("--max-length", type=int, metavar="N", help="tokens of an output at most")
    parser.add_argument("--threads", type=int, metavar="N", help="of the CPU")
    parser.add_argument("--encoding", default="utf-8", metavar="E", help="of the input; the output is UTF-8")
    parser.add_argument("--on-bad-bytes", choices=("error", "replace"), default="error", help="(error)")
    beam = parser.add_argument_group("beam search")
    beam.add_argument(
        "--beam", type=int, metavar="N", help="width of the beam (default: the run's); 1 is greedy"
    )
    beam.add_argument(
        "--nbest",
        dest="n_best",
        type=int,
        default=1,
        metavar="N",
        help="outputs of a line, on one line, with tabs between",
    )
    beam.add_argument("--length-penalty", type=float, metavar="X", help="over 0 favours long outputs")
    drawn = parser.add_argument_group("sampling")
    drawn.add_argument("--sample", action="store_true", help="draw outputs instead of searching for the best")
    drawn.add_argument("--temperature", type=float, metavar="T", help="1; below it likelier, 0 is greedy")
    drawn.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest symbols only")
    drawn.add_argument("--top-p", type=float, metavar="P", help="draw from the likeliest of mass P only")
    drawn.add_argument("--seed", type=int, metavar="N", help="of the drawing")


def run(options: argparse.Namespace) -> None:
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    asked, share, decoding = _checked(options)
    import torch

    from seqwright.data.readers.files import Input
    from seqwright.errors import ConfigError, InputError
    from seqwright.prediction.bulk.job import Job, Wanted
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import check_order

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    check_order(options.folder, options.input)
    output = _output(options, share)
    model = load(options.folder)
    wanted = Wanted(search=asked.options(model.search), prefix=options.prefix, json=options.json)
    try:
        job = Job(model, Input(options.input), wanted, decoding=decoding, share=share, say=_say)
        if options.input == "-" and sys.stdin.isatty():
            _say("type a line and get its output; Ctrl-D ends")
        job.run(job.output(output))
    except ConfigError as error:
        raise ConfigError(_with_flags(str(error))) from error
    except InputError as error:
        raise InputError(_with_flags(str(error)) + _as_text(options)) from error
    except KeyboardInterrupt:
        if options.output and options.input != "-":
            _say("stopped; the same command goes on from here")
        raise


def _checked(options: argparse.Namespace) -> tuple[Asked, Share | None, Decoding]:
    """The options in the form that is worked with; all that is wrong is said in one error, and at once."""
    from seqwright.config import SearchConfig
    from seqwright.data.readers.lines import Decoding
    from seqwright.errors import ConfigError
    from seqwright.prediction.bulk.blocks import Share
    from seqwright.prediction.predictor import Asked

    problems: list[str] = []

    def tried(make: Callable[[], Made]) -> Made | None:
        try:
            return make()
        except ConfigError as error:
            problems.append(str(error))
            return None

    asked = Asked(**{name: getattr(options, name) for name in ASKED})
    tried(lambda: asked.options(SearchConfig()))
    share = tried(lambda: Share.parse(options.shard)) if options.shard is not None else None
    decoding = tried(lambda: Decoding(options.encoding, options.on_bad_bytes))
    if options.threads is not None and options.threads < 1:
        problems.append(f"threads is {options.threads}, it must be at least 1")
    if problems or decoding is None:
        raise ConfigError(_as_typed("; ".join(problems)))
    return asked, share, decoding


def _output(options: argparse.Namespace, share: Share | None) -> Path | None:
    """Where to write, or standard output; checked before the model is loaded."""
    from pathlib import Path

    from seqwright.prediction.bulk.output import check_output

    if options.output is None:
        return None
    path = Path(options.output)
    check_output(path if share is None else share.path(path), [options.input])
    return path


def _as_typed(problems: str) -> str:
    """Options by the names that they have here: n_best is --nbest. What is wrong begins with a name, or ends
    with one and its value.
    """
    named = rf"\b({'|'.join((*ASKED, 'threads', 'shard'))})(?= is |, -?\d)"
    return re.sub(named, lambda found: _flag(found[1]), problems)


def _flag(name: str) -> str:
    return "--nbest" if name == "n_best" else f"--{name.replace('_', '-')}"


def _as_text(options: argparse.Namespace) -> str:
    """For those who gave a text in the place of a file."""
    from seqwright.runs.report.wording import shell_word

    if options.input == "-" or os.path.lexists(options.input):
        return ""
    text, folder = shell_word(options.input), shlex.quote(options.folder)
    return f"; if it is a text, give it by standard input: echo {text} | seqwright predict {folder}"


def _with_flags(message: str) -> str:
    """What reading calls data.encoding=cp1252 is --encoding cp1252 here."""
    flags = {
        "data.encoding=": "--encoding ",
        "data.on_bad_bytes=": "--on-bad-bytes ",
        "raise max_length": "raise --max-length",
    }
    for key, flag in flags.items():
        message = message.replace(key, flag)
    return message


def _say(text: str) -> None:
    print(f"seqwright: {text}", file=sys.stderr)
