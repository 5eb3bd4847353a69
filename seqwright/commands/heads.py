"""`seqwright heads`: analyse the attention heads of a model, and prune them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from seqwright.commands.look import note_member

if TYPE_CHECKING:
    from seqwright.config import Config
    from seqwright.lens.heads.analysis import HeadTable
    from seqwright.lens.heads.gates import Head
    from seqwright.lens.heads.importance import HeadScorer
    from seqwright.prediction.predictor import Predictor

MINUTES = 5.0
LEGEND = """\
kind        self-attention of the encoder (enc) or decoder (dec), or cross-attention
role        what the head attends to, and how often; –: no clear role
confidence  mean of the largest weight; 1: always a single token
entropy     mean entropy of the weights in nats; 0: always a single token
importance  gradient of the loss by the gate of the head, normalised within its layer"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="Run folder.")
    data = "Examples to analyse (default: the validation split of the run)."
    add("--data", action="append", default=[], metavar="F", help=data)
    add("--pairs", type=int, default=500, metavar="N", help="At most N examples (default: 500).")
    add("--conllu", metavar="F", help="Parsed sentences, to find syntactic heads.")
    method = "Measure of importance: gradient of the loss, or ablation of each head (slower)."
    add("--method", choices=("gradient", "ablation"), default="gradient", help=method)
    add("--metric", metavar="M", help="loss, chrf, … (default: the metric of the training).")
    add("--beam", type=int, default=1, metavar="N", help="Beam size for the metric (default: 1, greedy).")
    add("--curve", action="store_true", help="Print the metric as heads are removed.")
    add("--prune", type=int, metavar="N", help="Remove the N least important heads.")
    add("--gates", action="store_true", help="Learn which heads to keep, by fine-tuning.")
    add("--keep", type=int, metavar="N", help="Number of heads that --gates keeps.")
    add("--minutes", type=float, metavar="M", help=f"Training time of --gates (default: {MINUTES:.0f}).")
    add("--out", metavar="DIR", help="New run folder for the result of --prune or --gates.")
    add("--member", type=int, metavar="N", help="Member of an ensemble (default: 1).")
    add("--threads", type=int, metavar="N", help="Number of CPU threads.")
    add("--json", action="store_true", help="Print one JSON document.")


def run(options: argparse.Namespace) -> None:
    _check(options)
    import torch

    from seqwright.config import parse
    from seqwright.errors import WriteError
    from seqwright.lens.heads.importance import HeadScorer, ascending
    from seqwright.lens.heads.pruning import curve, one_model, prunable
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run, check_home

    if options.out:
        check_home(options.out)
        if Run.exists(options.out):
            raise WriteError(f"{options.out} already contains a run; choose another folder")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    whole, member = load(options.folder), options.member or 1
    if options.out:
        one_model(whole)  # refuses an ensemble before the work starts
    predictor = whole.member(member)
    note_member(options.folder, whole, member)
    config = parse(Run.open(options.folder).config)
    pairs = _pairs(config, options)
    scorer = HeadScorer(predictor, pairs, options.metric or config.training.metric, beam=options.beam)
    table = _table(config, scorer, pairs, options)
    importance = table.importance(options.method)
    order = ascending({head: importance[head] for head in prunable(predictor.model)})
    points = curve(scorer, order, progress=_progress) if options.curve else None
    _progress("")
    written = _write(whole, order, scorer, pairs, options)
    if options.json:
        document = {**table.to_json(), "curve": points and points.to_json(), "pruned": written}
        print(json.dumps(document, ensure_ascii=False))
        return
    metric = table.metric
    ablation = f"\nablation    how much worse {metric} is without the head" if metric else ""
    legend = LEGEND + ablation if table.rows else ""
    parts = (table, legend, points, written and _sentence(written))
    print("\n\n".join(str(part) for part in parts if part))


def _check(options: argparse.Namespace) -> None:
    """Refuse contradictory options before anything is loaded."""
    import math

    from seqwright.errors import ConfigError

    gates, prune, minutes, threads = (
        options.gates,
        options.prune is not None,
        options.minutes,
        options.threads,
    )
    problems = [
        (gates and prune, "--prune and --gates exclude each other"),
        ((gates or prune) and not options.out, "the smaller model needs a new folder; pass --out DIR"),
        (options.out and not (gates or prune), "--out requires --prune N or --gates --keep N"),
        (gates and options.keep is None, "--gates requires --keep N, the number of heads to keep"),
        (not gates and options.keep is not None, "--keep requires --gates"),
        (not gates and minutes is not None, "--minutes requires --gates"),
        (options.pairs < 1, f"--pairs is {options.pairs}; it must be at least 1"),
        (
            minutes is not None and not 0 < minutes < math.inf,
            f"--minutes is {minutes}; it must be a finite number above 0",
        ),
        (threads is not None and threads < 1, f"--threads is {threads}; it must be at least 1"),
    ]
    if found := [sentence for wrong, sentence in problems if wrong]:
        raise ConfigError("; ".join(found))


def _pairs(config: Config, options: argparse.Namespace) -> list[Any]:
    from dataclasses import replace
    from pathlib import Path

    from seqwright.data.corpus import Corpus
    from seqwright.data.fingerprints import check_run_data
    from seqwright.data.plan import evenly

    if not options.data:
        check_run_data(Path(options.folder), (*config.data.train, *config.data.valid))
    data = replace(config.data, valid=tuple(options.data)) if options.data else config.data
    pairs = list(Corpus.of(replace(config, data=data)).examples("valid"))
    return [pairs[number] for number in evenly(len(pairs), options.pairs)]


def _table(config: Config, scorer: HeadScorer, pairs: list[Any], options: argparse.Namespace) -> HeadTable:
    from pathlib import Path

    from seqwright.data.readers.parses import read_conllu
    from seqwright.data.store import Store
    from seqwright.evaluation.buckets import token_counts
    from seqwright.lens.heads.analysis import analyse, vocabulary

    predictor, store = scorer.predictor, Path(options.folder, "data", "train")
    size, columns = vocabulary(predictor.model), predictor.task.columns(readable=False)
    name = next((spec.name for spec in columns if spec.limit == size), None)  # what the model reads
    return analyse(
        predictor,
        pairs,
        counts=token_counts(Store.open(store), size, name) if name and store.exists() else None,
        parses=read_conllu(options.conllu) if options.conllu else (),
        scorer=scorer if options.method == "ablation" else None,
        smoothing=config.training.smoothing,
        progress=_progress,
    )


def _write(
    predictor: Predictor, order: list[Head], scorer: HeadScorer, pairs: list[Any], options: argparse.Namespace
) -> dict[str, Any] | None:
    """Write the smaller run and describe it; None without --out."""
    if not options.out:
        return None
    from pathlib import Path

    from seqwright.data.text_display import pluralize
    from seqwright.errors import ConfigError
    from seqwright.files import read_json, write_json
    from seqwright.lens.heads.importance import HeadScorer
    from seqwright.lens.heads.l0_pruning import learn_gates
    from seqwright.lens.heads.pruning import write_pruned
    from seqwright.pipeline import DATA, to_verify
    from seqwright.prediction.examples import write_examples
    from seqwright.prediction.predictor import load
    from seqwright.runs.card import write_card
    from seqwright.training.console import Console

    before = scorer()
    if options.gates:
        minutes, console = MINUTES if options.minutes is None else options.minutes, Console(sys.stderr)
        found = learn_gates(predictor, options.out, keep=options.keep, minutes=minutes, listener=console)
        kept, heads, met = list(found.kept), found.heads, found.met
    else:
        if not 0 < options.prune <= len(order):
            count = pluralize(len(order), "head")
            raise ConfigError(f"--prune is {options.prune}; the model has {count} that can be removed")
        write_pruned(predictor, options.out, order[: options.prune])
        kept, heads, met = sorted(order[options.prune :]), len(order), True
    smaller = load(options.out)
    described = Path(options.folder, DATA)
    if described.exists():
        write_json(Path(options.out, DATA), read_json(described))
    write_examples(options.out, smaller, to_verify(smaller, pairs))
    write_card(options.out)
    after = HeadScorer(smaller, pairs, scorer.metric, beam=scorer.beam)()
    result = {"kept": [head._asdict() for head in kept], "of": heads, "met": met, "out": options.out}
    return {**result, "metric": scorer.metric, "before": before, "after": after}


def _sentence(written: dict[str, Any]) -> str:
    forced = "" if written["met"] else " (some were removed only at the end; more --minutes may help)"
    return (
        f"{written['out']}: kept {len(written['kept'])} of {written['of']} heads{forced}; "
        f"{written['metric']} {written['after']:.3f}, before {written['before']:.3f}. "
        f"Try: seqwright predict {written['out']}"
    )


def _progress(text: str) -> None:
    """Overwrite the status line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
