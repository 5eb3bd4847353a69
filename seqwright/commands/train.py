"""`seqwright train`: from a file of pairs, or a configuration, to a run folder."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="FILE | key=value",
        help="files of pairs, a source and a target file, or one TOML configuration; options to change",
    )
    parser.add_argument("--valid", action="append", default=[], metavar="F", help="pairs for validation")
    parser.add_argument("--test", action="append", default=[], metavar="F", help="pairs for the final test")
    parser.add_argument(
        "--out", metavar="DIR", help="the run folder (default: runs/ and the name of the first file)"
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--minutes", type=float, metavar="M", help="how long to train")
    end.add_argument("--steps", type=int, metavar="N")
    end.add_argument("--epochs", type=float, metavar="N")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--threads", type=int, metavar="N", help="of the CPU")
    parser.add_argument(
        "--columns", metavar="1,3:2", help="columns of the source, a colon, column of the target"
    )
    parser.add_argument("--print-config", action="store_true", help="print the whole configuration and stop")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parser.add_argument("--tensorboard", metavar="DIR", help="also log there for TensorBoard")


def run(options: argparse.Namespace) -> int:
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    from seqwright.config import override, parse, to_toml

    files = [text for text in options.inputs if "=" not in text or os.path.exists(text)]
    changes = [text for text in options.inputs if text not in files]
    say = _silent if options.quiet else _say
    table = _from_file(files[0]) if _is_config(files) else _from_pairs(files, options, say)
    config = parse(override(_with_flags(table, options), changes))
    if options.print_config:
        print(to_toml(config.to_dict()), end="")
        return 0
    return _train(config, options.out or _folder(files), options, say)


def _train(config: Any, folder: str, options: argparse.Namespace, say: Any) -> int:
    from pathlib import Path

    from seqwright.training.interrupt import Interrupted
    from seqwright.training.job import train
    from seqwright.training.telling import Teller

    listeners: list[Any] = [] if options.quiet else [teller := Teller(sys.stderr)]
    if options.tensorboard is not None:
        from seqwright.training.tensorboard import TensorBoard

        listeners.append(TensorBoard(Path(options.tensorboard)))

    def listen(report: Any) -> None:
        for listener in listeners:
            listener(report)

    try:
        progress = train(config, folder, listener=listen)
    except Interrupted as left:
        say(f"stopped by {left}; the same command goes on from here")
        return left.exit_code
    if not options.quiet:
        teller.end(progress, folder)
    return 0


def _is_config(files: list[str]) -> bool:
    return len(files) == 1 and files[0].endswith(".toml")


def _from_file(path: str) -> dict[str, Any]:
    from pathlib import Path

    from seqwright.config import read_toml
    from seqwright.errors import ConfigError

    try:
        return read_toml(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _from_pairs(files: list[str], options: argparse.Namespace, say: Any) -> dict[str, Any]:
    """A configuration by the recipe for these pairs; says what was found, what was chosen, and why."""
    from seqwright.data.checking import Checker
    from seqwright.data.reading import PairFiles
    from seqwright.data.sniffing import Form
    from seqwright.data.tally import Tally
    from seqwright.errors import ConfigError
    from seqwright.recipes import SAMPLE, choose

    if not files:
        raise ConfigError(
            "no file of pairs was named; give a TSV, two parallel files, or a TOML configuration"
        )
    tally, checker = Tally(), Checker()
    sample: list[Any] = []
    pairs = PairFiles.from_paths(files, form=Form(columns=options.columns))
    for pair in pairs.read(tally):
        checker.add(pair)
        if len(sample) < SAMPLE:
            sample.append(pair)
    report = checker.report()
    say(f"{pairs.name}: {report.pairs:,} pairs of {report.sources:,} sources")
    say(f"  {'; '.join(pairs.sniffed.reasons)}")
    for name, side in (("source", report.source), ("target", report.target)):
        say(
            f"  {name}: {side.characters.mean:.0f} characters on average, "
            f"{side.characters.longest:,} at most; {len(side.alphabet)} different ones"
        )
    for line in [*tally.summary(), *(str(finding) for finding in report.findings)][:8]:
        say(f"  {line}")
    recipe = choose(report, sample, options.minutes)
    other_end = options.steps is not None or options.epochs is not None
    for choice in recipe.choices:
        if not (other_end and "minutes" in choice.table.get("training", {})):
            say(f"  {choice.what}: {choice.reason}")
    table = recipe.table()
    table["data"] = {"train": files, "valid": options.valid, "test": options.test, "columns": options.columns}
    return table


def _with_flags(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Flags over what the file or the recipe says."""

    def chosen(*names: str) -> dict[str, Any]:
        return {name: getattr(options, name) for name in names if getattr(options, name) is not None}

    result, ends = {**table, **chosen("seed", "threads")}, ("minutes", "steps", "epochs")
    given = chosen(*ends)
    if given:
        kept = {k: v for k, v in result.get("training", {}).items() if k not in ends}
        result["training"] = {**kept, **given}
    return result


def _folder(files: list[str]) -> str:
    name = os.path.basename(files[0]).split(".")[0] or "run"
    return os.path.join("runs", name)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _silent(text: str) -> None:
    """For --quiet."""
