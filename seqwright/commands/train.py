"""`seqwright train`: from a file of pairs, or a configuration, to a run folder."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

FLAGS = {  # and where in a configuration they stand
    "": ("seed", "threads"),
    "data": ("valid", "test", "columns"),
    "training": ("minutes", "steps", "epochs"),
}


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
    parser.add_argument("--plan", action="store_true", help="say what would be done and what it takes, stop")
    parser.add_argument("--print-config", action="store_true", help="print the whole configuration and stop")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parser.add_argument("--tensorboard", metavar="DIR", help="also log there for TensorBoard")


def run(options: argparse.Namespace) -> int:
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    from pathlib import Path

    from seqwright.config import to_toml
    from seqwright.pipeline import design, folder_for, from_file

    files = [text for text in options.inputs if "=" not in text or os.path.exists(text)]
    changes = [text for text in options.inputs if text not in files]
    _refuse_what_clashes(files, changes, options)
    written = len(files) == 1 and files[0].endswith(".toml")
    table = from_file(files[0]) if written else {"data": {"train": files}}
    folder = Path(options.out) if options.out else folder_for(files[0] if files else "")
    designed = design(with_flags(table, options), changes, folder=folder, by_recipe=not written)
    if options.print_config:
        print(to_toml(designed.config.to_dict()), end="")
        return 0
    if options.plan:
        _plan(designed, folder)
        return 0
    console = _console(options)
    console.lines(designed.lines())
    return _train(designed, folder, options, console)


def _refuse_what_clashes(files: list[str], changes: list[str], options: argparse.Namespace) -> None:
    """A configuration among other files, and flags that a key=value contradicts."""
    from seqwright.errors import ConfigError

    flags = {f"{table}.{name}".strip("."): name for table, names in FLAGS.items() for name in names}
    problems = [
        f"--{name} and {change} are about the same; give one of them"
        for change in changes
        if (name := flags.get(change.partition("=")[0].strip())) and getattr(options, name) not in (None, [])
    ]
    if len(files) > 1 and (written := [name for name in files if name.endswith(".toml")]):
        problems.append(
            f"{written[0]} is a configuration, which names its pairs itself ([data] train); give it alone"
        )
    if problems:
        raise ConfigError("; ".join(problems))


def with_flags(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Flags over what the file says."""
    from seqwright.pipeline import merged

    def given(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(options, name) for name in names if getattr(options, name) not in (None, [])}

    tables = {name: found for name, flags in FLAGS.items() if (found := given(flags))}
    return merged(table, {**tables.pop("", {}), **tables})


def _plan(designed: Any, folder: Any) -> None:
    """Here the plan is the product, and goes where products go."""
    from seqwright.training.console import Console
    from seqwright.training.run import existing_run, plan

    existing_run(designed.config, folder)  # what the training would refuse
    designed.check_parts()
    console = Console(sys.stdout)
    console.lines(designed.lines())
    console.announce(plan(designed.config))


def _train(designed: Any, folder: Any, options: argparse.Namespace, console: Any) -> int:
    from pathlib import Path

    from seqwright.pipeline import run_design
    from seqwright.training.interrupt import Interrupted

    listeners: list[Any] = []
    if options.tensorboard is not None:
        from seqwright.training.tensorboard import TensorBoard

        listeners.append(TensorBoard(Path(options.tensorboard)))
    try:
        run_design(designed, folder, console, listeners)
    except Interrupted as left:
        console.line(f"stopped by {left}; the same command goes on from here")
        return left.exit_code
    except KeyboardInterrupt:  # in the final test: what was trained is safe
        console.line("stopped before the final test was done; the same command makes it")
        raise
    return 0


def _console(options: argparse.Namespace) -> Any:
    from seqwright.training.console import Console

    return Console(None if options.quiet else sys.stderr)
