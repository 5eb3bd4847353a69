"""`seqwright doctor`: what is wrong with files of pairs, and a copy that is mended."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description} It leaves with 0 if it could read them, whatever it found."
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="FILE | data.key=value",
        help="files of pairs, or a source and a target file; options of reading, as for training",
    )
    parser.add_argument("--test", action="append", default=[], metavar="F", help="pairs to be held out")
    parser.add_argument(
        "--columns", metavar="1,3:2", help="columns of the source, a colon, column of the target"
    )
    parser.add_argument("--encoding", metavar="NAME", help="of the files (default: utf-8)")
    parser.add_argument("--fix", metavar="OUT", help="write a mended copy, and OUT.removed.tsv beside it")
    parser.add_argument(
        "--drop", default="", metavar="copies,conflicts", help="with --fix: leave these out, too"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> None:
    from seqwright.data.checks.doctor import examine

    paths, changes = _apart(options)
    data = _data(changes)
    drop = _drop(options)
    found = examine(paths, data, options.test)
    if not options.json:
        print(*found.lines(), sep="\n", flush=True)
    mended = _mend(options.fix, found, drop) if options.fix is not None else None
    errors = _errors(found, mended, options.test, changes)
    following = _next(options.test, found, mended, errors, paths, changes)
    command = shlex.join(["seqwright", *following]) if following else None
    if options.json:
        print(json.dumps({**found.to_json(), "fixed": _as_json(mended, errors), "next": command}))
        return
    print(*_told(mended, errors), f"next: {command or _before_that(found)}", sep="\n")


def _apart(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Files, and options of reading as key=value."""
    from seqwright.data.readers.columns import parse_columns
    from seqwright.errors import ConfigError

    changes = [text for text in options.inputs if "=" in text and not os.path.exists(text)]
    paths = [text for text in options.inputs if text not in changes]
    if not paths:
        raise ConfigError("no file of pairs was named; give one, or a source and a target file")
    for text in changes:
        if not text.startswith("data."):
            raise ConfigError(f"{text!r} is no option of reading; those are data.encoding=... and its kin")
    if options.columns is not None:
        parse_columns(options.columns)  # a lone number would be no text as key=value
    flags = {"columns": options.columns, "encoding": options.encoding}
    return paths, [*changes, *(f"data.{key}={value}" for key, value in flags.items() if value is not None)]


def _data(changes: list[str]) -> Any:
    """The options of reading, checked as those of a training are."""
    from seqwright.config import override, parse

    return parse(override({"training": {"steps": 1}}, changes)).data  # one without an end is refused


def _drop(options: argparse.Namespace) -> list[str]:
    from seqwright.config.registry import unknown
    from seqwright.data.checks.repair import DROPS
    from seqwright.errors import ConfigError

    names = [name.strip() for name in options.drop.split(",") if name.strip()]
    for name in names:
        if name not in DROPS:
            raise ConfigError(unknown("kind of pairs to drop", name, list(DROPS)))
    if names and options.fix is None:
        raise ConfigError(f"--drop {options.drop} changes the copy that --fix writes; give --fix OUT, too")
    return names


def _mend(copy: str, found: Any, drop: list[str]) -> Any:
    from pathlib import Path

    from seqwright.data.checks.repair import mend
    from seqwright.errors import InputError

    refused = {
        "bad_bytes": "no copy is written of bytes that are not text",
        "quoted": "no copy is written without rows that fit if quotes enclose cells",
    }
    for each in found.findings:
        if each.name in refused and each.severity == "error":
            raise InputError(f"{each.places[0]}: {refused[each.name]}; {each.way_out}")
    held_out = [found.held_out] if found.held_out is not None else []
    return mend(found.files, Path(copy), held_out=held_out, drop=drop)


def _errors(found: Any, mended: Any, tests: list[str], changes: list[str]) -> list[Any]:
    """What training would stop at: in the copy, if there is one. Only one of few sources can have any."""
    from dataclasses import replace

    from seqwright.data.checks.doctor import examine
    from seqwright.data.split import ENOUGH

    if mended is not None and min(mended.kept, found.report.sources) >= ENOUGH:
        return []
    if mended is not None:
        data = _data(_for_copy(mended, changes))
        found = examine([str(mended.copy)], replace(data, test=(*data.test, *tests)))
    return [each for each in found.findings if each.severity == "error"]


def _told(mended: Any, errors: list[Any]) -> list[str]:
    if mended is None:
        return []
    kept = f"{mended.copy} has {mended.kept:,} of {mended.rows:,} rows"
    kept += (
        f"; {mended.listed} has what went or changed:" if mended.remedies else ", all of them as they were"
    )
    remedies = (f"  {count:,} {remedy}" for remedy, count in mended.remedies.most_common())
    return [kept, *remedies, *(f"{mended.copy}: {each}" for each in errors)]


def _as_json(mended: Any, errors: list[Any]) -> dict[str, Any] | None:
    if mended is None:
        return None
    return {
        "copy": str(mended.copy),
        "listed": str(mended.listed),
        "rows": mended.rows,
        "kept": mended.kept,
        "remedies": dict(mended.remedies),
        "options": list(mended.options),
        "errors": [each.to_json() for each in errors],
    }


def _next(
    tests: list[str], found: Any, mended: Any, errors: list[Any], paths: list[str], changes: list[str]
) -> list[str] | None:
    """The command that is likely to be wanted now; none if it would stop."""
    from seqwright.data.checks.repair import MENDED

    held_out = [part for path in tests for part in ("--test", path)]
    if mended is not None:
        return None if errors else ["train", str(mended.copy), *_for_copy(mended, changes), *held_out]
    if _is_pipe(found):
        return None
    if found.options:
        return ["doctor", *paths, *changes, *found.options, *held_out]
    if any(each.name not in MENDED for each in errors):
        return None
    if any(each.name in MENDED and each.severity != "note" for each in found.findings):
        copy = paths[0].removesuffix(".tsv") + ".clean.tsv"
        return ["doctor", *paths, *changes, *held_out, "--fix", copy]
    return ["train", *paths, *changes, *held_out]


def _for_copy(mended: Any, changes: list[str]) -> list[str]:
    """Its options: those of its own form, and of what was asked all that is not about the form of a file."""
    lasting = ("data.max_length", "data.held_out", "data.valid", "data.test")
    return [*mended.options, *(text for text in changes if text.partition("=")[0].strip() in lasting)]


def _is_pipe(found: Any) -> bool:
    return any(file.once for file in (*found.files.inputs, *found.files.targets))


def _before_that(found: Any) -> str:
    """What comes before any command."""
    if _is_pipe(found):
        return "save it to a file, which training can read again and again"
    return "do as the errors say, and look again"
