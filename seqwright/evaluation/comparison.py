"""Comparison of two models on the same items: significance, and where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from seqwright import __version__
from seqwright.data.text_display import pluralize
from seqwright.errors import InputError
from seqwright.evaluation.bootstrap import Comparison, Measured
from seqwright.evaluation.buckets import ENDING, Bucket
from seqwright.evaluation.evaluate import Evaluation
from seqwright.evaluation.mistakes import count_changes
from seqwright.evaluation.page import comparison_html
from seqwright.evaluation.panel import comparison_text
from seqwright.evaluation.wording import percent
from seqwright.files import strict

FORMAT = 1
SIGNIFICANT = 0.05  # p-values below are called a difference
CONTRAST = ("expected", "said", "first", "second")  # keys of a contrast in JSON


class Contrast(NamedTuple):
    """How often each model outputs one symbol in place of another."""

    expected: str
    output: str
    first: int
    second: int


@dataclass(frozen=True, eq=False)
class Compared:
    """Two evaluations, and their comparison by each metric that both can be compared by."""

    names: tuple[str, str]
    first: Evaluation
    second: Evaluation
    comparisons: tuple[Comparison, ...]

    @property
    def sides(self) -> tuple[Evaluation, Evaluation]:
        return self.first, self.second

    @property
    def verdict(self) -> str:
        """One sentence on the first metric."""
        first, second = self.names
        if not self.comparisons:
            return f"The scores of {first} and {second} do not compare: their tokenizers differ."
        each = self.comparisons[0]
        outputs = [[item.output.value for item in side.items] for side in self.sides]
        if outputs[0] == outputs[1]:
            items = pluralize(len(self.first.items), "item")
            return f"No difference: {first} and {second} give the same outputs for {items}."
        name, interval = self.first.label(each.first.name), each.interval
        ends = f"{percent(interval.level)} interval {interval.low:+.2f} to {interval.high:+.2f}"
        figures = f"{name} {each.second.value:.2f} against {each.first.value:.2f}"
        figures += f" ({each.difference:+.2f}, {ends}, p = {each.p_value:.3f})"
        if each.p_value >= SIGNIFICANT or each.difference == 0:
            return f"No significant difference between {second} and {first}: {figures}; try more items."
        better = (each.difference > 0) == (each.first.better == "higher")
        return f"{second} is {'better' if better else 'worse'} than {first}: {figures}."

    @property
    def pairs(self) -> list[tuple[Measured, Measured]]:
        """The measured scores of both models by each metric that is compared."""
        one, other = ({each.metric.name: each for each in side.measured} for side in self.sides)
        return [(one[each.first.name], other[each.first.name]) for each in self.comparisons]

    @property
    def not_compared(self) -> list[str]:
        """The names of the metrics that depend on the tokenizer, where the tokenizers differ."""
        compared = {each.first.name for each in self.comparisons}
        return [name for name in self.first.metrics if name not in compared]

    @property
    def findings(self) -> list[str]:
        """The findings of both models; those of only one start with its name."""
        found = self._findings_of_sides
        if self.comparisons and (left_out := self.not_compared):
            labels = " and ".join(self.first.label(name) for name in left_out)
            found.insert(0, f"the tokenizers differ, so scores per token do not compare: {labels}")
        return found

    @property
    def _findings_of_sides(self) -> list[str]:
        owners: dict[str, list[str]] = {}
        for name, side in zip(self.names, self.sides, strict=True):
            for finding in side.findings:
                owners.setdefault(finding, []).append(name)
        return [each if len(names) > 1 else f"{names[0]}: {each}" for each, names in owners.items()]

    @property
    def wins(self) -> int:
        """The number of items for which the second model is closer to a reference than the first."""
        return sum(gain > 0 for gain in self._gains)

    @property
    def losses(self) -> int:
        return sum(gain < 0 for gain in self._gains)

    @property
    def ties(self) -> int:
        return sum(gain == 0 for gain in self._gains)

    @property
    def examples(self) -> list[int]:
        """The numbers of the items for which the distances to a reference differ most."""
        apart = [number for number, gain in enumerate(self._gains) if gain]
        return sorted(apart, key=lambda number: (-abs(self._gains[number]), number))[:10]

    @property
    def buckets(self) -> dict[str, tuple[Bucket, ...]]:
        """The buckets that do not depend on the outputs; none where nothing compares."""
        if not self.comparisons:
            return {}
        return {name: found for name, found in self.first.buckets.items() if name != ENDING}

    @cached_property
    def confusions(self) -> list[Contrast]:
        """The confusions that one model makes more often than the other, the greatest difference first."""
        if self.not_compared:  # a confusion is one of tokens
            return []
        one, other = (count_changes(each.mistakes, each.writing) for each in self.sides)
        found = [Contrast(*change, one[change], other[change]) for change in one.keys() | other.keys()]
        uneven = [each for each in found if each.first != each.second]
        uneven.sort(key=lambda each: (-abs(each.first - each.second), each.expected, each.output))
        return uneven[:20]

    @cached_property
    def _gains(self) -> list[float]:
        """For each item, how much smaller the share of edits of the second model is; where the tokenizers
        differ, how much better its score is by the first metric.
        """
        if not self.comparisons:
            return []
        if self.not_compared:
            return [self._gain(*self.pairs[0], number) for number in range(len(self.first.items))]
        mistakes = zip(*(each.mistakes for each in self.sides), strict=True)
        return [one.share - other.share for one, other in mistakes]

    @staticmethod
    def _gain(first: Measured, second: Measured, number: int) -> float:
        """Return how much better the second score of an item is than the first."""
        sign = 1 if first.metric.better == "higher" else -1
        return sign * (second.value([number]) - first.value([number]))

    def row(self, number: int) -> tuple[str, str, str, str]:
        """Return the source of an item, the closest reference, and both outputs."""
        (*one, first), (*other, second) = (side.row(number) for side in self.sides)
        source, reference = one if self._gains[number] < 0 else other
        return source, reference, first, second

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON; docs/evaluation.md describes the format."""
        document = {
            "format": FORMAT,
            "runs": self.names,
            "file": self.first.file,
            "items": len(self.first.items),
            "beam": [each.beam for each in self.sides],
            "verdict": self.verdict,
            "metrics": {each.first.name: _comparison_json(each) for each in self.comparisons},
            "not_compared": self.not_compared,
            "level": self.first.judging.level,
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "examples": [self._example_json(number) for number in self.examples],
            "confusions": [dict(zip(CONTRAST, each, strict=True)) for each in self.confusions],
            "buckets": {name: [*map(self._bucket_json, found)] for name, found in self.buckets.items()},
            "findings": [each.findings for each in self.sides],
            "speed": [each.speed.to_json() for each in self.sides],
            "version": __version__,
        }
        return strict(document)

    def _example_json(self, number: int) -> dict[str, Any]:
        first, second = (each.items[number] for each in self.sides)
        return {
            "source": first.output.source,
            "references": first.references,
            "first": first.output.value,
            "second": second.output.value,
            "edits": [each.mistakes[number].edits for each in self.sides],
        }

    def _bucket_json(self, bucket: Bucket) -> dict[str, Any]:
        sides = zip(*self.pairs, strict=True)
        first, second = ({m.metric.name: m.value(bucket.items) for m in side} for side in sides)
        return {"name": bucket.name, "items": len(bucket.items), "first": first, "second": second}

    def __str__(self) -> str:
        return comparison_text(self)

    def _repr_html_(self) -> str:
        return comparison_html(self)


def compare(first: Evaluation, second: Evaluation, names: tuple[str, str] = ("first", "second")) -> Compared:
    """Compare two evaluations of the same items by the same metrics, on the same resamples. Models with
    different tokenizers are compared by the metrics that do not count tokens.
    """
    references = [[item.references for item in each.items] for each in (first, second)]
    both, counts = " and ".join(names), " and ".join(f"{len(items):,}" for items in references)
    if references[0] != references[1]:
        different = f"{both} were not evaluated on the same items ({counts})"
        raise InputError(f"{different}; pass one file for both, and its --columns")
    signatures = [[(each.metric.name, each.signature) for each in side.measured] for side in (first, second)]
    if signatures[0] != signatures[1]:
        different = f"{both} have different metrics ({signatures[0]} and {signatures[1]})"
        raise InputError(f"{different}; evaluate both with the same metrics")
    judging, same = first.judging, first.judge.tokens == second.judge.tokens
    options: dict[str, Any] = {"samples": judging.samples, "level": judging.level, "seed": judging.seed}
    compared = [*first.metrics] if same else first.judge.across
    one, other = ({each.metric.name: each for each in side.measured} for side in (first, second))
    found = tuple(one[name].against(other[name], **options) for name in compared)
    return Compared(names, first, second, found)


def _comparison_json(each: Comparison) -> dict[str, Any]:
    return {
        "first": each.first.value,
        "second": each.second.value,
        "difference": each.difference,
        "interval": [each.interval.low, each.interval.high],
        "p_value": each.p_value,
        "better": each.first.better,
        "signature": each.first.signature,
    }
