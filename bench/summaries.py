"""Summaries: the defaults on AESLC and SAMSum, five kinds of models with the same data and minutes, and what
copying from the source is worth.

python -m bench.summaries DATA [--only NAME ...]   # trains them and appends to bench/results/summaries.jsonl
python -m bench.summaries --table                  # writes the tables of docs/benchmarks.md from it

DATA is a folder with summaries/aeslc/ and summaries/samsum/. `--keep FOLDER` keeps the runs and resumes those
that were interrupted. With `--minutes` the result is printed and not recorded.

`aeslc` and `samsum` receive files, time and seed; the recipe chooses everything else. The models of the
second table read SAMSum with one BPE of 3,000 pieces for both sides and the same dropout. A token uses about
2 million parameters of each; the one with experts has more. Perplexity is that of a piece of the first
reference summary, its end included. The third table compares a Transformer with and without a pointer to the
source (See et al. 2017). It is a choice between models, so it is judged on the validation data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seqwright
from bench.quality import HERE, command, latest, printed_by, training_facts
from bench.tables import markdown
from seqwright.config import DataConfig
from seqwright.data.read_report import ReadReport

RESULTS = HERE / "results" / "summaries.jsonl"
ROUGE = ("rouge_1", "rouge_2", "rouge_l")
MINUTES = 20.0

EQUAL = (
    "tokenizer.joint=true",
    "tokenizer.source.kind=bpe",
    "tokenizer.source.max_size=3000",
    "model.dropout=0.2",
)
LAYERS = ("layers=8", "size=128", "hidden=256", "heads=4", "order=pre", "position=rotary", "zero_start=true")
ALONE = ("model.preset=liu2018-d", *(f"model.{option}" for option in LAYERS))
COMPRESSED = (*ALONE, "model.window=64", 'model.growth=["last", "compressed"]')


@dataclass(frozen=True)
class Experiment:
    """One training. published: figures next to which the score stands. aim: least ROUGE-1, -2 and -L.

    judged: the part of the data that is summarised.
    """

    title: str
    data: str
    options: tuple[str, ...] = ()
    published: str = ""
    aim: tuple[float, float, float] | None = None
    judged: str = "test"


DEFAULTS = {
    "aeslc": Experiment(
        "AESLC, subject lines of e-mails",
        "aeslc",
        published="15.0 / 7.4 / 14.9 (Transformer from scratch, Zhang et al. 2020)",
        aim=(15.0, 7.4, 14.9),
    ),
    "samsum": Experiment(
        "SAMSum, summaries of chats",
        "samsum",
        published="36.6 / 11.2 / 33.1 (Transformer from scratch, Gliwa et al. 2019)",
    ),
}
MODELS = {
    "attention": Experiment("recurrent, with attention", "samsum", (*EQUAL, "model.preset=tiny-rnn")),
    "transformer": Experiment("Transformer, encoder and decoder", "samsum", (*EQUAL, "model.preset=tiny")),
    "decoder": Experiment("Transformer, decoder only", "samsum", (*EQUAL, *ALONE)),
    "compressed": Experiment("the same, memory-compressed", "samsum", (*EQUAL, *COMPRESSED)),
    "experts": Experiment(
        "the same, with 4 experts", "samsum", (*EQUAL, *COMPRESSED, "model.feed_forward=experts")
    ),
}
COPYING = {
    f"{name}_{data}": Experiment(
        f"{title}, {kind}", data, (*EQUAL, "model.preset=tiny", f"model.kind={kind}"), judged="valid"
    )
    for data, title in (("samsum", "SAMSum"), ("aeslc", "AESLC"))
    for name, kind in (("plain", "encoder_decoder"), ("pointer", "pointer_generator"))
}
EXPERIMENTS = {**DEFAULTS, **MODELS, **COPYING}


def run(experiment: Experiment, data: Path, out: Path, *, seed: int, minutes: float) -> dict[str, Any]:
    """Train into `out`, and evaluate on the part that is judged."""
    train, valid, judging = (
        str(data / "summaries" / experiment.data / f"{part}.jsonl.gz")
        for part in ("train", "valid", experiment.judged)
    )
    fixed = [f"--valid={valid}", f"--minutes={minutes}", f"--seed={seed}", f"--out={out}"]
    printed_by("train", train, *fixed, *experiment.options)
    judged = json.loads(printed_by("evaluate", str(out), judging, "--metrics", "rouge", "--json"))
    return {
        "metrics": judged["metrics"],
        "intervals": judged["intervals"],
        "lead": judged["baselines"]["lead"],
        "copied": dict(judged["tables"]["copies"]["rows"]),
        "perplexity": perplexity(out, judging),
        "minutes": minutes,
        **training_facts(out),
        "seed": seed,
    }


def perplexity(out: Path, file: str) -> float:
    """Return exp(−log p / n) of the first reference summaries, in n pieces with their ends."""
    predictor = seqwright.load(out)
    task: Any = predictor.task
    pairs = list(task.reader([file], DataConfig()).read(ReadReport()))
    total = sum(predictor.score(pairs))
    pieces = sum(len(task.target.encode(pair.target)) + 1 for pair in pairs)
    return math.exp(-total / pieces)


def table() -> str:
    """Return the tables, each with the latest result of each experiment."""
    found = latest(RESULTS)
    pointers = "With and without a pointer to the source, on the validation data"
    parts = [_defaults(found), _models(found, MODELS, "SAMSum"), _models(found, COPYING, pointers)]
    if missing := [name for name in EXPERIMENTS if name not in found]:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(part for part in parts if part)


def _defaults(found: dict[str, Any]) -> str:
    head = ("data", "minutes", "ROUGE-1 / 2 / L", "lead", "published", "copied in one run", "steps", "memory")
    rows = []
    for name in DEFAULTS:
        if name not in found:
            continue
        experiment, record = DEFAULTS[name], found[name]
        scores = [record["metrics"][each] for each in ROUGE]
        published = experiment.published
        if experiment.aim is not None:
            reached = all(score >= aim for score, aim in zip(scores, experiment.aim, strict=True))
            published += ", reached" if reached else ", **not reached**"
        rows.append(
            [
                experiment.title,
                f"{record['minutes']:g}",
                f"**{_slashes(scores)}**",
                _slashes(record["lead"][each] for each in ROUGE),
                published,
                f"{record['copied']['outputs']:.0f} % (references {record['copied']['references']:.0f} %)",
                f"{record['steps']:,}",
                f"{record['peak_memory_mb']} MB",
            ]
        )
    return markdown(head, rows) if rows else ""


def _models(found: dict[str, Any], experiments: dict[str, Experiment], caption: str) -> str:
    head = ("model", "perplexity", "ROUGE-L", "95 %", "ROUGE-1 / 2", "copied", "parameters", "steps")
    rows = []
    for name in experiments:
        if name not in found:
            continue
        record = found[name]
        low, high = record["intervals"]["rouge_l"]
        rows.append(
            [
                experiments[name].title,
                f"{record['perplexity']:.1f}",
                f"**{record['metrics']['rouge_l']:.1f}**",
                f"{low:.1f}–{high:.1f}",
                _slashes(record["metrics"][each] for each in ROUGE[:2]),
                f"{record['copied']['outputs']:.0f} %",
                f"{record['parameters'] / 1e6:.1f} M",
                f"{record['steps']:,}",
            ]
        )
    if not rows:
        return ""
    minutes = {found[name]["minutes"] for name in experiments if name in found}
    times = ", ".join(f"{each:g}" for each in sorted(minutes))
    return f"{caption}, {times} minutes each:\n\n{markdown(head, rows)}"


def _slashes(values: Iterable[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> None:
    folders = "summaries/aeslc and summaries/samsum"
    command(__doc__, "summaries", EXPERIMENTS, run, table, results=RESULTS, minutes=MINUTES, data=folders)


if __name__ == "__main__":
    main()
