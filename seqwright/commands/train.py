"""`seqwright train`: train a model on data files, or with a configuration, into a run folder."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

FLAGS = {  # flags by the table of the configuration that they belong to
    "": ("task", "seed", "threads"),
    "data": ("valid", "test", "columns", "field"),
    "training": ("minutes", "steps", "epochs"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    inputs = (
        "Data files or folders, a source file and a target file, or a TOML file; key=value sets an option."
    )
    parser.add_argument("inputs", nargs="+", metavar="FILE | key=value", help=inputs)
    parser.add_argument("--task", metavar="NAME", help="Kind of task (default: detected from the files).")
    parser.add_argument("--valid", action="append", default=[], metavar="F", help="Validation data.")
    parser.add_argument("--test", action="append", default=[], metavar="F", help="Test data (final score).")
    parser.add_argument("--out", metavar="DIR", help="Run folder (default: runs/ + name of the first file).")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--minutes", type=float, metavar="M", help="Training time in minutes.")
    end.add_argument("--steps", type=int, metavar="N", help="Number of training steps.")
    end.add_argument("--epochs", type=float, metavar="N", help="Number of passes over the training data.")
    parser.add_argument("--seed", type=int, metavar="N", help="Seed of all random numbers.")
    parser.add_argument("--threads", type=int, metavar="N", help="Number of CPU threads.")
    parser.add_argument("--columns", metavar="1,3:2", help="Source columns, a colon, target column.")
    parser.add_argument("--field", metavar="NAME", help="Field of the tags in CoNLL-U: upos, xpos, deprel …")
    parser.add_argument("--plan", action="store_true", help="Print the plan with time and memory, and exit.")
    parser.add_argument("--print-config", action="store_true", help="Print the full configuration and exit.")
    parser.add_argument("--quiet", action="store_true", help="Print only errors.")
    parser.add_argument("--tensorboard", metavar="DIR", help="Also write TensorBoard logs to this folder.")


def run(options: argparse.Namespace) -> None:
    from pathlib import Path

    from seqwright.config import to_toml
    from seqwright.pipeline import design, folder_for, from_file, run_design
    from seqwright.training.console import Console
    from seqwright.training.run import existing_run, plan

    files = [text for text in options.inputs if "=" not in text or os.path.exists(text)]
    changes = [text for text in options.inputs if text not in files]
    _check_conflicts(files, changes, options)
    is_config = len(files) == 1 and files[0].endswith(".toml")
    table = from_file(files[0]) if is_config else {"data": {"train": files}}
    start = next((text.removeprefix("start=") for text in changes if text.startswith("start=")), "")
    named = files[0] if files else f"{start.rstrip('/')}-corrected" if start else ""
    folder = Path(options.out) if options.out else folder_for(named)
    designed = design(with_flags(table, options), changes, folder=folder, by_recipe=not is_config)
    if options.print_config:
        print(to_toml(designed.config.to_dict()), end="")
        return
    if options.plan:
        existing_run(designed.config, folder)  # raises what training would raise
        designed.check_parts()
        console = Console(sys.stdout)
        console.lines(designed.lines())
        console.announce(plan(designed.config))
        return
    console = Console(None if options.quiet else sys.stderr)
    console.lines(designed.lines())
    listeners = []
    if options.tensorboard is not None:
        from seqwright.training.tensorboard import TensorBoard

        listeners.append(TensorBoard(Path(options.tensorboard)))
    try:
        run_design(designed, folder, console, listeners)
    except KeyboardInterrupt:  # during the final test; the trained model is saved
        console.line("stopped before the final test; run the same command again to complete it")
        raise


def _check_conflicts(files: list[str], changes: list[str], options: argparse.Namespace) -> None:
    """Raise if a flag and a key=value set the same option, or if a configuration is one of several files."""
    from seqwright.errors import ConfigError

    flags = {f"{table}.{name}".strip("."): name for table, names in FLAGS.items() for name in names}
    problems = [
        f"--{name} and {change} set the same option; give one of them"
        for change in changes
        if (name := flags.get(change.partition("=")[0].strip())) and getattr(options, name) not in (None, [])
    ]
    if len(files) > 1 and (configs := [name for name in files if name.endswith(".toml")]):
        problems.append(f"{configs[0]} is a configuration, which names its own data; give it alone")
    if problems:
        raise ConfigError("; ".join(problems))


def with_flags(table: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return a configuration table in which the flags override the file."""
    from seqwright.pipeline import merged

    flags: dict[str, Any] = {}
    for name, names in FLAGS.items():
        values = {flag: getattr(options, flag, None) for flag in names}
        given = {flag: value for flag, value in values.items() if value not in (None, [])}
        flags |= {name: given} if name and given else given
    return merged(table, flags)
