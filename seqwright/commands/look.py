"""`seqwright look`: one text, and everything that happens inside a model on the way to its output; or how a
model learned to say it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqwright.commands import members

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.lens.trace.document import Trace
    from seqwright.lens.trace.history import Learning


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="a source; its fields, if it has several, between tabs"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help="page.html, to be opened in a browser; or x.json: the trace, or a list (--against, --learning)",
    )
    parser.add_argument("--json", action="store_true", help="print the trace (docs/trace.md) as JSON")
    parser.add_argument(
        "--beam", type=int, metavar="N", help="width of the beam (default: the run's); 1 is greedy"
    )
    parser.add_argument("--reference", metavar="TEXT", help="what should be said; it is scored, too")
    members.argument(parser)
    parser.add_argument("--against", metavar="RUN2", help="a second model to look at beside the first")
    parser.add_argument(
        "--learning",
        action="store_true",
        help="play the training back with a source that it was watched by: TEXT, or the first of them",
    )


@dataclass(frozen=True)
class Looks:
    """At one text in one model, or in two."""

    traces: tuple[Trace, ...]

    def page(self) -> str:
        from seqwright.lens.page import render

        return render([trace.to_json() for trace in self.traces])

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.traces))


def run(options: argparse.Namespace) -> None:
    from seqwright.runs.folder import check_order

    _check(options)
    path = _page_or_json(options.output)
    check_order(options.folder, options.text or "")
    found = _learning(options) if options.learning else _looks(options)
    if path is not None:
        as_json = path.suffix.lower() == ".json"
        _write(path, _json(found, options) if as_json else found.page().encode("utf-8"))
    if options.json:
        sys.stdout.flush()
        sys.stdout.buffer.write(_json(found, options))
        sys.stdout.buffer.flush()
    elif path is None:
        print(found)


def _check(options: argparse.Namespace) -> None:
    """What was asked for fits together; found before anything is loaded."""
    from seqwright.errors import ConfigError

    if not options.learning:
        if options.text is None:
            raise ConfigError("there is no TEXT to look at; give one, or --learning to watch the run learn")
        return
    asked = {"--beam": options.beam, "--reference": options.reference, "--against": options.against}
    asked["--member"] = options.member
    if found := [name for name, value in asked.items() if value is not None]:
        raise ConfigError(
            f"{' and '.join(found)} cannot be had with --learning, which shows what the training kept; "
            "leave one of them out"
        )


def _page_or_json(output: str | None) -> Path | None:
    """Where to write; checked before the work begins."""
    from pathlib import Path

    from seqwright.errors import ConfigError
    from seqwright.files import check_place

    if output is None:
        return None
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ConfigError(f"-o is {output!r}; end it in .html for a page, or in .json for the trace")
    check_place(path)
    return path


def _looks(options: argparse.Namespace) -> Looks:
    folders = [folder for folder in (options.folder, options.against) if folder is not None]
    return Looks(tuple(_look(folder, options) for folder in folders))


def _look(folder: str, options: argparse.Namespace) -> Trace:
    import torch

    from seqwright.prediction.predictor import load

    torch.set_num_threads(1)  # for one text, more of them wait for each other, long where other programs run
    model, member = load(folder), options.member or 1
    trace = model.look(
        model.task.from_line(options.text), beam=options.beam, reference=options.reference, member=member
    )
    members.note_member(folder, model, member)
    return trace


def _learning(options: argparse.Namespace) -> Learning:
    from seqwright.lens.trace.history import read_learning

    return read_learning(options.folder, options.text)


def _json(found: Looks | Learning, options: argparse.Namespace) -> bytes:
    """One document: the trace, or a list where there may be several."""
    from seqwright.files import encode_json

    documents = [trace.to_json() for trace in found.traces]
    return encode_json(documents if options.learning or options.against is not None else documents[0])


def _write(path: Path, content: bytes) -> None:
    from seqwright.files import atomic_file

    with atomic_file(path) as file:
        file.write(content)
    print(f"{path}: {len(content):,} bytes", file=sys.stderr)
