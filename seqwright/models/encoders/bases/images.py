"""The base of image encoders, and the Transformer over the cells of a grid.

Shapes: B images, h × w cells of the grid, C channels, D size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.data.batch import Images
from seqwright.models import Encoded, Encoder
from seqwright.nn.batch_norm import MapNorm, map_norm
from seqwright.nn.blocks import Stack
from seqwright.nn.masks import Places
from seqwright.nn.positions import Sinusoidal

Colours = Literal["half", "imagenet"]
GridPosition = Literal["learned", "sinusoidal", "none"]
MEANS = {"half": (0.5, 0.5, 0.5), "imagenet": (0.485, 0.456, 0.406)}
DEVIATIONS = {"half": (0.5, 0.5, 0.5), "imagenet": (0.229, 0.224, 0.225)}


class ImageEncoder(Encoder):
    """Turns images into an `Encoded` with a grid.

    colours: (pixels − mean) / deviation with 0.5 and 0.5, or with those of ImageNet, as released weights
    expect. They do not depend on the data, so that an encoder can move to other images.
    """

    reads = Images
    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, image_size: int, colours: Colours = "half"):
        super().__init__()
        self.channels, self.image_size = channels, image_size
        for name, values in (("mean", MEANS[colours]), ("deviation", DEVIATIONS[colours])):
            scaled = 255 * torch.tensor(values if channels == 3 else (sum(values) / 3,) * channels)
            self.register_buffer(name, scaled, persistent=False)

    def normalised(self, source: Images) -> Tensor:
        """Return the pixels as numbers around 0, (B, H, W, C)."""
        return (source.pixels.to(self.mean.dtype) - self.mean) / self.deviation

    def maps(self, source: Images) -> Tensor:
        """Return the same as feature maps (B, C, H, W), with the channels last in memory."""
        return self.normalised(source).permute(0, 3, 1, 2)

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Images:
        """Images have one size: the lengths are not used."""
        shape = (self.image_size, self.image_size, self.channels)
        generators = (torch.Generator().manual_seed(seed) for seed in seeds)
        images = [torch.randint(256, shape, generator=each, dtype=torch.uint8) for each in generators]
        return Images(torch.stack(images))

    def sampled_lengths(self, lengths: Sequence[int]) -> list[int]:
        hidden = self(self.sample(lengths[:1], [0])).hidden
        return [hidden.shape[1]] * len(lengths)


def encoded_maps(maps: Tensor) -> Encoded:
    """Return feature maps (B, D, h, w) as a vector for each cell, row by row."""
    _, _, height, width = maps.shape
    hidden = maps.permute(0, 2, 3, 1).flatten(1, 2)  # (B, h · w, D)
    places = Places.run(0, height * width, device=maps.device)
    return Encoded(hidden, places, grid=(height, width))


class GridTransformer(nn.Module):
    """A stack of blocks over the cells of a grid, with a position for each of them.

    class_token: a learned vector before the cells, whose output stands for the image (Dosovitskiy et al.
    2021, 3.1). sinusoidal: the first half of a vector encodes the row, the second half the column.
    """

    def __init__(self, grid: tuple[int, int], position: GridPosition, class_token: bool, **stack: Any):
        super().__init__()
        self.stack, self.grid = Stack(**stack, position="none"), grid
        for module in self.stack.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = 1e-6  # as in the released vision Transformers
        size, cells = self.stack.size, grid[0] * grid[1]
        self.class_token = nn.Parameter(torch.zeros(size)) if class_token else None
        table = torch.zeros(cells + class_token, size)
        if position == "sinusoidal":
            table[int(class_token) :] = _sinusoids(grid, size)
        self.positions: Tensor | None
        if position == "learned":
            self.positions = nn.Parameter(nn.init.trunc_normal_(table, std=0.02))
        else:
            self.register_buffer("positions", table if position == "sinusoidal" else None, persistent=False)

    def forward(self, cells: Tensor) -> Encoded:
        """cells (B, h · w, D) -> the same, and before them the class token if there is one."""
        if self.class_token is not None:
            first = self.class_token.expand(len(cells), 1, -1)
            cells = torch.cat([first, cells], 1)
        if self.positions is not None:
            cells = cells + self.positions
        places = Places.run(0, cells.shape[1], device=cells.device)
        hidden, _ = self.stack(cells, places)
        return Encoded(hidden, places, grid=self.grid)


def _sinusoids(grid: tuple[int, int], size: int) -> Tensor:
    """Return (h · w, D): PE(row) and PE(column) of Vaswani et al. 2017, each in one half."""
    height, width = grid
    one = Sinusoidal(size=size - size // 2).vectors(Places.run(0, height))  # (h, D/2)
    other = Sinusoidal(size=max(size // 2, 1)).vectors(Places.run(0, width))[:, : size // 2]  # (w, D/2)
    both = torch.cat([one[:, None].expand(-1, width, -1), other[None].expand(height, -1, -1)], -1)
    return both.flatten(0, 1).to(torch.get_default_dtype())


class Convolution(nn.Module):
    """A convolution, its normalisation and ReLU; `active`: whether there is a ReLU."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        norm: MapNorm = "batch",
        active: bool = True,
    ):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, mode="fan_out", nonlinearity="relu")
        self.norm, self.active = map_norm(norm, outputs), active

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.convolution(x))
        return F.relu(x, inplace=True) if self.active else x
