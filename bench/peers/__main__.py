"""The command line of `bench.peers`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bench.peers
from bench.contest import Entry, compete, in_precisions
from bench.peers import results
from bench.peers.environments import DEFAULT, TOOLKITS, install, missing, python_of
from bench.tables import put

PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks.md"
SHAPES = ("tiny", "base")
HUGGING_FACE, CTRANSLATE2 = "Hugging Face Marian", "CTranslate2"
NAMES = (*TOOLKITS, "hugging_face", "ctranslate2")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    if options.table:
        names = [*(toolkit.title for toolkit in TOOLKITS.values()), HUGGING_FACE]
        put(PAGE, "peers", results.tables(results.read(options.results), names))
    elif options.verb == "install":
        failures = install(options.names or TOOLKITS, options.envs)
        for name, reason in failures.items():
            print(f"{TOOLKITS[name].title} was not installed: {reason}", file=sys.stderr)
        sys.exit(1 if failures else 0)
    else:
        {"train": train, "decode": decode}[options.verb](options)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=bench.peers.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", nargs="?", choices=["install", "train", "decode"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--envs", type=Path, default=DEFAULT, help="folder of the environments: %(default)s")
    parser.add_argument("--data", help="folder of Multi30k (default: random ids of similar lengths)")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--batches", choices=list(results.BATCHES), default="own", help="batches to train on")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="JSON lines to append to")
    parser.add_argument("--table", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_intermixed_args(arguments)
    if not options.table and options.verb is None:
        parser.error("choose install, train, decode or --table")
    known = TOOLKITS if options.verb == "install" else NAMES
    for name in options.names:
        if name not in known:
            parser.error(f"{name!r} is not one of {', '.join(known)}")
    if options.verb == "train" and "ctranslate2" in options.names:
        parser.error("ctranslate2 decodes only")
    return options


def train(options: argparse.Namespace) -> None:
    from bench.peers.pairs import write_ids
    from bench.shapes import SHAPES as MEASURED

    shape = MEASURED[options.shape]
    with tempfile.TemporaryDirectory() as folder:
        ids = Path(folder, "ids.npz")
        write_ids(ids, options.data, shape.vocabulary)
        common = {
            "ids": str(ids),
            "shape": options.shape,
            "batches": options.batches,
            "seconds": options.seconds,
        }
        entries = [
            Entry(results.OURS, "bench.peers.drivers.seqwright:train", common),
            *_toolkits("train", common, options),
        ]
        if _selected("hugging_face", options):
            entries.append(Entry(HUGGING_FACE, "bench.peers.drivers.hugging_face:train", common))
        title = f"training, batches of {shape.tokens} tokens, {results.BATCHES[options.batches]}"
        data = "Multi30k" if options.data else "random ids"
        _run(entries, title, {"what": "train", "asked": options.batches, "data": data}, options)


def decode(options: argparse.Namespace) -> None:
    for beam, rows in results.SEARCHES:
        common = {"shape": options.shape, "rows": rows, "beam": beam, "seconds": options.seconds}
        entries = [
            Entry(results.OURS, "bench.decoding:ours", common),
            *_toolkits("decode", common, options),
        ]
        if _selected("hugging_face", options):
            entries.append(Entry(HUGGING_FACE, "bench.decoding:hugging_face", common))
        if _selected("ctranslate2", options):
            entries += in_precisions(CTRANSLATE2, "bench.decoding:ctranslate2", common)
        title = f"decoding, beam {beam}, {rows} at a time"
        _run(entries, title, {"what": "decode", "beam": beam, "rows": rows}, options)


def _selected(name: str, options: argparse.Namespace) -> bool:
    return not options.names or name in options.names


def _toolkits(verb: str, common: dict[str, Any], options: argparse.Namespace) -> list[Entry]:
    return [
        Entry(
            toolkit.title,
            f"bench.peers.drivers.{name}:{verb}",
            common,
            python=python_of(options.envs / name),
            failure=missing(name, options.envs),
        )
        for name, toolkit in TOOLKITS.items()
        if _selected(name, options)
    ]


def _run(entries: list[Entry], title: str, contest: dict[str, Any], options: argparse.Namespace) -> None:
    """Measure, print and save."""
    compete([entry for entry in entries if not entry.failure], options.rounds)
    contest |= {
        "shape": options.shape,
        "seconds": options.seconds,
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
    }
    records = results.records_of(contest, entries)
    print(f"{options.shape}: {title}; tokens per second")
    for record in records:
        print(results.summary(record))
    expected = records[0].get("parameters")
    for record in records:
        if record.get("parameters", expected) != expected:
            print(f"  {record['name']} has {record['parameters'] - expected:+,} parameters")
    print(flush=True)
    results.append(options.results, records)


if __name__ == "__main__":
    main()
