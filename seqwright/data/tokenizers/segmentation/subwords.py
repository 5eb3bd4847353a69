"""Tokenizers that encode with the `tokenizers` library: BPE and unigram.

The library gets the vocabulary with our ids and without special tokens, so it cannot find one in a text. Its
unknown token is a character that no text has.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import tokenizers
from annotated_types import Ge, Le
from tokenizers import pre_tokenizers

from seqwright.data.fields import FIELD, SYMBOL, split_parts
from seqwright.data.tokenizer import FIRST, UNK, Tokenizer, Vocabulary, utf8
from seqwright.data.tokenizers.segmentation.spaces import PARTS, parts_of, shifted, spaced, unspaced
from seqwright.errors import ConfigError, ModelError

UNKNOWN = FIELD
LONGEST = 1000  # characters of a piece; the library overflows the stack at about a million
SAMPLED_LENGTH = 100  # sampling cuts longer parts (a line without spaces), so that its cost stays linear

PieceLength = Annotated[int, Ge(1), Le(LONGEST)]


class SubwordTokenizer(Tokenizer):
    """Pieces of words; the space before a word belongs to its first piece."""

    spaced = True

    def __init__(self, vocabulary: Vocabulary | None, max_size: int, max_piece: int, byte_fallback: bool):
        self.max_size, self.max_piece, self.byte_fallback = max_size, max_piece, byte_fallback
        super().__init__(vocabulary)
        self._room = max_size - self._first  # pieces that can be learned
        if self._room < 1:
            raise ConfigError(f"max_size is {max_size}; it must be at least {self._first + 1}")
        if any(len(entry) > LONGEST for entry in self.vocabulary.entries):
            raise ModelError(f"an entry has more than {LONGEST:,} characters; train the tokenizer again")
        self._library = library_for(self._model())

    @abstractmethod
    def _model(self) -> Any:
        """Return the library's model of the vocabulary."""

    @abstractmethod
    def _sample(self, part: str, draw: Callable[[], float]) -> list[str]:
        """Return the pieces of a part, drawn with random numbers from [0, 1)."""

    def _text_ids(self) -> dict[str, int]:
        """Return the ids of the entries that are text."""
        return {entry: number for entry, number in self._ids.items() if entry[0] not in (FIELD, SYMBOL)}

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = [encoding.ids for encoding in self._run(self._library.encode_batch_fast, texts)]
        for row, ids in enumerate(encoded):
            if UNK in ids:
                encoded[row] = [number for number, _ in self._tokens(texts[row])]
        return encoded

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return shifted([span for _, span in self._tokens(text)])

    def _join(self, pieces: list[str]) -> str:
        return unspaced(pieces)

    def _units(self, text: str) -> Iterable[str]:
        return spaced(text)

    def encode_sampled(self, text: str, seed: int) -> list[int]:
        draw, divided = random.Random(seed).random, split_parts(text)
        return self._with_markers(divided, (self._sampled_ids(part, draw) for part in divided[::2] if part))

    def _sampled_ids(self, text: str, draw: Callable[[], float]) -> list[int]:
        ids: list[int] = []
        for part in parts_of(spaced(text)):
            for start in range(0, len(part), SAMPLED_LENGTH):
                for piece in self._sample(part[start : start + SAMPLED_LENGTH], draw):
                    number = self._ids.get(piece, UNK)
                    ids += [number] if number != UNK else self._unknown_ids(piece)
        return ids

    def _tokens(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """Return ids with spans in the spaced text; each unknown character is one unk, or its bytes."""
        whole = spaced(text)
        (encoding,) = self._run(self._library.encode_batch, [text])
        tokens: list[tuple[int, tuple[int, int]]] = []
        for number, span in zip(encoding.ids, encoding.offsets, strict=True):
            if number != UNK:
                tokens.append((number, span))
                continue
            for k in range(*span):  # the library may join several
                tokens += [(spelled, (k, k + 1)) for spelled in self._unknown_ids(whole[k])]
        return tokens

    def _unknown_ids(self, character: str) -> list[int]:
        return [FIRST + byte for byte in utf8(character)] if self.byte_fallback else [UNK]

    def _run(self, encode: Callable[..., list[Any]], texts: Sequence[str]) -> list[Any]:
        try:
            return encode([spaced(text) for text in texts], add_special_tokens=False)
        except TypeError:
            for text in texts:
                utf8(text)  # raises an error that names the surrogate
            raise


def library_for(model: Any) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(PARTS), "isolated")
    return library
