"""WikiText-2: perplexity per word of a Transformer language model and an LSTM of the same size.

python -m bench.wikitext DATA [--only NAME ...]   # trains them and appends to bench/results/wikitext.jsonl
python -m bench.wikitext --table                  # writes the table of docs/benchmarks.md from it

DATA is a folder with language/wikitext2/. `--keep FOLDER` keeps the runs and resumes those that were
interrupted. With `--minutes` the result is printed and not recorded.

Both models read the same BPE, which the recipe chooses. Their perplexity is counted per word: exp(nats of the
test text / its words), where the end of a line is a word, as in the published figures. A model of pieces must
also spell each word, and could spell words that the vocabulary of the published models does not have, so this
count favours the published models.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

from bench.quality import HERE, command, latest, printed_by, training_facts
from bench.tables import markdown

RESULTS = HERE / "results" / "wikitext.jsonl"
MINUTES = 30.0
PARTS = ("train", "valid", "test")
MODELS = {
    "transformer": ("Transformer, decoder only", ()),
    "lstm": ("LSTM, 2 layers of 400", ("model.preset=lstm-lm", "model.size=400")),
}
PUBLISHED = (
    ("LSTM, 2 layers of 200, tied", 102.26),
    ("LSTM, 2 layers of 650", 93.90),
    ("AWD-LSTM, 3 layers of 1,150", 69.74),
)
SOURCE = "gluon-nlp, 750 epochs on a GPU, whole words"


def unpacked(data: Path, folder: Path) -> dict[str, Path]:
    """Return the parts of the data as plain text in `folder`, where a training that resumes finds them."""
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        found[part] = folder / f"{part}.txt"
        with (
            gzip.open(data / "language" / "wikitext2" / f"wiki.{part}.tokens.gz") as packed,
            found[part].open("wb") as file,
        ):
            shutil.copyfileobj(packed, file)
    return found


def per_word(nats_per_character: float, text: str) -> float:
    """Return the perplexity of a word; the end of a line is a word, too."""
    words = len(text.split()) + text.count("\n")
    return math.exp(nats_per_character * len(text) / words)


def run(options: tuple[str, ...], data: Path, out: Path, *, seed: int, minutes: float) -> dict[str, Any]:
    """Train into `out`, and evaluate on the test part."""
    files = unpacked(data, out.parent / "wikitext2")
    fixed = [f"--valid={files['valid']}", f"--minutes={minutes}", f"--seed={seed}", f"--out={out}"]
    printed_by("train", str(files["train"]), *fixed, "--task=language_modeling", *options)
    judged = json.loads(printed_by("evaluate", str(out), str(files["test"]), "--json"))
    text = files["test"].read_text(encoding="utf-8")
    return {
        "perplexity": per_word(judged["metrics"]["nats_per_character"], text),
        "metrics": judged["metrics"],
        "intervals": judged["intervals"],
        "minutes": minutes,
        **training_facts(out),
        "seed": seed,
    }


def table() -> str:
    found = latest(RESULTS)
    rows = []
    for name, (title, _) in MODELS.items():
        if name not in found:
            continue
        record = found[name]
        trained = f"{record['minutes']:g} minutes, {record['steps']:,} steps"
        size = f"{record['parameters'] / 1e6:.1f} M"
        bits = f"{record['metrics']['bits_per_character']:.3f}"
        rows.append([title, f"**{record['perplexity']:.1f}**", bits, size, trained])
    rows += [[title, f"{value:.1f}", "–", "–", SOURCE] for title, value in PUBLISHED]
    return markdown(("model", "perplexity per word", "bits per character", "parameters", "training"), rows)


def main() -> None:
    options = {name: own for name, (_, own) in MODELS.items()}
    folders = "language/wikitext2"
    command(__doc__, "wikitext", options, run, table, results=RESULTS, minutes=MINUTES, data=folders)


if __name__ == "__main__":
    main()
