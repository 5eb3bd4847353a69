"""Words of captions, and their BLEU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import regex

from seqwright.evaluation.metrics.bases import SacreMetric

_WORD = regex.compile(r"\w+(?:['’]\w+)*")


def caption_words(text: str) -> list[str]:
    """Return the words of a text in lower case without punctuation, as papers on captions compare them."""
    return _WORD.findall(text.lower())


class CaptionBleu(SacreMetric):
    """BLEU of n-grams of one to `order` words (Papineni et al. 2002), brevity penalty included, over the
    words of captions.
    """

    better = "higher"
    unit = ""
    order: ClassVar[int]

    def __init__(self) -> None:
        from sacrebleu.metrics import BLEU

        super().__init__(BLEU(tokenize="none", max_ngram_order=self.order, force=True))

    @property
    def name(self) -> str:
        return f"bleu_{self.order}"

    def statistics(self, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
        plain = [" ".join(caption_words(output)) for output in outputs]
        known = [[" ".join(caption_words(text)) for text in given] for given in references]
        return super().statistics(plain, known)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        return f"{super().signature(references)}|words:lower,no_punctuation"
