"""`seqwright heads`: analyse the attention heads of a model, and prune them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from seqwright.commands import members

if TYPE_CHECKING:
    from seqwright.config import Config
    from seqwright.lens.heads.analysis import HeadTable
    from seqwright.lens.heads.gates import Head
    from seqwright.lens.heads.importance import HeadScorer
    from seqwright.prediction.predictor import Predictor

MINUTES = 5.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="F",
        help="pairs to analyse (default: the validation split of the run)",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=500,
        metavar="N",
        help="at most N pairs, evenly spaced (default: 500)",
    )
    parser.add_argument("--conllu", metavar="F", help="parsed source sentences, to find syntactic heads")
    parser.add_argument(
        "--method",
        choices=("gradient", "ablation"),
        default="gradient",
        help="measure of importance: gradient of the loss, or ablation of each head (slower)",
    )
    parser.add_argument(
        "--metric",
        metavar="M",
        help="loss, chrf, … (default: the metric of the training)",
    )
    parser.add_argument(
        "--beam", type=int, default=1, metavar="N", help="beam size for the metric (default: 1, greedy)"
    )
    parser.add_argument("--curve", action="store_true", help="print the metric as heads are removed")
    parser.add_argument("--prune", type=int, metavar="N", help="remove the N least important heads")
    parser.add_argument("--gates", action="store_true", help="learn which heads to keep, by fine-tuning")
    parser.add_argument("--keep", type=int, metavar="N", help="number of heads that --gates keeps")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help=f"training time of --gates (default: {MINUTES:.0f})"
    )
    parser.add_argument("--out", metavar="DIR", help="new run folder for the result of --prune or --gates")
    members.argument(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="number of CPU threads")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    _check(options)
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    import torch

    from seqwright.config import parse
    from seqwright.errors import WriteError
    from seqwright.lens.heads.importance import HeadScorer, ascending
    from seqwright.lens.heads.pruning import curve, one_model, prunable
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run, check_home
    from seqwright.training.interrupt import Interrupted

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
    members.note_member(options.folder, whole, member)
    config = parse(Run.open(options.folder).config)
    pairs = _pairs(config, options)
    scorer = HeadScorer(predictor, pairs, options.metric or config.training.metric, beam=options.beam)
    table = _table(config, scorer, pairs, options)
    importance = table.importance(options.method)
    order = ascending({head: importance[head] for head in prunable(predictor.model)})
    points = curve(scorer, order, progress=_progress) if options.curve else None
    _progress("")
    try:
        written = _write(whole, order, scorer, pairs, options)
    except Interrupted as stop:
        print(f"stopped by {stop}; the same command resumes it", file=sys.stderr)
        return stop.exit_code
    if options.json:
        document = {**table.to_json(), "curve": points and points.to_json(), "pruned": written}
        print(json.dumps(document, ensure_ascii=False))
        return 0
    parts = (table, _legend(table), points, written and _sentence(written))
    print("\n\n".join(str(part) for part in parts if part))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse contradictory options before anything is loaded."""
    import math

    from seqwright.errors import ConfigError

    writes = options.gates or options.prune is not None
    problems = [
        (
            options.gates and options.prune is not None,
            "--prune and --gates exclude each other",
        ),
        (writes and not options.out, "the smaller model needs a new folder; pass --out DIR"),
        (options.out and not writes, "--out requires --prune N or --gates --keep N"),
        (options.gates and options.keep is None, "--gates requires --keep N, the number of heads to keep"),
        (
            not options.gates and options.keep is not None,
            "--keep requires --gates",
        ),
        (not options.gates and options.minutes is not None, "--minutes requires --gates"),
        (
            options.minutes is not None and not 0 < options.minutes < math.inf,
            f"--minutes is {options.minutes}; it must be a finite number above 0",
        ),
        (options.pairs < 1, f"--pairs is {options.pairs}; it must be at least 1"),
        (
            options.threads is not None and options.threads < 1,
            f"--threads is {options.threads}; it must be at least 1",
        ),
    ]
    if found := [sentence for wrong, sentence in problems if wrong]:
        raise ConfigError("; ".join(found))


def _pairs(config: Config, options: argparse.Namespace) -> list[Any]:
    from dataclasses import replace

    from seqwright.data.corpus import Corpus
    from seqwright.data.plan import evenly

    data = replace(config.data, valid=tuple(options.data)) if options.data else config.data
    pairs = list(Corpus.of(replace(config, data=data)).examples("valid"))
    return [pairs[number] for number in evenly(len(pairs), options.pairs)]


def _table(
    config: Config,
    scorer: HeadScorer,
    pairs: list[Any],
    options: argparse.Namespace,
) -> HeadTable:
    from pathlib import Path

    from seqwright.data.store import Store
    from seqwright.evaluation.buckets import token_counts
    from seqwright.lens.heads.analysis import analyse
    from seqwright.lens.heads.syntax_roles import read_conllu
    from seqwright.lens.trace.contract import text_task

    predictor, store = scorer.predictor, Path(options.folder, "data", "train")
    counts = (
        token_counts(Store.open(store), text_task(predictor.task).source.size) if store.exists() else None
    )
    return analyse(
        predictor,
        pairs,
        counts=counts,
        parses=read_conllu(options.conllu) if options.conllu else (),
        scorer=scorer if options.method == "ablation" else None,
        smoothing=config.training.smoothing,
        progress=_progress,
    )


def _write(
    predictor: Predictor,
    order: list[Head],
    scorer: HeadScorer,
    pairs: list[Any],
    options: argparse.Namespace,
) -> dict[str, Any] | None:
    """Write the smaller run and describe it; None without --out."""
    from seqwright.data.text_display import pluralize
    from seqwright.errors import ConfigError
    from seqwright.lens.heads.importance import HeadScorer
    from seqwright.lens.heads.l0_pruning import learn_gates
    from seqwright.lens.heads.pruning import write_pruned
    from seqwright.prediction.predictor import load
    from seqwright.training.console import Console

    if not options.out:
        return None
    before = scorer()
    if options.gates:
        minutes = MINUTES if options.minutes is None else options.minutes
        console = Console(sys.stderr)
        found = learn_gates(predictor, options.out, keep=options.keep, minutes=minutes, listener=console)
        kept, heads, met = list(found.kept), found.heads, found.met
    else:
        kept, heads, met = sorted(order[options.prune :]), len(order), True
        if not 0 < options.prune <= heads:
            raise ConfigError(
                f"--prune is {options.prune}; the model has {pluralize(heads, 'head')} that can be removed"
            )
        write_pruned(predictor, options.out, order[: options.prune])
    smaller = load(options.out)
    _complete(smaller, pairs, options)
    after = HeadScorer(smaller, pairs, scorer.metric, beam=scorer.beam)()
    made = {"kept": [head._asdict() for head in kept], "of": heads, "met": met}
    return {**made, "out": options.out, "metric": scorer.metric, "before": before, "after": after}


def _complete(smaller: Predictor, pairs: list[Any], options: argparse.Namespace) -> None:
    """Add the description of the data, the examples for `verify`, and the model card to the new run."""
    from pathlib import Path

    from seqwright.files import read_json, write_json
    from seqwright.pipeline import DATA, to_verify
    from seqwright.prediction.examples import write_examples
    from seqwright.runs.card import write_card

    described = Path(options.folder, DATA)
    if described.exists():
        write_json(Path(options.out, DATA), read_json(described))
    write_examples(options.out, smaller, to_verify(smaller, pairs))
    write_card(options.out)


def _sentence(written: dict[str, Any]) -> str:
    forced = "" if written["met"] else " (some were removed only at the end; more --minutes may help)"
    return (
        f"{written['out']}: kept {len(written['kept'])} of {written['of']} heads{forced}; "
        f"{written['metric']} {written['after']:.3f}, before {written['before']:.3f}. "
        f"Try: seqwright predict {written['out']}"
    )


def _legend(table: HeadTable) -> str:
    """The meaning of the columns."""
    columns = {
        "kind": "self-attention of the encoder (enc) or decoder (dec), or cross-attention",
        "role": "what the head attends to, and how often; –: no clear role",
        "confidence": "mean of the largest weight; 1: always a single token",
        "entropy": "mean entropy of the weights in nats; 0: always a single token",
        "importance": "gradient of the loss by the gate of the head, normalised within its layer",
    }
    if table.metric is not None:
        columns["ablation"] = f"how much worse {table.metric} is without the head"
    widest = max(map(len, columns))
    return "\n".join(f"{name:{widest}}  {meaning}" for name, meaning in columns.items())


def _progress(text: str) -> None:
    """Overwrite the status line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
