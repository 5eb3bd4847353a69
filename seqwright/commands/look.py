"""`seqwright look`: trace one text through a model, or play back its training."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.lens.trace.base import TraceDocument
    from seqwright.prediction.predictor import Predictor


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="Run folder.")
    source = (
        "Input, with tabs between its fields, or an image file. Of a forecaster: a time, or a file of series "
        "(default: the last forecast)."
    )
    add("text", metavar="TEXT", nargs="?", help=source)
    output = "page.html to open in a browser, or x.json for the trace (--against, --learning: a list)."
    add("-o", "--output", metavar="F", help=output)
    add("--json", action="store_true", help="Print the trace (docs/trace.md) as JSON.")
    add("--beam", type=int, metavar="N", help="Beam size (default: the run's); 1 is greedy.")
    add("--reference", metavar="TEXT", help="The expected output, to score as well.")
    add("--member", type=int, metavar="N", help="Member of an ensemble (default: 1).")
    add("--against", metavar="RUN2", help="A second model to compare with.")
    learning = "Show how the output changed during training, for a TEXT that it traced (default: the first)."
    add("--learning", action="store_true", help=learning)


def run(options: argparse.Namespace) -> None:
    from seqwright.files import atomic_file, encode_json
    from seqwright.lens.page import render
    from seqwright.lens.trace.history import read_learning
    from seqwright.runs.folder import check_order

    path = _output_path(options)
    check_order(options.folder, options.text or "")
    history = read_learning(options.folder, options.text) if options.learning else None
    folders = [folder for folder in (options.folder, options.against) if folder is not None]
    traces = history.traces if history else [_trace(folder, options) for folder in folders]
    documents = [trace.to_json() for trace in traces]
    value = documents if history or len(folders) > 1 else documents[0]
    if path is not None:
        if path.suffix.lower() == ".json":
            content = encode_json(value)
        else:
            content = (history.page() if history else render(documents)).encode("utf-8")
        with atomic_file(path, follow=True) as file:
            file.write(content)
        print(f"{path}: {len(content):,} bytes", file=sys.stderr)
    if options.json:
        sys.stdout.flush()
        sys.stdout.buffer.write(encode_json(value))
        sys.stdout.buffer.flush()
    elif path is None:
        print(history or "\n\n".join(map(str, traces)))


def _output_path(options: argparse.Namespace) -> Path | None:
    """Refuse contradictory options before anything is loaded, and return the path to write to."""
    from pathlib import Path

    from seqwright.errors import ConfigError
    from seqwright.files import check_place

    names = ("beam", "reference", "against", "member") if options.learning else ()
    if given := [f"--{name}" for name in names if getattr(options, name) is not None]:
        raise ConfigError(f"{' and '.join(given)} cannot be combined with --learning; omit one of them")
    if options.output is None:
        return None
    path = Path(options.output)
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ConfigError(f"-o is {options.output!r}; it must end in .html for a page or .json for the trace")
    check_place(path)
    return path


def _trace(folder: str, options: argparse.Namespace) -> TraceDocument:
    from seqwright.prediction.predictor import load

    model, member = load(folder), options.member or 1
    source = _source(model, options.text)
    trace = model.look(source, beam=options.beam, reference=options.reference, member=member)
    note_member(folder, model, member)
    return trace


def _source(model: Predictor, text: str | None) -> Any:
    """Return the input to trace."""
    from pathlib import Path

    from seqwright.config import Config
    from seqwright.errors import ConfigError

    task, data = model.task, (model.config or Config()).data
    if task.usage.file != "whole":
        if text is None:
            raise ConfigError("TEXT is missing; pass a text, or --learning to play the training back")
        return task.from_line(text)
    if text is None or not Path(text).is_file():
        return task.looked_at(task.own_reader(data.train, data), text)
    return task.whole_inputs(task.own_reader((text,), data))[0]


def note_member(folder: str, model: Predictor, number: int) -> None:
    """Print which model of an ensemble is shown."""
    if model.members > 1:
        text = f"{folder} is an ensemble of {model.members} models; this is model {number} alone (--member)"
        print(f"seqwright: {text}", file=sys.stderr)
