"""Tables of predictions take their columns from the type of the predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seqwright.data.results import Cell, Prediction, Predictions


@dataclass(frozen=True, repr=False)
class Label(Prediction):
    label: str
    probability: float
    headings = ("text", "label", "probability")

    @property
    def value(self) -> str:
        return self.label

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "output": self.label, "probability": self.probability}

    def __str__(self) -> str:
        return f"{self.label} ({self.probability:.2f})"

    def rows(self) -> Iterator[list[Cell]]:
        chance = f"{self.probability:.2f}"
        yield [
            Cell(self.source, self.source),
            Cell(self.label, f"<b>{self.label}</b>"),
            Cell(chance, chance, True),
        ]


LABELS = Predictions([Label("spam", 0.9, source="win now"), Label("ham", 0.75, source="hi")])


def test_another_type_of_prediction_brings_its_own_columns() -> None:
    assert repr(LABELS).split("\n") == [
        "text     label  probability",
        "win now  spam          0.90",
        "hi       ham           0.75",
    ]
    assert LABELS._repr_html_().count("<th>") == 3
    assert "<td><b>ham</b></td>" in LABELS._repr_html_()
    assert "<td><b>spam</b></td>" in LABELS[0]._repr_html_()


def test_values_and_lines_of_predictions() -> None:
    assert LABELS.values == ["spam", "ham"]
    assert LABELS.texts == ["spam (0.90)", "ham (0.75)"]
    assert repr(LABELS[0]) == "<Label: spam (0.90) for “win now”>"
    assert LABELS[0].all == (LABELS[0],)


def test_an_empty_list_is_shown_too() -> None:
    empty: Predictions[Label] = Predictions()
    assert repr(empty) == "no predictions"
    assert "<table>" in empty._repr_html_()
