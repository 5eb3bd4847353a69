"""Minutes until a fixed validation loss: one recipe against another, in turns on the same machine.

python -m bench.time_to_quality DATA multi30k --minutes 20        # the earlier recipe, then the current one
python -m bench.time_to_quality DATA multi30k --minutes 3 --seeds 1,2 \\
    --try 'wide=model.size=192' --try 'fast=training.optimizer.rate=0.008'
python -m bench.time_to_quality --table                           # the table of docs/benchmarks.md

The first contender sets the target: its loss after `--minutes`. Every other contender trains for the same
time, and for the shares of it in SHARES: the learning rate ends with the budget, so a shorter training is
not the beginning of a longer one. DATA is the folder that bench.quality uses. Results, one line per training,
are appended to bench/results/time_to_quality.jsonl.

The recipe for words (cmudict, sigmorphon) has not changed, so these data sets need `--try`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import seqwright
from bench.quality import EXPERIMENTS, PAGE, Experiment, cut
from bench.tables import markdown, put

RESULTS = Path(__file__).parent / "results" / "time_to_quality.jsonl"
DATA = {
    "multi30k": EXPERIMENTS["multi30k-30"],
    "cmudict": EXPERIMENTS["cmudict-10"],
    "sigmorphon": EXPERIMENTS["sigmorphon-dut"],
    "shakespeare": EXPERIMENTS["shakespeare-15"],
}
SHARES = (1.0, 1 / 1.5, 1 / 2)
MEASURED = ("training.metric=loss", "training.decode=0", "training.validations=20", "training.traces=0")
PLAIN = ("model.zero_start=false", "model.position=sinusoidal", "training.optimizer.rate=0.003")
EARLIER = {  # what the recipe chose before decision 13, and a language model with the parts of 2017
    "multi30k": (*PLAIN, "training.optimizer.embedding_rate=1.0"),
    "shakespeare": (*PLAIN, "model.feed_forward=plain", "model.tie=true"),
}


def train(
    experiment: Experiment, data: Path, changes: Sequence[str], *, minutes: float, seed: int
) -> dict[str, Any]:
    """Train on the files of an experiment and return the curve of the validation loss."""
    with tempfile.TemporaryDirectory(prefix="time-to-quality-") as folder:
        out = Path(folder) / "run"
        if experiment.share is not None:
            experiment = cut(experiment, data, Path(folder))
        files = [str(data / name) for name in experiment.train]
        held = [f"--valid={data / name}" for name in experiment.valid]
        end = [f"--minutes={minutes}", f"--seed={seed}", f"--out={out}"]
        command = [sys.executable, "-m", "seqwright", "train", *files, *held, *end, "--quiet"]
        subprocess.run([*command, *MEASURED, *changes], check=True)
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    curve = [(r["seconds"], r["step"], r["valid_loss"]) for r in records if "valid_loss" in r]
    speeds = sorted(r["tokens_per_second"] for r in records if "tokens_per_second" in r)
    return {
        "changes": list(changes),
        "minutes": minutes,
        "seed": seed,
        "steps": curve[-1][1],
        "loss": min(loss for _, _, loss in curve),
        "curve": [(round(seconds, 1), step, round(loss, 4)) for seconds, step, loss in curve],
        "tokens_per_second": speeds[len(speeds) // 2] if speeds else None,
        "version": seqwright.__version__,
    }


def measure(
    name: str, data: Path, contenders: dict[str, Sequence[str]], *, minutes: float, seeds: Sequence[int]
) -> None:
    """Train the contenders in turns and append each result."""
    first = next(iter(contenders))
    for seed in seeds:
        for contender, changes in contenders.items():
            for share in SHARES[:1] if contender == first or len(contenders) > 2 else SHARES:
                found = train(DATA[name], data, changes, minutes=minutes * share, seed=seed)
                record = {"data": name, "contender": contender, "against": first, "budget": minutes, **found}
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                summary = f"{found['steps']:,} steps, validation loss {found['loss']:.4f}"
                print(f"{name} {contender} {minutes * share:.2f} min, seed {seed}: {summary}", flush=True)


def table() -> str:
    """Each training next to the latest one that set the target with the same data, budget and seed."""
    records = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    keys = ("data", "budget", "seed")
    targets = {(r["contender"], *map(r.get, keys)): r for r in records if r["contender"] == r["against"]}
    rows = []
    for record in records:
        target, when = targets.get((record["against"], *map(record.get, keys))), "–"
        if target is not None and record["contender"] != record["against"]:
            reached = next((c for c in record["curve"] if c[2] <= target["loss"]), None)
            when = f"{record['against']}: "
            when += "not reached" if reached is None else f"{reached[0] / 60:.1f} min, step {reached[1]:,}"
        cells = (record["data"], record["contender"], f"{record['minutes']:.1f}", str(record["seed"]))
        rows.append([*cells, f"{record['steps']:,}", f"{record['loss']:.3f}", when])
    return markdown(
        ["data", "recipe", "minutes", "seed", "steps", "lowest loss", "reached the loss of"], rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="folder of the data sets")
    parser.add_argument(
        "names", nargs="*", choices=[*DATA, []], help="data sets (default: all with an earlier recipe)"
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seeds", default="1", help="comma-separated")
    parser.add_argument("--try", dest="tried", action="append", default=[], metavar="NAME=KEY=VALUE,…")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "time_to_quality", table())
        return
    split = (text.partition("=") for text in options.tried)
    tried = {label: changes.split(",") if changes else () for label, _, changes in split}
    names = options.names or list(EARLIER)
    if unchanged := [name for name in names if name not in EARLIER and not tried]:
        parser.error(f"the recipe for {', '.join(unchanged)} has not changed; compare with --try")
    for name in names:
        contenders: dict[str, Sequence[str]] = tried or {"earlier": EARLIER[name], "current": ()}
        seeds = [int(seed) for seed in options.seeds.split(",")]
        measure(name, options.data, contenders, minutes=options.minutes, seeds=seeds)


if __name__ == "__main__":
    main()
