"""The most frequent tag of each word, as a baseline of taggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, NonNegativeInt, ValidationError

from seqwright.errors import ModelError
from seqwright.files import check_format, read_json, write_json

FORMAT = 1
MOST = 50_000  # words that are kept, the most frequent ones


class LexiconFile(BaseModel):
    """The contents of lexicon.json."""

    format: int
    tags: dict[str, NonNegativeInt]


@dataclass(frozen=True)
class Lexicon:
    """The number of the most frequent tag of each word in the training data."""

    tags: Mapping[str, int]

    @classmethod
    def of(cls, tagged: Iterable[tuple[str, int]]) -> Lexicon:
        words, pairs = Counter[str](), Counter[tuple[str, int]]()
        for word, tag in tagged:
            words[word] += 1
            pairs[word, tag] += 1
        best: dict[str, int] = {}
        for (word, tag), _ in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
            best.setdefault(word, tag)
        kept = sorted(words, key=lambda word: (-words[word], word))[:MOST]
        return cls({word: best[word] for word in kept})

    def save(self, path: Path) -> None:
        write_json(path, {"format": FORMAT, "tags": dict(self.tags)})

    @classmethod
    def load(cls, path: Path, tags: int) -> Lexicon:
        """Read a lexicon of so many tags."""
        table = read_json(path)
        check_format(path, table.get("format"), FORMAT)
        try:
            found = LexiconFile.model_validate(table).tags
        except ValidationError as error:
            raise ModelError(
                f"{path} is damaged ({error.error_count()} errors); restore it from a copy"
            ) from error
        if max(found.values(), default=0) >= tags:
            raise ModelError(f"{path} has a tag that labels.json does not have; restore it from a copy")
        return cls(found)
