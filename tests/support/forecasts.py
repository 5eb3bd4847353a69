"""Small forecasters with random weights over two waves, one of them with a large mean."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch

from seqwright import build_model
from seqwright.config import parse
from seqwright.data.corpus import Corpus
from seqwright.data.readers.series import SeriesFiles
from seqwright.data.series.windows import Window
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.forecasting import Forecasting

PRESETS = (
    "nie2023",
    "tiny-forecaster",
    "transformer-series",
    "lstm",
    "nlinear",
    "dlinear",
    "repeat_last",
    "seasonal_naive",
)


def waves(path: Path, steps: int = 600, seed: int = 0, future: float = 0.0, rows: int = 600) -> str:
    """Two columns with a season of a day; `future` is added from row `rows` on."""
    draw, first = np.random.default_rng(seed), np.datetime64("2024-01-01T00", "h")
    hours = np.arange(steps)
    one = np.sin(hours * 2 * np.pi / 24) + 0.1 * draw.standard_normal(steps)
    other = 50 + 10 * np.cos(hours * 2 * np.pi / 24) + draw.standard_normal(steps)
    one[rows:] += future
    lines = (
        f"{first + hour},{a:.6f},{b:.6f}".replace("T", " ")
        for hour, a, b in zip(hours, one, other, strict=True)
    )
    path.write_text(
        "date,small,large\n" + "\n".join(f"{line}".replace(",", ":00,", 1) for line in lines) + "\n"
    )
    return str(path)


def configured(path: str, **data):
    table = {"train": [path], "horizon": 12, "lookback": 48, "rows": [400, 100, 100], **data}
    return parse({"task": "forecasting", "data": table, "model": "tiny-forecaster", "training": {"steps": 3}})


def fitted(path: str, **data) -> tuple[Forecasting, Corpus]:
    config = configured(path, **data)
    corpus = Corpus.of(config)
    return Forecasting.fit(config, lambda: corpus.examples("train")), corpus


@lru_cache
def wave_task() -> tuple[Forecasting, Corpus]:
    return fitted(waves(Path(mkdtemp()) / "waves.csv"))


@lru_cache
def forecaster(preset: str) -> Predictor:
    """An untrained model; the output layer of the default one, which begins with zeros, is drawn too."""
    task, _ = wave_task()
    torch.manual_seed(3)
    model = build_model(preset, **task.facts()).eval()
    if preset == "tiny-forecaster":
        torch.nn.init.normal_(model.head.linear.weight, std=0.02)
    return Predictor(model, task)


def wave_reader() -> SeriesFiles:
    corpus = wave_task()[1]
    return Forecasting.reader(corpus.data.train, corpus.data)


def window_of(task: Forecasting) -> Window:
    """The last window of the test part, with its truth."""
    return list(task.labelled(wave_task()[1].examples("test")))[-1]
