"""Residual networks (He et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.config.registry import Count
from seqwright.data.batch import Images
from seqwright.errors import ConfigError
from seqwright.models import Encoded
from seqwright.models.encoders.bases.images import Colours, Convolution, ImageEncoder, encoded_maps
from seqwright.nn.batch_norm import MapNorm
from seqwright.nn.blocks import per_layer

Shortcut = Literal["pad", "project"]
EXPANSION = 4  # channels of a bottleneck block over those inside of it


class ResidualBlock(nn.Module):
    """ReLU(f(x) + shortcut(x)): two 3 × 3 convolutions, or 1 × 1, 3 × 3, 1 × 1 in a bottleneck.

    pad: where the width grows, the shortcut takes every second place and adds channels of zeros (option A of
    the paper); project: it is a 1 × 1 convolution (option B).
    """

    def __init__(
        self, inputs: int, outputs: int, stride: int, bottleneck: bool, shortcut: Shortcut, norm: MapNorm
    ):
        super().__init__()
        self.stride, self.missing = stride, outputs - inputs
        if bottleneck:
            inner = max(outputs // EXPANSION, 1)
            self.path = nn.Sequential(
                Convolution(inputs, inner, kernel=1, norm=norm),
                Convolution(inner, inner, stride=stride, norm=norm),
                Convolution(inner, outputs, kernel=1, norm=norm, active=False),
            )
        else:
            self.path = nn.Sequential(
                Convolution(inputs, outputs, stride=stride, norm=norm),
                Convolution(outputs, outputs, norm=norm, active=False),
            )
        changes = stride > 1 or inputs != outputs
        projects = changes and shortcut == "project"
        options = {"kernel": 1, "stride": stride, "active": False}
        self.shortcut = Convolution(inputs, outputs, norm=norm, **options) if projects else None  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is not None:
            kept = self.shortcut(x)
        elif self.stride > 1 or self.missing:
            kept = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))
        else:
            kept = x
        return F.relu(self.path(x) + kept)


class Resnet(ImageEncoder):
    """Stages of residual blocks; each stage but the first halves the grid and doubles the channels.

    size: channels of the last stage. layers: blocks of each stage, one number or one each: 3 stages of n
    basic blocks have 6n + 2 layers (4.2 of the paper). stem: small, one 3 × 3 convolution; large, a 7 × 7
    convolution and a maximum, each with a stride of 2, for images of about 100 pixels and more.
    start: run folder, or safetensors file in the layout of torchvision, whose weights this encoder starts
    from.
    """

    def __init__(
        self,
        *,
        channels: int,
        image_size: int,
        size: Count = 64,
        stages: Count = 3,
        layers: Count | Sequence[Count] = 3,
        stem: Literal["small", "large"] = "small",
        bottleneck: bool = False,
        shortcut: Shortcut = "pad",
        norm: MapNorm = "batch",
        colours: Colours = "half",
        start: str | None = None,
    ):
        super().__init__(channels, image_size, colours)
        parts = 1 << (stages - 1)
        if size % parts:
            rule = f"{stages} stages need a multiple of {parts}"
            raise ConfigError(
                f"size of the resnet encoder is {size}; {rule}: use {-(-size // parts) * parts}"
            )
        self.size, self.large = size, stem == "large"
        width = max(size // parts // (EXPANSION if bottleneck else 1), 1)
        kernel, stride = (7, 2) if self.large else (3, 1)
        self.stem = Convolution(channels, width, kernel=kernel, stride=stride, norm=norm)
        self.stages, inputs = nn.ModuleList(), width
        for stage, blocks in enumerate(per_layer("layers", layers, stages)):
            outputs, built = size >> (stages - 1 - stage), nn.Sequential()
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                built.append(ResidualBlock(inputs, outputs, stride, bottleneck, shortcut, norm))
                inputs = outputs
            self.stages.append(built)

    def forward(self, source: Images) -> Encoded:
        x = self.stem(self.maps(source))
        if self.large:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in self.stages:
            x = stage(x)
        return encoded_maps(x)
