"""What a reader wants first: how good it is, what was trained on what, and the facts of the training."""

from __future__ import annotations

import shlex
from statistics import median

from seqwright.data.text_display import amount
from seqwright.data.split import NAMES
from seqwright.runs.report.bars import whisker
from seqwright.runs.report.markup import Markup, element, join, quoted
from seqwright.runs.report.record import Data, Evaluation, Record, finite
from seqwright.runs.report.wording import (
    article,
    duration,
    family,
    many,
    metric,
    number,
    percent,
    score,
    titled,
)


def header(record: Record) -> Markup:
    return element(
        "header",
        element("p", "Seqwright · a training and its model", class_="eyebrow"),
        element("h1", quoted(record.name)),
        element("p", trained(record), class_="lede"),
        _scores(record),
    )


def trained(record: Record) -> str:
    """What was trained on what, in one sentence."""
    size = f" with {many(record.parameters)} parameters" if record.parameters else ""
    time = f" for {duration(record.seconds)}" if record.seconds else ""
    name = record.data.name if record.data and record.data.name else _files(record)
    pairs = _pairs(record)
    source = f" on {amount(pairs, 'pair')}" if pairs else ""
    if name:
        source += f" of {name}" if source else f" on {name}"
    return f"{article(family(record.setting('model')))}{size}, trained{time}{source}."


def _pairs(record: Record) -> int:
    """Those that were trained on; all there are, where the split is not known."""
    return (record.data.split.get("train") or record.data.pairs) if record.data else 0


def _files(record: Record) -> str:
    names = record.setting("data", "train")
    return ", ".join(map(str, names)) if isinstance(names, list) else ""


def _scores(record: Record) -> Markup:
    evaluation, kept = record.evaluation, record.kept
    if evaluation is not None and evaluation.metrics:
        return _boxes(evaluation, record.judge, tested(record, evaluation))
    if kept is not None:
        found = {name: finite(kept.get(name)) for name in validation_metrics(record)}
        untested = record.absent.get("evaluation.json", "the test has no scores")
        said = f"Greedy outputs of the validation whose weights were kept, step {kept['step']:,}: {untested}."
        return _boxes(Evaluation(metrics=found), record.judge, said)
    return element("p", "No score yet: nothing was validated and nothing tested.", class_="absent")


def _boxes(evaluation: Evaluation, judge: str, said: str) -> Markup:
    """A box for each score, that of the judge first, and what they were measured on."""
    known = {name: value for name, value in evaluation.metrics.items() if value is not None}
    names = sorted(known, key=lambda name: name != judge)
    boxes = element("div", *(_box(evaluation, name, known[name]) for name in names), class_="scores")
    return join([boxes, element("p", said, class_="origin")])


def tested(record: Record, evaluation: Evaluation) -> str:
    """What the scores were measured on, and what would make them too good."""
    beam = "" if evaluation.beam is None else f", decoded with a beam of {evaluation.beam}"
    source = f" ({evaluation.file})" if evaluation.file else ""
    items = amount(evaluation.items, "source")
    several = f" with {evaluation.pairs:,} right answers" if evaluation.pairs > evaluation.items else ""
    said = f"Measured on {items}{several}{source}{beam}."
    if evaluation.part == "valid":
        said += " These pairs also chose the weights, which makes the scores a little too good."
    if leaks := leaked(record.data, evaluation.part):
        said += f" {leaks}, which makes the scores too good."
    return said


def leaked(data: Data | None, part: str | None = None) -> str:
    """How many pairs of a part, or of all, have a source that was trained on; nothing if none have."""
    if data is None:
        return ""
    if data.leaks_by_part is None:  # a run of a version that did not tell the parts apart
        counts = {"held-out": data.leaks or 0}
    else:
        counts = {name: count for name, count in data.leaks_by_part.items() if part in (None, name)}
    pairs = [amount(count, f"{NAMES.get(name, name)} pair") for name, count in counts.items() if count]
    if not pairs:
        return ""
    have = "has" if sum(counts.values()) == 1 else "have"
    return f"{' and '.join(pairs)} {have} a source that was trained on"


def _box(evaluation: Evaluation, name: str, value: float) -> Markup:
    low, high = evaluation.intervals.get(name, (None, None))
    level = percent(evaluation.level)
    lies = "" if low is None or high is None else f"{level} interval {low:.1f} – {high:.1f}"
    words = metric(name, evaluation.item)
    return element(
        "div",
        element("h2", titled(words.label)),
        element("p", element("strong", f"{value:.1f}"), words.unit, class_="value"),
        element("p", _meaning(words.meaning, evaluation.better.get(name))),
        whisker(f"{words.label} {score(name, value)}, {lies or 'no interval'}", value, low, high),
        element("p", lies) if lies else None,
        element("p", element("code", evaluation.signatures[name])) if name in evaluation.signatures else None,
        class_="score",
    )


def _meaning(meaning: str, better: str | None) -> str:
    return "; ".join(part for part in (meaning, f"{better} is better" if better else "") if part)


def validation_metrics(record: Record) -> list[str]:
    """The names of the scores in the records of validations, in the order of their first appearance."""
    known = ("step", "valid_loss", "shuffled_loss", "seconds")
    names = (
        name for entry in record.validations for name, value in entry.items() if finite(value) is not None
    )
    return [name for name in dict.fromkeys(names) if name not in known]


def facts(record: Record) -> Markup:
    """Names and values, with what is needed to do it again."""
    told = [(name, value) for name, value in _facts(record) if value]
    terms = (element("div", element("dt", name), element("dd", value)) for name, value in told)
    again = element(
        "p",
        "To train it again, save the configuration at the end of this page as ",
        element("code", f"{record.name}.toml"),
        " and run",
        class_="again",
    )
    command = element("p", element("code", again_command(record)), class_="command")
    return join([element("dl", *terms, class_="facts"), again, command, element("p", _alike(record))])


def _alike(record: Record) -> str:
    """Whether training it again gives the same weights."""
    if record.setting("training", "minutes") is not None:
        return "This one ended by the clock, which its rates followed: the scores will be alike, not equal."
    threads = "" if record.setting("threads") else " if as many threads compute them, see --threads"
    later = "A training that was gone on with to a later end had other rates before it."
    return f"On the same machine the weights will be equal{threads}. {later}"


def _facts(record: Record) -> list[tuple[str, str]]:
    data, evaluation = record.data, record.evaluation
    speeds = [speed for entry in record.steps if (speed := finite(entry.get("tokens_per_second")))]
    seed = record.setting("seed")
    threads = record.setting("threads") or (evaluation.speed.threads if evaluation else None)
    return [
        ("pairs", f"{data.pairs:,} of {amount(data.sources, 'source')}" if data and data.pairs else ""),
        ("parameters", f"{record.parameters:,}" if record.parameters else ""),
        ("steps", f"{record.last_step:,}" if record.last_step else ""),
        ("time", duration(record.seconds) if record.seconds else ""),
        ("training speed", f"{median(speeds):,.0f} tokens/s" if speeds else ""),
        ("decoding", _decoding(evaluation) if evaluation else ""),
        ("latency", _latency(evaluation) if evaluation else ""),
        ("memory", _memory(evaluation) if evaluation else ""),
        ("machine", (data.machine or "") if data else ""),
        ("threads", str(threads) if threads else ""),
        ("seed", "" if seed is None else str(seed)),
        ("version", (evaluation.version or "") if evaluation else ""),
        ("run", record.run),
    ]


def _decoding(evaluation: Evaluation) -> str:
    speed = evaluation.speed.sentences_per_second
    return f"{number(speed)} sources/s" if speed else ""


def _latency(evaluation: Evaluation) -> str:
    usual, slow = (evaluation.speed.latency_ms.get(name) for name in ("p50", "p95"))
    return f"{number(usual)} ms; 95 % below {number(slow)} ms" if usual and slow else ""


def _memory(evaluation: Evaluation) -> str:
    peak = evaluation.speed.peak_memory_mb
    return f"{peak:,.0f} MB at most, in the test" if peak else ""


def again_command(record: Record) -> str:
    """How to train a run again from its configuration. Minutes give other steps on another day: they are
    said in steps.
    """
    name = shlex.quote(f"{record.name}.toml")
    timed = record.setting("training", "minutes") is not None and record.last_step
    return f"seqwright train {name} --out {shlex.quote(record.name + '-again')}" + (
        f" --steps {record.last_step}" if timed else ""
    )
