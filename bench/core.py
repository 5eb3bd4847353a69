"""Speed of training and decoding on this machine, compared with other implementations of the same work."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from bench.contest import Entry, best, compete, in_precisions, in_threads
from bench.shapes import SHAPES, sentences, training_batches
from bench.training import CURRENT, EARLIER, step_flops

KEPT = 0.95  # the share of the earlier speed that new parts of a preset must keep
BARS = {
    ("tiny", "train"): 2.0,
    ("base", "train"): 1.2,
    ("tiny", 1, 1): 4.0,
    ("tiny", 5, 1): 3.0,
    ("tiny", 5, 32): 1.6,
    ("base", 1, 1): 1.5,
    ("base", 5, 1): 1.5,
    ("base", 5, 32): 1.3,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=["tiny", "base"], choices=list(SHAPES))
    parser.add_argument(
        "--what",
        nargs="+",
        default=["train", "decode"],
        choices=["train", "decode", "presets"],
        help="presets: the parts of our presets next to those of 2017 (decision 13)",
    )
    parser.add_argument("--data", help="folder of Multi30k (default: random ids with similar lengths)")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="append the results to this file as JSON lines")
    options = parser.parse_args()
    for shape in options.shapes:
        if "train" in options.what:
            training(shape, options)
        if "decode" in options.what:
            for beam, rows in ((1, 1), (5, 1), (1, 32), (5, 32)):
                decoding(shape, beam, rows, options)
        if "presets" in options.what:
            presets(shape, options)


def training(shape: str, options: argparse.Namespace) -> None:
    common = {"shape": shape, "data": options.data, "seconds": options.seconds}
    peak = Entry("matrix-multiply peak", "bench.training:matmul_peak", {"seconds": 2.0})
    paper = {**common, "attention_dropout": 0.0, "activation_dropout": 0.0}
    ours = [
        Entry("seqwright", "bench.training:ours", common),
        Entry("seqwright, two processes", "bench.training:ours_in_processes", common),
    ]
    rival = Entry("torch.nn.Transformer", "bench.training:torch_transformer", common)
    others = [
        Entry(f"{rival.name}, freed pages kept", rival.target, {**common, "keep_memory": True}),
        Entry("seqwright, dropout as in the paper", "bench.training:ours", paper),
        Entry("Hugging Face Marian", "bench.training:hugging_face", common),
    ]
    entries = [*ours, rival, *others]
    compete([*entries, peak], options.rounds)
    batches = training_batches(sentences(options.data, SHAPES[shape].vocabulary), SHAPES[shape].tokens, 24)
    flops = sum(step_flops(SHAPES[shape], batch) for batch in batches[:6])
    share = flops / sum(batch.tokens for batch in batches[:6]) * best(ours).rate / 1e9 / peak.rate
    title = f"{shape}: training, tokens a second, batches of {SHAPES[shape].tokens} target tokens"
    table(title, entries, best(ours), rival, BARS[shape, "train"], options)
    print(f"  matrix-multiply peak {peak.rate:.0f} GFLOP/s; training reaches {share:.0%} of it\n")


def decoding(shape: str, beam: int, rows: int, options: argparse.Namespace) -> None:
    common = {"shape": shape, "rows": rows, "beam": beam, "seconds": options.seconds}
    ours = in_threads("seqwright", "bench.decoding:ours", common)
    theirs = in_threads("Hugging Face generate", "bench.decoding:hugging_face", common)
    entries = [*ours, *theirs, *in_precisions("CTranslate2", "bench.decoding:ctranslate2", common)]
    compete(entries, options.rounds)
    what = "greedy" if beam == 1 else f"beam {beam}"
    title = f"{shape}: {what}, batch {rows}, tokens per second"
    table(title, entries, best(ours), best(theirs), BARS.get((shape, beam, rows)), options)


def presets(shape: str, options: argparse.Namespace) -> None:
    """Compare the parts of our presets with those that they had before, with the dropout of the presets."""
    timed = {"shape": shape, "seconds": options.seconds}
    common = {**timed, "data": options.data, "attention_dropout": 0.0, "activation_dropout": 0.0}
    earlier, current = _both("bench.training:ours", common)
    compete([earlier, current], options.rounds)
    table(f"{shape}: training, tokens a second", [earlier, current], current, earlier, KEPT, options)
    for beam, what in ((1, "greedy"), (5, "beam 5")):
        common = {**timed, "rows": 1, "beam": beam, "threads": 1}
        earlier, current = _both("bench.decoding:ours", common)
        engine = {**common, "kind": "float32", "position": "rotary"}
        other = Entry("CTranslate2 float32, current parts", "bench.decoding:ctranslate2", engine)
        entries = [earlier, current, other]
        compete(entries, options.rounds)
        title = f"{shape}: {what}, one sentence, one thread, tokens per second"
        table(title, entries, current, earlier, KEPT, options)


def _both(target: str, common: dict[str, Any]) -> tuple[Entry, Entry]:
    earlier = Entry("seqwright, earlier parts", target, {**common, **EARLIER})
    return earlier, Entry("seqwright, current parts", target, {**common, **CURRENT})


def table(
    title: str, entries: list[Entry], own: Entry, rival: Entry, bar: float | None, options: argparse.Namespace
) -> None:
    """Print the medians, the ratios to the rival, and whether Seqwright reaches its target."""
    print(title)
    for entry in entries:
        spread = f"{min(entry.rates):.0f}–{max(entry.rates):.0f}" if entry.rates else entry.failure
        print(f"  {entry.name:42s} {entry.rate:9.0f}  ({spread})  × {entry.rate / rival.rate:.2f}")
    ratio = own.rate / rival.rate
    if bar is not None and not math.isnan(ratio):
        verdict = "reached" if ratio >= bar else "NOT REACHED"
        print(f"  {verdict}: {own.name} × {ratio:.2f} against {rival.name}, the target is × {bar}")
    print(flush=True)
    if options.json:
        results: dict[str, Any] = {entry.name: entry.rates or entry.failure for entry in entries}
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps({"what": title, "rates": results}) + "\n")


if __name__ == "__main__":
    main()
