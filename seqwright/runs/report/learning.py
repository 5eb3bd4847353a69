"""How the model came about: its curves, what it said for fixed sources at each validation, and what the
training remarked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from seqwright.data.text_display import amount
from seqwright.runs.report.curves import Clock, Curve, Point, curve_table, line_chart, running_median, thinned
from seqwright.runs.report.differences import cutter, marked
from seqwright.runs.report.markup import Markup, element, figure, join, quoted, table
from seqwright.runs.report.record import Record, finite
from seqwright.runs.report.summary import validation_metrics
from seqwright.runs.report.wording import duration, metric, number, score, titled
from seqwright.training.diagnostics import ENOUGH

MOST_ROWS = 24  # validations in the table of probes

Probes = dict[str, tuple[str, str]]  # source -> (reference, output)


def curves(record: Record) -> Markup | str:
    """The charts of a training, or why there are none."""
    drawn = [chart for chart in (_losses(record), *_scores(record), _rates(record), _speeds(record)) if chart]
    if not drawn:
        return record.absent.get("metrics.jsonl", "no step and no validation was recorded")
    return join([element("p", _story(record)), element("div", *drawn, class_="charts")])


def _story(record: Record) -> str:
    steps, seconds = record.last_step, record.seconds
    told = f"{amount(steps, 'step')}" + (f" in {duration(seconds)}" if seconds else "")
    told += f", {amount(len(record.validations), 'validation')}"
    kept = record.kept
    if kept is None:
        return f"{told}."
    judged = record.setting("training", "metric") or "loss"
    by = "the loss" if judged == "loss" else metric(str(judged), record.item).label
    exact = judged == "loss" or "kept" not in kept
    why = f"the best by {by}" if exact else f"the latest within a standard error of the best by {by}"
    return f"{told}. The weights are those of step {kept['step']:,}, {why}; a ring marks them."


def clock(record: Record) -> Clock:
    times = [(float(entry["step"]), finite(entry.get("seconds"))) for entry in record.steps]
    known = [(step, seconds) for step, seconds in times if seconds is not None]
    steps, seconds = [step for step, _ in known], [seconds for _, seconds in known]
    return Clock(steps, seconds, float(record.last_step))


def _series(entries: Sequence[dict[str, Any]], key: str) -> list[Point]:
    found = ((float(entry["step"]), finite(entry.get(key))) for entry in entries)
    return [(step, value) for step, value in found if value is not None]


def smoothed(name: str, points: Sequence[Point]) -> list[Curve]:
    """What was measured, and its running median over about a fiftieth of it, at the same steps."""
    width = max(5, len(points) // 50) | 1
    medians = running_median([value for _, value in points], width)
    kept, at = thinned(points, middle=medians), dict(zip(points, medians, strict=True))
    middle = [(point[0], at[point]) for point in kept]
    return [Curve(f"{name}, raw", kept, "one", "raw"), Curve(name, middle, "one")]


def _losses(record: Record) -> Markup | None:
    found = smoothed("training", _series(record.steps, "loss")) if record.steps else []
    valid, shuffled = (_series(record.validations, key) for key in ("valid_loss", "shuffled_loss"))
    if valid:
        found.append(Curve("validation", thinned(valid), "two", "marked"))
    if shuffled:
        found.append(Curve("wrong source", thinned(shuffled), "three", "dashed"))
    said = "Mean negative log-likelihood of a token, in nats."
    if record.setting("training", "smoothing"):
        said += " In training labels are smoothed, which adds to it."
    if shuffled:
        said += " With the sources of other pairs it should stay high: the model needs its source."
    return _chart(record, "Loss", said, found)


def _scores(record: Record) -> list[Markup | None]:
    charts = []
    for name in validation_metrics(record):
        points, words = thinned(_series(record.validations, name)), metric(name, record.item)
        kept = finite(record.kept.get(name)) if record.kept else None
        said = "Greedy outputs of the validation"
        said += "." if kept is None else f"; {score(name, kept)} where the weights were kept."
        values = [value for _, value in points]
        grown = bool(values) and 2 * min(values) < max(values)  # else from 0 there is little to see
        found = [Curve("validation", points, "two", "marked")]
        charts.append(_chart(record, titled(words.label), said, found, zero=grown))
    return charts


def _rates(record: Record) -> Markup | None:
    points = thinned(_series(record.steps, "rate"))
    found = [Curve("rate", points, "one")] if points else []
    return _chart(record, "Learning rate", "As the schedule gave it.", found, zero=True)


def _speeds(record: Record) -> Markup | None:
    points = _series(record.steps, "tokens_per_second")
    said = "Source and target tokens a second; validations are in the time."
    return _chart(record, "Speed", said, smoothed("tokens/s", points) if points else [], zero=True)


def _chart(record: Record, title: str, said: str, found: list[Curve], *, zero: bool = False) -> Markup | None:
    if not found:
        return None
    kept = finite(record.kept["step"]) if record.kept else None
    described = f"{title} over steps. " + " ".join(map(_in_words, found))
    drawn = line_chart(described, found, clock(record), kept=kept, zero=zero)
    return figure(title, said, drawn, curve_table(title, found))


def _in_words(curve: Curve) -> str:
    values = [value for _, value in curve.points]
    return (
        f"{curve.name}: from {number(values[0])} to {number(values[-1])}, "
        f"lowest {number(min(values))}, highest {number(max(values))}."
    )


def probes(record: Record) -> Markup | str:
    """What was said for fixed sources, validation by validation; what is new in a row is marked."""
    told = [(entry["step"], found) for entry in record.validations if (found := _probes(entry))]
    if not told:
        return record.absent.get("metrics.jsonl", "the records of the validations have no probes")
    references = {source: reference for _, found in told for source, (reference, _) in found.items()}
    changing = [
        (step, found)
        for number, (step, found) in enumerate(told)
        if number in (0, len(told) - 1) or found != told[number - 1][1]
    ]
    every = -(-len(changing) // MOST_ROWS)
    rows = _probe_rows(changing[::-1][::every][::-1], references, record.writing)
    last = ("reference", *map(quoted, references.values()))
    said = "Marked is what is new since the row above; ✓ is the reference to the letter."
    if len(changing) < len(told):
        said += " Validations that changed nothing are left out."
    listed = table(["step", *map(quoted, references)], [*rows, last], "probes by step")
    return join([element("p", said), element("div", listed, class_="probes")])


def _probe_rows(
    told: Sequence[tuple[int, Probes]], references: dict[str, str], writing: str
) -> list[tuple[object, ...]]:
    cut, between = cutter(writing)
    rows: list[tuple[object, ...]] = []
    before: dict[str, str] = {}
    for step, found in told:
        now = {source: found[source][1] if source in found else "" for source in references}
        changes = {source: marked(before.get(source, ""), now[source], cut, between)[1] for source in now}
        cells = [
            _probe(
                changes[source] if now[source] else element("i", "nothing"),
                same=before.get(source) == now[source],
                right=now[source] == reference,
            )
            for source, reference in references.items()
        ]
        rows.append((f"{step:,}", *cells))
        before = now
    return rows


def _probe(output: Markup, *, same: bool, right: bool) -> Markup:
    tick = element("span", " ✓", class_="right", title="the reference") if right else None
    return element("span", output, tick, class_="same" if same else None)


def _probes(entry: dict[str, Any]) -> Probes:
    listed = entry.get("probes")
    found = [probe for probe in (listed if isinstance(listed, list) else []) if isinstance(probe, dict)]
    return {
        str(probe.get("source", "")): (str(probe.get("reference", "")), str(probe.get("output", "")))
        for probe in found
    }


def remarks(record: Record) -> Markup | str:
    """What the training found wrong with itself, each kind once, with the steps at which it was said."""
    if not record.log:
        return record.absent["metrics.jsonl"]
    found: dict[str, list[tuple[int, str]]] = {}
    for entry in record.log:
        for text in _remarks(entry):
            kind = re.sub(r"[\d.,%]+", "", text)[:40]  # the same with other numbers is not news
            found.setdefault(kind, []).append((entry["step"], text))
    if not found:
        if record.last_step and record.last_step < ENOUGH:
            return f"With fewer than {ENOUGH} steps nothing is looked for: it has hardly begun to learn."
        return "Nothing was found wrong while it trained."
    return element("ul", *(_remark(told) for told in found.values()), class_="findings")


def _remark(told: list[tuple[int, str]]) -> Markup:
    (first, _), (last, text) = told[0], told[-1]
    when = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}, {len(told):,} times"
    return element("li", element("strong", when), " ", text, class_="warning")


def _remarks(entry: dict[str, Any]) -> list[str]:
    told = entry.get("findings")
    found = [str(text) for text in told] if isinstance(told, list) else []
    if isinstance(skipped := entry.get("skipped"), dict):
        listed = skipped.get("examples")
        places = ", ".join(map(str, listed[:3])) if isinstance(listed, list) else ""
        found.append(f"a step without a finite gradient was skipped (among its lines: {places})")
    if "save_failed" in entry:
        found.append(f"a checkpoint was not saved: {entry['save_failed']}")
    return found
