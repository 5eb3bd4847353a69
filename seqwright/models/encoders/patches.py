"""The vision Transformer (Dosovitskiy et al. 2021): an image as a sequence of patches."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn

from seqwright.config.registry import Count
from seqwright.data.batch import Images
from seqwright.models import Encoded
from seqwright.models.encoders.bases.images import Colours, GridPosition, GridTransformer, ImageEncoder
from seqwright.nn.blocks import Stack


class Patches(ImageEncoder):
    """Patches of `patch` × `patch` pixels, a linear map each, through a stack of blocks.

    The other options are those of the stack. An image whose size is not a multiple of `patch` is padded at
    the right and the bottom. class_token: a learned vector before the patches; choose head.pooling = "first"
    with it. position: learned, sinusoidal in two dimensions, or none. start: run folder, or safetensors file
    in the layout of timm, whose weights this encoder starts from.
    """

    passes_to = Stack

    def __init__(
        self,
        *,
        channels: int,
        image_size: int,
        patch: Count = 4,
        class_token: bool = False,
        position: GridPosition = "learned",
        colours: Colours = "half",
        start: str | None = None,
        **stack: Any,
    ):
        super().__init__(channels, image_size, colours)
        self.patch, side = patch, -(-image_size // patch)
        self.transformer = GridTransformer((side, side), position, class_token, **stack)
        self.size = self.transformer.stack.size
        self.embed = nn.Linear(patch * patch * channels, self.size)

    def forward(self, source: Images) -> Encoded:
        x, patch, side = self.normalised(source), self.patch, self.transformer.grid[0]
        missing = side * patch - x.shape[1]
        if missing:
            x = F.pad(x, (0, 0, 0, missing, 0, missing))
        cells = x.unflatten(2, (side, patch)).unflatten(1, (side, patch))  # (B, h, patch, w, patch, C)
        return self.transformer(self.embed(cells.transpose(2, 3).flatten(3).flatten(1, 2)))
