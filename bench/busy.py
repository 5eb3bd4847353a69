"""Latency of one prediction at a time with 1 thread, 2 threads and the default rule
(`runtime.inference_threads`), on a quiet machine and next to a training in another process.

python -m bench.busy                    # all models; prints a table
python -m bench.busy --json busy.json   # also writes the milliseconds of every prediction
python -m bench.busy --products         # times matrix products, which explain the threshold of the rule

The contenders are separate processes that take turns, one prediction each.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.contest import ROOT, Entry, compete
from bench.tables import markdown
from seqwright.runtime import machine

# name: (preset, symbols, source lengths from, to, output tokens)
MODELS = {
    "tiny": ("tiny", 8000, 10, 18, 20),
    "tiny-rnn": ("tiny-rnn", 40, 5, 9, 8),  # the model of the demo: letters to sounds
    "base": ("base", 8000, 10, 18, 20),
}
BEAMS = (1, 5)
SETTINGS: dict[str, int | None] = {"1 thread": 1, "2 threads": 2, "rule": None}
SENTENCES = 10


def predictions(model: str, beam: int, threads: int | None) -> Iterator[Any]:
    """A contender: one prediction per round."""
    from seqwright.data.batch import BEGIN, END, source_tokens
    from seqwright.data.store import Ragged
    from seqwright.models.building import build_model
    from seqwright.runtime import freeze_objects, inference_threads, keep_freed_memory
    from seqwright.runtime import threads as torch_threads
    from seqwright.search import BeamOptions, Start, beam_search

    keep_freed_memory()
    preset, symbols, shortest, longest, steps = MODELS[model]
    torch.manual_seed(1)
    network: Any = build_model(preset, source_vocabulary=symbols, target_vocabulary=symbols).eval()
    parameters = sum(weight.numel() for weight in network.parameters())
    draw = np.random.default_rng(1)
    sources = [
        source_tokens(Ragged.of([draw.integers(4, symbols, draw.integers(shortest, longest + 1)).tolist()]))
        for _ in range(SENTENCES)
    ]
    options = BeamOptions(size=beam, min_length=steps, max_length=steps)

    def predict(number: int) -> float:
        began = time.perf_counter()
        with torch_threads(inference_threads(parameters, beam, threads)), torch.inference_mode():
            state = network.start(sources[number % SENTENCES])
            beam_search(network.step, state, Start(rows=1, first=BEGIN, end=END), options)
        return time.perf_counter() - began

    for number in range(5):
        predict(number)
    freeze_objects()
    yield {"parameters": parameters}
    number = 0
    while True:
        yield 1, predict(number)
        number += 1


@contextmanager
def training() -> Iterator[None]:
    """A training by the default recipe in another process, after its first logged steps."""
    with tempfile.TemporaryDirectory() as folder:
        letters, draw = "abcdefghijklmnop", random.Random(1)
        words = {"".join(draw.choices(letters, k=draw.randint(4, 10))) for _ in range(5000)}
        pairs = Path(folder, "pairs.tsv")
        pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in sorted(words)), encoding="utf-8")
        command = [sys.executable, "-m", "seqwright", "train", str(pairs), "--out", f"{folder}/run"]
        other = subprocess.Popen([*command, "--minutes", "600", "--quiet"], cwd=ROOT)
        try:
            log = Path(folder, "run", "metrics.jsonl")
            while not (log.exists() and '"tokens_per_second"' in log.read_text(encoding="utf-8")):
                if other.poll() is not None:
                    raise SystemExit("the training ended before the measurement")
                time.sleep(0.2)
            yield
        finally:
            other.terminate()
            other.wait()


def measure(models: list[str], beams: list[int], *, busy: bool, rounds: int) -> list[dict[str, Any]]:
    results = []
    with training() if busy else nullcontext():
        for model in models:
            for beam in beams:
                common = {"model": model, "beam": beam}
                entries = [
                    Entry(name, "bench.busy:predictions", {**common, "threads": threads})
                    for name, threads in SETTINGS.items()
                ]
                compete(entries, rounds)
                results += [
                    {
                        **common,
                        "busy": busy,
                        "setting": entry.name,
                        **entry.facts,
                        "milliseconds": [1000 / rate for rate in entry.rates],
                        "failure": entry.failure,
                    }
                    for entry in entries
                ]
                print(table(results[-len(SETTINGS) :], header=len(results) == len(SETTINGS)), flush=True)
    return results


def table(results: list[dict[str, Any]], *, header: bool = True) -> str:
    """Median and 95th percentile of each setting in milliseconds."""
    groups: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for result in results:
        key = (result["model"], result["beam"], result["busy"])
        groups.setdefault(key, {})[result["setting"]] = result
    rows = []
    for (model, beam, busy), settings in groups.items():
        what = f"`{model}`, {'greedy' if beam == 1 else f'beam {beam}'}"
        cells = []
        for name in SETTINGS:
            times = settings[name]["milliseconds"]
            if not times:
                cells.append(settings[name]["failure"])
                continue
            cells.append(f"{np.median(times):.1f} / {np.percentile(times, 95):.1f}")
        rows.append([what, "next to a training" if busy else "quiet", *cells])
    head = ["median / 95th percentile, ms", "machine", *SETTINGS]
    lines = markdown(head, rows).splitlines()
    return "\n".join(lines if header else lines[2:])


def products(rows: tuple[int, ...] = (1, 5, 32, 160)) -> str:
    """Microseconds of linear layers with 1 and 2 threads."""
    cells = []
    for size, hidden in ((128, 128), (128, 256), (256, 1024), (512, 512), (512, 2048), (512, 8000)):
        weight, bias = torch.randn(hidden, size), torch.randn(hidden)
        for count in rows:
            inputs, times = torch.randn(count, size), []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                taken = []
                for _ in range(60):
                    began = time.perf_counter()
                    torch.nn.functional.linear(inputs, weight, bias)
                    taken.append(1e6 * (time.perf_counter() - began))
                times.append(float(np.median(taken[10:])))
            one, two = times
            cells.append(
                [f"{count} × {size} · {size} × {hidden}", f"{one:.0f}", f"{two:.0f}", f"× {one / two:.2f}"]
            )
    return markdown(["product", "1 thread, µs", "2 threads, µs", ""], cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--beams", nargs="+", type=int, default=list(BEAMS))
    parser.add_argument("--machine", nargs="+", default=["quiet", "busy"], choices=["quiet", "busy"])
    parser.add_argument("--rounds", type=int, default=100, help="predictions of each setting")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--products", action="store_true", help="time matrix products instead")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the training, too
    if options.products:
        print(products())
        return
    results = [
        result
        for name in options.machine
        for result in measure(options.models, options.beams, busy=name == "busy", rounds=options.rounds)
    ]
    if options.json:
        document = {"machine": machine(), "results": results}
        options.json.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
