"""What pretraining is worth: a classifier of few labels, with and without masked language modelling first.

python -m bench.pretraining DATA       # trains them and appends to bench/results/pretraining.jsonl
python -m bench.pretraining --table    # writes the table of docs/benchmarks.md from it

DATA is a folder with imdb/train.tsv.gz and imdb/test.tsv.gz, lines of text, tab and label. The texts of the
training file are read without labels for 20 minutes; then classifiers are trained on 1,000 of them for 5
minutes each, and judged on the test file. With other minutes the results are printed and not recorded. The
classifiers:

- the default classifier, from scratch,
- the encoder of the masked model, from scratch,
- the same, with its weights.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.quality import HERE, PAGE, append, latest, printed_by
from bench.tables import markdown, put

RESULTS = HERE / "results" / "pretraining.jsonl"
PRETRAINING, MINUTES, LABELS = 20.0, 5.0, 1000
MASKED = "masked_language_modeling"


def prepare(data: Path, folder: Path, labels: int, seed: int) -> None:
    """Write the texts without labels, and a sample with labels, as many of each."""
    with gzip.open(data / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").rpartition("\t")[::2] for line in file]
    texts = (json.dumps({"text": text}, ensure_ascii=False) for text, _ in rows)
    (folder / "texts.jsonl").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
    names = sorted({label for _, label in rows})
    chosen = []
    for name in names:
        own = [row for row in rows if row[1] == name]
        chosen += random.Random(seed).sample(own, labels // len(names))
    random.Random(seed).shuffle(chosen)
    (folder / "labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in chosen), "utf-8")


def encoder_of(folder: Path) -> dict[str, Any]:
    """Return the encoder of a run as a user would write it, and the size of its tokenizer."""
    from seqwright.models.building import resolve

    config = json.loads((folder / "config.json").read_text())
    return {"encoder": resolve(config["model"])["encoder"], "tokenizer": config["tokenizer"]["source"]}


def classifiers(masked: Path) -> dict[str, list[str]]:
    """Return the options of each classifier by name."""
    known = encoder_of(masked)
    encoder = {key: value for key, value in known["encoder"].items() if key != "dropout"}
    same = [f"model.encoder.{key}={json.dumps(value)}" for key, value in encoder.items()]
    same += [f"tokenizer.source.{key}={json.dumps(value)}" for key, value in known["tokenizer"].items()]
    return {
        "default": [],
        "same-encoder": ["model.preset=tiny-classifier", *same],
        "pretrained": [f"start={masked}"],
    }


TITLES = {
    "default": "default classifier, from scratch",
    "same-encoder": "encoder of the masked model, from scratch",
    "pretrained": "encoder of the masked model, pretrained",
}


def table() -> str:
    """The latest result of each classifier."""
    rows, found = [], latest(RESULTS)
    for name, title in TITLES.items():
        if name in found:
            low, high = found[name]["intervals"]["accuracy"]
            rows.append([title, f"**{found[name]['metrics']['accuracy']:.2f}**", f"{low:.1f}–{high:.1f}"])
    if not rows:
        return "Not run yet."
    masked = next(iter(found.values()))["masked"]
    note = (
        f"The masked model fills {masked['masked_accuracy']:.1f} % of the blanks of held-out reviews "
        f"correctly; its loss is {masked['loss']:.3f} nats."
    )
    return f"{markdown(['classifier', 'accuracy', '95 % range'], rows)}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("--pretraining", type=float, default=PRETRAINING, help="minutes")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each classifier")
    parser.add_argument("--labels", type=int, default=LABELS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the runs here and resume them")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "pretraining", table())
        return
    data = options.data / "imdb"
    recorded = (options.pretraining, options.minutes, options.labels) == (PRETRAINING, MINUTES, LABELS)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        prepare(data, folder, options.labels, options.seed)
        seed, masked = f"--seed={options.seed}", folder / "masked"
        pretraining = [f"--minutes={options.pretraining}", seed, f"--out={masked}"]
        printed_by("train", str(folder / "texts.jsonl"), "--task", MASKED, *pretraining)
        filled = json.loads((masked / "evaluation.json").read_text())["metrics"]
        for name, changes in classifiers(masked).items():
            out = folder / name
            rest = [f"--minutes={options.minutes}", seed, f"--out={out}", *changes]
            printed_by("train", str(folder / "labels.tsv"), *rest)
            judged = json.loads(printed_by("evaluate", str(out), str(data / "test.tsv.gz"), "--json"))
            figures = {key: judged[key] for key in ("metrics", "intervals")}
            facts = {"labels": options.labels, "minutes": options.minutes, "seed": options.seed}
            record = {"name": name, **figures, "masked": filled, **facts}
            if recorded:
                append(RESULTS, record)
            else:
                print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
