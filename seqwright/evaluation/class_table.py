"""Precision, recall and F1 of each label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seqwright.data.task import Table


def class_table(expected: Sequence[str], outputs: Sequence[str]) -> Table:
    """Return a row for each label, the most frequent first: examples, precision, recall and F1 in percent."""
    wanted, given = Counter(expected), Counter(outputs)
    right = Counter(label for label, output in zip(expected, outputs, strict=True) if label == output)
    rows = []
    for label in sorted(wanted | given, key=lambda label: (-wanted[label], label)):
        precision = 100 * right[label] / given[label] if given[label] else None
        recall = 100 * right[label] / wanted[label] if wanted[label] else None
        f1 = 200 * right[label] / (given[label] + wanted[label])
        rows.append((label, wanted[label], precision, recall, f1))
    return Table(("label", "items", "precision", "recall", "F1"), tuple(rows))
