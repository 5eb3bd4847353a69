"""Dropout whose random numbers are cheap on a CPU.

`torch.nn.functional.dropout` draws one Bernoulli number per element on a single thread; here eight elements
share one 64-bit random number. The price is a rate in multiples of 1/256. The generator is seeded by torch's
own, so that `torch.manual_seed` decides everything as usual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import Function

from seqwright.errors import ConfigError


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` (in 1/256) in training, and divides the others by 1 − rate."""

    def __init__(self, rate: float = 0.0):
        super().__init__()
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout is {rate}; it must be at least 0 and below 1")
        self.rate = rate
        self._kept = 256 - min(round(rate * 256), 255)  # of 256

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self._kept == 256:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, 1 - self._kept / 256)
        return _ByteDropout.apply(x, self._kept)

    def extra_repr(self) -> str:
        return str(self.rate)


_masked_scale = torch.ops.aten.native_dropout_backward  # x · mask · scale, in one pass over x


class _ByteDropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: int) -> Tensor:
        count, seed = x.numel(), int(torch.randint(2**62, ()))
        words = np.random.SFC64(seed).random_raw((count + 7) // 8)
        mask = torch.from_numpy(words.view(np.uint8))[:count].lt(kept).view(x.shape)
        ctx.save_for_backward(mask)
        ctx.scale = 256 / kept
        return _masked_scale(x, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _masked_scale(grads[0], mask, ctx.scale), None
