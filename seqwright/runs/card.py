"""README.md of a run folder: the model card, in Markdown with a YAML head as model hubs read it
(https://huggingface.co/docs/hub/model-cards). It states what the folder records, and nothing else.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from seqwright.data.text_display import amount
from seqwright.files import write_text
from seqwright.runs.report import record as records
from seqwright.runs.report.bars import FEW
from seqwright.runs.report.dataset import rare
from seqwright.runs.report.markup import seen
from seqwright.runs.report.record import Data, Evaluation, Record
from seqwright.runs.report.summary import again_command, leaked, tested, trained
from seqwright.runs.report.wording import duration, family, metric, number, percent, score

CARD = "README.md"


def write_card(folder: str | Path) -> Path:
    """Writes README.md into a run folder, from what lies there, and says where it is."""
    path = Path(folder) / CARD
    write_text(path, card(records.read(folder)))
    return path


def card(record: Record) -> str:
    parts = [_head(record), f"# {plain(record.name)}", plain(trained(record))]
    for title, lines in (
        ("Scores", _scores(record)),
        ("Use", _use(record)),
        ("Data", _data(record)),
        ("Training", _training(record)),
        ("Limits", _limits(record)),
        ("Verify", _verify(record)),
    ):
        parts += [f"## {title}", *lines]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """A text in one line of Markdown, with nothing in it that Markdown or HTML would take for more: no sign
    of its own, no address that becomes a link, no number or dash that begins a list.
    """
    line = re.sub(r"([\\`*_{}\[\]<>#|&~$@])", r"\\\1", seen(" ".join(text.split())))
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", line.replace("://", ":\\//"))


def code(text: str) -> str:
    """A text as code inside a line. Fences are longer than any run of ` in it (CommonMark 0.31, 6.1)."""
    line = seen(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _head(record: Record) -> str:
    """The license is the user's to say, and so is not said."""
    kinds = re.findall("Transformer|RNN", family(record.setting("model")))
    tags = ["seqwright", "sequence-to-sequence", *dict.fromkeys(kind.lower() for kind in kinds)]
    lines = ["---", "library_name: seqwright", "pipeline_tag: translation", "tags:", *map(_item, tags)]
    names = list(record.evaluation.metrics) if record.evaluation else []
    return "\n".join([*lines, *(["metrics:", *map(_item, names)] if names else []), "---"])


def _item(text: str) -> str:
    """An entry of a YAML list; what is not a plain word is quoted as in JSON, which YAML 1.2 reads, too."""
    return f"- {text if re.fullmatch(r'[a-z][a-z0-9_-]*', text) else json.dumps(seen(text))}"


def _scores(record: Record) -> list[str]:
    evaluation = record.evaluation
    if evaluation is None:
        return [f"Not tested: {plain(record.absent['evaluation.json'])}."]
    rows = [
        "| metric | score | interval | better | signature |",
        "|---|---|---|---|---|",
        *(_score(evaluation, name) for name in evaluation.metrics),
    ]
    intervals = f"Intervals hold {percent(evaluation.level)} of the scores of resampled tests."
    return ["\n".join(rows), plain(f"{tested(record, evaluation)} {intervals}")]


def _score(evaluation: Evaluation, name: str) -> str:
    low, high = evaluation.intervals.get(name, (None, None))
    lies = "–" if low is None or high is None else f"{low:.1f} – {high:.1f}"
    signature = evaluation.signatures.get(name)
    cells = [
        plain(metric(name, evaluation.item).label),
        score(name, evaluation.metrics[name]),
        lies,
        plain(evaluation.better.get(name, "–")),
        code(signature).replace("|", "\\|") if signature else "–",
    ]
    return f"| {' | '.join(cells)} |"


def _use(record: Record) -> list[str]:
    run = shlex.quote(record.name)
    stored = record.examples.examples if record.examples else []
    source = stored[0].source if stored else "a text"
    python = [
        "import seqwright",
        "",
        f"model = seqwright.load({json.dumps(record.name)})",
        f"model.predict({json.dumps(source)})[0].text"
        + (f"  # {json.dumps(stored[0].output, ensure_ascii=False)}" if stored else ""),
    ]
    return [
        "Beside this folder:",
        _block("sh", [seen(f"seqwright predict {run} < input.txt > output.txt")]),
        _block("python", [seen(line) for line in python]),
    ]


def _block(language: str, lines: Iterable[str]) -> str:
    """Fenced with ~, which no line of ours begins with."""
    return "\n".join([f"~~~{language}", *(" ".join(line.splitlines()) for line in lines), "~~~"])


def _data(record: Record) -> list[str]:
    data = record.data
    if data is None:
        return [f"Not described: {plain(record.absent['data.json'])}."]
    split = ", ".join(f"{count:,} {name}" for name, count in data.split.items())
    lines = [
        f"{code(data.name)}: {amount(data.pairs, 'pair')} of {amount(data.sources, 'different source')}"
        + (f" ({plain(split)})." if split else "."),
        *(f"The {name}s have {_side(data, name)}." for name in ("source", "target")),
        f"{leaks}." if (leaks := leaked(data)) else "",
    ]
    troubles = [plain(finding.sentence) for finding in data.findings if finding.severity == "warning"]
    noted = [*map(plain, data.dropped), *troubles]
    return [
        " ".join(line for line in lines if line),
        *(["\n".join(f"- {line}" for line in noted)] if noted else []),
    ]


def _side(data: Data, name: str) -> str:
    side = data.source if name == "source" else data.target
    return (
        f"{number(side.characters.mean)} characters on average and {side.characters.longest:,} at most, "
        f"{len(side.alphabet):,} different ones"
    )


def _training(record: Record) -> list[str]:
    if record.pruned is not None:
        return [plain(f"Made out of another run: {record.pruned}. This is run {record.run}.")]
    time = f" in {duration(record.seconds)}" if record.seconds else ""
    kept = f"; the weights are those of step {record.kept['step']:,}" if record.kept else ""
    version = (
        f" with Seqwright {record.evaluation.version}"
        if record.evaluation and record.evaluation.version
        else ""
    )
    machine = f" on {record.data.machine}" if record.data and record.data.machine else ""
    seed = record.setting("seed")
    how = f"Trained{version}{machine}, seed {seed}, run {record.run}."
    again = (
        f"{code('report.html')} has the curves, every choice with its reason, and the configuration, from "
        f"which {code(again_command(record))} trains it again."
    )
    return [plain(f"{amount(record.last_step, 'step')}{time}{kept}. {how}"), again]


def _limits(record: Record) -> list[str]:
    """What is known to go wrong, in numbers."""
    lines = []
    if record.data is not None:
        side = record.data.source
        lines.append(
            f"No source of its data is longer than {amount(side.characters.longest, 'character')}, and "
            f"{amount(len(side.alphabet), 'different character')} came in them; "
            "it knows those of the pairs that it was trained on, and no others."
        )
        if seldom := rare(side):
            lines.append(f"Hardly ever seen in its data: {' '.join(seldom[:40])}")
    if record.evaluation is not None:
        lines += _worst_parts(record.evaluation, record.judge)
    if not lines:
        return ["None are recorded: there are no data.json and no evaluation.json to tell them."]
    return ["\n".join(f"- {plain(line)}" for line in lines)]


def _worst_parts(evaluation: Evaluation, judge: str) -> list[str]:
    """Of each way to part the test, the part with the worst score among those of enough items, if it is worse
    than chance lets the whole test be.
    """
    sign = 1.0 if evaluation.better.get(judge) == "higher" else -1.0
    ends = [end for end in evaluation.intervals.get(judge, ()) if end is not None]
    usual = min((sign * end for end in ends), default=sign * (evaluation.metrics.get(judge) or 0.0))
    label, lines = metric(judge, evaluation.item).label, []
    for title, buckets in evaluation.buckets.items():
        scores = {bucket.name: bucket.metrics.get(judge) for bucket in buckets if bucket.items >= FEW}
        known = {name: sign * value for name, value in scores.items() if value is not None}
        if len(known) < 2 or min(known.values()) >= usual:
            continue
        worst = next(bucket for bucket in buckets if known.get(bucket.name) == min(known.values()))
        beside = "" if len(known) == len(buckets) else f" of those of {FEW} items or more"
        said = f"{label} {score(judge, worst.metrics[judge])}, {amount(worst.items, 'item')}"
        lines.append(f"By {title}, {worst.name} is the worst{beside}: {said}")
    return lines


def _verify(record: Record) -> list[str]:
    command = code(f"seqwright verify {shlex.quote(record.name)}")
    if record.examples is None:
        return [f"{plain(record.absent['examples.json'][:1].upper() + record.absent['examples.json'][1:])}."]
    count = amount(len(record.examples.examples), "stored example")
    return [f"{command} checks the files of this folder and compares {count} with what the model says now."]
