"""A trace as a value: one decode with everything that happened inside. The format is in docs/trace.md."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqwright.errors import InputError
from seqwright.files import atomic_file, encode_json
from seqwright.lens.trace.packing import dequantize, unpack

FORMAT = 1
WHAT = "seqwright trace"

Kind = Literal["enc", "dec", "cross"]


class Trace:
    """What `look` found. Texts and numbers are in `document`; the packed arrays come out by name."""

    def __init__(self, document: Mapping[str, Any]):
        if document.get("what") != WHAT or not isinstance(document.get("format"), int):
            raise InputError("this is no trace of Seqwright; make one with seqwright look RUN TEXT -o x.json")
        if document["format"] > FORMAT:
            raise InputError(
                f"the trace has format {document['format']}, newer than this program's {FORMAT}; "
                "update Seqwright"
            )
        self.document = dict(document)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Trace:
        """From a file or from the document itself."""
        if isinstance(source, Mapping):
            return cls(source)
        try:
            document = json.loads(Path(source).read_bytes())
        except OSError as error:
            raise InputError(f"{os.fspath(source)} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{os.fspath(source)} is not JSON ({error}); was it copied whole?") from error
        if not isinstance(document, dict):
            raise InputError(f"{os.fspath(source)} holds no trace but {type(document).__name__}")
        return cls(document)

    def save(self, path: str | os.PathLike[str]) -> None:
        with atomic_file(Path(path)) as file:
            file.write(self.to_bytes())

    def to_json(self) -> dict[str, Any]:
        return self.document

    def to_bytes(self) -> bytes:
        """The document as a file holds it."""
        return encode_json(self.document)

    @property
    def text(self) -> str:
        return self.document["text"]

    @property
    def output(self) -> str:
        return self.document["output"]["text"]

    @property
    def log_probs(self) -> np.ndarray:
        """Of the tokens of the output, the end included (T,)."""
        return np.array([step["log_prob"] for step in self.document["steps"]])

    def layers(self, kind: Kind) -> int:
        """How many attentions there are of a kind."""
        return sum(entry["kind"] == kind for entry in self.document["attention"])

    def attention(self, kind: Kind, layer: int) -> np.ndarray:
        """Weights (H, Q, K), or of blocks of them where the trace says so, within half a level of what they
        were.
        """
        entry = self._entry(kind, layer)
        return dequantize(entry["levels"], entry["scales"], entry["weights"])

    def vectors(self, kind: Kind, layer: int) -> dict[str, np.ndarray]:
        """Queries, keys, values and biases of an attention by name, those that it has."""
        vectors = self._entry(kind, layer)["vectors"]
        if vectors is None:
            raise InputError(f"the vectors of {kind} {layer} are not stored: {self.why('vectors')}")
        return {name: unpack(value) for name, value in vectors.items() if isinstance(value, Mapping)}

    def logits(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids (T, N) of the best symbols at each step, and their logits."""
        return unpack(self.document["logits"]["ids"]), unpack(self.document["logits"]["values"])

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """What each step draws on: the source (T, S) and the prefix (T, T)."""
        found = self.document["contributions"]
        if found is None:
            raise InputError(f"contributions were not worked out: {self.why('contributions')}")
        return unpack(found["source"]), unpack(found["prefix"])

    def cells(self, part: str, layer: int, direction: str = "forward") -> dict[str, np.ndarray]:
        """Gates (T, n) and states (T + 1, n) of a recurrent layer by name."""
        for entry in self.document["recurrent"]:
            if (entry["part"], entry["layer"], entry["direction"]) == (part, layer, direction):
                return {name: unpack(value) for name, value in (entry["gates"] | entry["states"]).items()}
        raise InputError(f"no {direction} cells of layer {layer} of the {part}: {self.why('recurrent')}")

    def block(self, part: str, layer: int) -> dict[str, Any]:
        """A block of a Transformer as docs/trace.md has it, with its arrays unpacked."""
        for entry in self.document.get("blocks", []):
            if (entry["part"], entry["layer"]) == (part, layer):
                return _unpacked(entry)
        raise InputError(f"no block {layer} of the {part}: {self.why('blocks')}")

    def why(self, key: str) -> str:
        """The sentence that says why something is not here."""
        return self.document["absent"].get(key, "it was not asked for")

    def _entry(self, kind: Kind, layer: int) -> dict[str, Any]:
        for entry in self.document["attention"]:
            if (entry["kind"], entry["layer"]) == (kind, layer):
                return entry
        reason = f"it has {self.layers(kind)}, counted from 0" if self.layers(kind) else self.why(kind)
        raise InputError(f"there is no {kind} attention of layer {layer}: {reason}")

    def page(self) -> str:
        """The page that shows it, self-contained."""
        from seqwright.lens.page import render

        return render([self.document])

    def __str__(self) -> str:
        from seqwright.lens.drawing import summary

        return summary(self)

    __repr__ = __str__  # at a prompt it shows itself

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page(), quote=True)}" '
            'style="width: 100%; height: 48rem; border: 0" title="trace"></iframe>'
        )


def _unpacked(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return unpack(value) if "data" in value else {name: _unpacked(part) for name, part in value.items()}
