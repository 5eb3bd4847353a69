"""A trace: one decode with the values of every layer. docs/trace.md describes the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqwright.errors import InputError
from seqwright.lens.trace.base import TraceDocument
from seqwright.lens.trace.packing import dequantize, unpack
from seqwright.lens.trace.schema import TraceFile

FORMAT = 2
WHAT = "seqwright trace"
NAMES = {"source": "source", "output": "output", "step": "step", "symbol": "token"}  # or those of the task
KINDS_OF_TRACE: dict[str, dict[str, str]] = {  # the axes of the attentions of every model
    "cross": {"title": "Cross-attention", "rows": "steps", "columns": "source"},
    "enc": {"title": "Encoder self-attention", "rows": "source", "columns": "source"},
    "dec": {"title": "Decoder self-attention", "rows": "prefix", "columns": "prefix"},
}


def prompted_kinds(names: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The attentions of a decoder that reads source and output as one sequence, in the words of `names`."""
    title = "Self-attention to the {}".format
    return {
        "cross": {**KINDS_OF_TRACE["cross"], "title": title(names["source"])},
        "dec": {**KINDS_OF_TRACE["dec"], "title": title(names["output"])},
    }


Kind = str  # enc, dec, cross, or another one of the trace, such as pool


class Trace(TraceDocument):
    """The result of `look`. `document` is the JSON; the methods unpack its arrays."""

    what, format, schema = WHAT, FORMAT, TraceFile

    @classmethod
    def upgraded(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """A trace in the current format. Format 1 had outputs of a search alone."""
        if document["format"] == 1:
            document = {**document, "format": 2, "names": NAMES, "axes": {}, "kinds": KINDS_OF_TRACE}
        return dict(document)

    @property
    def output(self) -> str:
        return self.document["output"]["text"]

    @property
    def log_probs(self) -> np.ndarray:
        """Log-probabilities of the output tokens with the end token (T,)."""
        return np.array([step["log_prob"] for step in self.document["steps"]])

    def layers(self, kind: Kind) -> int:
        """Number of attentions of a kind."""
        return sum(entry["kind"] == kind for entry in self.document["attention"])

    def attention(self, kind: Kind, layer: int) -> np.ndarray:
        """Weights (H, Q, K), or (H, blocks, blocks) for a long text, accurate to half a level."""
        entry = self._attention(kind, layer)
        return dequantize(entry["levels"], entry["scales"], entry["weights"])

    def vectors(self, kind: Kind, layer: int) -> dict[str, np.ndarray]:
        """The queries, keys, values and biases of an attention by name."""
        vectors = self._attention(kind, layer)["vectors"]
        if vectors is None:
            raise InputError(f"the trace has no vectors of {kind} {layer}: {self.why('vectors')}")
        return {name: unpack(value) for name, value in vectors.items() if isinstance(value, Mapping)}

    def logits(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids (T, N) of the best symbols at each step, and their logits."""
        return unpack(self.document["logits"]["ids"]), unpack(self.document["logits"]["values"])

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """Contributions of the source (T, S) and of the prefix (T, T) to each step; (T, 0) without a side."""
        found = self.document["contributions"]
        if found is None:
            raise InputError(f"the trace has no contributions: {self.why('contributions')}")
        nothing = np.zeros((len(self.document["steps"]), 0), np.float32)
        source, prefix = (nothing if found[k] is None else unpack(found[k]) for k in ("source", "prefix"))
        return source, prefix

    def saliency(self) -> dict[str, np.ndarray]:
        """The gradient saliency (H, W) of an image for its most probable labels, by label."""
        found = self._of_image("saliency")
        maps = dequantize(found["levels"], found["scales"], found["weights"])
        return {
            self.document["symbols"][str(label)]: each
            for label, each in zip(found["labels"], maps, strict=True)
        }

    def position_similarity(self) -> np.ndarray:
        """Cosines between the learned positions of the cells of an image (cells, cells)."""
        return unpack(self._of_image("positions")["similarity"])

    def _of_image(self, key: str) -> dict[str, Any]:
        """A part of the document that images have."""
        if "image" not in self.document:
            raise InputError(f"the trace has no {key}: its source is not an image")
        if (found := self.document.get(key)) is None:
            raise InputError(f"the trace has no {key}: {self.why(key)}")
        return found

    def cells(self, part: str, layer: int, direction: str = "forward") -> dict[str, np.ndarray]:
        """Gates (T, n) and states (T + 1, n) of a recurrent layer by name."""
        what = f"{direction} cells of {part} layer {layer}"
        entry = self._find("recurrent", what, part=part, layer=layer, direction=direction)
        return _unpacked(entry["gates"] | entry["states"])

    def block(self, part: str, layer: int) -> dict[str, Any]:
        """A Transformer block in the form of docs/trace.md, with its arrays unpacked."""
        return _unpacked(self._find("blocks", f"block {layer} of the {part}", part=part, layer=layer))

    def _attention(self, kind: Kind, layer: int) -> dict[str, Any]:
        count = self.layers(kind)
        reason = f"the layers are 0 to {count - 1}" if count else self.why(kind)
        return self._find("attention", f"{kind} attention of layer {layer}", reason, kind=kind, layer=layer)

    def _find(self, table: str, what: str, reason: str = "", **wanted: Any) -> dict[str, Any]:
        """The entry of a table with these values."""
        for entry in self.document.get(table, []):
            if all(entry[name] == value for name, value in wanted.items()):
                return entry
        raise InputError(f"the trace has no {what}: {reason or self.why(table)}")

    def __str__(self) -> str:
        from seqwright.lens.drawing import summary

        return summary(self)


def _unpacked(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return unpack(value) if "data" in value else {name: _unpacked(part) for name, part in value.items()}
