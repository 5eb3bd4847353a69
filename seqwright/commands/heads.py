"""`seqwright heads`: what every attention head does, how much it matters, and the model without some."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from seqwright.commands import members

if TYPE_CHECKING:
    from seqwright.config import Config
    from seqwright.lens.heads.analysis import HeadTable, Tell
    from seqwright.lens.heads.gates import Head
    from seqwright.lens.heads.importance import Yardstick
    from seqwright.prediction.predictor import Predictor

MINUTES = 5.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="F",
        help="pairs to look at (default: those that the training validates with)",
    )
    parser.add_argument(
        "--pairs", type=int, default=500, metavar="N", help="at most so many, evenly picked (default: 500)"
    )
    parser.add_argument("--conllu", metavar="F", help="parsed sentences of the source language, for syntax")
    parser.add_argument(
        "--method",
        choices=("gradient", "ablation"),
        default="gradient",
        help="what makes a head important: the slope of the loss, or what happens without it (takes longer)",
    )
    parser.add_argument("--metric", metavar="M", help="loss, chrf, … (default: that of the training)")
    parser.add_argument(
        "--beam", type=int, default=1, metavar="N", help="for the metric (default: 1, greedy)"
    )
    parser.add_argument("--curve", action="store_true", help="the metric without more and more heads")
    parser.add_argument("--prune", type=int, metavar="N", help="remove the N least important heads")
    parser.add_argument("--gates", action="store_true", help="learn which heads to keep, with the weights")
    parser.add_argument("--keep", type=int, metavar="N", help="how many heads --gates keeps")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help=f"how long --gates learns (default: {MINUTES:.0f})"
    )
    parser.add_argument("--out", metavar="DIR", help="the run folder that --prune or --gates writes")
    members.argument(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="of the CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    _check(options)
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    import torch

    from seqwright.config import parse
    from seqwright.errors import WriteError
    from seqwright.lens.heads.importance import Yardstick, ascending
    from seqwright.lens.heads.pruning import curve, one_model, prunable
    from seqwright.prediction.predictor import load
    from seqwright.runs.folder import Run, check_home
    from seqwright.training.interrupt import Interrupted

    if options.out:
        check_home(options.out)
        if Run.exists(options.out):
            raise WriteError(f"{options.out} holds a run already; choose another folder")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    whole, tell, member = load(options.folder), _telling(), options.member or 1
    if options.out:
        one_model(options.folder)  # refuses several, before the work begins
    predictor = whole.member(member)
    members.note_member(options.folder, whole, member)
    config = parse(Run.open(options.folder).config)
    pairs = _pairs(config, options)
    yardstick = Yardstick(predictor, pairs, options.metric or config.training.metric, beam=options.beam)
    table = _table(config, yardstick, pairs, options, tell)
    importance = table.importance(options.method)
    order = ascending({head: importance[head] for head in prunable(predictor.model)})
    drawn = curve(yardstick, order, tell=tell) if options.curve else None
    tell("")
    try:
        written = _write(order, yardstick, pairs, options)
    except Interrupted as left:
        print(f"stopped by {left}; the same command goes on from here", file=sys.stderr)
        return left.exit_code
    if options.json:
        document = {**table.to_json(), "curve": drawn and drawn.to_json(), "pruned": written}
        print(json.dumps(document, ensure_ascii=False))
        return 0
    parts = (table, _legend(table), drawn, written and _sentence(written, options))
    print("\n\n".join(str(part) for part in parts if part))
    return 0


def _check(options: argparse.Namespace) -> None:
    """What was asked for fits together; found before anything is loaded."""
    import math

    from seqwright.errors import ConfigError

    writes = options.gates or options.prune is not None
    problems = [
        (options.gates and options.prune is not None, "--prune and --gates are two ways; take one"),
        (writes and not options.out, "the smaller model needs a folder of its own; name one with --out"),
        (options.out and not writes, "--out is for the smaller model of --prune N or of --gates --keep N"),
        (options.gates and options.keep is None, "--gates needs to know how many heads stay: --keep N"),
        (not options.gates and options.keep is not None, "--keep is for --gates; --prune N removes N heads"),
        (not options.gates and options.minutes is not None, "--minutes is for --gates"),
        (
            options.minutes is not None and not 0 < options.minutes < math.inf,
            f"--minutes is {options.minutes}; it must be a finite number above 0",
        ),
        (options.pairs < 1, f"--pairs is {options.pairs}; it must be at least 1"),
        (options.threads is not None and options.threads < 1, f"--threads is {options.threads}; at least 1"),
    ]
    if found := [sentence for wrong, sentence in problems if wrong]:
        raise ConfigError("; ".join(found))


def _pairs(config: Config, options: argparse.Namespace) -> list[tuple[str, str]]:
    from dataclasses import replace

    from seqwright.training.preparation import Corpus
    from seqwright.training.validation import evenly

    data = replace(config.data, valid=tuple(options.data)) if options.data else config.data
    pairs = [(pair.source, pair.target) for pair in Corpus(data).pairs("valid")]
    return [pairs[number] for number in evenly(len(pairs), options.pairs)]


def _table(
    config: Config,
    yardstick: Yardstick,
    pairs: list[tuple[str, str]],
    options: argparse.Namespace,
    tell: Tell,
) -> HeadTable:
    from pathlib import Path

    from seqwright.data.store import Store
    from seqwright.evaluation.buckets import token_counts
    from seqwright.lens.heads.analysis import analyse
    from seqwright.lens.heads.syntax_roles import read_conllu

    predictor, store = yardstick.predictor, Path(options.folder, "data", "train")
    counts = token_counts(Store.open(store), predictor.task.source.size) if store.exists() else None
    return analyse(
        predictor,
        pairs,
        counts=counts,
        parses=read_conllu(options.conllu) if options.conllu else (),
        yardstick=yardstick if options.method == "ablation" else None,
        smoothing=config.training.smoothing,
        tell=tell,
    )


def _write(
    order: list[Head], yardstick: Yardstick, pairs: list[tuple[str, str]], options: argparse.Namespace
) -> dict[str, Any] | None:
    """The smaller run, and what is said of it; None if there was none to write."""
    from seqwright.lens.heads.importance import Yardstick
    from seqwright.prediction.predictor import load

    if not options.out:
        return None
    before = yardstick()
    told = _learned(options) if options.gates else _pruned(order, options)
    smaller = load(options.out)
    _complete(smaller, pairs, options)
    after = Yardstick(smaller, pairs, yardstick.metric, beam=yardstick.beam)()
    return {**told, "out": options.out, "metric": yardstick.metric, "before": before, "after": after}


def _pruned(order: list[Head], options: argparse.Namespace) -> dict[str, Any]:
    from seqwright.data.text_display import amount
    from seqwright.errors import ConfigError
    from seqwright.lens.heads.pruning import write_pruned

    if not 0 < options.prune <= len(order):
        raise ConfigError(
            f"--prune is {options.prune}, but the model has {amount(len(order), 'head')} that can be removed"
        )
    write_pruned(options.folder, options.out, order[: options.prune])
    return {
        "kept": [head._asdict() for head in sorted(order[options.prune :])],
        "of": len(order),
        "met": True,
    }


def _learned(options: argparse.Namespace) -> dict[str, Any]:
    from seqwright.lens.heads.l0_pruning import learn_gates
    from seqwright.training.console import Console

    minutes = MINUTES if options.minutes is None else options.minutes
    found = learn_gates(
        options.folder, options.out, keep=options.keep, minutes=minutes, listener=Console(sys.stderr)
    )
    return {"kept": [head._asdict() for head in found.kept], "of": found.heads, "met": found.met}


def _complete(smaller: Predictor, pairs: list[tuple[str, str]], options: argparse.Namespace) -> None:
    """What a run folder has beside its model: what is known of the data, which are those of the run that it
    comes from, examples to verify it by, and its card.
    """
    from pathlib import Path

    from seqwright.files import read_json, write_json
    from seqwright.pipeline import DATA, evenly
    from seqwright.prediction.examples import write_examples
    from seqwright.runs.card import write_card

    described = Path(options.folder, DATA)
    if described.exists():
        write_json(Path(options.out, DATA), read_json(described))
    write_examples(options.out, smaller, evenly(source for source, _ in pairs))
    write_card(options.out)


def _sentence(written: dict[str, Any], options: argparse.Namespace) -> str:
    forced = "" if written["met"] else " (some were closed only at the end: give it more minutes)"
    return (
        f"{written['out']}: {len(written['kept'])} of {written['of']} heads{forced}; {written['metric']} "
        f"{written['after']:.3f}, before {written['before']:.3f}. Try: seqwright predict {written['out']}"
    )


def _legend(table: HeadTable) -> str:
    """The columns in words."""
    columns = {
        "kind": "enc and dec look at their own side, cross at the source; layers and heads count from 0",
        "role": "what the head looks at, and how often; – is nothing of the kind",
        "confidence": "its largest weight, on average: 1 is always at one token",
        "entropy": "of its weights, in nats: 0 is at one token, the more the wider",
        "importance": "how steeply the loss depends on it, from 0 to 1, beside its layer's other heads",
    }
    if table.metric is not None:
        columns[f"{table.metric} worse without"] = "what the model loses if the head is taken away"
    widest = max(map(len, columns))
    return "\n".join(f"{name:{widest}}  {meaning}" for name, meaning in columns.items())


def _telling() -> Tell:
    """One line that moves, where somebody can see it."""

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    return tell
