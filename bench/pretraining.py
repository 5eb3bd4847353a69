"""What pretraining is worth: a classifier of few labels, with and without masked language modelling first.

python -m bench.pretraining DATA [--pretraining 20] [--minutes 5] [--labels 1000] [--keep FOLDER]

DATA is a folder with train.tsv.gz and test.tsv.gz, lines of text, tab and label (IMDB). The texts of the
training file are read without labels for `--pretraining` minutes; then classifiers are trained on `--labels`
of them for `--minutes` each, and judged on the test file:

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

from bench.quality import printed_by
from bench.tables import markdown

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
        "default classifier, from scratch": [],
        "encoder of the masked model, from scratch": ["model.preset=tiny-classifier", *same],
        "encoder of the masked model, pretrained": [f"start={masked}"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder of the data")
    parser.add_argument("--pretraining", type=float, default=20.0, help="minutes")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each classifier")
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the runs here and resume them")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        prepare(options.data, folder, options.labels, options.seed)
        seed, masked = f"--seed={options.seed}", folder / "masked"
        pretraining = [f"--minutes={options.pretraining}", seed, f"--out={masked}"]
        printed_by("train", str(folder / "texts.jsonl"), "--task", MASKED, *pretraining)
        found = json.loads((masked / "evaluation.json").read_text())["metrics"]
        print(f"{MASKED}: masked accuracy {found['masked_accuracy']:.1f} %, loss {found['loss']:.3f} nats")
        rows = []
        for number, (name, changes) in enumerate(classifiers(masked).items()):
            out = folder / f"classifier-{number}"
            rest = [f"--minutes={options.minutes}", seed, f"--out={out}", *changes]
            printed_by("train", str(folder / "labels.tsv"), *rest)
            judged = json.loads(printed_by("evaluate", str(out), str(options.data / "test.tsv.gz"), "--json"))
            low, high = judged["intervals"]["accuracy"]
            rows.append([name, f"{judged['metrics']['accuracy']:.2f}", f"{low:.1f}–{high:.1f}"])
            print(json.dumps({"name": name, "seed": options.seed, **judged["metrics"]}), flush=True)
        print(markdown(["classifier", "accuracy", "95 % range"], rows))


if __name__ == "__main__":
    main()
