"""The parts of a trace that Python reads, as types: a file may be damaged, or come from anywhere.

docs/trace.md describes all parts. Those that only the page reads are not checked, nor are unknown keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    FiniteFloat,
    InstanceOf,
    NonNegativeInt,
    model_validator,
)

Text = InstanceOf[str]  # also with lone surrogates, which a source can have
LogProb = Annotated[FiniteFloat, Field(le=1)]  # rounding may exceed 0; the exponential must not overflow
Pair = Annotated[tuple[int, LogProb], Field(strict=False)]  # a list in JSON


class Part(BaseModel):
    """An object of the document. Values are not converted: "1" is not a number."""

    model_config = ConfigDict(strict=True)


class Packed(Part):
    """A packed array; `unpack` checks its content."""

    dtype: Text
    shape: Annotated[list[NonNegativeInt], FailFast()]
    data: Text


class Piece(Part):
    text: Text
    special: Text | None = None


class Source(Part):
    pieces: Annotated[list[Piece], Field(min_length=1), FailFast()]


class Output(Source):
    text: Text


class Axis(Source):
    name: Text
    text: Text


class KindAxes(Part):
    title: Text
    rows: Text
    columns: Text


class Hypothesis(Part):
    text: Text
    log_prob: LogProb | None
    finish_reason: Text


class Reference(Part):
    text: Text
    log_prob: LogProb | None


class Step(Part):
    log_prob: LogProb | None
    top: Annotated[list[Pair], FailFast()]


class Logits(Part):
    ids: Packed
    values: Packed


class Quantized(Part):
    """Non-negative numbers (N, rows, columns), the largest of each part being `levels` times its scale."""

    levels: Annotated[int, Field(ge=1, le=65535)]
    scales: Annotated[list[FiniteFloat], FailFast()]
    weights: Packed

    @model_validator(mode="after")
    def _has_a_scale_per_part(self) -> Self:
        if len(self.weights.shape) != 3 or self.weights.shape[0] != len(self.scales):
            raise ValueError("the weights do not have three axes, the first as long as the scales")
        return self


class Attention(Quantized):
    kind: Text
    layer: int
    vectors: dict[Text, Any] | None


class Saliency(Quantized):
    labels: Annotated[list[int], FailFast()]

    @model_validator(mode="after")
    def _has_a_map_per_label(self) -> Self:
        if len(self.labels) != len(self.scales):
            raise ValueError("the saliency does not have one map per label")
        return self


class Positions(Part):
    similarity: Packed


class Recurrent(Part):
    part: Text
    layer: int
    direction: Text
    gates: dict[Text, Packed]
    states: dict[Text, Packed]


class Block(Part):
    part: Text
    layer: int


class Contributions(Part):
    source: Packed | None
    prefix: Packed | None


class TrainedModel(Part):
    step: Annotated[int, Field(ge=0, lt=1 << 62)] | None


class TraceFile(Part):
    """A whole trace."""

    names: dict[Text, Text]
    text: Text
    source: Source | None
    output: Output
    axes: dict[Text, Axis]
    kinds: dict[Text, KindAxes]
    reference: Reference | None
    hypotheses: Annotated[list[Hypothesis], FailFast()]
    steps: Annotated[list[Step], FailFast()]
    symbols: dict[Text, Text]
    logits: Logits
    attention: Annotated[list[Attention], FailFast()]
    recurrent: Annotated[list[Recurrent], FailFast()]
    blocks: Annotated[list[Block], FailFast()] = []
    contributions: Contributions | None
    saliency: Saliency | None = None
    positions: Positions | None = None
    absent: dict[Text, Text]
    model: TrainedModel

    @model_validator(mode="after")
    def _names_its_symbols(self) -> Self:
        if not {str(number) for step in self.steps for number, _ in step.top} <= self.symbols.keys():
            raise ValueError("a symbol of a step has no text")
        if self.saliency and not set(map(str, self.saliency.labels)) <= self.symbols.keys():
            raise ValueError("a label of the saliency has no text")
        return self

    @model_validator(mode="after")
    def _has_attention_of_one_size(self) -> Self:
        sizes = {(each.kind, tuple(each.weights.shape[1:])) for each in self.attention}
        kinds = {kind for kind, _ in sizes}
        if len(sizes) > len(kinds):
            raise ValueError("the layers of one kind of attention have different sizes")
        if unknown := sorted(kinds - self.kinds.keys()):
            raise ValueError(f"the axes of the attention {unknown[0]!r} are missing")
        return self

    @model_validator(mode="after")
    def _has_a_piece_per_step(self) -> Self:
        if len(self.output.pieces) != len(self.steps):
            raise ValueError("the output does not have one piece per step")
        return self
