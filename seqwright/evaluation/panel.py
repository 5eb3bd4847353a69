"""Evaluations and comparisons for a terminal: at most 40 lines of at most 100 columns, without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seqwright.data.text_display import amount
from seqwright.evaluation.wording import bar, fitted, percent, symbol

if TYPE_CHECKING:
    from seqwright.evaluation.buckets import Bucket
    from seqwright.evaluation.comparison import Compared
    from seqwright.evaluation.evaluate import Evaluation
    from seqwright.evaluation.metrics import Metric
    from seqwright.evaluation.mistakes import Confusion

WIDTH, LINES = 100, 40
NAME = 19  # columns of the names on the left


def evaluation_text(evaluation: Evaluation) -> str:
    lines = [_headline(evaluation), "", *_scores(evaluation), "", *_buckets(evaluation), ""]
    lines += _confusions(evaluation.confusions)
    end = [_speed(evaluation), *(f"! {finding}" for finding in evaluation.findings[:3])]
    room = min(LINES - len(lines) - len(end) - 2, 5)
    rows = [evaluation.row(number) for number in evaluation.worst[: max(room, 0)]]
    if rows:
        lines += [*_side_by_side(("most wrong", "expected", "said"), rows), ""]
    return _joined([*lines, *end])


def comparison_text(compared: Compared) -> str:
    first, second = compared.names
    lines = [
        _headline(compared.first),
        f"first   {first}",
        f"second  {second}",
        "",
        *_wrapped(compared.verdict),
        "",
        *_differences(compared),
        f"closer to a reference: the second in {amount(compared.wins, 'item')}, the first in "
        f"{compared.losses:,}; "
        f"{compared.ties:,} alike",
        "",
        *_paired_buckets(compared),
        "",
        *_paired_confusions(compared),
    ]
    end = [f"! {finding}" for finding in compared.findings[:3]]
    room = min(LINES - len(lines) - len(end) - 2, 6)
    rows = [compared.row(number) for number in compared.examples[: max(room, 0)]]
    if rows:
        lines += [*_side_by_side(("most different", "expected", "first", "second"), rows), ""]
    return _joined([*lines, *end])


def _headline(evaluation: Evaluation) -> str:
    counts = amount(len(evaluation.items), "item")
    if evaluation.pairs != len(evaluation.items):
        counts += f" ({amount(evaluation.pairs, 'pair')})"
    return f"{evaluation.file or 'pairs from memory'}: {counts}, beam {evaluation.beam}"


def _scores(evaluation: Evaluation) -> list[str]:
    within = f"{percent(evaluation.judging.level)} range"
    lines = [f"{'':{NAME}} {'score':>6} {within:>11}"]
    for each, around in zip(evaluation.measured, evaluation.intervals, strict=True):
        between = f"{around.low:.1f}–{around.high:.1f}"
        lines.append(f"{_metric(evaluation, each.metric)} {each.value():6.2f} {between:>11} {each.signature}")
    return lines


def _metric(evaluation: Evaluation, metric: Metric) -> str:
    """Its name, and where it should go."""
    return fitted(f"{evaluation.label(metric.name)} {'↑' if metric.better == 'higher' else '↓'}", NAME)


def _buckets(evaluation: Evaluation) -> list[str]:
    """The first metric, by what the items have in common."""
    each = evaluation.measured[0]
    lines = []
    for respect, buckets in evaluation.buckets.items():
        lines.append(f"{evaluation.label(each.metric.name)} by {respect}")
        values = [each.value(bucket.items) for bucket in buckets]
        most = max(*values, 1e-9, 100.0 if each.metric.better == "higher" else 0.0)
        for bucket, value in zip(buckets, values, strict=True):
            count = _count(bucket)
            lines.append(f"  {bucket.name:>{NAME - 2}} {value:6.2f} {count}  {bar(value, most, 40)}")
    return lines


def _count(bucket: Bucket) -> str:
    """In a column of such."""
    return f"{len(bucket.items):7,} {'item ' if len(bucket.items) == 1 else 'items'}"


def _confusions(confusions: Sequence[Confusion], most: int = 12) -> list[str]:
    """On two lines."""
    if not confusions:
        return []
    shown = [f"{_change(each.expected, each.said)} {each.count:,}" for each in confusions[:most]]
    return [*_filled("expected → said, times: ", shown, lines=2), ""]


def _change(expected: str, said: str) -> str:
    return f"{symbol(expected)} → {symbol(said)}"


def _speed(evaluation: Evaluation) -> str:
    speed = evaluation.speed
    memory = "" if speed.peak_memory_mb is None else f"; {speed.peak_memory_mb:,.0f} MB at most"
    threads = amount(speed.threads, "thread")
    return (
        f"{speed.tokens_per_second:,.0f} tokens/s, {speed.sentences_per_second:,.0f} items/s; one at a time "
        f"{speed.latency_ms(0.5):,.0f} ms (95 %: {speed.latency_ms(0.95):,.0f} ms){memory}; {threads}"
    )


def _differences(compared: Compared) -> list[str]:
    level = f"{percent(compared.first.judging.level)} interval"
    lines = [f"{'':{NAME}} {'first':>7} {'second':>7}  {'difference':>10}  {level:>17}  {'p':>6}"]
    for each, measured in zip(compared.comparisons, compared.first.measured, strict=True):
        between = f"{each.interval.low:+.2f} to {each.interval.high:+.2f}"
        lines.append(
            f"{_metric(compared.first, measured.metric)} {each.first.value:7.2f} {each.second.value:7.2f}  "
            f"{each.difference:+10.2f}  {between:>17}  {each.p_value:6.3f}"
        )
    return lines


def _paired_buckets(compared: Compared) -> list[str]:
    one, other = compared.first.measured[0], compared.second.measured[0]
    lines = []
    for respect, buckets in compared.buckets.items():
        lines.append(f"{compared.first.label(one.metric.name)} by {respect}")
        for bucket in buckets:
            left, right = one.value(bucket.items), other.value(bucket.items)
            scores = f"{left:7.2f} {right:7.2f}  {right - left:+10.2f}"
            lines.append(f"  {bucket.name:>{NAME - 2}} {scores}  {_count(bucket)}")
    return lines


def _paired_confusions(compared: Compared, most: int = 8) -> list[str]:
    shown = [
        f"{_change(each.expected, each.said)} {each.first:,}/{each.second:,}"
        for each in compared.confusions[:most]
    ]
    if not shown:
        return []
    return [*_filled("expected → said, times by first/second: ", shown, lines=2), ""]


def _filled(title: str, entries: Iterable[str], lines: int) -> list[str]:
    """A title and as many entries as fit on so many lines."""
    found = [title]
    for entry in entries:
        joint = "" if found[-1] in (title, "  ") else "   "
        if len(found[-1]) + len(joint) + len(entry) <= WIDTH:
            found[-1] += joint + entry
        elif len(found) < lines:
            found.append("  " + entry)
        else:
            break
    return found


def _side_by_side(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    width = (WIDTH - 2 * len(titles)) // len(titles)
    return ["  ".join(fitted(cell, width) for cell in row) for row in (titles, *rows)]


def _wrapped(sentence: str) -> list[str]:
    import textwrap

    return textwrap.wrap(sentence, WIDTH)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(fitted(line, WIDTH).rstrip() for line in lines)
