"""Hierarchical attention against a flat encoder: accuracy and speed on IMDB with the same budget.

python -m bench.hierarchical DATA [--minutes 10] [--texts N] [--seed 1]

DATA is a folder with imdb/train.tsv.gz and imdb/test.tsv.gz. The models are `yang2016`, a flat GRU of the
same sizes with attention pooling, and `tiny-hierarchical`. They take turns with the same files, tokenizer,
optimizer, limit of tokens per text and minutes of training. --texts N takes the first N texts of both files,
to try it out. Words are separated by white space; the rate is that of training, validations excluded.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import seqwright
from bench.tables import markdown
from seqwright import cli

DROPOUT = 0.3
TOKENS = 500  # of a text that are read: four of five reviews are read whole
SAMPLE = 1000  # texts by which words per token are counted
MODELS = {
    "yang2016": ["model.preset=yang2016"],
    "flat GRU, attention pooling": [
        "model.preset=lstm-classifier",
        *(f"model.encoder.{option}" for option in ("cell=gru", "size=100", "embedding_size=200")),
    ],
    "tiny-hierarchical": ["model.preset=tiny-hierarchical"],
}
COMMON = [f"model.dropout={DROPOUT}", f"data.max_length={TOKENS}"]


def measure(model: list[str], files: list[str], folder: Path, minutes: float, seed: int) -> list[str]:
    """Train one model and return its row of the table."""
    train, test = files
    command = ["train", train, "--test", test, "--out", str(folder), "--quiet", f"--minutes={minutes}"]
    if cli.main([*command, f"seed={seed}", *model, *COMMON]):
        raise SystemExit(f"the training of {model} failed")
    predictor = seqwright.load(folder)
    scores = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    low, high = scores["intervals"]["accuracy"]
    accuracy = f"{scores['metrics']['accuracy']:.2f} ({low:.2f}–{high:.2f})"
    rate = words_per_second(predictor.task, folder, train)
    return [f"{predictor.parameters / 1e6:.2f} M", accuracy, f"{rate:,.0f}"]


def words_per_second(task: Any, folder: Path, train: str) -> float:
    """Return the median rate of the training log, with the words per token of the first training texts."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    rates = [record["tokens_per_second"] for record in records if "tokens_per_second" in record]
    with gzip.open(train, "rt", encoding="utf-8") as lines:
        texts = [line.partition("\t")[0] for line in itertools.islice(lines, SAMPLE)]
    tokens = sum(row.columns["all"] for row in task.encode(list(task.inputs(texts))))
    return statistics.median(rates) * sum(len(text.split()) for text in texts) / tokens


def first(texts: int | None, source: Path, folder: Path) -> str:
    """Return a data file, or a copy of its first texts."""
    if texts is None:
        return str(source)
    target = folder / source.name
    with gzip.open(source, "rt", encoding="utf-8") as lines, gzip.open(target, "wt", encoding="utf-8") as out:
        out.writelines(itertools.islice(lines, texts))
    return str(target)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each training")
    parser.add_argument("--texts", type=int, help="of both files; default: all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="seqwright-bench-") as folder:
        place = Path(folder)
        files = [
            first(options.texts, options.data / "imdb" / f"{part}.tsv.gz", place)
            for part in ("train", "test")
        ]
        for number, (name, model) in enumerate(MODELS.items()):
            rows.append([name, *measure(model, files, place / str(number), options.minutes, options.seed)])
            print(" ".join(rows[-1]), flush=True)
    print(markdown(("model", "parameters", "accuracy (95 %)", "words per second"), rows))


if __name__ == "__main__":
    main()
