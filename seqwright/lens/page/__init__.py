"""The HTML page of one or more traces: one file, without network access, server or libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqwright.errors import InputError
from seqwright.files import strict
from seqwright.lens.page.bundle import bundle
from seqwright.lens.series.document import ForecastTrace
from seqwright.lens.trace.base import TraceDocument
from seqwright.lens.trace.document import Trace
from seqwright.runs.report.markup import escape

HOME = Path(__file__).parent


def render(
    traces: Sequence[Mapping[str, Any]], *, title: str = "", learning: Sequence[Mapping[str, float]] = ()
) -> str:
    """The page of one trace, or of several to compare or to play back as checkpoints of one training.

    title: by default the text of the first trace. learning: {"step", "loss"} of each validation. The same
    arguments give the same bytes.
    """
    if not traces:
        raise InputError("a page needs at least one trace; make one with `seqwright look`")
    forecasts = traces[0].get("what") == ForecastTrace.what
    kind: type[TraceDocument] = ForecastTrace if forecasts else Trace
    documents = [kind(trace).document for trace in traces]
    window = title or str(traces[0]["text"])
    parts = {
        "title": escape(window),
        "style": (HOME / "page.css").read_text(encoding="utf-8"),
        "data": in_script({"title": title, "traces": documents, "learning": list(learning)}),
        "script": bundle(HOME, "forecast_main" if forecasts else "main"),
    }
    page = (HOME / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)


def in_script(value: object) -> str:
    """ASCII JSON that is safe inside a <script>, where `<` could end it."""
    text = json.dumps(strict(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
