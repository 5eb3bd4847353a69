"""Symbol error rate: phones, characters."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.evaluation.metrics.bases import EditRate


class SymbolErrorRate(EditRate):
    """Edits over reference symbols, to the closest reference: PER if they are phones (Yao and Zweig 2015).

    `separator` stands between symbols; an empty one makes every character a symbol.
    """

    meaning = "edits per 100 reference symbols"

    def __init__(self, *, separator: str = " "):
        self.separator = separator

    def symbols(self, text: str) -> Sequence[str]:
        if not self.separator:
            return text
        return [symbol for symbol in text.split(self.separator) if symbol]

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return f"{super().signature(references)}|separator:{self.separator!r}"
