"""The trace of a forecast. docs/trace.md describes the format."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, NonNegativeInt, model_validator

from seqwright.errors import InputError
from seqwright.lens.trace.base import TraceDocument
from seqwright.lens.trace.packing import dequantize, unpack
from seqwright.lens.trace.schema import Packed, Part, Text, TrainedModel

FORMAT = 1
WHAT = "seqwright forecast trace"

Numbers = list[FiniteFloat | None]  # null: unknown
Spans = list[Annotated[tuple[NonNegativeInt, NonNegativeInt], Field(strict=False)]]  # lists in JSON


class Channel(Part):
    name: Text
    past: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers
    truth: Numbers | None
    linear: Numbers | None


class Axes(Part):
    title: Text
    rows: Literal["past", "forecast"]
    signed: bool


class Entry(Part):
    """Weights (channels · heads, rows, columns), or (heads, rows, columns) for all channels alike; quantized
    if there are scales.
    """

    kind: Text
    layer: NonNegativeInt
    heads: Annotated[int, Field(ge=1)]
    rows: Spans
    columns: Spans
    levels: Annotated[int, Field(ge=1, le=65535)] | None
    scales: list[FiniteFloat] | None
    weights: Packed


class ForecastFile(Part):
    """A whole trace of a forecast: the parts that Python reads."""

    text: Text
    lookback: Annotated[int, Field(ge=1)]
    horizon: Annotated[int, Field(ge=1)]
    times: list[Text]
    channels: Annotated[list[Channel], Field(min_length=1)]
    kinds: dict[Text, Axes]
    weights: list[Entry]
    absent: dict[Text, Text]
    model: TrainedModel

    @model_validator(mode="after")
    def _has_numbers_for_every_step(self) -> Self:
        if len(self.times) != self.lookback + self.horizon:
            raise ValueError("there is not one time per step")
        for one in self.channels:
            later = [
                each for each in (one.mean, one.low, one.high, one.truth, one.linear) if each is not None
            ]
            if len(one.past) != self.lookback or any(len(each) != self.horizon for each in later):
                raise ValueError(f"the channel {one.name!r} does not have one number per step")
        return self

    @model_validator(mode="after")
    def _has_weights_of_its_channels(self) -> Self:
        for one in self.weights:
            counts = [one.heads, len(self.channels) * one.heads]
            shapes = [[count, len(one.rows), len(one.columns)] for count in counts]
            if one.kind not in self.kinds or one.weights.shape not in shapes:
                raise ValueError(f"the weights of {one.kind!r} do not have the shape {shapes[-1]}")
            if one.scales is not None and (one.levels is None or len(one.scales) != one.weights.shape[0]):
                raise ValueError(f"the weights of {one.kind!r} do not have one scale per channel and head")
        return self


class ForecastTrace(TraceDocument):
    """The result of `look` at a forecaster."""

    what, format, schema = WHAT, FORMAT, ForecastFile

    def layers(self, kind: str) -> int:
        """Number of layers that have weights of a kind: forecast, output, past, map or linear."""
        return sum(entry["kind"] == kind for entry in self.document["weights"])

    def weights(self, kind: str, layer: int = 0) -> np.ndarray:
        """Weights (channels, heads, rows, columns)."""
        entry = self.entry(kind, layer)
        packed, scales = entry["weights"], entry["scales"]
        found = unpack(packed) if scales is None else dequantize(entry["levels"], scales, packed)
        found = found.reshape(-1, entry["heads"], *found.shape[1:])
        return np.broadcast_to(found, (len(self.document["channels"]), *found.shape[1:]))

    def entry(self, kind: str, layer: int = 0) -> dict[str, Any]:
        """Return the weights of a layer in the form of docs/trace.md."""
        for entry in self.document["weights"]:
            if (entry["kind"], entry["layer"]) == (kind, layer):
                return entry
        raise InputError(f"the trace has no weights {kind!r} of layer {layer}: {self.why(kind)}")

    def __str__(self) -> str:
        from seqwright.lens.series.drawing import summary

        return summary(self)
