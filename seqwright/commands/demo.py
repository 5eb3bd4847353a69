"""`seqwright demo`: the whole way, from pairs to a model that answers, with nothing to bring."""

from __future__ import annotations

import argparse
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    from seqwright.data.demos import DEMOS

    parser.add_argument("--task", choices=DEMOS, help="what to learn (default: pronounce)")
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="of training (default: 5)")
    parser.add_argument("--out", default="runs", metavar="DIR", help="where the pairs and the run folder go")


def run(options: argparse.Namespace) -> int:
    from seqwright.runtime import keep_freed_memory

    keep_freed_memory()  # before the first tensor
    from pathlib import Path

    from seqwright.data.demos import DEMOS, GENERATED
    from seqwright.errors import InputError, WriteError
    from seqwright.files import write_text, writing
    from seqwright.pipeline import design, run_design
    from seqwright.prediction.predictor import load
    from seqwright.training.console import Console
    from seqwright.training.interrupt import Interrupted

    console = Console(sys.stderr)
    task = options.task or "pronounce"
    try:
        demo = DEMOS[task]()
    except InputError as error:
        if options.task:
            raise
        console.line(f"{error}; a generated task instead:")
        task = GENERATED
        demo = DEMOS[task]()
    console.line(f"seqwright learns {demo.title}, from {demo.source}\n")
    folder = Path(options.out)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    pairs = folder / f"{task}.tsv"
    text = "".join(f"{source}\t{target}\n" for source, target in demo.pairs)
    if pairs.exists() and pairs.read_bytes() != text.encode():
        raise WriteError(f"{pairs} is there and holds something else; give another folder with --out")
    write_text(pairs, text)
    table = {"data": {"train": [str(pairs)]}, "training": {"minutes": options.minutes}}
    designed = design(table, folder=folder / task)
    console.lines(designed.lines())
    try:
        run_design(designed, folder / task, console)
    except Interrupted as left:
        console.line(f"stopped by {left}; the same command goes on from here")
        return left.exit_code
    print(f"\n{demo.title}, for inputs that it has never seen:")
    for prediction in load(folder / task).predict(list(demo.tries)):
        print(f"  {prediction.source:18s} {prediction.text}")
    return 0
