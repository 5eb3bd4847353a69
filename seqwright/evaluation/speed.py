"""How fast a model predicts here: in batches, and one input at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqwright.data.plan import evenly
from seqwright.data.results import Prediction
from seqwright.runtime import peak_memory

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

ALONE = 50  # inputs that are predicted one at a time, at most


@dataclass(frozen=True)
class Speed:
    """`latencies` are the seconds of single inputs; `tokens` those of the outputs, ends included."""

    seconds: float
    tokens: int
    sentences: int
    latencies: tuple[float, ...]
    peak_memory_mb: float | None
    threads: int  # of the batches
    latency_threads: int = 1  # of single inputs

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def sentences_per_second(self) -> float:
        return self.sentences / max(self.seconds, 1e-9)

    def latency_ms(self, share: float) -> float:
        """Return the latency that this share of the single inputs does not exceed."""
        return 1000 * float(np.quantile(self.latencies, share))

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences_per_second": self.sentences_per_second,
            "latency_ms": {"p50": self.latency_ms(0.5), "p95": self.latency_ms(0.95)},
            "peak_memory_mb": self.peak_memory_mb,
            "threads": self.threads,
            "latency_threads": self.latency_threads,
        }


def timed(
    predictor: Predictor,
    examples: Sequence[Any],
    beam: int | None,
    check: Callable[[], None],
    further: Mapping[str, Any] | None = None,
) -> tuple[list[Prediction], Speed]:
    """Return the outputs and how long they took; `check` is called between batches and may raise.

    further: options of the batches that single inputs do not have.
    """
    options: dict[str, Any] = {**predictor.task.judging.options, **({} if beam is None else {"beam": beam})}
    began = time.perf_counter()
    outputs = list(predictor.stream(examples, check=check, **options, **(further or {})))
    seconds, used = time.perf_counter() - began, predictor.threads_used
    latencies = []
    for item in evenly(len(examples), ALONE).tolist():
        check()
        began = time.perf_counter()
        list(predictor.stream([examples[item]], **options))
        latencies.append(time.perf_counter() - began)
    peak = peak_memory()
    return outputs, Speed(
        seconds=seconds,
        tokens=sum(output.output_tokens for output in outputs),
        sentences=len(examples),
        latencies=tuple(latencies),
        peak_memory_mb=peak and peak / 1e6,
        threads=used,
        latency_threads=predictor.threads_used,
    )
