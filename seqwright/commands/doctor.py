"""`seqwright doctor`: report the problems of data files, and write a repaired copy."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqwright.config import DataConfig
    from seqwright.data.checks.doctor import DoctorReport
    from seqwright.data.checks.findings import Finding
    from seqwright.data.checks.repair import RepairResult


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description} The exit code is 0 if the files can be read."
    add = parser.add_argument
    files = "Data files, or a source file and a target file; key=value sets an option, as for training."
    add("inputs", nargs="+", metavar="FILE | data.key=value", help=files)
    add("--task", metavar="NAME", help="Kind of task (default: detected from the files).")
    add(
        "--test",
        action="append",
        default=[],
        metavar="F",
        help="Test data, to find examples that are also in the other files.",
    )
    add("--columns", metavar="1,3:2", help="Source columns, a colon, target column.")
    add("--field", metavar="NAME", help="Field of the tags in CoNLL-U: upos, xpos, deprel …")
    add("--encoding", metavar="NAME", help="Encoding of the files (default: utf-8).")
    add(
        "--fix",
        metavar="OUT",
        help="Write a repaired copy to OUT, and the changed or removed rows to OUT.removed.tsv.",
    )
    add("--drop", default="", metavar="copies,conflicts", help="With --fix: also remove these pairs.")
    add("--json", action="store_true", help="Print one JSON document.")


def run(options: argparse.Namespace) -> None:
    from seqwright.data.checks.doctor import diagnose
    from seqwright.data.corpus import task_class
    from seqwright.data.glance import recognise
    from seqwright.data.readers.files import Input
    from seqwright.data.readers.images import tables_and_home
    from seqwright.data.split import parts_in
    from seqwright.data.task import check_field
    from seqwright.errors import InputError
    from seqwright.runs.folder import Run

    paths, changes = _paths_and_changes(options)
    for path in filter(Run.exists, paths):
        raise InputError(f"{path} is a run folder, not data; check it with: seqwright verify {path}")
    if len(paths) == 1 and (parts := parts_in(paths[0])):
        paths, options.test = parts["train"], options.test or parts.get("test", [])
    if len(paths) > 1 and (named := tables_and_home(paths, _data_config(changes))):
        paths, changes = named[0], [*changes, f"data.images={named[1]}"]
    data, drop, pipe = _data_config(changes), _drop(options), any(Input(path).single_pass for path in paths)
    task = recognise(paths, data, "text_to_text").task if options.task is None else options.task
    check_field(task, data.field)
    found = diagnose(paths, data, options.test, task_class(task))
    if not options.json:
        print(*found.lines(), sep="\n", flush=True)
    result = _repair(options.fix, found, drop) if options.fix is not None else None
    errors = _remaining_errors(found, result, options.test, changes)
    following = None if pipe else _next_command(options, found, result, errors, paths, changes)
    command = shlex.join(["seqwright", *following]) if following else None
    if options.json:
        fixed = result and {**vars(result), "errors": [each.to_json() for each in errors]}
        print(json.dumps({**found.to_json(), "fixed": fixed, "next": command}, default=str))
        return
    if result is not None:
        kept = f"{result.copy} has {result.kept:,} of {result.rows:,} rows"
        print(kept + (f"; {result.listed} lists the changes:" if result.remedies else ", all unchanged"))
        for remedy, count in result.remedies.most_common():
            print(f"  {count:,} {remedy}")
        for each in errors:
            print(f"{result.copy}: {each.line()}")
    way_out = "fix the errors, and run the doctor again"
    if pipe:
        way_out = "save the input to a file, which training can read several times"
    print(f"next: {command or way_out}")


def _paths_and_changes(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the files, and the reading options as key=value."""
    from seqwright.data.readers.columns import parse_columns
    from seqwright.errors import ConfigError

    changes = [text for text in options.inputs if "=" in text and not os.path.exists(text)]
    paths = [text for text in options.inputs if text not in changes]
    if not paths:
        raise ConfigError("no file of pairs; name one, or a source and a target file")
    for text in changes:
        if not text.startswith("data."):
            raise ConfigError(f"{text!r} is not a reading option, such as data.encoding=...")
    if options.columns is not None:
        parse_columns(options.columns)  # key=value would turn a single number into an integer
    field = options.field
    if field is not None and field.isdecimal():
        field = f'"{field}"'  # the number of a column; key=value would turn it into an integer, too
    flags = {"columns": options.columns, "field": field, "encoding": options.encoding}
    return paths, [*changes, *(f"data.{key}={value}" for key, value in flags.items() if value is not None)]


def _data_config(changes: list[str]) -> DataConfig:
    """Return the reading options, validated like those of a training run."""
    from seqwright.config import override, parse

    return parse(override({"training": {"steps": 1}}, changes)).data  # a run needs an end


def _drop(options: argparse.Namespace) -> list[str]:
    from seqwright.config.registry import unknown
    from seqwright.data.checks.repair import DROPS
    from seqwright.errors import ConfigError

    names = [name.strip() for name in options.drop.split(",") if name.strip()]
    for name in names:
        if name not in DROPS:
            raise ConfigError(unknown("kind of pairs to drop", name, list(DROPS)))
    if names and options.fix is None:
        raise ConfigError(f"--drop {options.drop} changes the copy that --fix writes; pass --fix OUT, too")
    return names


def _repair(copy: str, found: DoctorReport, drop: list[str]) -> RepairResult:
    from pathlib import Path

    from seqwright.data.checks.repair import repair
    from seqwright.data.readers.pairs import PairFiles
    from seqwright.errors import InputError

    refused = {"bad_bytes": "of bytes that cannot be decoded", "quoted": "without rows that quotes would fit"}
    for each in found.findings:
        if each.name in refused and each.severity == "error":
            raise InputError(f"{each.places[0]}: no copy is written {refused[each.name]}; {each.way_out}")
    if not isinstance(found.files, PairFiles):
        raise InputError(f"{found.files.name} has no pairs, and only pairs are repaired; leave out --fix")
    held_out = [found.held_out] if isinstance(found.held_out, PairFiles) else []
    return repair(found.files, Path(copy), held_out=held_out, drop=drop)


def _remaining_errors(
    found: DoctorReport, result: RepairResult | None, tests: list[str], changes: list[str]
) -> list[Finding]:
    """Return the errors that would stop training: those of the copy, if there is one."""
    from dataclasses import replace

    from seqwright.data.checks.doctor import diagnose
    from seqwright.data.split import ENOUGH

    if result is not None:
        if min(result.kept, found.statistics.distinct) >= ENOUGH:  # only a small copy can have errors
            return []
        data = _data_config(_copy_options(result, changes))
        found = diagnose([str(result.copy)], replace(data, test=(*data.test, *tests)), task=found.task)
    return [each for each in found.findings if each.severity == "error"]


def _next_command(
    options: argparse.Namespace,
    found: DoctorReport,
    result: RepairResult | None,
    errors: list[Finding],
    paths: list[str],
    changes: list[str],
) -> list[str] | None:
    """Return the likely next command, or None if it would stop."""
    from seqwright.data.checks.repair import REPAIRED

    flags = [] if options.task is None else ["--task", options.task]
    flags += [part for path in options.test for part in ("--test", path)]
    if result is not None:
        return None if errors else ["train", str(result.copy), *_copy_options(result, changes), *flags]
    if found.options:
        return ["doctor", *paths, *changes, *found.options, *flags]
    if any(each.name not in REPAIRED for each in errors):
        return None
    serious = {each.name for each in found.findings if each.severity != "note"}
    if found.repairable and serious & REPAIRED:
        copy = paths[0].removesuffix(".tsv") + ".clean.tsv"
        return ["doctor", *paths, *changes, *flags, "--fix", copy]
    return ["train", *paths, *changes, *flags]


def _copy_options(result: RepairResult, changes: list[str]) -> list[str]:
    """Return the options to read the copy, and those of the user that do not concern the format."""
    lasting = ("data.max_length", "data.held_out", "data.valid", "data.test")
    return [*result.options, *(text for text in changes if text.partition("=")[0].strip() in lasting)]
