"""What a block of a Transformer makes of each place around its attentions: residual, norm, feed-forward.

Of a vector the first numbers are kept, with the mean and variance of all of it, so that every number of the
norm follows from what is kept; of a feed-forward the hidden units that matter most at each place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.lens.trace.entries import CacheBuffer
from seqwright.lens.trace.packing import Packed, pack
from seqwright.lens.trace.recorders import numpy
from seqwright.nn.blocks import Block, Residual
from seqwright.nn.feedforward import ACTIVATIONS, FeedForward, Gated, Plain

NUMBERS = 64  # of a vector
HIDDEN = 16  # units of a feed-forward, of each place

Part = Literal["encoder", "decoder"]


@dataclass
class Normed:
    """What went into a norm and came out of it, (Q, N) each; mean and variance (Q,) of the whole input.

    An RMS norm takes no mean away: its mean is None, and its variance is the mean of the squares.
    """

    before: Tensor
    after: Tensor
    mean: Tensor | None
    variance: Tensor


@dataclass
class Flow:
    """One block in one pass over one row of tokens."""

    name: str
    part: Part
    layer: int
    block: Block
    start: Tensor = field(init=False)  # (Q, N)
    end: Tensor = field(init=False)
    normed: dict[str, Normed] = field(default_factory=dict)
    hidden: dict[str, Any] | None = None

    @property
    def residuals(self) -> dict[str, Residual]:
        """By the name of the sublayer that they lead around, in the order of the block."""
        names = ("attention", "cross", "feed_forward")
        found = {name: getattr(self.block, f"around_{name}") for name in names}
        return {name: residual for name, residual in found.items() if residual is not None}

    def outputs(self) -> dict[str, Tensor]:
        """What each sublayer added to the stream (Q, N): the difference of what is after it and before."""
        names = list(self.residuals)
        if self.block.around_attention.pre:
            streams = [self.normed[name].before for name in names] + [self.end]
            return {name: streams[i + 1] - streams[i] for i, name in enumerate(names)}
        streams = [self.start] + [self.normed[name].after for name in names]
        return {name: self.normed[name].before - streams[i] for i, name in enumerate(names)}


@contextmanager
def watch_blocks(model: nn.Module, lengths: Mapping[Part, int], room: int) -> Iterator[list[Flow]]:
    """What the blocks do in one pass of one row inside it, those whose numbers have at most `room` bytes."""
    flows = [flow for flow in _flows(model) if _size(flow, lengths[flow.part]) <= room]
    with ExitStack() as stack:
        for flow in flows:
            for handle in _hooks(flow):
                stack.callback(handle.remove)
        yield flows


def _flows(model: nn.Module) -> Iterator[Flow]:
    parts: tuple[Part, ...] = ("encoder", "decoder")
    for part in parts:
        blocks = [
            (f"{part}.{name}", module)
            for name, module in model.get_submodule(part).named_modules()
            if isinstance(module, Block)
        ]
        yield from (Flow(name, part, layer, block) for layer, (name, block) in enumerate(blocks))


def _size(flow: Flow, places: int) -> int:
    """Bytes of what is kept, about."""
    numbers = (1 + len(flow.residuals)) * NUMBERS + 4 * HIDDEN
    return 4 * places * numbers


def _hooks(flow: Flow) -> Iterator[Any]:
    """Hooks see what the block computes, which may write over it afterwards: all that is kept is a copy."""

    def begun(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        flow.start = _first(inputs[0])

    def ended(module: nn.Module, inputs: Any, output: tuple[Tensor, Any]) -> None:
        flow.end = _first(output[0])

    def fed(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        flow.hidden = hidden_units(flow.block.feed_forward, inputs[0][0])

    yield flow.block.register_forward_pre_hook(begun)
    yield flow.block.register_forward_hook(ended)
    yield flow.block.feed_forward.register_forward_hook(fed)
    for name, residual in flow.residuals.items():
        yield residual.norm.register_forward_hook(_keeper(flow, name))


def _keeper(flow: Flow, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def keep(norm: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x = inputs[0][0]  # (Q, D)
        mean = x.mean(-1) if isinstance(norm, nn.LayerNorm) else None
        square = x.square().mean(-1) if mean is None else x.var(-1, correction=0)
        flow.normed[name] = Normed(_first(inputs[0]), _first(output), mean, square)

    return keep


def _first(x: Tensor) -> Tensor:
    """(1, Q, D) -> a copy (Q, N)."""
    return x[0, :, :NUMBERS].detach().clone()


@torch.inference_mode()
def hidden_units(part: FeedForward, x: Tensor) -> dict[str, Any] | None:
    """The hidden units that add the longest vectors to the output at each place, by |f(h)| · ‖column of W₂‖;
    and how one number of the output, the largest of those that are kept, is summed from them. x (Q, D).

    None for a feed-forward from outside.
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
    kept = {name: _packed(each.gather(1, best)) for name, each in {"before": before, "after": after}.items()}
    return {
        "kind": "gated" if isinstance(part, Gated) else "plain",
        "activation": next(name for name, each in ACTIVATIONS.items() if each is part.activation),
        "size": after.shape[1],
        "above": _whole((before > 0).sum(-1)),
        "units": _whole(best),
        **kept,
        "value": None if value is None else _packed(value.gather(1, best)),
        "to": _whole(to),
        "weights": _packed(weight[to].gather(1, best)),
        "rest": _packed(products.sum(-1) - products.gather(1, best).sum(-1)),
        "bias": None if part.fall.bias is None else _packed(part.fall.bias[to]),
    }


def block_entries(flows: list[Flow], room: CacheBuffer) -> list[dict[str, Any]]:
    """The blocks as a trace has them, the last layers and the decoder's first into the room."""
    found: dict[int, dict[str, Any]] = {}
    for number in sorted(range(len(flows)), key=lambda i: (-flows[i].layer, flows[i].part)):
        entry = _entry(flows[number])
        if room.admits(entry):
            found[number] = entry
    return [found[number] for number in sorted(found)]


def _entry(flow: Flow) -> dict[str, Any]:
    residual, outputs = flow.block.around_attention, flow.outputs()
    norm, places = residual.norm, len(flow.start)
    epsilon = norm.eps if norm.eps is not None else torch.finfo(norm.weight.dtype).eps
    return {
        "part": flow.part,
        "layer": flow.layer,
        "name": flow.name,
        "order": "pre" if residual.pre else "post",
        "norm": "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        "epsilon": epsilon,
        "steps": places,
        "size": norm.weight.numel(),
        "start": _packed(flow.start),
        "sublayers": {
            name: _sublayer(each.norm, flow.normed[name], outputs[name])
            for name, each in flow.residuals.items()
        },
        "hidden": flow.hidden,
    }


def _sublayer(norm: nn.Module, normed: Normed, output: Tensor) -> dict[str, Packed | None]:
    shift = getattr(norm, "bias", None)
    scale = norm.get_parameter("weight")
    return {
        "output": _packed(output),
        "mean": None if normed.mean is None else _packed(normed.mean),
        "variance": _packed(normed.variance),
        "scale": _packed(scale[:NUMBERS]),
        "shift": None if shift is None else _packed(shift[:NUMBERS]),
    }


def _packed(x: Tensor) -> Packed:
    return pack(numpy(x))


def _whole(x: Tensor) -> Packed:
    return pack(x.cpu().numpy().astype(np.int32))
