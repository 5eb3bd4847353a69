"""Inference weights: modules as plain functions of their weights.

To find a weight in a module, and to call a module, takes Python longer than a small matrix product takes the
processor. So the parts that run at every step of decoding are bound once, when decoding starts: `bound` takes
the weights out of the modules and returns plain functions. Training uses the same path and binds for each
batch. Whether dropout is on is decided when a part is bound.

A bound form may hold copies of weights, so code that changes weights calls `invalidate_inference_weights`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seqwright.nn.dropout import Dropout

Function = Callable[[Tensor], Tensor]
Bound = TypeVar("Bound")
WIDE = torch.backends.cpu.get_cpu_capability().startswith("AVX512")  # oneDNN gains more from it than MKL
MANY = 1024 if WIDE else 256  # rows
LARGE = 1 << 18  # weights
WORK = 1 << 20  # rows × weights, from which on packed small weights are faster in wide registers
_linear = torch._C._nn.linear  # torch.nn.functional.linear without its Python wrapper
# oneDNN's product with weights in its own layout; not every build of torch has it
_onednn: Any = torch.ops.mkldnn if torch.backends.mkldnn.is_available() else None
_packs = hasattr(_onednn, "_linear_pointwise") and hasattr(_onednn, "_reorder_linear_weight")


def bound(module: nn.Module) -> Callable[..., Any]:
    """Return the module's `bound()` or a function of its weights; a module with hooks itself."""
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


class InferenceModule(nn.Module, Generic[Bound]):
    """A module that caches its bound form while gradients are off.

    `invalidate_inference_weights` drops the cache. Training calls it after every optimizer step, because
    fused optimizers and other processes change weights without a trace. As a safety net for direct use, the
    cache is also dropped when a weight or a part is replaced, moved or changed in place, a mode or the number
    of hooks changes, and at every use with gradients.
    """

    _cached: _Cached[Bound] | None = None

    def bind(self) -> Bound:
        raise NotImplementedError

    def bound(self) -> Bound:
        if torch.is_grad_enabled():
            self._cached = None
            return self.bind()
        if self._cached is None or self._cached.compute_fingerprint() != self._cached.fingerprint:
            self._cached = _Cached(self, self.bind())
        return self._cached.value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cached": None}  # a copy binds its own weights


def invalidate_inference_weights(model: nn.Module) -> None:
    """Drop every cached bound form in a model whose weights have changed."""
    for module in model.modules():
        if isinstance(module, InferenceModule):
            module._cached = None


class _Cached(Generic[Bound]):
    """A bound form, and the fingerprint of the module that it was made from."""

    def __init__(self, home: nn.Module, value: Bound):
        self.value, self._modules, self._parameters = value, list(home.modules()), list(home.parameters())
        # tensors made in inference mode have no version
        self._versioned = [parameter for parameter in self._parameters if not parameter.is_inference()]
        self._tables = [table for module in self._modules for table in (module._parameters, module._modules)]
        # referenced, so that no other object gets their ids
        self._owned = [thing for table in self._tables for thing in table.values()]
        hooks = [(module._forward_hooks, module._forward_pre_hooks) for module in self._modules]
        self._hooks = [table for pair in hooks for table in pair]
        self.fingerprint = self.compute_fingerprint()

    def compute_fingerprint(self) -> list[int]:
        """The identity of parts and weights, the versions and addresses of weights, hooks and modes."""
        return [
            *[id(thing) for table in self._tables for thing in table.values()],
            *[parameter._version for parameter in self._versioned],
            *[parameter.data_ptr() for parameter in self._parameters],
            *map(len, self._hooks),
            *[module.training for module in self._modules],
        ]


def linear(weight: Tensor, bias: Tensor | None) -> Function:
    """x -> W x + b. weight (out, in)."""
    quick = weight.device.type == "cpu" and not (torch.is_grad_enabled() or weight.is_inference())
    return FewRows(weight, bias) if quick else partial(_linear, weight=weight, bias=bias)


class FewRows:
    """W x + b without gradients on a CPU, where a product with few rows takes as long as reading the weights.

    A few rows over small weights are fastest over weights stored by input, more work is fastest over packed
    weights, and how much depends on the processor. A copy is made at the first call that needs it.
    Measurements: docs/decisions/0006-products-with-few-rows.md.
    """

    __slots__ = ("bias", "by_input", "inputs", "packed", "packed_from", "packs", "transposes", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None):
        out, self.inputs = weight.shape
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.packed_from = _packed_from(out * self.inputs)
        self.transposes = out >= self.inputs or out * self.inputs < LARGE
        self.by_input: Tensor | None = None
        self.packs = _packs and weight.dtype is torch.float32
        self.packed: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // (self.inputs or 1)  # an attention without heads has no inputs
        if rows > MANY:
            return _linear(x, self.weight, self.bias)
        if rows < self.packed_from:
            if self.by_input is None:
                weight = self.weight
                self.by_input = weight.t().contiguous().t() if self.transposes else weight
            return _linear(x, self.by_input, self.bias)
        if not self.packs or torch.is_autocast_enabled("cpu"):  # the packed product ignores autocast
            return _linear(x, self.weight, self.bias)
        return self._packed_product(x, rows)

    def _packed_product(self, x: Tensor, rows: int) -> Tensor:
        """oneDNN compiles and keeps a program for each number of rows, so there are few numbers of rows."""
        if self.packed is None:
            self.packed = _onednn._reorder_linear_weight(self.weight)
        more = padded_rows(rows) - rows
        if not more:
            return _onednn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        padded = pad(x.reshape(rows, self.inputs), (0, 0, 0, more))
        found = _onednn._linear_pointwise(padded, self.packed, self.bias, "none", [], "")
        return found.narrow(0, 0, rows).view(*x.shape[:-1], len(self.weight))


def _packed_from(weights: int) -> float:
    """Return the number of rows from which on a product over packed weights is faster."""
    if weights >= LARGE:
        return 1 if WIDE else 2
    return WORK / weights if WIDE and weights else math.inf


def padded_rows(rows: int) -> int:
    """The next of four numbers of rows in each octave: 16, 20, 24, 28, 32, 40, …; fewer stay as they are."""
    step = (1 << (rows - 1).bit_length()) // 8 if rows > 16 else 1
    return -(-rows // step) * step


def bias_of(linear: FewRows) -> Tensor:
    """The bias, or zeros where there is none."""
    return linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias


def drops(dropout: Dropout) -> bool:
    """Whether this dropout is active."""
    return dropout.training and dropout.rate > 0
