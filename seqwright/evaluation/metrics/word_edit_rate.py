"""Word edit rate of sentences."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.evaluation.metrics.bases import EditRate


class WordEditRate(EditRate):
    """Edits over reference words, to the closest reference: the WER of speech recognition, for sentences."""

    meaning = "edits per 100 reference words"

    def symbols(self, text: str) -> Sequence[str]:
        return text.split()
