"""Scores of outputs against references, and how sure they are.

A metric is one class. It turns every item into a row of statistics, and sums of rows into a score: so one
bootstrap serves all metrics, corpus-level BLEU included, as resampling items is resampling rows. An item may
have several references. All scores are percentages. Shapes: N items, F statistics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from seqwright.errors import InputError
from seqwright.registry import Registry, snake_case

METRICS = Registry("metric", "seqwright.tasks.metrics", "seqwright.tasks.metrics:Metric")

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Score:
    """A value with all that is needed to compare it: `signature` says how it was computed."""

    name: str
    value: float
    signature: str
    better: Better


@dataclass(frozen=True)
class Interval:
    """Where a score lies with probability `level` if the items are a sample of many."""

    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same items. `difference` is second − first, `p_value` that of no difference."""

    first: Score
    second: Score
    difference: float
    interval: Interval
    p_value: float


class Metric(ABC):
    """Statistics of items and the score of their sum."""

    better: ClassVar[Better]

    @property
    def name(self) -> str:
        return snake_case(type(self).__name__)

    @abstractmethod
    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        """One row per item (N, F)."""

    @abstractmethod
    def value(self, totals: np.ndarray) -> float:
        """The score of a set of items, from the sum of their rows (F,)."""

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """What must be equal for two scores to be compared."""
        return f"refs:{_reference_count(references)}"

    def score(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
        return self._score(_rows(self, outputs, references), references)

    def _score(self, rows: np.ndarray, references: Sequence[Sequence[str]]) -> Score:
        return Score(self.name, self.value(rows.sum(0)), self.signature(references), self.better)


class _Sacre(Metric):
    """A metric of sacreBLEU (Post 2018), with its signature.

    Its public methods return scores only; the two underscored ones are those that its own bootstrap uses.
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
        self._implementation.num_refs = -1 if (count := _reference_count(references)) == "var" else int(count)
        return self._implementation.get_signature().format()


class Bleu(_Sacre):
    """BLEU: precision of one to four words in sequence, times a brevity penalty (Papineni et al. 2002)."""

    better = "higher"

    def __init__(self, *, tokenize: str = "13a", lowercase: bool = False):
        from sacrebleu.metrics import BLEU

        super().__init__(BLEU(tokenize=tokenize, lowercase=lowercase))


class Chrf(_Sacre):
    """chrF: F-score of character sequences (Popović 2015); `words` = 2 makes it chrF++ (Popović 2017)."""

    better = "higher"

    def __init__(self, *, words: int = 0, lowercase: bool = False):
        from sacrebleu.metrics import CHRF

        super().__init__(CHRF(word_order=words, lowercase=lowercase))


class Ter(_Sacre):
    """TER: edits and shifts of phrases over reference words (Snover et al. 2006)."""

    better = "lower"

    def __init__(self, *, normalized: bool = False, case_sensitive: bool = False):
        from sacrebleu.metrics import TER

        super().__init__(TER(normalized=normalized, case_sensitive=case_sensitive))


class _Share(Metric):
    """The share of items for which `counts` is true."""

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        items = zip(outputs, references, strict=True)
        return np.array([(self.counts(output, given), 1.0) for output, given in items])

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / totals[1])

    @abstractmethod
    def counts(self, output: str, references: Sequence[str]) -> bool: ...


class ExactMatch(_Share):
    """Items that equal one of their references, over items."""

    better = "higher"

    def counts(self, output: str, references: Sequence[str]) -> bool:
        return output in references


class WordErrorRate(_Share):
    """Items that equal none of their references, over items: WER where an item is a word.

    This is the word error rate of pronunciation (Yao and Zweig 2015). Speech recognition, where an item is a
    sentence, means `WordEditRate` by that name.
    """

    better = "lower"

    def counts(self, output: str, references: Sequence[str]) -> bool:
        return output not in references


class _EditRate(Metric):
    """Insertions, deletions and substitutions (Levenshtein 1966) over the length of the closest references.

    The closest reference needs the fewest edits; of several such the longest counts. References that are all
    empty count as one symbol.
    """

    better = "lower"

    @abstractmethod
    def symbols(self, text: str) -> Sequence[str]: ...

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        items = zip(outputs, references, strict=True)
        return np.array([self._closest(output, given) for output, given in items], dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

    def _closest(self, output: str, references: Sequence[str]) -> tuple[int, int]:
        """(edits, length) of the closest reference."""
        from rapidfuzz.distance import Levenshtein

        said = self.symbols(output)
        wanted = map(self.symbols, references)
        ways = [(Levenshtein.distance(said, symbols), len(symbols)) for symbols in wanted]
        return min(ways, key=lambda way: (way[0], -way[1]))


class SymbolErrorRate(_EditRate):
    """Edits over reference symbols, to the closest reference: PER if they are phones (Yao and Zweig 2015).

    Symbols stand between `separator`s; an empty separator makes every character a symbol.
    """

    def __init__(self, *, separator: str = " "):
        self.separator = separator

    def symbols(self, text: str) -> Sequence[str]:
        if not self.separator:
            return text
        return [symbol for symbol in text.split(self.separator) if symbol]

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return f"{super().signature(references)}|separator:{self.separator!r}"


class WordEditRate(_EditRate):
    """Edits over reference words, to the closest reference: the WER of speech recognition, for sentences."""

    def symbols(self, text: str) -> Sequence[str]:
        return text.split()


def perplexity(total: float, count: int) -> float:
    """exp(total / count): total negative log-likelihood in nats over that many tokens."""
    if count < 1:
        raise InputError(f"perplexity over {count} tokens is not defined; give at least one target token")
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf


def group_references(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Pairs with the same source as one item with several references, in order of appearance, none twice."""
    groups: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        groups.setdefault(source, {})[target] = None
    return list(groups), [list(targets) for targets in groups.values()]


def confidence_interval(
    metric: Metric,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The middle `level` of the scores of resampled sets of items (Efron 1979; for BLEU Koehn 2004)."""
    (totals,) = _resampled([_rows(metric, outputs, references)], samples, seed)
    return _middle(np.array([metric.value(row) for row in totals]), level)


def paired_bootstrap(
    metric: Metric,
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Both systems on the same resampled items (Koehn 2004).

    The p-value is that of the shifted bootstrap (Riezler and Maxwell 2005): hits are resamples whose
    difference is as far from the mean as the observed one is from zero; p = (hits + 1) / (samples + 1).
    """
    rows = [_rows(metric, outputs, references) for outputs in (first, second)]
    scores = [metric._score(part, references) for part in rows]
    totals = _resampled(rows, samples, seed)
    values = [np.array([metric.value(row) for row in part]) for part in totals]
    differences, observed = values[1] - values[0], scores[1].value - scores[0].value
    hits = np.abs(differences - differences.mean()) >= abs(observed)
    p_value = (int(hits.sum()) + 1) / (samples + 1)
    return Comparison(scores[0], scores[1], observed, _middle(differences, level), p_value)


def _resampled(systems: Sequence[np.ndarray], samples: int, seed: int) -> list[np.ndarray]:
    """Sums of rows over draws of N items with replacement, the same for all systems: (samples, F) each."""
    count = len(systems[0])
    random = np.random.default_rng(seed)
    totals = [np.empty((samples, rows.shape[1])) for rows in systems]
    for sample in range(samples):
        times = np.bincount(random.integers(count, size=count), minlength=count).astype(np.float64)
        for rows, total in zip(systems, totals, strict=True):
            total[sample] = times @ rows
    return totals


def _middle(values: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)


def _rows(metric: Metric, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    if len(outputs) != len(references):
        raise InputError(
            f"{len(outputs)} outputs for {len(references)} items; there must be one output for each"
        )
    if not outputs:
        raise InputError("there is nothing to score; give at least one item")
    for number, given in enumerate(references, 1):
        if not given or isinstance(given, str):
            raise InputError(
                f"item {number} has the references {given!r}; give a list with at least one text"
            )
    return metric.statistics(outputs, references)


def _reference_count(references: Sequence[Sequence[str]]) -> str:
    counts = {len(given) for given in references}
    return str(counts.pop()) if len(counts) == 1 else "var"
