"""Ways to reply, on DailyDialog with the same minutes each: perplexity, variety, recall, and transcripts.

python -m bench.conversation DATA                  # runs all, appends to bench/results/conversation.jsonl
python -m bench.conversation DATA --only retrieval # one model; may be given again
python -m bench.conversation --table               # writes the tables of docs/benchmarks.md

DATA is a folder with train.jsonl.gz, valid.jsonl.gz, test.jsonl.gz and the lists of overlapping dialogues
(valid.overlap-ids.txt, test.overlap-ids.txt), which are left out of validation and test. Each model has the
defaults of its kind. All have the same BPE, trained on the same conversations, and are judged by the same
replies, so perplexities per token compare. --keep FOLDER keeps the runs and resumes those that were
interrupted. --dialogues N takes the first N of each file, to try it out; the result is not saved.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import textwrap
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import seqwright
from bench.quality import HERE, PAGE, printed_by
from bench.tables import markdown, put
from seqwright.prediction.chat import Chat
from seqwright.runtime import machine

RESULTS = HERE / "results" / "conversation.jsonl"
MINUTES = 20.0
MODELS = {
    "single-turn": ["data.context=1"],
    "multi-turn": ["model.kind=encoder_decoder"],
    "hierarchical": ["model.preset=tiny-turns"],
    "decoder-only": [],
    "retrieval": ["model.kind=dual_encoder"],
}
# chosen before the first training; the replies in the tables are the first ones, with seed 1
PROMPTS = (
    "Hi how are you",
    "What would you like to drink ?",
    "Can you tell me the way to the station ?",
    "I lost my job yesterday .",
)
COLUMNS = {
    "perplexity": "perplexity",
    "distinct_2": "distinct-2, %",
    "most_frequent_reply": "most frequent reply, %",
    "recall_at_1_of_10": "recall@1 of 10, %",
    "recall_at_1_of_100": "of 100, %",
}
PARTS = ("train", "valid", "test")


def without_overlaps(data: Path, folder: Path, dialogues: int | None) -> list[str]:
    """Write the three files without the overlapping dialogues of validation and test; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in PARTS:
        listed = data / f"{part}.overlap-ids.txt"
        left_out = set() if part == "train" else set(listed.read_text(encoding="utf-8").split())
        with gzip.open(data / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
            kept = [line for line in lines if json.loads(line)["id"] not in left_out]
        target = folder / f"{part}.jsonl"
        target.write_text("".join(kept[:dialogues]), encoding="utf-8")
        paths.append(str(target))
    return paths


def run(name: str, files: Sequence[str], out: Path, *, seed: int, minutes: float) -> dict[str, Any]:
    """Train a model into `out` and evaluate it on the test file, each in its own process."""
    train, valid, test = files
    printed_by("train", train, f"--valid={valid}", *MODELS[name], *_end(out, seed, minutes))
    judged = json.loads(printed_by("evaluate", str(out), test, "--json"))
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    config = json.loads((out / "config.json").read_text())
    predictor = seqwright.load(out)
    return {
        "metrics": judged["metrics"],
        "intervals": judged["intervals"],
        "minutes": minutes,
        "trained_minutes": round(records[-1]["seconds"] / 60, 1),
        "steps": max(record["step"] for record in records),
        "parameters": predictor.parameters,
        "tokens_of_context": config["data"]["max_length"],
        "tokenizer": predictor.task.fingerprint,
        "replies": [transcript(predictor, prompt) for prompt in PROMPTS],
        "machine": machine(),
        "seed": seed,
        "version": seqwright.__version__,
    }


def _end(out: Path, seed: int, minutes: float) -> list[str]:
    return [f"--minutes={minutes}", f"--seed={seed}", f"--out={out}"]


def transcript(predictor: Any, prompt: str) -> str:
    """Return the first reply of a new chat, as `seqwright chat` prints it."""
    chat = Chat(predictor)
    reply = [*chat.reply(prompt)][-1]
    return reply if chat.fits else f"(nothing fits) {reply}"


# The tables ----------------------------------------------------------------------------------------


def tables() -> str:
    """The latest results: scores, whether they reach their targets, and transcripts."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    latest = {record["name"]: record for record in map(json.loads, lines)}
    found = {name: latest[name] for name in MODELS if name in latest}
    if not found:
        return f"Not run yet: {', '.join(MODELS)}."
    head = ("model", "minutes", "parameters", "steps", *COLUMNS.values())
    parts = [markdown(head, [_scores(name, record) for name, record in found.items()])]
    parts.append(f"Each on {' or '.join(sorted({record['machine'] for record in found.values()}))}.")
    parts += _targets(found)
    for number, prompt in enumerate(PROMPTS):
        replies = [[name, record["replies"][number].replace("|", "\\|")] for name, record in found.items()]
        parts.append(markdown((f"*{prompt}*", "reply"), replies))
    if missing := [name for name in MODELS if name not in found]:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def _scores(name: str, record: dict[str, Any]) -> list[str]:
    metrics = record["metrics"]
    shown = [f"{metrics[key]:.1f}" if key in metrics else "–" for key in COLUMNS]
    return [
        name,
        f"{record['minutes']:g}",
        f"{record['parameters'] / 1e6:.1f} M",
        f"{record['steps']:,}",
        *shown,
    ]


def _targets(found: dict[str, dict[str, Any]]) -> list[str]:
    """Whether many turns are better than one, and whether retrieval finds the right reply."""
    lines = []
    ways = {"multi-turn": "with an encoder", "decoder-only": "without an encoder, the default"}
    for name, way in ways.items():
        if {"single-turn", name} <= found.keys():
            one, many = (found[each]["metrics"]["perplexity"] for each in ("single-turn", name))
            lines.append(f"many turns better than one in perplexity, {way}: {_verdict(many < one)}")
    if "retrieval" in found:
        recall = found["retrieval"]["metrics"]["recall_at_1_of_10"]
        lines.append(f"recall@1 of 10 of retrieval at least 45 % (chance is 10 %): {_verdict(recall >= 45)}")
    return [textwrap.fill(f"Targets: {'; '.join(lines)}.", 100)] if lines else []


def _verdict(reached: bool) -> str:
    return "reached" if reached else "**not reached**"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument(
        "--only", action="append", default=[], choices=MODELS, metavar="NAME", help=", ".join(MODELS)
    )
    parser.add_argument("--minutes", type=float, help=f"instead of {MINUTES:g}; the result is not saved")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the runs here; default: delete them"
    )
    parser.add_argument("--dialogues", type=int, metavar="N", help="of each file; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "conversation", tables())
        return
    if options.data is None:
        parser.error("give the folder of the data, or --table")
    minutes = MINUTES if options.minutes is None else options.minutes
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
        files = without_overlaps(options.data, Path(folder, "data"), options.dialogues)
        for name in options.only or MODELS:
            out = Path(folder, f"{name}-{options.seed}")
            record = {"name": name, **run(name, files, out, seed=options.seed, minutes=minutes)}
            print(json.dumps(record, ensure_ascii=False), flush=True)
            if options.minutes is None and options.dialogues is None:
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
