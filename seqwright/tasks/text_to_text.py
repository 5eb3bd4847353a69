"""Texts to texts: translation, pronunciation, inflection, normalisation, dialogue; whatever a file of pairs
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqwright.data.batch import Batch, Tokens, collate, source_tokens
from seqwright.data.plan import item_seed
from seqwright.data.store import Ragged, Store
from seqwright.data.tokenizer import Tokenizer, load_tokenizer

JOINT, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"


@dataclass(frozen=True)
class Translation:
    """How the texts of the two sides become ids and ids become texts.

    sampled: the training texts are cut anew in each epoch (BPE dropout, unigram sampling), where the
    tokenizers can.
    """

    source: Tokenizer
    target: Tokenizer
    sampled: bool = False

    @classmethod
    def load(cls, folder: Path, *, sampled: bool = False) -> Translation:
        if (folder / JOINT).exists():
            joint = load_tokenizer(folder / JOINT)
            return cls(joint, joint, sampled)
        return cls(load_tokenizer(folder / SOURCE), load_tokenizer(folder / TARGET), sampled)

    def save(self, folder: Path) -> None:
        """Into files that take the place of all that were there, be it one for both sides or one for each."""
        joint = self.source is self.target
        for old in (SOURCE, TARGET) if joint else (JOINT,):
            (folder / old).unlink(missing_ok=True)
        if joint:
            self.source.save(folder / JOINT)
        else:
            self.source.save(folder / SOURCE)
            self.target.save(folder / TARGET)

    @property
    def fingerprint(self) -> str:
        return f"{self.source.fingerprint}:{self.target.fingerprint}"

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Batch:
        """The examples of these numbers. With an epoch, and where asked for, their texts are cut at random
        for it.
        """
        if epoch is None or not self.sampled:
            return collate(*store.gather(numbers), numbers)
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for number in numbers.tolist():
            draw = item_seed(seed, epoch, number)
            for rows, tokenizer, text in zip(
                sides, (self.source, self.target), store.texts(number), strict=True
            ):
                rows.append(tokenizer.encode_sampled(text, draw))
        return collate(Ragged.of(sides[0]), Ragged.of(sides[1]), numbers)

    def inputs(self, texts: Sequence[str]) -> Tokens:
        """Sources as an encoder reads them."""
        return source_tokens(Ragged.of(self.source.encode_batch(texts)))

    def text(self, tokens: Sequence[int]) -> str:
        """The text of an output; what a model says is one line."""
        return self.target.decode(tokens).replace("\n", " ").replace("\r", " ")  # as reading does
