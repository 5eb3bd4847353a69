"""The whole training loop, with files, log and checkpoints, compared with the bare step of the same model.

python -m bench.loop --data FOLDER_OF_MULTI30K
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.contest import Entry
from bench.shapes import SHAPES, Shape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of Multi30k")
    parser.add_argument("--shape", default="tiny", choices=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=20.0, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    common = {"shape": options.shape, "data": options.data, "seconds": options.seconds}
    paper = {"attention_dropout": 0.0, "activation_dropout": 0.0}
    bare = Entry("bare step", "bench.training:ours", {**common, **paper})
    bare.start()
    whole = []
    for _ in range(options.rounds):
        bare.round()
        whole.append(loop_speed(SHAPES[options.shape], Path(options.data), options.seconds))
        print(f"bare step {bare.rates[-1]:.0f}, whole loop {whole[-1]:.0f} tokens per second", flush=True)
    bare.stop()
    ratios = sorted(loop / step for loop, step in zip(whole, bare.rates, strict=True))
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"whole loop / bare step: {ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})")
    print(f"peak resident memory of the processes: {memory:.0f} MB")


def loop_speed(shape: Shape, data: Path, seconds: float) -> float:
    """Tokens per second of `seqwright train` between its first and last record; it saves every 5 s."""
    side = [str(data / "lc.norm.tok" / f"train.{code}") for code in ("en", "de")]
    with tempfile.TemporaryDirectory() as folder:
        changes = [
            "tokenizer.joint=true",
            f'tokenizer.source={{kind="bpe", max_size={shape.vocabulary}}}',
            f"model.layers={shape.layers}",
            f"model.size={shape.size}",
            f"model.hidden={shape.hidden}",
            f"model.heads={shape.heads}",
            f"model.dropout={shape.dropout}",
            "model.share=true",
            f"training.tokens={shape.tokens}",
            "training.validate_every=100000",
            "training.save_seconds=5",
            "training.decode=8",
            "training.metric=loss",
        ]
        command = [sys.executable, "-m", "seqwright", "train", *side, *changes]
        command += ["--out", f"{folder}/run", "--minutes", str(seconds / 60), "--quiet"]
        subprocess.run(command, check=True)
        lines = Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if "tokens_per_second" in record]
    spans = [later["seconds"] - earlier["seconds"] for earlier, later in pairwise(records)]
    tokens = [record["tokens_per_second"] * span for record, span in zip(records[1:], spans, strict=True)]
    return sum(tokens) / sum(spans)


if __name__ == "__main__":
    main()
