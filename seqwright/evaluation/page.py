"""Evaluations and comparisons as HTML tables for notebooks, with every text escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seqwright.evaluation.wording import glyph, percent

if TYPE_CHECKING:
    from seqwright.evaluation.comparison import Compared
    from seqwright.evaluation.evaluate import Evaluation

SHOWN = 10  # confusions


def evaluation_html(evaluation: Evaluation) -> str:
    names, scores = [evaluation.label(name) for name in evaluation.metrics], []
    for name, each, interval in zip(names, evaluation.measured, evaluation.intervals, strict=True):
        baseline = f"{evaluation.baseline.get(each.metric.name, math.nan):.2f}".replace("nan", "–")
        ends = f"{interval.low:.2f}–{interval.high:.2f}"
        scores.append((name, f"{each.value():.2f}", ends, baseline, each.signature))
    level = f"{percent(evaluation.judging.level)} interval"
    parts = [table(("", "score", level, "baseline", "signature"), scores)]
    for title, buckets in evaluation.buckets.items():
        rows = []
        for bucket in buckets:
            values = (f"{each.value(bucket.items):.2f}" for each in evaluation.measured)
            rows.append((bucket.name, str(len(bucket.items)), *values))
        parts.append(table((title, "items", *names), rows))
    confused = [(glyph(e.expected), glyph(e.output), str(e.count)) for e in evaluation.confusions[:SHOWN]]
    parts.append(table(("expected", "output", "count"), confused))
    parts.append(table(("most wrong", "expected", "output"), map(evaluation.row, evaluation.worst)))
    return _titled(str(evaluation).splitlines()[0], [*evaluation.findings], parts)


def comparison_html(compared: Compared) -> str:
    first, second = compared.names
    if not compared.comparisons:
        return _titled(compared.verdict, compared.findings, ())
    scores = []
    for e in compared.comparisons:
        values = (f"{e.first.value:.2f}", f"{e.second.value:.2f}", f"{e.difference:+.2f}")
        ends = f"{e.interval.low:+.2f} to {e.interval.high:+.2f}"
        scores.append((compared.first.label(e.first.name), *values, ends, f"{e.p_value:.3f}"))
    level = f"{percent(compared.first.judging.level)} interval"
    parts = [table(("", first, second, "difference", level, "p"), scores)]
    counts = (f"{compared.wins:,}", f"{compared.losses:,}", f"{compared.ties:,}")
    parts.append(table((f"{second} closer to a reference", f"{first} closer", "equal"), [counts]))
    common = compared.confusions[:SHOWN]
    confused = [(glyph(e.expected), glyph(e.output), str(e.first), str(e.second)) for e in common]
    parts.append(table(("expected", "output", first, second), confused))
    parts.append(table(("most different", "expected", first, second), map(compared.row, compared.examples)))
    return _titled(compared.verdict, compared.findings, parts)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; an empty string without rows."""
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{_cells('th', titles)}</tr>{body}</table>" if body else ""


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)


def _titled(title: str, findings: Iterable[str], parts: Iterable[str]) -> str:
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in (title, *findings))
    return f"<div>{lines}{''.join(parts)}</div>"
