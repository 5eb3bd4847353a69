"""Run folders in half a second, with a model that has learned a little: its outputs depend on its inputs, and
it is not sure of them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seqwright.config import parse
from seqwright.data.batch import collate
from seqwright.data.fingerprints import INPUTS, fingerprints
from seqwright.data.store import Ragged
from seqwright.data.tokenizer import train_tokenizer
from seqwright.files import write_json
from seqwright.models.building import build_model
from seqwright.runs.folder import Run
from seqwright.tasks.text_to_text import TextToText

LETTERS = "abcdefgh"


def words(count: int, seed: int = 0, longest: int = 6) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS, k=draw.randint(1, longest))) for _ in range(count)]


def make_run(folder: Path, *, ending: str = "", model: dict[str, Any] | None = None, **tables: Any) -> Path:
    """Words to capital letters. `ending` is what every source has behind its word, symbols say."""
    tiny = {
        "preset": "tiny",
        "share": False,
        "position": "sinusoidal",
        "zero_start": False,  # so that different inputs have different outputs without training
        "layers": 1,
        "size": 16,
        "hidden": 32,
        "heads": 2,
        "dropout": 0.0,
    }
    table = {
        "model": tiny | (model or {}),
        "training": {"steps": 1},
        "search": {"beam": 3, "max_length": 12},
        "threads": 1,
    }
    config = parse(table | tables)
    run = Run.create(folder, config.to_dict())
    if config.data.train:
        run.path("data").mkdir()
        write_json(folder / INPUTS, fingerprints(config.data.train))
    sources = [word + ending for word in words(64)]
    targets = [word.upper() for word in words(64)]
    task = TextToText(train_tokenizer("characters", sources), train_tokenizer("characters", targets))
    task.save(folder)
    torch.manual_seed(0)
    built = build_model(config.model, source_vocabulary=task.source.size, target_vocabulary=task.target.size)
    batch = collate(
        Ragged.of(task.source.encode_batch(sources)),
        Ragged.of(task.target.encode_batch(targets)),
        np.arange(64),
    )
    optimizer = torch.optim.AdamW(built.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss = built.loss(batch)
        (loss.total / loss.count).backward()
        optimizer.step()
    run.save_weights(built.weights(), {"step": "60"})
    return folder
