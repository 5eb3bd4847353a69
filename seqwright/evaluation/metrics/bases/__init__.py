"""Shared bases of metrics; the registry skips sub-packages, so none of them is a metric of its own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqwright.data.language_results import Surprise
from seqwright.data.series.results import Trajectory
from seqwright.evaluation.metrics import Better, Metric, T, reference_count

if TYPE_CHECKING:
    from seqwright.evaluation.bootstrap import Measured

WINDOWS = 256  # whose forecasts are scored together


class SacreMetric(Metric[str]):
    """A metric of sacreBLEU (Post 2018), with its signature.

    The public methods of sacreBLEU return scores only; its own bootstrap uses the two underscored ones.
    """

    def __init__(self, implementation: Any):
        self._implementation = implementation

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        most = max(map(len, references))
        padded = [[*item, *[None] * (most - len(item))] for item in references]  # None: no such reference
        rows = self._implementation._extract_corpus_statistics(outputs, list(zip(*padded, strict=True)))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(self._implementation._compute_score_from_stats(totals.tolist()).score)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        count = reference_count(references)
        self._implementation.num_refs = -1 if count == "var" else int(count)
        return self._implementation.get_signature().format()


class Share(Metric[T]):
    """The share of items for which `counts` is true."""

    def statistics(self, outputs: Sequence[T], references: Sequence[Sequence[T]]) -> np.ndarray:
        items = zip(outputs, references, strict=True)
        return np.array([(self.counts(output, given), 1.0) for output, given in items])

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1])

    @abstractmethod
    def counts(self, output: T, references: Sequence[T]) -> bool: ...


class EditRate(Metric[str]):
    """Insertions, deletions and substitutions (Levenshtein 1966) over the length of the closest references.

    The closest reference needs the fewest edits; among equals the longest counts. References that are all
    empty count as one symbol.
    """

    better = "lower"

    @abstractmethod
    def symbols(self, text: str) -> Sequence[str]:
        """Split a text into the units that an edit inserts, deletes or replaces."""

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        found = [self.closest(output, given) for output, given in zip(outputs, references, strict=True)]
        return np.array([(edits, len(symbols)) for edits, symbols in found], dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

    def closest(self, output: str, references: Sequence[str]) -> tuple[int, Sequence[str]]:
        """Return the number of edits to the closest reference, and its symbols."""
        from rapidfuzz.distance import Levenshtein

        symbols = self.symbols(output)
        candidates = [(Levenshtein.distance(symbols, each), each) for each in map(self.symbols, references)]
        return min(candidates, key=lambda candidate: (candidate[0], -len(candidate[1])))


class Surprisal(Metric[Surprise]):
    """The negative log-probability of texts over a count, in nats; smaller is better.

    An output that scores another text gives this one no probability.
    """

    better = "lower"
    unit = ""
    decimals = 3

    def seen(self, prediction: Any) -> Surprise:
        """Return the scored text: the output of a language model, or what is known of an expected reply."""
        value = prediction.value
        return prediction.surprise if isinstance(value, str) else value

    @property
    def reads_answers(self) -> bool:
        return True

    def statistics(self, outputs: Sequence[Any], references: Sequence[Sequence[Any]]) -> np.ndarray:
        """A plain text counts as one that is certain."""
        rows = []
        certain = (Surprise(each) if isinstance(each, str) else each for each in outputs)
        for output, (expected, *_) in zip(certain, references, strict=True):
            known = output.text == getattr(expected, "text", expected)
            rows.append((-output.log_prob if known else np.inf, self.count(output)))
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return self.scaled(float(totals[0] / max(totals[1], 1)))

    def scaled(self, nats: float) -> float:
        """Return the score of so many nats per unit."""
        return nats

    @abstractmethod
    def count(self, output: Surprise) -> int:
        """Return the number of units of a text."""


class ErrorOfSteps(Metric[Trajectory]):
    """A mean over windows, steps and channels; steps without a known truth do not count, and a forecast that
    is missing is infinitely wrong.
    """

    better: ClassVar[Better] = "lower"
    unit = ""
    decimals = 3

    def statistics(
        self, outputs: Sequence[Trajectory], references: Sequence[Sequence[Trajectory]]
    ) -> np.ndarray:
        truths, rows = [expected for expected, *_ in references], list[np.ndarray]()
        for first in range(0, len(truths), WINDOWS):
            block = slice(first, first + WINDOWS)
            expected = Trajectory.stacked(truths[block])
            with np.errstate(all="ignore"):
                found = self.errors(Trajectory.stacked(outputs[block]), expected)
            found, known = np.where(np.isnan(found), np.inf, found), ~np.isnan(expected.values)
            found, known = (each.reshape(len(known), -1) for each in (found, known))
            sums, counts = found.sum(1), known.sum(1)
            for number in np.flatnonzero(counts < known.shape[1]):
                sums[number] = found[number][known[number]].sum()
            rows.append(np.stack([sums, counts], axis=1))
        return np.concatenate(rows)

    def value(self, totals: np.ndarray) -> float:
        return float(totals[0] / max(totals[1], 1))

    @classmethod
    def places(cls, value: float) -> int:
        """Show two digits of a small error, too."""
        return max(cls.decimals, 1 - math.floor(math.log10(value))) if 0 < value < 1 else cls.decimals

    def signature(self, references: Sequence[Sequence[Trajectory]]) -> str:
        return f"windows:{len(references)}"

    @abstractmethod
    def errors(self, output: Trajectory, expected: Trajectory) -> np.ndarray:
        """Return the error of each step and channel of several windows (N, steps, channels)."""


class DistinctGrams(Metric[str]):
    """The number of different n-grams of words over that of all of them, in all outputs together (Li et al.
    2016, section 5.2): dull outputs repeat each other.

    An n-gram counts for the first output that has it, also where items are resampled.
    """

    better = "higher"
    size: int

    @property
    def name(self) -> str:
        return f"distinct_{self.size}"

    def seen(self, prediction: Any) -> str:
        return prediction.text

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        known: set[tuple[str, ...]] = set()
        rows = []
        for output in outputs:
            words = output.lower().split()
            grams = [tuple(words[i : i + self.size]) for i in range(len(words) - self.size + 1)]
            rows.append((len(set(grams) - known), len(grams)))
            known |= set(grams)
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))


class Recall(Metric[Any]):
    """The share of ranked items whose right answer is among the first `within` of `candidates`."""

    better = "higher"
    within: int
    candidates: int

    @property
    def name(self) -> str:
        return f"recall_at_{self.within}_of_{self.candidates}"

    @property
    def title(self) -> str:
        return f"recall@{self.within} of {self.candidates}"

    def seen(self, prediction: Any) -> int | None:
        return prediction.ranks.get(self.candidates)

    def statistics(self, outputs: Sequence[Any], references: Sequence[Sequence[Any]]) -> np.ndarray:
        rows = [(rank is not None and rank <= self.within, rank is not None) for rank in outputs]
        return np.array(rows, dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1]) if totals[1] else float("nan")

    def measured(self, outputs: Sequence[Any], references: Sequence[Sequence[Any]]) -> Measured:
        """Return the statistics; the signature states how many items are ranked, if not all are."""
        found = super().measured(outputs, references)
        ranked = int(found.rows[:, 1].sum())
        if ranked == len(outputs):
            return found
        return replace(found, signature=f"{found.signature}|ranked:{ranked}")
