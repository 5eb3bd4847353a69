"""Where the model goes wrong: by kind of source, symbol by symbol, and in examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seqwright.data.text_display import amount
from seqwright.runs.report.bars import FEW, Bar, bar_chart
from seqwright.runs.report.differences import Cut, closest, cutter, marked
from seqwright.runs.report.heat import glyph, heat_map
from seqwright.runs.report.markup import Markup, element, figure, join, quoted, table
from seqwright.runs.report.record import Bucket, Confusion, Evaluation, Example, Record
from seqwright.runs.report.wording import metric, number, score, titled

LISTED = 20  # confusions
KINDS = {"worst": "The worst", "sample": "A sample"}


def errors(record: Record) -> Markup | str:
    """Scores of parts of the test and symbols that are taken for others, or why there are none."""
    evaluation = record.evaluation
    if evaluation is None:
        return record.absent["evaluation.json"]
    charts = [
        _buckets(title, buckets, record.judge, evaluation)
        for title, buckets in evaluation.buckets.items()
        if buckets
    ]
    if evaluation.confusions:
        charts.append(_confusions(evaluation.confusions))
    found = [element("li", text, class_="warning") for text in evaluation.findings]
    if not charts and not found:
        return "the test has no scores by part and no confusions"
    return join([element("ul", *found, class_="findings"), element("div", *charts, class_="charts")])


def _buckets(title: str, buckets: Sequence[Bucket], judge: str, evaluation: Evaluation) -> Markup:
    values = [bucket.metrics.get(judge) for bucket in buckets]
    most = max(100.0 if metric(judge).unit else 0.0, *(value or 0.0 for value in values), 1e-9)
    bars = [
        Bar(bucket.name, value or 0.0, f"{score(judge, value)} · {bucket.items:,}", faint=bucket.items < FEW)
        for bucket, value in zip(buckets, values, strict=True)
    ]
    label, better = metric(judge, evaluation.item).label, evaluation.better.get(judge)
    said = f"{titled(label)} and number of items" + (f"; {better} is better." if better else ".")
    if any(bar.faint for bar in bars):
        said += f" A faint bar stands for fewer than {FEW} items."
    described = f"{title}: " + ", ".join(f"{bar.name} {bar.note}" for bar in bars)
    names = list(dict.fromkeys(name for bucket in buckets for name in bucket.metrics))
    rows = (
        (bucket.name, f"{bucket.items:,}", *(score(name, bucket.metrics.get(name)) for name in names))
        for bucket in buckets
    )
    labels = (metric(name, evaluation.item).label for name in names)
    numbers = table(["items with", "items", *labels], rows, title)
    return figure(f"By {title}", said, bar_chart(described, bars, most), numbers)


def _confusions(found: Sequence[Confusion]) -> Markup:
    common = sorted(found, key=lambda each: -each.count)
    first = common[0]
    often = amount(first.count, "time")
    said = (
        f"Most often {glyph(first.said)} was said for {glyph(first.expected)}, {often}. "
        "∅ is nothing: a symbol too many (row) or one that is missing (column)."
    )
    rows = ((glyph(each.expected), glyph(each.said), f"{each.count:,}") for each in common)
    numbers = table(["expected", "said", "times"], rows, "confusions")
    drawn = heat_map(f"Confusions of symbols. {said}", common)
    return join([figure("Symbols taken for others", said, drawn, numbers), _commonest(common[:LISTED])])


def _commonest(common: Sequence[Confusion]) -> Markup:
    items = (
        element(
            "li",
            element("code", glyph(each.expected)),
            " → ",
            element("code", glyph(each.said)),
            element("span", f" {each.count:,} ×", class_="times"),
        )
        for each in common
    )
    listed = element("ol", *items, class_="commonest")
    return element("div", element("h3", "The commonest confusions"), element("p", "Expected → said."), listed)


def examples(record: Record) -> Markup | str:
    """Outputs of the test beside their references; without a test, the outputs that were stored."""
    evaluation = record.evaluation
    if evaluation is not None and evaluation.examples:
        cut, between = cutter(record.writing)
        groups: dict[str, list[Example]] = {}
        for example in evaluation.examples:
            groups.setdefault(example.kind, []).append(example)
        parts = [
            join([element("h3", KINDS.get(kind, kind)), _compared(group, cut, between)])
            for kind, group in groups.items()
        ]
        legend = element(
            "p",
            "What differs from the closest reference: ",
            element("del", "said"),
            " where ",
            element("ins", "expected"),
            ". The probability is that of the whole output.",
        )
        return join([legend, *parts])
    if record.examples is not None and record.examples.examples:
        stored = ((quoted(each.source), quoted(each.output)) for each in record.examples.examples)
        return table(["source", "output"], stored, "stored examples")
    return record.absent.get("evaluation.json", "the test has no examples")


def _compared(group: Sequence[Example], cut: Cut, between: str) -> Markup:
    return element("div", *(_example(each, cut, between) for each in group), class_="examples")


def _example(each: Example, cut: Cut, between: str) -> Markup:
    reference = closest(each.output, each.references, cut) if each.references else each.output
    said, expected = marked(each.output, reference, cut, between)
    right = each.output in each.references
    others = [text for text in each.references if text != reference]
    return element(
        "article",
        element("h4", quoted(each.source)),
        element("p", element("span", "said", class_="who"), said if each.output else element("i", "nothing")),
        element("p", element("span", "expected", class_="who"), expected) if not right else None,
        element("p", element("span", "or", class_="who"), join(map(quoted, others), " · "))
        if others
        else None,
        element("p", "✓ right · " if right else None, _probability(each.log_prob), class_="odds"),
        class_="example",
    )


def _probability(log_prob: float | None) -> str | None:
    if log_prob is None:
        return None
    share = math.exp(min(log_prob, 0.0))
    return f"probability {share:.2f}" if share >= 0.01 else f"log-probability {number(log_prob)}"
