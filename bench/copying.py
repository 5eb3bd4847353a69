"""Copying over a long distance: find one marked token among noise and name it.

python -m bench.copying [--length 4096] [--only NAME ...]   # appends to bench/results/copying.jsonl
python -m bench.copying --table                              # writes the table of docs/benchmarks.md from it

A sequence is a query token, then noise. One token of the noise, anywhere, follows a mark; the model outputs
that token at the query. All models have two layers, rotary positions and the same sizes, and read sequences
that are drawn for each step. They start with sequences of 16 tokens; the length doubles whenever at most one
of the last 256 outputs is wrong, up to `--length`. Training stops when the last length is learned, or after
`--seconds`. Then 1,000 new sequences of the last length are the test. Each model has its own process. With
another length or time than the defaults, the result is printed and not recorded.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.quality import HERE, PAGE, append, latest
from bench.tables import markdown, put
from seqwright.data.batch import Tokens
from seqwright.data.tokenizer import FIRST
from seqwright.models.building import build_model

RESULTS = HERE / "results" / "copying.jsonl"
LENGTH, SECONDS = 4096, 480.0
SHORTEST = 16
SYMBOLS = 32  # different tokens of the noise
MARK, QUERY = FIRST + SYMBOLS, FIRST + SYMBOLS + 1
TOKENS = 4096  # of a batch; more where LEAST_ROWS needs them
LEAST_ROWS = 8
RATE = 2e-3
WARMUP = 100  # steps
RECENT, ERRORS = 256, 1  # a length is learned with at most so many errors in so many sequences
TESTED = 1000  # sequences

SIZES = {"layers": 2, "size": 64, "hidden": 128, "heads": 4, "position": "rotary", "dropout": 0.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "local_global": ("window 64, one global token", {"window": 64, "global_tokens": 1}),
    "compressed": (
        "window 64, then compressed memory",
        {"window": 64, "growth": ["last", {"kind": "compressed", "stride": 3}]},
    ),
    "full": ("all tokens to all", {}),
}


def build(options: dict[str, Any]) -> Any:
    encoder = {"kind": "transformer", **SIZES, **options}
    head = {"kind": "classes", "pooling": "first", "dropout": 0.0}
    description = {"kind": "encoder_only", "encoder": encoder, "head": head}
    return build_model(description, vocabulary=QUERY + 1, classes=SYMBOLS)


def draw(rows: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sequences (rows, length), and the symbol that is marked in each (rows,)."""
    ids = torch.randint(FIRST, FIRST + SYMBOLS, (rows, length), generator=generator)
    place = torch.randint(1, length - 1, (rows, 1), generator=generator)
    ids[:, 0] = QUERY
    ids.scatter_(1, place, MARK)
    return ids, ids.gather(1, place + 1)[:, 0] - FIRST


@torch.no_grad()
def accuracy(model: Any, length: int, count: int, generator: torch.Generator) -> float:
    right = done = 0
    model.eval()
    while done < count:
        ids, expected = draw(min(rows_of(length), count - done), length, generator)
        right += int((model.predictions(Tokens(ids)).argmax(-1) == expected).sum())
        done += len(ids)
    model.train()
    return right / count


def rows_of(length: int) -> int:
    return max(TOKENS // length, LEAST_ROWS)


def train(name: str, length: int, seconds: float, seed: int) -> dict[str, Any]:
    """Train one model and test it at the last length, in this process."""
    torch.manual_seed(seed)
    began, generator = time.monotonic(), torch.Generator().manual_seed(seed)
    model = build(MODELS[name][1]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / WARMUP, 1.0))
    now, learned, recent = min(SHORTEST, length), False, deque[bool](maxlen=RECENT)
    steps, last = 0, list[float]()  # the seconds of each step at the last length
    while not learned and time.monotonic() - began < seconds:
        begin = time.monotonic()
        ids, expected = draw(rows_of(now), now, generator)
        scores = model.predictions(Tokens(ids))
        optimizer.zero_grad()
        F.cross_entropy(scores, expected).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        steps += 1
        last += [time.monotonic() - begin] if now == length else []
        recent += (scores.argmax(-1) == expected).tolist()
        if len(recent) == RECENT and sum(recent) >= RECENT - ERRORS:
            print(f"{name}: {now} tokens, step {steps}, {time.monotonic() - began:.0f} s", file=sys.stderr)
            learned, now = now == length, min(2 * now, length)
            recent.clear()
    trained, tests = time.monotonic() - began, torch.Generator().manual_seed(seed + 1)
    return {
        "name": name,
        "accuracy": 100 * accuracy(model, length, TESTED, tests),
        "length": length,
        "last_length": now,
        "steps": steps,
        "seconds_per_step": statistics.median(last) if last else None,
        "seconds": trained,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "parameters": sum(p.numel() for p in model.parameters()),
        "threads": torch.get_num_threads(),
        "seed": seed,
    }


def table() -> str:
    head = (
        "model",
        "accuracy",
        "steps",
        "seconds of training",
        "seconds per step at the last length",
        "peak memory",
    )
    found, rows = latest(RESULTS), []
    for name, (title, _) in MODELS.items():
        if name not in found:
            continue
        record = found[name]
        each = record["seconds_per_step"]
        rows.append(
            [
                title,
                f"**{record['accuracy']:.1f} %**",
                f"{record['steps']:,}",
                f"{record['seconds']:.0f}",
                "– (not reached)" if each is None else f"{each:.2f}",
                f"{record['peak_memory_mb']:,} MB",
            ]
        )
    missing = [name for name in MODELS if name not in found]
    parts = [markdown(head, rows)] if rows else []
    parts += [f"Not run yet: {', '.join(missing)}."] if missing else []
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=MODELS, default=[*MODELS], metavar="NAME")
    parser.add_argument("--length", type=int, default=LENGTH, help="tokens of the longest sequences")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the training of each model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    options = parser.parse_args(arguments)
    if options.table:
        put(PAGE, "copying", table())
        return
    if options.here:
        torch.set_num_threads(options.threads)
        (name,) = options.only
        print(json.dumps(train(name, options.length, options.seconds, options.seed)))
        return
    common = [f"--{each}={getattr(options, each)}" for each in ("length", "seconds", "threads", "seed")]
    for name in options.only:
        command = [sys.executable, "-m", "bench.copying", "--here", f"--only={name}", *common]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        if (options.length, options.seconds) == (LENGTH, SECONDS):
            append(RESULTS, json.loads(printed))
        else:
            print(printed, end="", flush=True)


if __name__ == "__main__":
    main()
