"""Scores of outputs against references, and how sure they are.

A metric is one class. It turns every item into a row of statistics, and sums of rows into a score: so one
bootstrap serves all metrics, corpus-level BLEU included, as resampling items is resampling rows. An item may
have several references. All scores are percentages. Which metrics make sense depends on how the targets are
written: `writing_of`, `METRICS_FOR`, `build_metric`. Shapes: N items, F statistics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import regex

from seqwright.config.registry import Registry, snake_case
from seqwright.data.fields import split_parts
from seqwright.errors import InputError

METRICS = Registry("metric", "seqwright.evaluation.metrics", "seqwright.evaluation.metrics:Metric")

Better = Literal["higher", "lower"]
Writing = Literal["text", "symbols", "characters"]
Item = Literal["word", "text"]

METRICS_FOR: dict[Writing, tuple[str, ...]] = {  # the first is the one to look at first
    "text": ("bleu", "chrf", "exact_match"),
    "symbols": ("word_error_rate", "symbol_error_rate", "exact_match"),
    "characters": ("exact_match", "word_error_rate", "symbol_error_rate"),
}
_WORDS_AND_SIGNS = regex.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_ONE = 1.2  # words that a source has at most, on average, where a source is a word
_SPELLING = 3  # characters that a symbol has at most, on average, where symbols spell a word: phones
_SEPARATORS: dict[Writing, str] = {"text": "", "symbols": " ", "characters": ""}


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
        return self.measured(outputs, references).score

    def measured(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Measured:
        _check_items(outputs, references)
        return Measured(self, self.statistics(outputs, references), self.signature(references))


@dataclass(frozen=True, eq=False)
class Measured:
    """The items of one system with their statistics (N, F): any part of them scores without its texts."""

    metric: Metric
    rows: np.ndarray
    signature: str

    @property
    def score(self) -> Score:
        return Score(self.metric.name, self.value(), self.signature, self.metric.better)

    def value(self, items: Sequence[int] | None = None) -> float:
        """The score of these items, or of all."""
        rows = self.rows if items is None else self.rows[list(items)]
        return self.metric.value(rows.sum(0))

    def interval(self, *, samples: int = 1000, level: float = 0.95, seed: int = 0) -> Interval:
        """The middle `level` of the scores of resampled sets of items (Efron 1979; for BLEU Koehn 2004)."""
        (totals,) = _resampled([self.rows], samples, seed)
        return _middle(np.array([self.metric.value(row) for row in totals]), level)

    @property
    def error(self) -> float:
        """The standard error of the score by the jackknife (Tukey 1958): how far it moves when each item in
        its turn is left out. A single item tells nothing of it: 0.
        """
        count, totals = len(self.rows), self.rows.sum(0)
        if count < 2:
            return 0.0
        values = np.array([self.metric.value(totals - row) for row in self.rows])
        return float(math.sqrt((count - 1) * values.var()))

    def against(
        self, other: Measured, *, samples: int = 1000, level: float = 0.95, seed: int = 0
    ) -> Comparison:
        """This system first and another second, on the same resampled items (Koehn 2004).

        The p-value is that of the shifted bootstrap (Riezler and Maxwell 2005): hits are resamples whose
        difference is as far from the mean as the observed one is from zero; p = (hits + 1) / (samples + 1).
        """
        totals = _resampled([self.rows, other.rows], samples, seed)
        values = [np.array([self.metric.value(row) for row in part]) for part in totals]
        differences, observed = values[1] - values[0], other.value() - self.value()
        hits = np.abs(differences - differences.mean()) >= abs(observed)
        p_value = (int(hits.sum()) + 1) / (samples + 1)
        return Comparison(self.score, other.score, observed, _middle(differences, level), p_value)


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
    """BLEU: precision of one to four words in sequence, times a brevity penalty (Papineni et al. 2002).

    tokenize: how texts are cut into words; none for texts whose words stand between spaces already.
    """

    better = "higher"

    def __init__(
        self, *, tokenize: Literal["13a", "none", "char", "intl", "zh"] = "13a", lowercase: bool = False
    ):
        from sacrebleu.metrics import BLEU

        super().__init__(BLEU(tokenize=tokenize, lowercase=lowercase, force=True))


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
        found = [self.closest(output, given) for output, given in zip(outputs, references, strict=True)]
        return np.array([(edits, len(symbols)) for edits, symbols in found], dtype=np.float64)

    def value(self, totals: np.ndarray) -> float:
        return float(100 * totals[0] / max(totals[1], 1))

    def closest(self, output: str, references: Sequence[str]) -> tuple[int, Sequence[str]]:
        """The edits to the closest reference, and its symbols."""
        from rapidfuzz.distance import Levenshtein

        said = self.symbols(output)
        wanted = map(self.symbols, references)
        ways = [(Levenshtein.distance(said, symbols), symbols) for symbols in wanted]
        return min(ways, key=lambda way: (way[0], -len(way[1])))


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


class _WordsAndSigns(WordEditRate):
    """To look at edits: a comma that is missing is an edit of its own, and not another word."""

    def symbols(self, text: str) -> Sequence[str]:
        return _WORDS_AND_SIGNS.findall(text)


def writing_of(tokenizer: str, texts: Iterable[str]) -> Writing:
    """How texts are written that a tokenizer of this kind cuts.

    Symbols stand between spaces (phones). Other kinds cut running text if there are two words or more in a
    text on average, and characters of single words otherwise (inflected forms, transliterated names).
    """
    if tokenizer == "symbols":
        return "symbols"
    counts = [len(text.split()) for text in texts]
    return "text" if sum(counts) >= 2 * max(len(counts), 1) else "characters"


def item_of(sources: Iterable[str], references: Iterable[Sequence[str]], writing: Writing) -> Item:
    """What an item is: a word, if its source is one and its target spells one, in characters or in symbols
    that are shorter than words; otherwise a text. Features of a source do not count.
    """
    words = [sum(len(part.split()) for part in split_parts(source)[::2]) for source in sources]
    if writing == "text" or sum(words) > _ONE * max(len(words), 1):
        return "text"
    symbols = [symbol for texts in references for text in texts for symbol in text.split()]
    spelt = writing == "characters" or sum(map(len, symbols)) <= _SPELLING * len(symbols)
    return "word" if spelt else "text"


def in_words(name: str, item: Item = "word") -> str:
    """The name of a metric for people. Items that are not right are errors of words only where an item is a
    word: of texts, speech recognition calls something else so.
    """
    return "wrong outputs" if (name, item) == ("word_error_rate", "text") else name.replace("_", " ")


def build_metric(spec: str | Mapping[str, Any], writing: Writing, **given: Any) -> Metric:
    """A metric for targets written so: the symbols of a symbol error rate stand between spaces only where the
    targets are symbols, and are characters elsewhere. `given` goes to the metrics that have such an option.
    """
    return METRICS.build(spec, separator=_SEPARATORS[writing], **given)


def edits_for(writing: Writing) -> SymbolErrorRate | WordEditRate:
    """What an edit of such a target is: of a word or a sign in running text, of a symbol or a character
    elsewhere.
    """
    return _WordsAndSigns() if writing == "text" else SymbolErrorRate(separator=_SEPARATORS[writing])


def as_written(target: str, writing: Writing) -> str:
    """A reference as an output would have it: spaces between symbols are no part of them, one is as good as
    two.
    """
    return " ".join(target.split()) if writing == "symbols" else target


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
    """`Measured.interval` of outputs."""
    return metric.measured(outputs, references).interval(samples=samples, level=level, seed=seed)


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
    """`Measured.against` of the outputs of two systems."""
    one, other = (metric.measured(outputs, references) for outputs in (first, second))
    return one.against(other, samples=samples, level=level, seed=seed)


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


def _check_items(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> None:
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


def _reference_count(references: Sequence[Sequence[str]]) -> str:
    counts = {len(given) for given in references}
    return str(counts.pop()) if len(counts) == 1 else "var"
