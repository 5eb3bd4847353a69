"""`seqwright look`: trace one text through a model, or play back its training."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seqwright.commands import members

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.lens.trace.document import Trace
    from seqwright.lens.trace.history import LearningHistory


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="a source; separate its fields with tabs")
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help="page.html to open in a browser, or x.json for the trace (--against, --learning: a list)",
    )
    parser.add_argument("--json", action="store_true", help="print the trace (docs/trace.md) as JSON")
    parser.add_argument(
        "--beam", type=int, metavar="N", help="beam size (default: that of the run; 1 is greedy)"
    )
    parser.add_argument("--reference", metavar="TEXT", help="the expected output, to score as well")
    members.argument(parser)
    parser.add_argument("--against", metavar="RUN2", help="a second model to compare with")
    parser.add_argument(
        "--learning",
        action="store_true",
        help="play the training back for TEXT, a source that it traced (default: the first one)",
    )


@dataclass(frozen=True)
class Traces:
    """The traces of one text in one model, or in two."""

    traces: tuple[Trace, ...]

    def page(self) -> str:
        from seqwright.lens.page import render

        return render([trace.to_json() for trace in self.traces])

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.traces))


def run(options: argparse.Namespace) -> None:
    from seqwright.lens.trace.history import read_learning
    from seqwright.runs.folder import check_order

    _check(options)
    path = _output_path(options.output)
    check_order(options.folder, options.text or "")
    found: Traces | LearningHistory
    if options.learning:
        found = read_learning(options.folder, options.text)
    else:
        folders = [folder for folder in (options.folder, options.against) if folder is not None]
        found = Traces(tuple(_trace(folder, options) for folder in folders))
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
    """Refuse contradictory options before anything is loaded."""
    from seqwright.errors import ConfigError

    if not options.learning:
        if options.text is None:
            raise ConfigError("TEXT is missing; pass a text, or --learning to play the training back")
        return
    excluded = {
        "--beam": options.beam,
        "--reference": options.reference,
        "--against": options.against,
        "--member": options.member,
    }
    if given := [name for name, value in excluded.items() if value is not None]:
        raise ConfigError(
            f"{' and '.join(given)} cannot be combined with --learning, which shows stored traces; "
            "omit one of them"
        )


def _output_path(output: str | None) -> Path | None:
    """The path to write to, checked before the work starts."""
    from pathlib import Path

    from seqwright.errors import ConfigError
    from seqwright.files import check_place

    if output is None:
        return None
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ConfigError(f"-o is {output!r}; it must end in .html for a page or in .json for the trace")
    check_place(path)
    return path


def _trace(folder: str, options: argparse.Namespace) -> Trace:
    from seqwright.prediction.predictor import load

    model, member = load(folder), options.member or 1
    trace = model.look(
        model.task.from_line(options.text), beam=options.beam, reference=options.reference, member=member
    )
    members.note_member(folder, model, member)
    return trace


def _json(found: Traces | LearningHistory, options: argparse.Namespace) -> bytes:
    """The trace, or a list of traces with --learning and --against."""
    from seqwright.files import encode_json

    documents = [trace.to_json() for trace in found.traces]
    return encode_json(documents if options.learning or options.against is not None else documents[0])


def _write(path: Path, content: bytes) -> None:
    from seqwright.files import atomic_file

    with atomic_file(path) as file:
        file.write(content)
    print(f"{path}: {len(content):,} bytes", file=sys.stderr)
