"""Modules with their weights at hand.

To find a weight in a module, and to call a module, takes Python longer than a small matrix product takes the
processor. So the parts that run at every step of decoding are bound once, when an output is begun: their
weights are taken out of the modules, and what is called from then on is plain functions. Training binds as
well, for each batch: there is one path for both.

Bound parts hold the parameters themselves, not copies, so they follow an optimizer; whether dropout is on is
decided when they are bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqwright.nn.dropout import Dropout

Function = Callable[[Tensor], Tensor]


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
        return partial(torch._C._nn.linear, weight=module.weight, bias=module.bias)
    if type(module) is nn.LayerNorm:
        return partial(
            torch.layer_norm,
            normalized_shape=module.normalized_shape,
            weight=module.weight,
            bias=module.bias,
            eps=module.eps,
        )
    return module


def drops(dropout: Dropout) -> bool:
    """Whether anything is dropped, now."""
    return dropout.training and dropout.rate > 0
