"""CIDEr-D."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from seqwright.evaluation.metrics import Metric, reference_count
from seqwright.evaluation.metrics.bases.captions import caption_words

Gram = tuple[str, ...]
ORDERS = 4  # n-grams of one to four words
WIDTH = 6.0  # σ of the penalty for another length


class Cider(Metric[str]):
    """CIDEr-D: the mean cosine of TF-IDF vectors of n-grams with those of the references (Vedantam et al.
    2015, section 5), times 1000.

    An n-gram weighs the more, the fewer items have it in their references: the score of an item depends on
    the other items. Counts are clipped at those of the reference, and a difference d of lengths costs
    exp(−d² / 2σ²).
    """

    better = "higher"
    label, unit = "CIDEr-D", ""
    meaning = "0 to 1000: n-grams shared with the references, rare ones weigh more"

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        known = [[_counts(text) for text in given] for given in references]
        seen = Counter(gram for given in known for gram in set().union(*given))
        documents = math.log(len(references))
        rows = []
        for output, given in zip(outputs, known, strict=True):
            found = _Vector(_counts(output), seen, documents)
            scores = [found.agreement(_Vector(counts, seen, documents)) for counts in given]
            rows.append((1000 * sum(scores) / len(scores), 1.0))
        return np.array(rows)

    def value(self, totals: np.ndarray) -> float:
        return float(totals[0] / totals[1])

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return (
            f"refs:{reference_count(references)}|items:{len(references)}|sigma:6|words:lower,no_punctuation"
        )


def _counts(text: str) -> Counter[Gram]:
    words = caption_words(text)
    sizes = range(1, ORDERS + 1)
    return Counter(tuple(words[i : i + size]) for size in sizes for i in range(len(words) - size + 1))


class _Vector:
    """count · log(items / items that have the n-gram) of each n-gram, with the norm of each order."""

    def __init__(self, counts: Counter[Gram], seen: Counter[Gram], documents: float):
        self.weights = {
            gram: count * (documents - math.log(max(seen[gram], 1))) for gram, count in counts.items()
        }
        self.words = sum(count for gram, count in counts.items() if len(gram) == 1)
        squares = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            squares[len(gram) - 1] += weight**2
        self.norms = [math.sqrt(square) for square in squares]

    def agreement(self, reference: _Vector) -> float:
        """Return the clipped cosine, averaged over the orders, with the penalty for another length."""
        products = [0.0] * ORDERS
        for gram, weight in self.weights.items():
            other = reference.weights.get(gram, 0.0)
            products[len(gram) - 1] += min(weight, other) * other
        norms = [one * other for one, other in zip(self.norms, reference.norms, strict=True)]
        cosines = [product / norm for product, norm in zip(products, norms, strict=True) if norm]
        penalty = math.exp(-((self.words - reference.words) ** 2) / (2 * WIDTH**2))
        return penalty * sum(cosines) / ORDERS
