"""Small models with heads, whose weights are random but for the seed, and a run folder of one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from seqwright.config import parse
from seqwright.data.tokenizer import train_tokenizer
from seqwright.models.building import build_model
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_to_text import TextToText
from seqwright.training.run import train

LETTERS = "abcdefgh"
SMALL = {"size": 8, "hidden": 12, "layers": 2, "heads": 2, "dropout": 0.1, "tie": False}


def task() -> TextToText:
    letters = train_tokenizer("characters", [LETTERS])
    return TextToText(letters, letters)


def words(count: int, seed: int = 0, longest: int = 6) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS, k=draw.randint(2, longest))) for _ in range(count)]


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    return [(word, word[::-1]) for word in words(count, seed)]


def model(**options: Any) -> Any:
    """In float64, with random biases: zeros would hide one in the wrong place."""
    size = task().source.size
    made = build_model(SMALL | options, source_vocabulary=size, target_vocabulary=size)
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return made.double().eval()


def predictor(**options: Any) -> Predictor:
    return Predictor(model(**options), task())


def trained(folder: Path, **training: Any) -> Path:
    """A run of a few steps."""
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs(200)), encoding="utf-8")
    table = {
        "data": {"train": [str(file)], "held_out": 0.1},
        "model": {"preset": "tiny", "share": False, "layers": 2, "size": 16, "hidden": 16, "heads": 2},
        "training": {"steps": 12, "tokens": 120, "decode": 4, "average": 0.9, "validations": 2, **training},
        "search": {"beam": 2, "max_length": 12},
        "threads": 1,
    }
    train(parse(table), folder / "run")
    return folder / "run"
