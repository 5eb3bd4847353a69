"""`seqwright describe`: every option, with its type, default and range; or the configuration of a run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqwright.config.help import Topic


def arguments(parser: argparse.ArgumentParser) -> None:
    what = (
        "A table (training), key (training.tokens), part (position.rotary) or preset (tiny); default: all. "
        "For a run folder: its configuration."
    )
    parser.add_argument("what", nargs="?", default="", metavar="WHAT", help=what)
    parser.add_argument("--json", action="store_true", help="Print one JSON document.")


def run(options: argparse.Namespace) -> None:
    import json
    from dataclasses import asdict

    from seqwright.config import to_toml
    from seqwright.config.help import describe
    from seqwright.data.labels import LABELS, Labels
    from seqwright.runs.folder import Run

    if options.what and Run.exists(options.what):
        found = Run.open(options.what)
        if options.json:
            print(json.dumps(found.config, ensure_ascii=False))
            return
        print(to_toml(found.config).rstrip())
        labels = found.path(LABELS)
        if labels.exists() and (calibration := Labels.load(labels).calibration):
            print(f"\n# calibration of the probabilities: {calibration}")
        return
    topic = describe(options.what)
    if options.json:
        print(json.dumps(asdict(topic), ensure_ascii=False))
    else:
        print("\n".join(_lines(topic)).strip("\n"))


def _lines(topic: Topic) -> Iterator[str]:
    from seqwright.config import to_toml

    if topic.name:
        yield topic.name
    yield from _wrapped(topic.summary, 2)
    if topic.options:
        yield ""
    for option in topic.options:
        given = option.default is None
        facts = [option.type, option.range, "set by the model or the data" if given else ""]
        default = "" if given else f" = {option.default}"
        yield f"  {option.name}{default}  ({', '.join(filter(None, facts))})"
        yield from _wrapped(option.help, 6)
    for title, entries in topic.lists.items():
        yield ""
        yield from listed(title, entries)
    if topic.settings:
        yield "\n" + to_toml({"model": topic.settings}).rstrip()


def listed(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    """Yield a title and its entries: names in one column, their summaries wrapped in another."""
    yield title
    widest = max(map(len, entries))
    for name, summary in entries.items():
        first, *others = _wrapped(summary, widest + 4) or [""]
        yield f"  {name:{widest}}  {first.strip()}".rstrip()
        yield from others


def _wrapped(text: str, indent: int) -> list[str]:
    """Wrap each paragraph at the width of the terminal."""
    import shutil
    import textwrap

    width, space = max(shutil.get_terminal_size().columns, 60), " " * indent
    wrapped = (textwrap.wrap(line, width - indent) or [""] for line in text.split("\n") if text)
    return [(space + line).rstrip() for lines in wrapped for line in lines]
