"""The sublayers of Transformer blocks around their attentions: residual, norm, feed-forward.

Of each vector the first numbers are stored, with the mean and variance of the whole, from which the stored
numbers of the norm follow; of a feed-forward, the hidden units that matter most at each place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqwright.lens.heads.gates import Side, sides
from seqwright.lens.trace.entries import SizeBudget
from seqwright.lens.trace.packing import Packed, pack
from seqwright.nn.blocks import Block, Residual
from seqwright.nn.feedforward import ACTIVATIONS, FeedForward, Gated, Plain

NUMBERS = 64  # stored per vector
HIDDEN = 16  # stored units of a feed-forward per place


class Normed(NamedTuple):
    """Input and output (Q, N) of a norm; mean and variance (Q,) of the input (RMS: None, mean square)."""

    before: Tensor
    after: Tensor
    mean: Tensor | None
    variance: Tensor


@dataclass
class BlockRecord:
    """One block in one pass over one row of tokens."""

    name: str
    side: Side
    layer: int
    block: Block
    start: Tensor = field(init=False)  # (Q, N)
    end: Tensor = field(init=False)
    normed: dict[str, Normed] = field(default_factory=dict)
    hidden: dict[str, Any] | None = None

    @property
    def residuals(self) -> dict[str, Residual]:
        """The residual connections by the name of their sublayer, in the order of the block."""
        names = ("attention", "cross", "feed_forward")
        found = {name: getattr(self.block, f"around_{name}") for name in names}
        return {name: residual for name, residual in found.items() if residual is not None}

    def outputs(self) -> dict[str, Tensor]:
        """The output of each sublayer (Q, N): the difference of the residual stream after and before it."""
        names = list(self.residuals)
        if self.block.around_attention.pre:
            streams = [self.normed[name].before for name in names] + [self.end]
            return {name: streams[i + 1] - streams[i] for i, name in enumerate(names)}
        streams = [self.start] + [self.normed[name].after for name in names]
        return {name: self.normed[name].before - streams[i] for i, name in enumerate(names)}


@contextmanager
def record_blocks(model: nn.Module, lengths: dict[Side, int], max_bytes: int) -> Iterator[list[BlockRecord]]:
    """Record the blocks in one pass of one row inside it, those that need at most `max_bytes` each."""
    records = []
    for side, part in sides(model).items():
        blocks = [(name, block) for name, block in part.named_modules() if isinstance(block, Block)]
        for layer, (name, block) in enumerate(blocks):
            one = BlockRecord(f"{side}.{name}", side, layer, block)
            numbers = (1 + len(one.residuals)) * NUMBERS + 4 * HIDDEN  # per place, about
            if 4 * lengths[side] * numbers <= max_bytes:
                records.append(one)
    with ExitStack() as stack:
        for one in records:
            for handle in _hooks(one):
                stack.enter_context(handle)
        yield records


def _hooks(record: BlockRecord) -> Iterator[Any]:
    """Register hooks that copy what they store, because the block may overwrite its tensors later."""

    def keep_start(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        record.start = _first(inputs[0])

    def keep_end(module: nn.Module, inputs: Any, output: tuple[Tensor, Any]) -> None:
        record.end = _first(output[0])

    def keep_hidden(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        record.hidden = hidden_units(record.block.feed_forward, inputs[0][0])

    def keep_norm(name: str, norm: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x = inputs[0][0]  # (Q, D)
        mean = x.mean(-1) if isinstance(norm, nn.LayerNorm) else None
        variance = x.square().mean(-1) if mean is None else x.var(-1, correction=0)
        record.normed[name] = Normed(_first(inputs[0]), _first(output), mean, variance)

    yield record.block.register_forward_pre_hook(keep_start)
    yield record.block.register_forward_hook(keep_end)
    yield record.block.feed_forward.register_forward_hook(keep_hidden)
    for name, residual in record.residuals.items():
        yield residual.norm.register_forward_hook(partial(keep_norm, name))


def _first(x: Tensor) -> Tensor:
    """A copy (Q, N) of the first numbers of x (1, Q, D)."""
    return x[0, :, :NUMBERS].detach().clone()


@torch.inference_mode()
def hidden_units(part: FeedForward, x: Tensor) -> dict[str, Any] | None:
    """The hidden units that add the longest vectors to the output at each place, by |f(h)| · ‖column of W₂‖,
    and the sum that gives the largest of the stored numbers of the output. x (Q, D). None for a custom
    feed-forward.
    """
    if not isinstance(part, Plain | Gated):
        return None
    risen = part.rise(x)
    before, value = risen.chunk(2, -1) if isinstance(part, Gated) else (risen, None)
    after = part.activation(before) * (1 if value is None else value)  # (Q, hidden)
    weight = part.fall.weight
    best = (after.abs() * weight.norm(dim=0)).topk(min(HIDDEN, after.shape[1])).indices  # (Q, K)
    to = part.fall(after)[:, :NUMBERS].abs().argmax(-1)  # (Q,)
    products = after * weight[to]
    return {
        "kind": "gated" if isinstance(part, Gated) else "plain",
        "activation": next(name for name, each in ACTIVATIONS.items() if each is part.activation),
        "size": after.shape[1],
        "above": pack((before > 0).sum(-1)),
        "units": pack(best),
        "before": pack(before.gather(1, best)),
        "after": pack(after.gather(1, best)),
        "value": None if value is None else pack(value.gather(1, best)),
        "to": pack(to),
        "weights": pack(weight[to].gather(1, best)),
        "rest": pack(products.sum(-1) - products.gather(1, best).sum(-1)),
        "bias": None if part.fall.bias is None else pack(part.fall.bias[to]),
    }


def block_entries(records: list[BlockRecord], budget: SizeBudget) -> list[dict[str, Any]]:
    """The trace entries of the blocks. The last layers and the decoder come first into the budget."""
    stored: dict[int, dict[str, Any]] = {}
    for number in sorted(range(len(records)), key=lambda i: (-records[i].layer, records[i].side)):
        entry = _entry(records[number])
        if budget.reserve(entry):
            stored[number] = entry
    return [stored[number] for number in sorted(stored)]


def _entry(record: BlockRecord) -> dict[str, Any]:
    residual = record.block.around_attention
    norm = residual.norm
    return {
        "part": record.side,
        "layer": record.layer,
        "name": record.name,
        "order": "pre" if residual.pre else "post",
        "norm": "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        "epsilon": norm.eps if norm.eps is not None else torch.finfo(norm.weight.dtype).eps,
        "steps": len(record.start),
        "size": norm.weight.numel(),
        "start": pack(record.start),
        "sublayers": {name: _sublayer(record, name, output) for name, output in record.outputs().items()},
        "hidden": record.hidden,
    }


def _sublayer(record: BlockRecord, name: str, output: Tensor) -> dict[str, Packed | None]:
    norm, normed = record.residuals[name].norm, record.normed[name]
    shift = getattr(norm, "bias", None)
    return {
        "output": pack(output),
        "mean": None if normed.mean is None else pack(normed.mean),
        "variance": pack(normed.variance),
        "scale": pack(norm.get_parameter("weight")[:NUMBERS]),
        "shift": None if shift is None else pack(shift[:NUMBERS]),
    }
