"""Modules with their weights at hand.

To find a weight in a module, and to call a module, takes Python longer than a small matrix product takes the
processor. So the parts that run at every step of decoding are bound once, when an output is begun: their
weights are taken out of the modules, and what is called from then on is plain functions. Training binds as
well, for each batch: there is one path for both.

Whether dropout is on is decided when a part is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from seqwright.nn.dropout import Dropout

Function = Callable[[Tensor], Tensor]
Bound = TypeVar("Bound")
MANY = 256  # rows
LARGE = 1 << 18  # weights
_linear = torch._C._nn.linear  # what torch.nn.functional.linear is
# oneDNN's product with weights that it laid out for itself beforehand; not every build of torch has it
_onednn: Any = torch.ops.mkldnn if torch.backends.mkldnn.is_available() else None
_packs = hasattr(_onednn, "_linear_pointwise") and hasattr(_onednn, "_reorder_linear_weight")


def bound(module: nn.Module) -> Callable[..., Any]:
    """What to call instead of the module: its own `bound`, a function of its weights, or, if it is hooked,
    the module.
    """
    if module._forward_hooks or module._forward_pre_hooks:
        return module
    own = getattr(module, "bound", None)
    if own is not None:
        return own()
    if type(module) is nn.Linear:
        return linear(module.weight, module.bias)
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module


class Kept(Generic[Bound]):
    """What was bound without gradients, and what must still be so for it to be used again."""

    def __init__(self, home: nn.Module, value: Bound):
        self.value, self._modules, self._parameters = value, list(home.modules()), list(home.parameters())
        # tensors made in inference mode do not count their changes
        self._counted = [parameter for parameter in self._parameters if not parameter.is_inference()]
        self._tables = [table for module in self._modules for table in (module._parameters, module._modules)]
        # held, so that their ids stay their own
        self._owned = [thing for table in self._tables for thing in table.values()]
        self._hooks = [
            hooks for module in self._modules for hooks in (module._forward_hooks, module._forward_pre_hooks)
        ]
        self._seen = self._now()

    def _now(self) -> list[int]:
        """Which parts and weights there are, how often the weights were changed, where they lie, how many
        hooks there are, and which parts are in training.
        """
        return [
            *[id(thing) for table in self._tables for thing in table.values()],
            *[parameter._version for parameter in self._counted],
            *[parameter.data_ptr() for parameter in self._parameters],
            *map(len, self._hooks),
            *[module.training for module in self._modules],
        ]

    def holds(self) -> bool:
        return self._now() == self._seen


class Binding(nn.Module, Generic[Bound]):
    """A module whose bound form is kept while no gradient is wanted: to bind takes longer than a step of a
    small model.

    What is kept may hold copies of weights. It is dropped when a weight is replaced, moved or changed in
    place, when a part goes to training or back, and at every use with gradients, after which an optimizer may
    change weights unnoticed (the fused ones do). Changes through `.data` are not seen.
    """

    _kept: Kept[Bound] | None = None

    def bind(self) -> Bound:
        raise NotImplementedError

    def bound(self) -> Bound:
        if torch.is_grad_enabled():
            self._kept = None
            return self.bind()
        if self._kept is None or not self._kept.holds():
            self._kept = Kept(self, self.bind())
        return self._kept.value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # a copy binds anew


def linear(weight: Tensor, bias: Tensor | None) -> Function:
    """x -> W x + b. weight (out, in)."""
    quick = weight.device.type == "cpu" and not (torch.is_grad_enabled() or weight.is_inference())
    return FewRows(weight, bias) if quick else partial(_linear, weight=weight, bias=bias)


class FewRows:
    """W x + b without gradients on a CPU, where a product with a few rows is only as fast as its weights are
    read.

    One row is quickest over weights that lie by input, and so are some rows over small weights. Some rows
    over large weights are quickest over packed ones. Either copy is made at the first call that wants it, and
    kept beside the weights as long as these do not change. Measured in
    docs/decisions/0006-products-with-few-rows.md.
    """

    __slots__ = ("bias", "inputs", "large", "packed", "packs", "turned", "turns", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None):
        out, self.inputs = weight.shape
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.large = out * self.inputs >= LARGE
        self.turns = out >= self.inputs or not self.large
        self.turned: Tensor | None = None
        self.packs = _packs and weight.dtype is torch.float32
        self.packed: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        size = x.numel()
        if size > MANY * self.inputs:
            return _linear(x, self.weight, self.bias)
        if size == self.inputs or not self.large:
            if self.turned is None:
                self.turned = turned(self.weight) if self.turns else self.weight
            return _linear(x, self.turned, self.bias)
        if not self.packs or torch.is_autocast_enabled("cpu"):  # which would not know the packed product
            return _linear(x, self.weight, self.bias)
        if self.packed is None:
            self.packed = _onednn._reorder_linear_weight(self.weight)
        return _onednn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def bias_of(linear: FewRows) -> Tensor:
    """Zeros where there is none."""
    return linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias


def turned(weight: Tensor) -> Tensor:
    """A copy of a weight (out, in) whose memory lies by input."""
    return weight.t().contiguous().t()


def drops(dropout: Dropout) -> bool:
    """Whether anything is dropped, now."""
    return dropout.training and dropout.rate > 0
