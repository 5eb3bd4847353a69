"""The replies that a retrieval model chooses from, with their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqwright.errors import ModelError
from seqwright.files import atomic_file, read_json, write_json

TEXTS, VECTORS = "index.json", "index.safetensors"


@dataclass(frozen=True, eq=False)
class ReplyIndex:
    """Texts and their vectors of length 1 (N, D). least: a reply with a lower cosine does not fit.

    contexts: the last turns before each text in the training data; older runs have none.
    """

    texts: tuple[str, ...]
    vectors: np.ndarray
    least: float = -1.0
    contexts: tuple[tuple[str, ...], ...] = ()

    def nearest(self, vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts with the greatest cosine, best first, and all cosines: (B, count), (B, N)."""
        cosines = vectors @ self.vectors.T  # exact: one product
        count = min(count, len(self.texts))
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(cosines, best, 1), axis=1, kind="stable")
        return np.take_along_axis(best, order, 1), cosines

    def vectors_of(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts of the index."""
        return self.vectors[[self._places[text] for text in texts]]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.texts)}

    def save(self, folder: Path) -> None:
        import torch

        from seqwright.runs.tensors import write_tensors

        with atomic_file(folder / VECTORS) as file:
            write_tensors(file, {"vectors": torch.from_numpy(self.vectors)})
        table = {"replies": list(self.texts), "contexts": list(map(list, self.contexts))}
        write_json(folder / TEXTS, {**table, "least": self.least})

    @classmethod
    def load(cls, folder: Path) -> ReplyIndex | None:
        """Return the index of a run; None before its training has ended."""
        if not (folder / TEXTS).exists():
            return None
        from seqwright.runs.tensors import load_tensors, not_finite

        table, tensors = read_json(folder / TEXTS), load_tensors(folder / VECTORS)
        texts: Any = table.get("replies")
        contexts: Any = table.get("contexts", [])
        least, vectors = table.get("least"), tensors.get("vectors")
        known = _are_texts(texts) and isinstance(contexts, list) and all(map(_are_texts, contexts))
        known = known and len(contexts) in (0, len(texts))
        fits = vectors is not None and vectors.dim() == 2 and known and len(vectors) == len(texts) > 0
        if not fits or not_finite(tensors) or not isinstance(least, float):
            raise ModelError(f"{folder / TEXTS} and {VECTORS} do not belong together; restore them")
        assert vectors is not None
        return cls(tuple(texts), vectors.float().numpy(), least, tuple(map(tuple, contexts)))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
