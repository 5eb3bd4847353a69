"""Findings about labels: whether a model can learn to tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from seqwright.data.checks.duplicates import DuplicateCounter
from seqwright.data.checks.findings import Finding, finding
from seqwright.data.read_report import Occurrences, Place, TextRow
from seqwright.data.text_display import excerpt, shorten_list

NAMED = 5  # labels of a finding


class LabelBuilder:
    """Collects the labels of examples; the texts of an example are in the named columns."""

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self.columns = (*columns, "label")
        self._counts: Counter[str] = Counter()
        self._places: dict[str, Place] = {}  # where each label occurs first
        self._examples = 0
        self._groups = DuplicateCounter()
        self._conflicts = Occurrences()

    def add(self, group: str, labels: Sequence[str], row: TextRow) -> None:
        """Count the labels of an example; examples of one group have the same input."""
        if not labels:
            return
        self._examples += 1
        self._counts.update(labels)
        for label in labels:
            self._places.setdefault(label, row.place)
        joined = " ".join(labels)
        if self._groups.add(group, joined) == "conflicts":
            self._conflicts.add(row.place, TextRow((*row.texts, joined), row.place))

    def findings(self, group: str, *, takes_field: bool = False) -> Iterator[Finding]:
        """Yield what is wrong with the labels. group: the noun of a group; takes_field: `data.field` chooses
        the labels.
        """
        if len(self._counts) == 1:
            yield self._only_label(takes_field=takes_field)
            return
        single = [label for label, count in self._counts.items() if count == 1]
        seen, shown = Occurrences(), shorten_list(single, NAMED)
        for label in single:
            seen.add(self._places[label])
        conflicts = self._conflicts
        conflicts.count = self._groups.counts()["conflicts"]
        found = (
            finding("single_labels", seen, len(self._counts), shown=shown),
            finding("label_conflicts", conflicts, self._examples, self.columns, group=group),
        )
        yield from filter(None, found)

    def _only_label(self, *, takes_field: bool) -> Finding:
        ((label, count),) = self._counts.items()
        sentence = f"all {count:,} labels are {excerpt(label)}"
        way_out = "training stops: it needs at least two labels; check which column or folder has them"
        if takes_field:
            way_out = "training stops: it needs at least two labels; --field chooses another column"
        return Finding("one_label", "error", count, (self._places[label],), sentence, way_out)
