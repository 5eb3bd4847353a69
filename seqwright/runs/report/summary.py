"""The head of the report: scores, one sentence about the training, and its key facts."""

from __future__ import annotations

import shlex
from statistics import median

from seqwright.data.split import NAMES
from seqwright.data.text_display import pluralize
from seqwright.evaluation.metrics import built_in
from seqwright.evaluation.text_outputs import metric_label
from seqwright.evaluation.wording import percent
from seqwright.runs.report.bars import whisker
from seqwright.runs.report.markup import Markup, element, join, quoted, terms
from seqwright.runs.report.reader import Data, Evaluation, Record, finite
from seqwright.runs.report.wording import (
    article,
    decimals,
    duration,
    family,
    many,
    number,
    score,
    titled,
    unit,
)


def header(record: Record) -> Markup:
    return element(
        "header",
        element("p", "Seqwright · training report", class_="eyebrow"),
        element("h1", quoted(record.name)),
        element("p", trained(record), class_="lede"),
        _scores(record),
    )


def trained(record: Record) -> str:
    """Return one sentence on the model, the time and the data of the training."""
    size = f" with {many(record.parameters)} parameters" if record.parameters else ""
    time = f" for {duration(record.seconds)}" if record.seconds else ""
    name = ", ".join(record.training_files)
    on = ""
    if data := record.data:
        name = data.text("name") or name
        if examples := data.counts("split").get("train") or data.examples:
            on = f" on {pluralize(examples, data.unit)}"
    if name:
        on += f" from {name}" if on else f" on {name}"
    return f"{article(family(record.setting('model')))}{size}, trained{time}{on}."


def _scores(record: Record) -> Markup:
    evaluation, kept = record.evaluation, record.kept
    if evaluation is not None and evaluation.metrics:
        return _boxes(evaluation, record.judge, tested(record, evaluation))
    if kept is not None:
        found = {name: finite(kept.get(name)) for name in validation_metrics(record)}
        untested = record.absent.get("evaluation.json", "the evaluation has no scores")
        selected = f"the validation that selected the weights, step {kept['step']:,}"
        origin = f"Outputs at {selected}: {untested}."
        return _boxes(Evaluation({"metrics": found}), record.judge, origin)
    return element("p", "No scores yet: there was no validation and no test.", class_="absent")


def _boxes(evaluation: Evaluation, judge: str, origin: str) -> Markup:
    """Draw a box per score, the selecting metric first, and a line on what they were measured on."""
    known = {name: value for name, value in evaluation.metrics.items() if value is not None}
    names = sorted(known, key=lambda name: name != judge)
    boxes = element("div", *(_box(evaluation, name, known[name]) for name in names), class_="scores")
    return join([boxes, element("p", origin, class_="origin")])


def _box(evaluation: Evaluation, name: str, value: float) -> Markup:
    low, high = ends = evaluation.interval(name) or (None, None)
    digits = decimals(name, value)
    interval = ""
    if None not in ends:
        interval = f"{percent(evaluation.level)} interval {low:.{digits}f} – {high:.{digits}f}"
    label, known, better = metric_label(name, evaluation.item), built_in(name), evaluation.better(name)
    direction = known.direction() if known else f"{better} is better" if better else ""
    meaning = [known.meaning if known else "", direction]
    signature = evaluation.document("signatures").text(name)
    baseline = evaluation.numbers("baseline").get(name)
    return element(
        "div",
        element("h2", titled(label)),
        element("p", element("strong", f"{value:.{digits}f}"), unit(name), class_="value"),
        element("p", "; ".join(filter(None, meaning))),
        whisker(f"{label} {score(name, value)}, {interval or 'no interval'}", value, low, high)
        if "%" in unit(name)
        else element("span"),
        element("p", interval) if interval else None,
        None if baseline is None else element("p", f"baseline {score(name, baseline)}"),
        element("p", element("code", signature)) if signature else None,
        class_="score",
    )


def tested(record: Record, evaluation: Evaluation) -> str:
    """Describe the items that the scores were measured on, and every reason why the scores are too good."""
    items, examples = evaluation.count("items"), evaluation.count("pairs")
    file, beam = evaluation.text("file"), evaluation.count("beam")
    text = f"Measured on {pluralize(items, 'item')}"
    text += f" from {examples:,} examples" if examples > items else ""
    text += f" ({file})" if file else ""
    text += f", decoded with beam size {beam}." if beam else "."
    part = evaluation.text("part", "test")
    if part == "valid":
        text += " The same items selected the weights, so the scores are slightly too good."
    if leaks := leaked(record.data, part):
        text += f" {leaks}, so the scores are too good."
    return text


def described(data: Data) -> str:
    """Return the number of examples, and of distinct inputs where it is known."""
    noun = data.text("group", "source")
    inputs = data.count(f"{noun}s") or data.count("sources")
    distinct = f" of {pluralize(inputs, f'distinct {noun}')}" if inputs else ""
    return pluralize(data.examples, data.unit) + distinct


def leaked(data: Data | None, part: str | None = None) -> str:
    """State how many examples of a part, by default of all, are also in training; empty if none are."""
    if data is None:
        return ""
    counts = {"held-out": data.count("leaks")}  # older versions did not count each part
    if isinstance(data.fields.get("leaks_by_part"), dict):
        counts = {name: n for name, n in data.counts("leaks_by_part").items() if part in (None, name)}
    found = [pluralize(n, f"{NAMES.get(name, name)} {data.unit}") for name, n in counts.items() if n]
    if not found:
        return ""
    share = "shares its" if sum(counts.values()) == 1 else "share their"
    return f"{' and '.join(found)} {share} input with the training data"


def validation_metrics(record: Record) -> list[str]:
    """Return the names of the scores in the validation log, in order of first appearance."""
    logged = dict.fromkeys(
        key for entry in record.validations for key in entry if finite(entry[key]) is not None
    )
    return [name for name in logged if name not in ("step", "valid_loss", "shuffled_loss", "seconds")]


def facts(record: Record) -> Markup:
    """List names and values, and the command that trains the model again."""
    listed = terms(((name, value) for name, value in _facts(record) if value), "facts")
    saved = "To train this model again, save the configuration at the end of this page as "
    again = element("p", saved, element("code", f"{record.name}.toml"), " and run", class_="again")
    command = element("p", element("code", again_command(record)), class_="command")
    return join([listed, again, command, element("p", _reproducible(record))])


def _reproducible(record: Record) -> str:
    """State whether training again gives the same weights."""
    if record.setting("training", "minutes") is not None:
        return "A time limit set the learning rates of this training: scores will be similar, not equal."
    threads = "" if record.setting("threads") else " with the same number of threads (see --threads)"
    resumed = "A run that was resumed with a later end had other learning rates before that."
    return f"On the same machine the weights will be equal{threads}. {resumed}"


def _facts(record: Record) -> list[tuple[str, str]]:
    data, evaluation = record.data or Data(), record.evaluation or Evaluation()
    speed = evaluation.document("speed")
    latency, per_second = speed.numbers("latency_ms"), speed.number("sentences_per_second")
    usual, slow, peak = latency.get("p50"), latency.get("p95"), speed.number("peak_memory_mb")
    rates = [rate for entry in record.steps if (rate := finite(entry.get("tokens_per_second")))]
    seed = record.setting("seed")
    return [
        ("data", described(data) if data.examples else ""),
        ("parameters", f"{record.parameters:,}" if record.parameters else ""),
        ("steps", f"{record.last_step:,}" if record.last_step else ""),
        ("time", duration(record.seconds) if record.seconds else ""),
        ("training speed", f"{median(rates):,.0f} {data.counted}s/s" if rates else ""),
        ("prediction speed", f"{number(per_second)} items/s" if per_second else ""),
        ("latency", f"{number(usual)} ms (median), {number(slow)} ms (95 %)" if usual and slow else ""),
        ("peak memory", f"{peak:,.0f} MB, in the evaluation" if peak else ""),
        ("machine", data.text("machine")),
        ("threads", str(record.setting("threads") or speed.count("threads") or "")),
        ("seed", "" if seed is None else str(seed)),
        ("version", evaluation.text("version")),
        ("run", record.run),
    ]


def again_command(record: Record) -> str:
    """Return the command that trains a run again; it gives a time limit in steps, to be reproducible."""
    file, out = shlex.quote(f"{record.name}.toml"), shlex.quote(f"{record.name}-again")
    timed = record.setting("training", "minutes") is not None and record.last_step
    return f"seqwright train {file} --out {out}" + (f" --steps {record.last_step}" if timed else "")
