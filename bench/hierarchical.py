"""Hierarchical attention against a flat encoder: accuracy and speed on IMDB with the same budget.

python -m bench.hierarchical DATA      # trains them and appends to bench/results/hierarchical.jsonl
python -m bench.hierarchical --table   # writes the table of docs/benchmarks.md from it

DATA is a folder with imdb/train.tsv.gz and imdb/test.tsv.gz. The models are `yang2016`, a flat GRU of the
same sizes with attention pooling, and `tiny-hierarchical`. They take turns with the same files, tokenizer,
optimizer, limit of tokens per text and minutes of training. --texts N takes the first N texts of both files
and --minutes less time, to try it out; such results are printed and not recorded. Words are separated by
white space; the rate is that of training, validations excluded.
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
from bench.quality import HERE, PAGE, append, latest
from bench.tables import markdown, put
from seqwright import cli

RESULTS = HERE / "results" / "hierarchical.jsonl"
MINUTES = 10.0  # of each training
DROPOUT = 0.3
TOKENS = 500  # of a text that are read: four of five reviews are read whole
SAMPLE = 1000  # texts by which words per token are counted
MODELS = {
    "yang2016": ["model.preset=yang2016"],
    "flat-gru": [
        "model.preset=lstm-classifier",
        *(f"model.encoder.{option}" for option in ("cell=gru", "size=100", "embedding_size=200")),
    ],
    "tiny-hierarchical": ["model.preset=tiny-hierarchical"],
}
COMMON = [f"model.dropout={DROPOUT}", f"data.max_length={TOKENS}"]


def measure(name: str, files: list[str], folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Train one model and return its record."""
    train, test = files
    command = ["train", train, "--test", test, "--out", str(folder), "--quiet", f"--minutes={minutes}"]
    if cli.main([*command, f"seed={seed}", *MODELS[name], *COMMON]):
        raise SystemExit(f"the training of {name} failed")
    predictor = seqwright.load(folder)
    scores = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return {
        "name": name,
        "minutes": minutes,
        "parameters": predictor.parameters,
        "metrics": scores["metrics"],
        "intervals": scores["intervals"],
        "words_per_second": words_per_second(predictor.task, folder, train),
        "seed": seed,
    }


def table() -> str:
    """The latest result of each model."""
    head, rows, found = ("model", "parameters", "accuracy (95 %)", "words per second"), [], latest(RESULTS)
    for name in MODELS:
        if name in found:
            record = found[name]
            low, high = record["intervals"]["accuracy"]
            accuracy = f"**{record['metrics']['accuracy']:.2f}** ({low:.1f}–{high:.1f})"
            each = (f"{record['parameters'] / 1e6:.2f} M", accuracy, f"{record['words_per_second']:,.0f}")
            rows.append([name, *each])
    return markdown(head, rows) if rows else "Not run yet."


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
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=[*MODELS], metavar="NAME")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of each training")
    parser.add_argument("--texts", type=int, help="of both files; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "hierarchical", table())
        return
    with tempfile.TemporaryDirectory(prefix="seqwright-bench-") as folder:
        place = Path(folder)
        files = [
            first(options.texts, options.data / "imdb" / f"{part}.tsv.gz", place)
            for part in ("train", "test")
        ]
        for number, name in enumerate(options.only):
            record = measure(name, files, place / str(number), options.minutes, options.seed)
            if options.texts is None and options.minutes == MINUTES:
                append(RESULTS, record)
            else:
                print(json.dumps(record, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
