"""The error sections of the report: scores by bucket, confusions, and examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seqwright.data.text_display import pluralize
from seqwright.evaluation.class_table import MATRIX
from seqwright.evaluation.mistakes import Confusion
from seqwright.evaluation.text_outputs import metric_label
from seqwright.evaluation.wording import glyph
from seqwright.runs.report.bars import FEW, Bar, bar_chart
from seqwright.runs.report.contact_sheet import contact_sheet
from seqwright.runs.report.differences import Cut, closest, cutter, marked
from seqwright.runs.report.heat import grid, heat_map
from seqwright.runs.report.markup import Markup, element, figure, join, quoted, table
from seqwright.runs.report.reader import Document, Evaluation, Record, shown
from seqwright.runs.report.wording import number, score, titled, unit

LISTED = 20  # confusions
ROWS = 30  # of the table by label
KINDS = {"worst": "Worst", "sample": "Sample"}


def errors(record: Record) -> Markup | str:
    """Draw scores by bucket and the confusions, or return why there are none."""
    evaluation = record.evaluation
    if evaluation is None:
        return record.absent["evaluation.json"]
    buckets = {title: found for title, found in evaluation.buckets.items() if found}
    charts = [_buckets(title, found, record.judge, evaluation) for title, found in buckets.items()]
    confusions = [
        Confusion(each.text("expected"), each.text("said"), each.count("count"))
        for each in evaluation.documents("confusions")
    ]
    tables = evaluation.document("tables")
    matrix = _matrix(tables.document("confusion"))
    if confusions:
        charts.append(_confusions(sorted(confusions, key=lambda each: -each.count), matrix))
    elif matrix is not None:
        charts.append(matrix)
    charts += [_by_label(tables.document("label"))] if matrix is not None else []
    found = [element("li", text, class_="warning") for text in evaluation.texts("findings")]
    if not charts and not found:
        return "the evaluation has no scores by bucket and no confusions"
    return join([element("ul", *found, class_="findings"), element("div", *charts, class_="charts")])


def _buckets(title: str, buckets: Sequence[Document], judge: str, evaluation: Evaluation) -> Markup:
    scores = [bucket.numbers("metrics") for bucket in buckets]
    names = list(dict.fromkeys(name for found in scores for name in found))
    bars, rows = [], []
    for bucket, found in zip(buckets, scores, strict=True):
        name, items, value = bucket.text("name"), bucket.count("items"), found.get(judge)
        bars.append(Bar(name, value or 0.0, f"{score(judge, value)} · {items:,}", faint=items < FEW))
        rows.append((name, f"{items:,}", *(score(each, found.get(each)) for each in names)))
    most = max(100.0 if unit(judge) else 0.0, *(bar.value for bar in bars), 1e-9)
    label, better = metric_label(judge, evaluation.item), evaluation.better(judge)
    text = f"{titled(label)} and number of items" + (f"; {better} is better." if better else ".")
    if any(bar.faint for bar in bars):
        text += f" A faint bar has fewer than {FEW} items."
    description = f"{title}: " + ", ".join(f"{bar.name} {bar.note}" for bar in bars)
    labels = (metric_label(name, evaluation.item) for name in names)
    numbers = table(["bucket", "items", *labels], rows, title)
    return figure(f"By {title}", text, bar_chart(description, bars, most), numbers)


def _matrix(found: Document) -> Markup | None:
    """Draw how often each label was predicted as each; None for a task without labels."""
    _, *labels = map(str, found.entries("headings")) if found.entries("headings") else [""]
    rows = [row for row in found.entries("rows") if isinstance(row, list) and len(row) == len(labels) + 1]
    if not rows or any(row[0] not in labels or not all(map(_is_count, row[1:])) for row in rows):
        return None
    cells = [
        Confusion(row[0], label, count)
        for row in rows
        for label, count in zip(labels, row[1:], strict=True)
        if count
    ]
    right = sum(each.count for each in cells if each.right)
    text = (
        f"Items by expected and predicted label; {right:,} of {sum(each.count for each in cells):,} are right"
    )
    text += f", for the {len(labels)} most frequent labels." if len(labels) == MATRIX else "."
    numbers = table(
        ["expected", *map(glyph, labels)], ((glyph(row[0]), *row[1:]) for row in rows), "confusion matrix"
    )
    drawn = grid(f"Confusion matrix. {text}", [row[0] for row in rows], labels, cells)
    return figure("Confusion matrix", text, drawn, numbers)


def _is_count(cell: object) -> bool:
    return isinstance(cell, int) and cell >= 0


def _by_label(found: Document) -> Markup:
    """Return precision, recall and F1 of each label as a table."""
    rows = [row for row in found.entries("rows") if isinstance(row, list) and row]
    shown = ((glyph(str(row[0])), *map(_figure, row[1:])) for row in rows[:ROWS])
    more = f" The {ROWS} most frequent of {len(rows):,}." if len(rows) > ROWS else ""
    text = f"Precision, recall and F1 in percent.{more}"
    listed = table(map(str, found.entries("headings")), shown, "scores by label")
    return element("div", element("h3", "By label"), element("p", text), listed)


def _figure(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.1f}" if isinstance(cell, float) else "–"


def _confusions(common: Sequence[Confusion], matrix: Markup | None) -> Markup:
    first = common[0]
    text = f"Most frequent: {glyph(first.output)} instead of {glyph(first.expected)}, "
    text += f"{pluralize(first.count, 'time')}."
    if not all(each.expected and each.output for each in common):
        text += " ∅ stands for an extra symbol (row) or a missing one (column)."
    rows = ((glyph(each.expected), glyph(each.output), f"{each.count:,}") for each in common)
    numbers = table(["expected", "output", "count"], rows, "confusions")
    items = []
    for each in common[:LISTED]:
        expected, output = element("code", glyph(each.expected)), element("code", glyph(each.output))
        times = element("span", f" {each.count:,} ×", class_="times")
        items.append(element("li", expected, " → ", output, times))
    title, legend = element("h3", "Most frequent confusions"), element("p", "Expected → output.")
    listed = element("div", title, legend, element("ol", *items, class_="commonest"))
    if matrix is None:
        drawn = heat_map(f"Confusion matrix. {text}", common)
        matrix = figure("Confusion matrix", text, drawn, numbers)
    return join([matrix, listed])


def examples(record: Record) -> Markup | str:
    """Show outputs of the evaluation next to their references; without one, the stored outputs."""
    evaluated = record.evaluation.documents("examples") if record.evaluation is not None else []
    pictures = record.evaluation.documents("sheet") if record.evaluation is not None else []
    if (sheet := contact_sheet(pictures)) is not None:
        return sheet
    if evaluated:
        cut, between = cutter(record.writing)
        groups: dict[str, list[Markup]] = {}
        for each in evaluated:
            groups.setdefault(each.text("kind", "sample"), []).append(_example(each, cut, between))
        output, expected = element("del", "output"), element("ins", "expected")
        end = ". The probability is that of the output."
        parts = [element("p", "Differences from the closest reference: ", output, " and ", expected, end)]
        for kind, group in groups.items():
            parts += [element("h3", KINDS.get(kind, kind)), element("div", *group, class_="examples")]
        return join(parts)
    if record.examples:
        stored = ((quoted(each.text("source")), quoted(each.text("output"))) for each in record.examples)
        return table(["input", "output"], stored, "stored examples")
    return record.absent.get("evaluation.json", "the evaluation has no examples")


def _example(each: Document, cut: Cut, between: str) -> Markup:
    text, references = shown(each.fields.get("output")), [*map(shown, each.entries("references"))]
    reference = closest(text, references, cut) if references else text
    output, expected = marked(text, reference, cut, between)
    right, log_prob = text in references, each.number("log_prob")
    odds = None
    if log_prob is not None:
        share = math.exp(min(log_prob, 0.0))
        odds = f"probability {share:.2f}" if share >= 0.01 else f"log-probability {number(log_prob)}"
    others = [other for other in references if other != reference]

    def line(name: str, content: Markup) -> Markup:
        return element("p", element("span", name, class_="who"), content)

    return element(
        "article",
        element("h4", quoted(shown(each.fields.get("source")))),
        line("output", output if text else element("i", "empty")),
        line("expected", expected) if not right else None,
        line("or", join(map(quoted, others), " · ")) if others else None,
        element("p", "✓ correct · " if right else None, odds, class_="odds"),
        class_="example",
    )
