"""The command line: verbs to functions. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from seqwright import __version__
from seqwright.errors import SeqwrightError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a verb. An error that a user can cause is one line and an exit code; anything else is a bug."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except SeqwrightError as error:
        print(f"seqwright: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output left: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except Exception:
        traceback.print_exc()
        print("seqwright: this is a bug; please report it with the lines above", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="seqwright",
        description="Attention models from a file of pairs: train, resume, predict.",
        epilog="Exit codes: 0 fine, 1 a bug, 2 input or configuration, 3 no usable model, 4 cannot write, "
        "5 training diverged, 130 and 143 signals.",
    )
    top.add_argument("--version", action="version", version=f"seqwright {__version__}")
    verbs = top.add_subparsers(metavar="VERB", required=True)
    _train(verbs)
    _predict(verbs)
    _presets(verbs)
    return top


def _train(verbs: Any) -> None:
    verb = verbs.add_parser(
        "train",
        help="train a model from a configuration; run again, it goes on where it stopped",
        description="Trains the model of a TOML configuration. The same command goes on where it stopped.",
    )
    verb.add_argument("config", help="a TOML file")
    verb.add_argument("changes", nargs="*", metavar="key=value", help="options that differ from the file")
    verb.add_argument("--out", required=True, metavar="DIR", help="the run folder")
    verb.add_argument("--tensorboard", metavar="DIR", help="also log there for TensorBoard")
    verb.set_defaults(run=train)


def train(options: argparse.Namespace) -> int:
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    from pathlib import Path

    from seqwright.config import override, parse, read_toml
    from seqwright.errors import ConfigError
    from seqwright.training.interrupt import Interrupted
    from seqwright.training.job import train as run
    from seqwright.training.telling import Teller

    try:
        text = Path(options.config).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{options.config} cannot be read: {error}") from error
    config = parse(override(read_toml(text, options.config), options.changes))
    teller = Teller(sys.stderr)
    try:
        progress = run(config, options.out, listener=_listeners(teller, options.tensorboard))
    except Interrupted as left:
        print(f"stopped by {left}; the same command goes on from here", file=sys.stderr)
        return left.exit_code
    teller.end(progress, options.out)
    return 0


def _listeners(teller: Any, tensorboard: str | None) -> Any:
    if tensorboard is None:
        return teller
    from pathlib import Path

    from seqwright.training.tensorboard import TensorBoard

    board = TensorBoard(Path(tensorboard))
    return lambda report: (teller(report), board(report))


def _predict(verbs: Any) -> None:
    verb = verbs.add_parser(
        "predict",
        help="outputs for inputs: one line in, one line out",
        description="Reads texts, one a line, from a file or standard input, and writes one output for each.",
    )
    verb.add_argument("folder", metavar="RUN", help="a run folder")
    verb.add_argument("input", nargs="?", default="-", help="a file; standard input if none is named")
    verb.add_argument("--beam", type=int, metavar="N", help="width of the beam; 1 is greedy")
    verb.set_defaults(run=predict)


def predict(options: argparse.Namespace) -> None:
    from itertools import islice

    from seqwright.data.reading import read_lines
    from seqwright.data.tally import Tally
    from seqwright.predictor import BLOCK, load

    model = load(options.folder)
    lines = read_lines(options.input, Tally())
    while block := list(islice(lines, BLOCK)):
        for prediction in model.stream(block, beam=options.beam):
            sys.stdout.write(prediction.text + "\n")
    sys.stdout.flush()


def _presets(verbs: Any) -> None:
    verb = verbs.add_parser("presets", help="the models that have a name, and where they come from")
    verb.set_defaults(run=presets)


def presets(options: argparse.Namespace) -> None:
    from seqwright.presets import PRESETS

    for name, preset in PRESETS.items():
        print(f"{name:18s} {preset.source}" + (f"\n{'':18s} ({preset.note})" if preset.note else ""))


if __name__ == "__main__":
    sys.exit(main())
