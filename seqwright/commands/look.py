"""`seqwright look`: one text, and everything that happens inside a model on the way to its output."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.lens.trace import Trace


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument("text", metavar="TEXT", help="a source; its fields, if it has several, between tabs")
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help="page.html, to be opened in a browser; or x.json, the trace (two of them with --against)",
    )
    parser.add_argument("--json", action="store_true", help="print the trace (docs/trace.md) as JSON")
    parser.add_argument("--beam", type=int, metavar="N", help="width of the beam; 1 is greedy")
    parser.add_argument("--reference", metavar="TEXT", help="what should be said; it is scored, too")
    parser.add_argument("--against", metavar="RUN2", help="a second model to look at beside the first")


def run(options: argparse.Namespace) -> None:
    path = _page_or_json(options.output)
    traces = [_look(folder, options) for folder in (options.folder, options.against) if folder is not None]
    if path is not None:
        _write(path, traces)
        print(f"{path}: {path.stat().st_size:,} bytes", file=sys.stderr)
    if options.json:
        sys.stdout.flush()
        sys.stdout.buffer.write(_bytes(traces))
        sys.stdout.buffer.flush()
    elif path is None:
        print("\n\n".join(map(str, traces)))


def _page_or_json(output: str | None) -> Path | None:
    """Where to write; checked before the work begins."""
    from pathlib import Path

    from seqwright.errors import ConfigError

    if output is None:
        return None
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ConfigError(f"-o is {output!r}; end it in .html for a page, or in .json for the trace")
    return path


def _look(folder: str, options: argparse.Namespace) -> Trace:
    from seqwright.predictor import load
    from seqwright.sources import source_of_line

    model = load(folder)
    source = source_of_line(options.text, model.fields)
    return model.look(source, beam=options.beam, reference=options.reference)


def _write(path: Path, traces: list[Trace]) -> None:
    from seqwright.files import atomic_file

    with atomic_file(path) as file:
        file.write(_bytes(traces) if path.suffix.lower() == ".json" else _page(traces))


def _bytes(traces: list[Trace]) -> bytes:
    """One document: the trace, or a list of two."""
    from seqwright.files import encode_json

    documents = [trace.to_json() for trace in traces]
    return encode_json(documents[0] if len(documents) == 1 else documents)


def _page(traces: list[Trace]) -> bytes:
    from seqwright.lens.page import render

    return render([trace.to_json() for trace in traces]).encode("utf-8")
