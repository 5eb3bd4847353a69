"""Runs of other tasks than pairs, trained for a second on their toys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tiny

from seqwright.config import parse
from seqwright.data.task import task_class

SMALL = {"layers": 1, "size": 16, "hidden": 32, "heads": 2, "dropout": 0.0}


def toy_run(folder: Path, task: str, kind: str, steps: int = 40, **parts: Any) -> Path:
    """Train a model of a kind, with other `parts`, on the toy of a task, whose texts and labels are the cells
    of its roles.
    """
    records, lines = task_class(task).toy(0), json.dumps
    file = folder.with_suffix(".jsonl")
    if task == "forecasting":  # it reads tables
        file = folder.with_suffix(".csv")
        records, lines = (
            [{name: name for name in records[0]}, *records],
            lambda cells: ",".join(cells.values()),
        )
    file.write_text("".join(f"{lines(record)}\n" for record in records))
    table = {
        "task": task,
        "data": {"train": [str(file)], "held_out": 0.1, "max_length": 48},
        "model": {"kind": kind, **SMALL, **parts},
        "training": {"tokens": 512, "steps": steps, "optimizer": {"kind": "adamw", "rate": 1e-2}},
        "threads": 1,
    }
    tiny.train(parse(table), folder)
    return folder
