"""Convolutions, then a Transformer over the cells of their grid."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le
from torch import nn

from seqwright.data.batch import Images
from seqwright.models import Encoded
from seqwright.models.encoders.bases.images import (
    Colours,
    Convolution,
    GridPosition,
    GridTransformer,
    ImageEncoder,
)
from seqwright.nn.batch_norm import MapNorm
from seqwright.nn.blocks import Stack


class Hybrid(ImageEncoder):
    """3 × 3 convolutions with a stride of 2 in place of patches (Xiao et al. 2021), then a stack of blocks.

    The other options are those of the stack. halvings: convolutions with a stride of 2, each of which halves
    the grid. map_norm: normalisation of the convolutions. start: run folder whose encoder's weights this one
    starts from.
    """

    passes_to = Stack

    def __init__(
        self,
        *,
        channels: int,
        image_size: int,
        halvings: Annotated[int, Ge(1), Le(6)] = 2,
        class_token: bool = False,
        position: GridPosition = "learned",
        map_norm: MapNorm = "batch",
        colours: Colours = "half",
        start: str | None = None,
        **stack: Any,
    ):
        super().__init__(channels, image_size, colours)
        side = image_size
        for _ in range(halvings):
            side = -(-side // 2)
        self.transformer = GridTransformer((side, side), position, class_token, **stack)
        self.size = self.transformer.stack.size
        self.stem, inputs = nn.Sequential(), channels
        for halving in range(halvings):
            outputs = max(self.size >> (halvings - halving), 1)
            self.stem.append(Convolution(inputs, outputs, norm=map_norm))
            self.stem.append(Convolution(outputs, 2 * outputs, stride=2, norm=map_norm))
            inputs = 2 * outputs
        self.project = nn.Conv2d(inputs, self.size, 1)

    def forward(self, source: Images) -> Encoded:
        x = self.project(self.stem(self.maps(source)))  # (B, D, h, w)
        return self.transformer(x.permute(0, 2, 3, 1).flatten(1, 2))
