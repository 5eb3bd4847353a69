"""The training sections of the report: curves, probes at each validation, and findings of the diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from seqwright.data.text_display import percent, pluralize
from seqwright.evaluation.text_outputs import metric_label
from seqwright.runs.folder import DIAGNOSED_FROM
from seqwright.runs.report.bars import Bar, bar_chart
from seqwright.runs.report.curves import Clock, Curve, Point, curve_table, line_chart, running_median, thinned
from seqwright.runs.report.differences import cutter, marked
from seqwright.runs.report.markup import Markup, element, figure, join, quoted, table
from seqwright.runs.report.reader import Data, Document, Record, finite, shown
from seqwright.runs.report.summary import validation_metrics
from seqwright.runs.report.wording import duration, number, score, titled

MOST_ROWS = 24  # validations in the table of probes


def curves(record: Record) -> Markup | str:
    """Draw the charts of a training, or return why there are none."""
    rates, speeds = (_series(record.steps, key) for key in ("rate", "tokens_per_second"))
    counted = (record.data or Data()).counted
    what = "Input and output tokens" if counted == "token" else f"{counted.capitalize()}s"
    speed = f"{what} per second, time of validations included."
    drawn = [*_losses(record), *_scores(record), *_experts(record)]
    if rates:
        found = [Curve("rate", thinned(rates), "one")]
        drawn.append(_chart(record, "Learning rate", "As scheduled.", found, zero=True))
    if speeds:
        drawn.append(_chart(record, "Speed", speed, smoothed(f"{counted}s/s", speeds), zero=True))
    if not drawn:
        return record.absent.get("metrics.jsonl", "no training step and no validation was logged")
    return join([element("p", _story(record)), element("div", *drawn, class_="charts")])


def _story(record: Record) -> str:
    text = pluralize(record.last_step, "step") + (f" in {duration(record.seconds)}" if record.seconds else "")
    text += f", {pluralize(len(record.validations), 'validation')}."
    kept = record.kept
    if kept is None:
        return text
    judged = record.setting("training", "metric") or "loss"
    by = "loss" if judged == "loss" else metric_label(str(judged), record.item)
    exact = judged == "loss" or "kept" not in kept
    why = f"the best by {by}" if exact else f"the latest within one standard error of the best by {by}"
    return f"{text} The weights are those of step {kept['step']:,}, {why}; a ring marks it."


def _series(entries: Sequence[dict[str, Any]], key: str) -> list[Point]:
    found = ((float(entry["step"]), finite(entry.get(key))) for entry in entries)
    return [(step, value) for step, value in found if value is not None]


def smoothed(name: str, points: Sequence[Point]) -> list[Curve]:
    """Return the measured points and their running median over about a fiftieth of them."""
    width = max(5, len(points) // 50) | 1
    medians = running_median([value for _, value in points], width)
    kept, at = thinned(points, middle=medians), dict(zip(points, medians, strict=True))
    middle = [(point[0], at[point]) for point in kept]
    return [Curve(f"{name}, raw", kept, "one", "raw"), Curve(name, middle, "one")]


def _losses(record: Record) -> list[Markup]:
    found = smoothed("training", _series(record.steps, "loss")) if record.steps else []
    valid, shuffled = (_series(record.validations, key) for key in ("valid_loss", "shuffled_loss"))
    if valid:
        found.append(Curve("validation", thinned(valid), "two", "marked"))
    if shuffled:
        found.append(Curve("shuffled input", thinned(shuffled), "three", "dashed"))
    text = "Mean negative log-likelihood of what is expected, in nats."
    if record.setting("task") == "forecasting":
        text = "Mean squared error of scaled values."
    if record.setting("training", "smoothing"):
        text += " The training loss includes label smoothing, which raises it."
    if shuffled:
        text += " The dashed loss, with the inputs of other examples, stays high if the model uses its input."
    return [_chart(record, "Loss", text, found)] if found else []


def _scores(record: Record) -> list[Markup]:
    charts = []
    for name in validation_metrics(record):
        points, label = thinned(_series(record.validations, name)), metric_label(name, record.item)
        kept = finite(record.kept.get(name)) if record.kept else None
        text = "Outputs at each validation"
        text += "." if kept is None else f"; {score(name, kept)} for the weights that were kept."
        values = [value for _, value in points]
        grown = 2 * min(values) < max(values)  # otherwise little is visible from 0 on
        found = [Curve("validation", points, "two", "marked")]
        charts.append(_chart(record, titled(label), text, found, zero=grown))
    return charts


def _experts(record: Record) -> list[Markup]:
    """Draw the share of the tokens that each expert of each mixture receives, at the latest validation."""
    found = next((each["experts"] for each in reversed(record.validations) if "experts" in each), None)
    bars = [
        Bar(f"{_layer(str(name))}, expert {number}", share, percent(share))
        for name, shares in (found.items() if isinstance(found, dict) else ())
        for number, share in enumerate(map(finite, shares if isinstance(shares, list) else ()), start=1)
        if share is not None and 0 <= share <= 1
    ]
    if not bars:
        return []
    text = "Share of the tokens that each expert receives, at the last validation."
    drawn = bar_chart(f"Experts. {text}", bars, max(bar.value for bar in bars))
    rows = [(bar.name, bar.note) for bar in bars]
    return [figure("Experts", text, drawn, table(("expert", "tokens"), rows, "Experts"))]


def _layer(name: str) -> str:
    """Return `decoder 0` for decoder.stack.blocks.0.feed_forward."""
    return name.removesuffix(".feed_forward").replace(".stack.blocks.", " ")


def _chart(record: Record, title: str, text: str, found: list[Curve], *, zero: bool = False) -> Markup:
    kept = finite(record.kept["step"]) if record.kept else None
    description = f"{title} over steps."
    for curve in found:
        values = [value for _, value in curve.points]
        first, last, least, most = map(number, (values[0], values[-1], min(values), max(values)))
        description += f" {curve.name}: from {first} to {last}, lowest {least}, highest {most}."
    known = _series(record.steps, "seconds")
    clock = Clock([step for step, _ in known], [seconds for _, seconds in known], float(record.last_step))
    drawn = line_chart(description, found, clock, kept=kept, zero=zero)
    return figure(title, text, drawn, curve_table(title, found))


def probes(record: Record) -> Markup | str:
    """Tabulate the outputs for fixed inputs, one row per validation, with changes marked."""
    references: dict[str, str] = {}  # by source
    logged: list[tuple[int, dict[str, str]]] = []  # steps, outputs by source
    for entry in record.validations:
        known = {str(each.fields.get("source", "")): each for each in Document(entry).documents("probes")}
        references |= {source: shown(each.fields.get("reference")) for source, each in known.items()}
        if known:
            outputs = {source: shown(each.fields.get("output")) for source, each in known.items()}
            logged.append((entry["step"], outputs))
    if not logged:
        return record.absent.get("metrics.jsonl", "the validation log has no probes")
    changing = [
        (step, found)
        for number, (step, found) in enumerate(logged)
        if number in (0, len(logged) - 1) or found != logged[number - 1][1]
    ]
    every = -(-len(changing) // MOST_ROWS)
    rows = _probe_rows(changing[::-1][::every][::-1], references, record.writing)
    last = ("reference", *map(quoted, references.values()))
    text = "Changes since the row above are marked; ✓ means equal to the reference."
    if len(changing) < len(logged):
        text += " Validations without changes are omitted."
    listed = table(["step", *map(quoted, references)], [*rows, last], "probes by step")
    return join([element("p", text), element("div", listed, class_="probes")])


def _probe_rows(
    logged: Sequence[tuple[int, dict[str, str]]], references: dict[str, str], writing: str
) -> Iterator[tuple[object, ...]]:
    cut, between = cutter(writing)
    right = element("span", " ✓", class_="right", title="equal to the reference")
    before: dict[str, str] = {}
    for step, found in logged:
        cells = []
        for source, reference in references.items():
            now = found.get(source, "")
            _, changes = marked(before.get(source, ""), now, cut, between)
            output = changes if now else element("i", "empty")
            same = "same" if before.get(source) == now else None
            cells.append(element("span", output, right if now == reference else None, class_=same))
            before[source] = now
        yield f"{step:,}", *cells


def remarks(record: Record) -> Markup | str:
    """List the findings of the diagnostics, each kind once, with the steps at which it was logged."""
    if not record.log:
        return record.absent["metrics.jsonl"]
    found: dict[str, list[tuple[int, str]]] = {}
    for entry in record.log:
        texts = [str(text) for text in Document(entry).entries("findings")]
        if isinstance(skipped := entry.get("skipped"), dict):
            places = ", ".join(map(str, Document(skipped).entries("examples")[:3]))
            texts.append(f"a step without a finite gradient was skipped (lines of its batch: {places})")
        if "save_failed" in entry:
            texts.append(f"a checkpoint was not saved: {entry['save_failed']}")
        for text in texts:
            kind = re.sub(r"[\d.,%]+", "", text)[:40]  # the same finding with other numbers
            found.setdefault(kind, []).append((entry["step"], text))
    listed = []
    for logged in found.values():
        (first, _), (last, text) = logged[0], logged[-1]
        when = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}, {len(logged):,} times"
        listed.append(element("li", element("strong", when), " ", text, class_="warning"))
    if listed:
        return element("ul", *listed, class_="findings")
    if record.last_step and record.last_step < DIAGNOSED_FROM:
        return f"Diagnostics start at step {DIAGNOSED_FROM}; this training is shorter."
    return "The diagnostics found no problems."
