"""README.md of a run folder: a model card for model hubs (https://huggingface.co/docs/hub/model-cards)."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from seqwright.data.text_display import pluralize
from seqwright.evaluation.metrics import built_in
from seqwright.evaluation.text_outputs import metric_label
from seqwright.evaluation.wording import percent
from seqwright.files import write_text
from seqwright.runs.report.bars import FEW
from seqwright.runs.report.dataset import rare
from seqwright.runs.report.markup import show_invisible
from seqwright.runs.report.reader import Document, Evaluation, Record
from seqwright.runs.report.summary import again_command, described, leaked, tested, trained
from seqwright.runs.report.wording import (
    decimals,
    duration,
    family,
    is_stored_image,
    number,
    score,
    sentence,
)

CARD = "README.md"
HUB_TASKS = {  # the tasks that model hubs call by another name (https://huggingface.co/tasks)
    "text_to_text": "translation",
    "language_modeling": "text-generation",
    "masked_language_modeling": "fill-mask",
    "conversation": "text-generation",
    "image_captioning": "image-to-text",
    "forecasting": "time-series-forecasting",
}


def write_card(folder: str | Path) -> Path:
    """Write README.md into a run folder and return its path."""
    path = Path(folder) / CARD
    write_text(path, card(Record(folder)))
    return path


def card(record: Record) -> str:
    parts = [_head(record), f"# {plain(record.name)}", plain(trained(record))]
    sections = {"Scores": _scores, "Use": _use, "Data": _data, "Training": _training, "Limits": _limits}
    for title, section in {**sections, "Verify": _verify}.items():
        parts += [f"## {title}", *section(record)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return a text as one line of Markdown, with all that would be markup, a link or a list escaped."""
    line = re.sub(r"([\\`*_{}\[\]<>#|&~$@])", r"\\\1", show_invisible(" ".join(text.split())))
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", line.replace("://", ":\\//"))


def code(text: str) -> str:
    """Return a text as inline code. The fence is longer than any run of ` in it (CommonMark 0.31, 6.1)."""
    line = show_invisible(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _head(record: Record) -> str:
    """Return the YAML head. The license is for the user to add."""
    task = str(record.setting("task") or "text_to_text")
    kinds = re.findall("Transformer|RNN", family(record.setting("model")))
    purpose = ["sequence-to-sequence"] if task == "text_to_text" else []
    lines = ["library_name: seqwright", f"pipeline_tag: {_word(HUB_TASKS.get(task, task.replace('_', '-')))}"]
    for key, words in (
        ("tags", ["seqwright", *purpose, *dict.fromkeys(kind.lower() for kind in kinds)]),
        ("metrics", [*record.evaluation.metrics] if record.evaluation else []),
    ):
        lines += [f"{key}:", *(f"- {_word(word)}" for word in words)] if words else []
    return "\n".join(["---", *lines, "---"])


def _word(text: str) -> str:
    """Return a text in YAML; anything but a plain word is quoted as in JSON, which YAML 1.2 also reads."""
    return text if re.fullmatch(r"[a-z][a-z0-9_-]*", text) else json.dumps(show_invisible(text))


def _better(evaluation: Evaluation, metric: str) -> str:
    known = built_in(metric)
    target = None if known is None else known.target
    return evaluation.better(metric) or "–" if target is None else f"near {target:g}"


def _scores(record: Record) -> list[str]:
    evaluation = record.evaluation
    if evaluation is None:
        return [f"Not evaluated: {plain(record.absent['evaluation.json'])}."]
    rows = ["| metric | score | interval | baseline | better | signature |", "|---|---|---|---|---|---|"]
    for name, value in evaluation.metrics.items():
        interval, signature = evaluation.interval(name), evaluation.document("signatures").text(name)
        cells = [
            plain(metric_label(name, evaluation.item)),
            score(name, value),
            "–" if interval is None else " – ".join(f"{end:.{decimals(name, value)}f}" for end in interval),
            score(name, evaluation.numbers("baseline").get(name)),
            plain(_better(evaluation, name)),
            code(signature).replace("|", "\\|") if signature else "–",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    intervals = f"Intervals are {percent(evaluation.level)} bootstrap intervals."
    return ["\n".join(rows), plain(f"{tested(record, evaluation)} {intervals}")]


def _use(record: Record) -> list[str]:
    stored = record.examples
    source = stored[0].text("source") if stored else "a text"
    output = f"  # {json.dumps(stored[0].text('output'), ensure_ascii=False)}" if stored else ""
    image = is_stored_image(source)
    source, output = ("photo.jpg", "") if image else (source, output)
    loading = f"import seqwright\n\nmodel = seqwright.load({json.dumps(record.name)})"
    python = f"{loading}\nmodel.predict({json.dumps(source)})[0].text{output}"
    run = shlex.quote(" ".join(record.name.splitlines()))
    shell = f"seqwright predict {run} {'photo.jpg folder' if image else '< input.txt'} > output.txt"
    if record.setting("task") == "forecasting":
        python = (
            f"{loading}\nmodel.predict({json.dumps(source[:200])})[0].mean  # an array, and .low and .high"
        )
        shell = f"seqwright predict {run} history.csv > forecast.csv"
    blocks = {"sh": shell, "python": python}  # fenced with ~, which none of the lines starts with
    fenced = (f"~~~{name}\n{show_invisible(lines)}\n~~~" for name, lines in blocks.items())
    return ["In the folder that contains this one:", *fenced]


def _data(record: Record) -> list[str]:
    data = record.data
    if data is None:
        return [f"Not described: {plain(record.absent['data.json'])}."]
    split = ", ".join(f"{count:,} {name}" for name, count in data.counts("split").items())
    text = f"{code(data.text('name'))}: {plain(described(data))}" + (f" ({plain(split)})." if split else ".")
    for name, column in data.columns.items():
        lengths, distinct = column.document("characters"), len(column.counts("alphabet"))
        mean, longest = number(lengths.number("mean")), f"{lengths.count('longest'):,}"
        text += f" The {plain(name)}s have {mean} characters on average and {longest} at most; "
        text += f"{pluralize(distinct, 'distinct character')}."
    text += f" {plain(leaks)}." if (leaks := leaked(data)) else ""
    warnings = [each for each in data.documents("findings") if each.text("severity") == "warning"]
    noted = [*data.texts("dropped"), *(each.text("sentence") for each in warnings)]
    return [text, *(["\n".join(f"- {plain(line)}" for line in noted)] if noted else [])]


def _training(record: Record) -> list[str]:
    if record.pruned is not None:
        return [plain(f"Made from another run: {record.pruned}. This is run {record.run}.")]
    text = pluralize(record.last_step, "step")
    text += f" in {duration(record.seconds)}" if record.seconds else ""
    text += f"; the weights are those of step {record.kept['step']:,}" if record.kept else ""
    version = record.evaluation.text("version") if record.evaluation else ""
    machine = record.data.text("machine") if record.data else ""
    text += ". Trained" + (f" with Seqwright {version}" if version else "")
    text += (f" on {machine}" if machine else "") + f", seed {record.setting('seed')}, run {record.run}."
    page = f"{code('report.html')} has the curves, the automatic choices with reasons, and the configuration"
    return [plain(text), f"{page}; {code(again_command(record))} trains the model again from it."]


def _limits(record: Record) -> list[str]:
    """The known weaknesses, in numbers."""
    lines = []
    if record.data is not None and record.data.columns:
        name, column = next(iter(record.data.columns.items()))
        longest = pluralize(column.document("characters").count("longest"), "character")
        distinct = pluralize(len(column.counts("alphabet")), "distinct character")
        known = f"The {name}s have {distinct}; the model knows only those in its training split."
        lines.append(f"No {name} in its data is longer than {longest}. {known}")
        if scarce := rare(column):
            lines.append(f"Rare in its data: {' '.join(scarce[:40])}")
    if record.data is not None and record.setting("task") == "image_classification":
        labels = pluralize(len(record.data.counts("labels")), "label")
        lines.append(f"Every image gets one of {labels}, also if none of them fits.")
    if record.evaluation is not None:
        lines += _worst_buckets(record.evaluation, record.judge)
    if not lines:
        missing = record.data is None and record.evaluation is None
        why = (
            "the run folder has no usable data.json and evaluation.json" if missing else "nothing stands out"
        )
        return [f"None are recorded: {why}."]
    return ["\n".join(f"- {plain(line)}" for line in lines)]


def _worst_buckets(evaluation: Evaluation, judge: str) -> list[str]:
    """Name the worst bucket of each kind with enough items, if it lies outside the interval of all items."""
    sign = 1.0 if evaluation.better(judge) == "higher" else -1.0
    ends = evaluation.interval(judge) or (evaluation.metrics.get(judge) or 0.0,)
    usual = min(sign * end for end in ends)
    label, lines = metric_label(judge, evaluation.item), []
    for title, buckets in evaluation.buckets.items():
        found = [(each.numbers("metrics").get(judge), each) for each in buckets if each.count("items") >= FEW]
        large = [(sign * value, each) for value, each in found if value is not None]
        value, worst = min(large, key=lambda each: each[0], default=(usual, Document()))
        if len(large) < 2 or value >= usual:
            continue
        among = "" if len(large) == len(buckets) else f" among those with {FEW} items or more"
        figures = f"{label} {score(judge, sign * value)}, {pluralize(worst.count('items'), 'item')}"
        lines.append(f"By {title}, {worst.text('name')} is the worst{among}: {figures}")
    return lines


def _verify(record: Record) -> list[str]:
    if "examples.json" in record.absent:
        return [sentence(plain(record.absent["examples.json"]))]
    command, count = code(f"seqwright verify {shlex.quote(record.name)}"), len(record.examples)
    return [f"{command} checks this folder and compares {pluralize(count, 'stored output')} with new ones."]
