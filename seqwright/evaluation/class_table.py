"""Precision, recall and F1 of each label, and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seqwright.data.task import Table

MATRIX = 20  # labels of a confusion matrix


def class_table(expected: Sequence[str], outputs: Sequence[str], name: str = "label") -> Table:
    """Return a row for each label, the most frequent first: examples, precision, recall and F1 in percent."""
    right = Counter(label for label, output in zip(expected, outputs, strict=True) if label == output)
    return counted_table(name, Counter(expected), Counter(outputs), right)


def counted_table(name: str, wanted: Counter[str], given: Counter[str], right: Counter[str]) -> Table:
    """Return the same from counts: of what is expected, of what is output, and of what is right."""
    rows = []
    for label in sorted(wanted | given, key=lambda label: (-wanted[label], label)):
        precision = 100 * right[label] / given[label] if given[label] else None
        recall = 100 * right[label] / wanted[label] if wanted[label] else None
        f1 = 200 * right[label] / (given[label] + wanted[label])
        rows.append((label, wanted[label], precision, recall, f1))
    return Table((name, "items", "precision", "recall", "F1"), tuple(rows))


def confusion_table(expected: Sequence[str], outputs: Sequence[str]) -> Table:
    """Return how often each label (row) was predicted as each other (column), for the most frequent ones."""
    wanted, counts = Counter(expected), Counter(zip(expected, outputs, strict=True))
    labels = sorted(wanted | Counter(outputs), key=lambda label: (-wanted[label], label))[:MATRIX]
    rows = ((label, *(counts[label, output] for output in labels)) for label in labels)
    return Table(("expected", *labels), tuple(rows))
