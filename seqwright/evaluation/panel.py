"""Evaluations and comparisons for a terminal: at most 40 lines of at most 100 columns, without colour."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seqwright.data.text_display import pluralize
from seqwright.evaluation.wording import bar, fitted, glyph, percent

if TYPE_CHECKING:
    from seqwright.evaluation.buckets import Bucket
    from seqwright.evaluation.comparison import Compared, Contrast
    from seqwright.evaluation.evaluate import Evaluation
    from seqwright.evaluation.metrics import Metric
    from seqwright.evaluation.mistakes import Confusion

WIDTH, LINES = 100, 40
ROWS = 10  # of a table
WIDEST = 8  # columns of a table
NAME = 19  # width of the names on the left


def evaluation_text(evaluation: Evaluation) -> str:
    lines = [_headline(evaluation), "", *_scores(evaluation), "", *_baselines(evaluation)]
    lines += _tables(evaluation)
    buckets = _buckets(evaluation)
    lines += [*buckets, ""] if buckets else []
    confused = [f"{_change(each)} {each.count:,}" for each in evaluation.confusions[:12]]
    lines += _filled("expected → output, count: ", confused)
    end = [_speed(evaluation), *(f"! {finding}" for finding in evaluation.findings[:3])]
    titles = ("most wrong", "expected", "output")
    return _with_rows(lines, titles, _without_folder([*map(evaluation.row, evaluation.worst[:5])]), end)


def _without_folder(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Leave out the folder that all inputs have in common: of a long path the end is worth more."""
    common = os.path.commonprefix([source for source, *_ in rows])  # noqa: RUF071 - texts are not paths
    folder, slash, _ = common.rpartition("/")
    cut = len(folder + slash) if len(rows) > 1 else 0
    return [(source[cut:], expected, output) for source, expected, output in rows]


def comparison_text(compared: Compared) -> str:
    first, second = compared.names
    confused = [f"{_change(each)} {each.first:,}/{each.second:,}" for each in compared.confusions[:8]]
    lines = [
        _headline(compared.first),
        f"first   {first}",
        f"second  {second}",
        "",
        *textwrap.wrap(compared.verdict, WIDTH),
    ]
    end = [f"! {finding}" for finding in compared.findings[:3]]
    if not compared.comparisons:
        return "\n".join(fitted(line, WIDTH).rstrip() for line in (*lines, *end))
    lines += [
        "",
        *_differences(compared),
        f"closer to a reference: the second for {pluralize(compared.wins, 'item')}, the first for "
        f"{compared.losses:,}; {compared.ties:,} equal",
        "",
        *_paired_buckets(compared),
        "",
        *_filled("expected → output, count of first/second: ", confused),
    ]
    titles = ("most different", "expected", "first", "second")
    return _with_rows(lines, titles, map(compared.row, compared.examples[:6]), end)


def _headline(evaluation: Evaluation) -> str:
    counts = pluralize(len(evaluation.items), "item")
    if evaluation.pairs != len(evaluation.items):
        counts += f" ({pluralize(evaluation.pairs, 'example')})"
    how = f"beam {evaluation.beam}" if evaluation.beam else evaluation.judge.settings.get("context", "")
    return f"{evaluation.file or 'in-memory data'}: {counts}{', ' if how else ''}{how}"


def _scores(evaluation: Evaluation) -> list[str]:
    level = f"{percent(evaluation.judging.level)} range"
    names = [_metric(evaluation, each.metric) for each in evaluation.measured]
    width = max(map(len, names), default=NAME)
    lines = [f"{'':{width}} {'score':>6} {level:>11} {'baseline':>8}"]
    for name, each, interval in zip(names, evaluation.measured, evaluation.intervals, strict=True):
        decimals, baseline = each.metric.places(each.value()), evaluation.baseline.get(each.metric.name)
        ends = f"{interval.low:.{decimals}f}–{interval.high:.{decimals}f}"
        simple = "–" if baseline is None else f"{baseline:.{_finest(each.metric, baseline)}f}"
        figures = f"{each.value():6.{max(decimals, 2)}f} {ends:>11} {simple:>8}"
        lines.append(f"{name:{width}} {figures}  {each.signature}")
    return lines


def _baselines(evaluation: Evaluation) -> list[str]:
    """Return the scores of simpler methods below those of the model, a column for each metric."""
    if not evaluation.baselines:
        return []
    shown = [each.metric for each in evaluation.measured]
    lines = [f"{'':{NAME}} {' '.join(f'{fitted(metric.title, 9).strip():>9}' for metric in shown)}"]
    for name, scores in {"model": evaluation.metrics, **evaluation.baselines}.items():
        cells = (f"{(value := scores[metric.name]):9.{_finest(metric, value)}f}" for metric in shown)
        lines.append(f"{fitted(name.replace('_', ' '), NAME)} {' '.join(cells)}")
    return [*lines, ""]


def _finest(metric: Metric[Any], value: float) -> int:
    """Return the number of decimals in a table of scores."""
    return max(metric.places(value), 2)


def _tables(evaluation: Evaluation) -> list[str]:
    """Return the first rows of each table that is not too wide, with columns as wide as a score."""
    lines = []
    for found in (table for table in evaluation.tables.values() if len(table.headings) <= WIDEST):
        first, *others = found.headings
        lines.append(f"{first:{NAME}} {' '.join(f'{fitted(name, 9).strip():>9}' for name in others)}")
        for name, *cells in found.rows[:ROWS]:
            lines.append(f"{fitted(str(name), NAME)} {' '.join(f'{_cell(cell):>9}' for cell in cells)}")
        if len(found.rows) > ROWS:
            lines.append(f"… and {len(found.rows) - ROWS:,} more")
        lines.append("")
    return lines


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.1f}"


def _metric(evaluation: Evaluation, metric: Metric[Any]) -> str:
    """Return the name of a metric, with an arrow in the direction that is better."""
    shown = f"{evaluation.label(metric.name)} {metric.arrow}"
    return f"{shown:{NAME}}"


def _buckets(evaluation: Evaluation) -> list[str]:
    """Return the scores of the first metric by bucket."""
    each, lines = evaluation.measured[0], []
    for title, buckets in evaluation.buckets.items():
        lines.append(f"{evaluation.label(each.metric.name)} by {title}")
        values = [each.value(bucket.items) for bucket in buckets]
        most = max(*values, 1e-9, 100.0 if each.metric.better == "higher" else 0.0)
        for bucket, value in zip(buckets, values, strict=True):
            figures = f"{value:6.{_finest(each.metric, value)}f} {_count(bucket)}  {bar(value, most, 40)}"
            lines.append(f"  {bucket.name:>{NAME - 2}} {figures}")
    return lines


def _count(bucket: Bucket) -> str:
    return f"{len(bucket.items):7,} {'item ' if len(bucket.items) == 1 else 'items'}"


def _change(confusion: Confusion | Contrast) -> str:
    return f"{glyph(confusion.expected)} → {glyph(confusion.output)}"


def _speed(evaluation: Evaluation) -> str:
    speed = evaluation.speed
    rates = f"{speed.sentences_per_second:,.0f} items/s"
    if speed.tokens != speed.sentences:  # a label is not a token
        rates = f"{speed.tokens_per_second:,.0f} tokens/s, {rates}"
    latency = f"one at a time {speed.latency_ms(0.5):,.0f} ms (95 %: {speed.latency_ms(0.95):,.0f} ms)"
    memory = "" if speed.peak_memory_mb is None else f"; {speed.peak_memory_mb:,.0f} MB peak"
    threads = pluralize(speed.threads, "thread")
    if speed.latency_threads != speed.threads:
        threads += f" in batches, {speed.latency_threads} alone"
    return f"{rates}; {latency}{memory}; {threads}"


def _differences(compared: Compared) -> list[str]:
    level = f"{percent(compared.first.judging.level)} interval"
    lines = [f"{'':{NAME}} {'first':>7} {'second':>7}  {'difference':>10}  {level:>17}  {'p':>6}"]
    for each, (measured, _) in zip(compared.comparisons, compared.pairs, strict=True):
        ends = f"{each.interval.low:+.2f} to {each.interval.high:+.2f}"
        scores = f"{each.first.value:7.2f} {each.second.value:7.2f}  {each.difference:+10.2f}"
        name = fitted(_metric(compared.first, measured.metric), NAME)
        lines.append(f"{name} {scores}  {ends:>17}  {each.p_value:6.3f}")
    return lines


def _paired_buckets(compared: Compared) -> list[str]:
    one, other = compared.pairs[0]
    lines = []
    for title, buckets in compared.buckets.items():
        lines.append(f"{compared.first.label(one.metric.name)} by {title}")
        for bucket in buckets:
            left, right = one.value(bucket.items), other.value(bucket.items)
            scores = f"{left:7.2f} {right:7.2f}  {right - left:+10.2f}"
            lines.append(f"  {bucket.name:>{NAME - 2}} {scores}  {_count(bucket)}")
    return lines


def _filled(title: str, entries: Sequence[str]) -> list[str]:
    """Return a title, as many entries as fit on two lines, and an empty line; nothing without entries."""
    found = [title]
    for entry in entries:
        joint = "" if found[-1] == title else "   "
        if len(found[-1]) + len(joint) + len(entry) <= WIDTH:
            found[-1] += joint + entry
        elif len(found) < 2:
            found.append("  " + entry)
        else:
            break
    return [*found, ""] if entries else []


def _with_rows(
    lines: Sequence[str], titles: Sequence[str], rows: Iterable[Sequence[str]], end: Sequence[str]
) -> str:
    """Join the lines, a table of as many rows as there is room for, and the end."""
    shown = list(rows)[: max(LINES - len(lines) - len(end) - 2, 0)]
    width = (WIDTH - 2 * len(titles)) // len(titles)
    table = ["  ".join(fitted(cell, width) for cell in row) for row in (titles, *shown)]
    every = (*lines, *([*table, ""] if shown else []), *end)
    return "\n".join(fitted(line, WIDTH).rstrip() for line in every)
