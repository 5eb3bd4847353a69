"""A run folder with every file that the report and the card read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from seqwright.runs.folder import Run

CONFIG: dict[str, Any] = {
    "data": {"train": ["pairs.tsv"], "columns": None},
    "tokenizer": {"joint": False, "source": "characters", "target": "symbols"},
    "model": {"preset": "tiny", "share": False},
    "training": {"minutes": 2.0, "metric": "exact_match", "smoothing": 0.1},
    "seed": 7,
}
HOSTILE = (
    "</script></style></title><img src=http://evil.example/x onerror=alert(1)>'\"&\u202eabc\x00\ud800`|*_"
)


def make_run(folder: Path, text: str = "pairs", *, validations: int = 3) -> Path:
    """Create the folder; `text` is in every place that can hold a text of the user."""
    run = Run.create(folder, {**CONFIG, "data": {"train": [text], "columns": None}})
    run.save_weights({"a": torch.zeros(3, 4), "b": torch.zeros(5)})
    for number in range(1, validations + 1):
        run.log(step(10 * number))
        run.log(validation(10 * number, text))
    write(folder, "data", data(text))
    write(folder, "evaluation", evaluation(text))
    write(folder, "examples", {"examples": [{"source": text, "output": text, "log_prob": -0.5}]})
    return folder


def write(folder: Path, name: str, fields: dict[str, Any]) -> None:
    content = json.dumps({"format": 1, **fields})
    (folder / f"{name}.json").write_text(content, encoding="utf-8")


def step(number: int, loss: float | None = None) -> dict[str, Any]:
    return {
        "step": number,
        "loss": 30 / number if loss is None else loss,
        "rate": 0.001,
        "gradient_norm": 1.0,
        "tokens_per_second": 5000.0,
        "seconds": number * 6.0,
    }


def validation(number: int, text: str) -> dict[str, Any]:
    probe = {"source": f"{text} source", "reference": f"{text} reference", "output": f"{text} {number}"}
    return {
        "step": number,
        "valid_loss": 20 / number,
        "shuffled_loss": 4.0,
        "exact_match": float(number),
        text: 1.0,
        "kept": number == 20,
        "findings": [f"{text}: {number} outputs are the same"],
        "probes": [probe],
    }


def data(text: str) -> dict[str, Any]:
    lengths = {"mean": 3.5, "longest": 900, "counts": {"3": 40, "4": 40, "900": 1}}
    side = {"characters": lengths, "words": {**lengths, "mean": 1.0}, "alphabet": {"e": 90, text: 3, "": 2}}
    trouble = {"name": text, "severity": "warning", "sentence": text, "way_out": text, "places": [text]}
    return {
        "name": text,
        "form": [text],
        "pairs": 81,
        "sources": 80,
        "source": side,
        "target": side,
        "findings": [trouble, {**trouble, "severity": text}],
        "dropped": [text],
        "split": {"train": 61, text: 10, "test": 10},
        "choices": [{"what": text, "reason": text}],
        "leaks": 2,
    }


def evaluation(text: str) -> dict[str, Any]:
    metrics = {"exact_match": 61.2, text: 12.0}
    example = {"source": text, "references": [f"{text} a", f"{text} b c"], "output": f"{text} d c"}
    return {
        "file": text,
        "items": 10,
        "pairs": 12,
        "beam": 5,
        "metrics": metrics,
        "baseline": {"exact_match": 3.4},
        "signatures": dict.fromkeys(metrics, text),
        "intervals": {"exact_match": [58.0, 64.5]},
        "level": 0.95,
        "better": {"exact_match": "higher", text: text},
        "buckets": {text: [{"name": text, "items": 40, "metrics": metrics}, {"name": "b", "items": 2}]},
        "confusions": [
            {"expected": text, "said": "", "count": 5},
            {"expected": "", "said": "a", "count": 2},
        ],
        "examples": [{**example, "kind": "worst", "log_prob": -2.5}, {**example, "kind": text}],
        "findings": [text],
        "speed": {"sentences_per_second": 40.0, "latency_ms": {"p50": 9.0, "p95": 20.0}, "threads": 2},
        "version": text,
    }
