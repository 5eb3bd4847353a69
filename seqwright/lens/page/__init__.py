"""The page that shows traces: one HTML file that needs no network, no server and no library."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqwright.errors import InputError
from seqwright.lens.page.bundle import bundle

HOME = Path(__file__).parent
FORMAT = 1  # of traces: docs/trace.md
PLACE = re.compile(r"\{\{(\w+)\}\}")


def render(
    traces: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    learning: Sequence[Mapping[str, float]] = (),
) -> str:
    """A page about one trace, or about several: two can be compared, and traces of checkpoints played back.

    title: of the window; the text of the first trace if none is given.
    learning: {"step", "loss"} of the training, drawn under the traces of its checkpoints.
    The same arguments give the same bytes.
    """
    if not traces:
        raise InputError("a page shows at least one trace, but there is none; make one with `seqwright look`")
    if other := {trace.get("format") for trace in traces} - {FORMAT}:
        raise InputError(
            f"a trace has the format {other.pop()!r}, but this version shows format {FORMAT}; "
            "make it again with `seqwright look`"
        )
    parts = {
        "title": html.escape(_writable(title or str(traces[0]["text"]))),
        "style": _read("page.css"),
        "data": in_script({"title": title, "traces": list(traces), "learning": list(learning)}),
        "script": bundle(HOME, "main"),
    }
    return PLACE.sub(lambda found: parts[found[1]], _read("page.html"))


def in_script(value: object) -> str:
    """JSON that means the same inside a <script>, where `<` could end or change it. Only ASCII is left."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _writable(text: str) -> str:
    """Half of a pair of surrogates has no bytes in UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _read(name: str) -> str:
    return (HOME / name).read_text(encoding="utf-8")
