"""`seqwright demo`: train, test and try a model on data that Seqwright provides."""

from __future__ import annotations

import argparse
import sys

OF_KIND = {  # the demo of each kind of task
    "text_to_text": "pronounce",
    "language_modeling": "python",
    "text_classification": "languages",
    "forecasting": "temperatures",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    from seqwright.data.demos import DEMOS

    choices = (*DEMOS, *OF_KIND)
    what = f"Data or kind of task (default: pronounce): {', '.join(choices)}."
    parser.add_argument("--task", choices=choices, metavar="NAME", help=what)
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="Training time (default: 5).")
    parser.add_argument("--out", default="runs", metavar="DIR", help="Folder for the data and the run.")


def run(options: argparse.Namespace) -> None:
    from pathlib import Path

    from seqwright.data.demos import DEMOS, GENERATED
    from seqwright.errors import InputError, WriteError
    from seqwright.files import write_text, writing
    from seqwright.pipeline import design, run_design
    from seqwright.prediction.predictor import load
    from seqwright.training.console import Console

    console = Console(sys.stderr)
    task = OF_KIND.get(options.task, options.task or "pronounce")
    try:
        demo = DEMOS[task]()
    except InputError as error:
        if options.task in DEMOS:
            raise
        console.line(f"{error}; using generated data instead")
        task = GENERATED[task]
        demo = DEMOS[task]()
    console.line(f"Learning {demo.title} from {demo.source}\n")
    folder = Path(options.out)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    file, text = folder / f"{task}.{demo.ending}", demo.content
    if file.exists() and file.read_bytes() != text.encode():
        raise WriteError(f"{file} exists and has other contents; choose another folder with --out")
    write_text(file, text, follow=True)
    table = {"data": {"train": [str(file)]}, "training": {"minutes": options.minutes}}
    designed = design(table, folder=folder / task)
    console.lines(designed.lines())
    run_design(designed, folder / task, console)
    predictor = load(folder / task)
    if not demo.tries:
        inputs = predictor.task.whole_inputs(designed.survey.corpus.reader((str(file),)))
        print(f"\n{demo.title}, after the end of the data:")
        print("\n".join(predictor.task.remarks(inputs, predictor.predict(inputs))))
        return
    print(f"\n{demo.title}, for inputs that are not in the training data:")
    for prediction in predictor.predict(list(demo.tries)):
        print(f"  {prediction.source:18s} {prediction}")
