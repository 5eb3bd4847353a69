"""The cost of removing attention heads from a trained run, measured on held-out pairs.

python -m bench.pruning RUN DATA          # measures, into bench/results/pruning.json
python -m bench.pruning RUN DATA --write  # and then the table of docs/heads.md and docs/pictures/pruning.svg
python -m bench.pruning --write           # only these, from the saved measurement

DATA is a file of pairs, or one file per side. Half of the sources are for the scores; the other half is for
the importance of the heads, so that no order is scored on the data that determined it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import seqwright
from bench.contest import Entry, compete
from bench.decoding import our_outputs, rounds, sources
from bench.tables import markdown, put
from examples.pictures import gallery
from seqwright.config import Config, parse
from seqwright.data.batch import source_tokens
from seqwright.data.corpus import Corpus
from seqwright.data.plan import evenly
from seqwright.evaluation.text_outputs import METRICS_FOR, writing_of
from seqwright.files import write_json, write_text
from seqwright.lens.heads.analysis import analyse
from seqwright.lens.heads.gates import KINDS, Head, sites
from seqwright.lens.heads.importance import HeadScorer, ascending
from seqwright.lens.heads.l0_pruning import learn_gates
from seqwright.lens.heads.pruning import curve, prunable, write_pruned
from seqwright.prediction.predictor import load
from seqwright.runs.folder import Run
from seqwright.training.run import train

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "pruning.json"
PAGE = HERE.parent / "docs" / "heads.md"
CHOICES = {"whole": "all", "gradient": "gradient", "gates": "learned gates"}
SHARES = (0.5, 0.3, 0.1)  # of the heads to keep by default
BEAM, BATCHES, SECONDS = 5, (1, 32), 4.0  # of the speed measurement; seconds of a round

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """The measurement. keep: numbers of heads to keep, each by gradient and by gates; steps: the length of
    learning gates, and of further training of models without gates; rounds: of the speed.
    """

    title: str
    items: int = 500
    seeds: int = 3
    metric: str | None = None
    keep: tuple[int, ...] = ()
    steps: int = 3000
    rounds: int = 3


@dataclass(frozen=True)
class Made:
    """A compared model. met: the gates closed the requested number of heads in time."""

    choice: str
    trained_on: bool
    folder: Path
    met: bool = True


def measure(folder: Path, data: Sequence[str], plan: Plan) -> dict[str, Any]:
    predictor, config = load(folder), parse(Run.open(folder).config)
    scored, others = held_out(config, data, plan.items)
    metric = (
        plan.metric
        or METRICS_FOR[writing_of(predictor.task.target.kind, (target for _, target in scored))][0]
    )
    log("importance of the heads")
    importance = analyse(predictor, others, smoothing=config.training.smoothing).importance()
    order = ascending({head: importance[head] for head in prunable(predictor.model)})
    drawn = curve(HeadScorer(predictor, scored, metric), order, seeds=plan.seeds, progress=log)
    log(str(drawn))
    depths = Counter(site.kind for site in sites(predictor.model))
    with tempfile.TemporaryDirectory() as work:
        made = list(models(folder, order, plan, Path(work)))
        speeds = speed(
            [one.folder for one in made if one.choice == "gates" or not one.trained_on], plan.rounds
        )
        compared = [record(one, scored, metric, speeds.get(one.folder, {})) for one in made]
    return {
        "title": plan.title,
        "layers": "+".join(str(depths[kind]) for kind in ("enc", "dec")),
        "trained": trained_for(config),
        "items": len({source for source, _ in scored}),
        "others": len({source for source, _ in others}),
        "steps": plan.steps,
        "order": [head._asdict() for head in order],
        "curve": drawn.to_json(),
        "models": compared,
        "version": seqwright.__version__,
    }


def trained_for(config: Config) -> str:
    ends = ((getattr(config.training, name), name) for name in ("minutes", "epochs", "steps"))
    return next(f"{end:g} {name}" for end, name in ends if end is not None)


def held_out(config: Config, data: Sequence[str], items: int) -> tuple[Pairs, Pairs]:
    """Pairs for the scores, and others: at most `items` sources each, spread over the data."""
    corpus = Corpus.of(replace(config, data=replace(config.data, valid=tuple(data))))
    references: dict[str, dict[str, None]] = {}  # by source, each once
    for source, target, *_ in corpus.examples("valid"):
        references.setdefault(source, {})[target] = None
    texts, picked = list(references), evenly(len(references), 2 * items).tolist()

    def pairs(numbers: list[int]) -> Pairs:
        return [(texts[number], reference) for number in numbers for reference in references[texts[number]]]

    return pairs(picked[::2]), pairs(picked[1::2])


def models(folder: Path, order: Sequence[Head], plan: Plan, work: Path) -> Iterator[Made]:
    """The whole model, and for each number of heads those chosen by gradient and by gates.

    The weights are trained while gates are learned. To separate the two effects, the models without gates
    are trained for as many steps, too.
    """
    yield Made("whole", False, folder)
    yield Made("whole", True, trained_on(folder, work / "whole", plan.steps))
    for keep in plan.keep or [max(1, round(share * len(order))) for share in SHARES]:
        fewer = work / f"gradient-{keep}"
        write_pruned(load(folder), fewer, order[: len(order) - keep])
        yield Made("gradient", False, fewer)
        yield Made("gradient", True, trained_on(fewer, work / f"tuned-{keep}", plan.steps))
        log(f"gates for {keep} of {len(order)} heads, {plan.steps} steps")
        found = learn_gates(load(folder), work / f"gates-{keep}", keep=keep, steps=plan.steps)
        yield Made("gates", True, found.run.folder, found.met)


def trained_on(folder: Path, out: Path, steps: int) -> Path:
    """Train the run at `folder` further, as `learn_gates` does: on its data, with its schedule."""
    log(f"{folder.name}: {steps} further steps")
    known = parse(Run.open(folder).config).to_dict()
    ends = {"minutes": None, "steps": steps, "epochs": None, "patience": None, "traces": 0}
    train(parse({**known, "start": str(folder), "training": {**known["training"], **ends}}), out)
    return out


def record(made: Made, scored: Pairs, metric: str, rates: dict[str, list[float]]) -> dict[str, Any]:
    predictor = load(made.folder)
    value = HeadScorer(predictor, scored, metric)()
    heads = Counter(head.kind for head in prunable(predictor.model))
    found = {
        "choice": made.choice,
        "trained_on": made.trained_on,
        "met": made.met,
        "heads": sum(heads.values()),
        "kinds": {kind: heads[kind] for kind in KINDS},
        "value": value,
        "parameters": sum(weight.numel() for weight in predictor.model.parameters()),
        "bytes": (made.folder / "model.safetensors").stat().st_size,
        "tokens_per_second": rates,
    }
    log(json.dumps(found))
    return found


def speed(folders: Sequence[Path], turns: int) -> dict[Path, dict[str, list[float]]]:
    """Tokens per second of each model in each round, by the number of sentences decoded together."""
    found: dict[Path, dict[str, list[float]]] = {folder: {} for folder in folders}
    for rows in BATCHES if turns else ():
        log(f"speed, {rows} together")
        common = {"rows": rows, "seconds": SECONDS}
        entries = [
            Entry(folder.name, "bench.pruning:decoding", {"folder": str(folder), **common})
            for folder in folders
        ]
        compete(entries, turns)
        for folder, entry in zip(folders, entries, strict=True):
            found[folder][str(rows)] = entry.rates
            if entry.failure:
                log(f"{folder.name} was not measured: {entry.failure}")
    return found


def decoding(folder: str, rows: int, seconds: float) -> Iterator[Any]:
    """A contender: beam search of one run, with forced steps, as pruned models may not find an end."""
    from seqwright.runtime import freeze_objects, keep_freed_memory

    keep_freed_memory()
    predictor = load(folder)
    model, inputs = predictor.model.eval(), source_tokens(sources(rows, predictor.task.source.size))
    freeze_objects()
    yield from rounds(lambda: our_outputs(model, inputs, BEAM), rows, seconds)


def table(found: dict[str, Any]) -> str:
    """The compared models, one per line, after a sentence on the data."""
    drawn, whole = found["curve"], found["models"][0]
    metric = drawn["metric"].replace("_", " ")
    about = (
        f"{found['title']}: {found['layers']} layers, {drawn['heads']} heads, trained for "
        f"{found['trained']}; {metric} ({drawn['better']} is better) of greedy search on {found['items']} "
        f"held-out sources, the importance of the heads from {found['others']} others."
    )
    head = ["heads", "enc, dec, cross", "chosen by", "trained on", metric, "parameters", "file"]
    head += [f"speed, {rows} together" for rows in BATCHES]
    late = [
        f"At {one['heads']} heads, gates closed the last ones only when their steps were over."
        for one in found["models"]
        if not one["met"]
    ]
    rows = [_cells(one, whole, found["steps"]) for one in found["models"]]
    return "\n\n".join([about, markdown(head, rows), *late])


def _cells(one: dict[str, Any], whole: dict[str, Any], steps: int) -> list[str]:
    return [
        str(one["heads"]),
        ", ".join(str(one["kinds"][kind]) for kind in KINDS),
        CHOICES[one["choice"]],
        f"{steps:,} steps" if one["trained_on"] else "–",
        f"**{one['value']:.1f}**",
        f"{one['parameters'] / 1e6:.2f} M",
        f"{one['bytes'] / 1e6:.1f} MB",
        *(_ratio(*(model["tokens_per_second"].get(str(rows)) for model in (one, whole))) for rows in BATCHES),
    ]


def _ratio(rates: list[float] | None, base: list[float] | None) -> str:
    return f"× {median(rates) / median(base):.2f}" if rates and base else "–"


def write(found: dict[str, Any]) -> None:
    put(PAGE, "pruning", table(found))
    write_text(gallery.FOLDER / "pruning.svg", gallery.PICTURES["pruning"]())


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", type=Path, help="a run folder whose training files still exist")
    parser.add_argument("data", nargs="*", help="held-out pairs")
    parser.add_argument("--title", help="title in the table (default: the name of the folder)")
    parser.add_argument("--items", type=int, default=Plan.items, help="maximum number of sources to score")
    parser.add_argument("--seeds", type=int, default=Plan.seeds, help="random orders")
    parser.add_argument("--metric", help="metric (default: the first one for this kind of text)")
    parser.add_argument(
        "--keep", type=int, nargs="+", default=(), help="numbers of heads to keep (default: 50, 30 and 10 %%)"
    )
    parser.add_argument("--steps", type=int, default=Plan.steps, help="steps of each further training")
    parser.add_argument(
        "--rounds", type=int, default=Plan.rounds, help="rounds of the speed measurement; 0 skips it"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the table and the picture of the documentation"
    )
    options = parser.parse_args()
    if bool(options.run) != bool(options.data) or not (options.run or options.write):
        parser.error("give a run and held-out pairs, or --write alone")
    if options.run:
        given = {name: value for name, value in vars(options).items() if name in Plan.__match_args__}
        given |= {"title": options.title or options.run.name, "keep": tuple(options.keep)}
        RESULTS.parent.mkdir(exist_ok=True)
        write_json(RESULTS, measure(options.run, options.data, Plan(**given)))
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(table(found))
    if options.write:
        write(found)


if __name__ == "__main__":
    main()
