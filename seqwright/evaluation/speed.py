"""How fast a model decodes here: together in batches, and one sentence at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seqwright.data.results import Text
from seqwright.prediction.predictor import Predictor
from seqwright.runtime import peak_memory
from seqwright.training.validation import evenly

ALONE = 50  # sentences that are decoded one at a time, at most


@dataclass(frozen=True)
class Speed:
    """`latencies` are the seconds of single sentences; `tokens` those of the outputs, ends included."""

    seconds: float
    tokens: int
    sentences: int
    latencies: tuple[float, ...]
    peak_memory_mb: float | None
    threads: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def sentences_per_second(self) -> float:
        return self.sentences / max(self.seconds, 1e-9)

    def latency_ms(self, share: float) -> float:
        """What this share of the single sentences did not exceed."""
        return 1000 * float(np.quantile(self.latencies, share))

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences_per_second": self.sentences_per_second,
            "latency_ms": {"p50": self.latency_ms(0.5), "p95": self.latency_ms(0.95)},
            "peak_memory_mb": self.peak_memory_mb,
            "threads": self.threads,
        }


def timed(
    predictor: Predictor, sources: Sequence[str], beam: int | None, check: Callable[[], None]
) -> tuple[list[Text], Speed]:
    """The outputs, and how long they took; `check` is called between batches and may raise."""
    began = time.perf_counter()
    outputs = list(predictor.stream(sources, beam=beam, check=check))
    seconds = time.perf_counter() - began
    tokens = sum(len(output.token_scores) for output in outputs)
    latencies = []
    for item in evenly(len(sources), ALONE).tolist():
        check()
        began = time.perf_counter()
        list(predictor.stream([sources[item]], beam=beam))
        latencies.append(time.perf_counter() - began)
    peak = peak_memory()
    return outputs, Speed(
        seconds, tokens, len(sources), tuple(latencies), peak and peak / 1e6, torch.get_num_threads()
    )
