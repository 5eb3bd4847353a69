"""A small convolutional encoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from seqwright.config.registry import Count
from seqwright.data.batch import Images
from seqwright.models import Encoded
from seqwright.models.encoders.bases.images import Colours, Convolution, ImageEncoder, encoded_maps
from seqwright.nn.batch_norm import MapNorm
from seqwright.nn.dropout import Dropout


class Cnn(ImageEncoder):
    """Stages of two 3 × 3 convolutions; the maximum of 2 × 2 places between two stages halves the grid.

    size: channels of the last stage; each stage has twice as many as the one before. layers: stages.
    start: run folder whose encoder's weights this one starts from.
    """

    def __init__(
        self,
        *,
        channels: int,
        image_size: int,
        size: Count = 128,
        layers: Count = 3,
        norm: MapNorm = "batch",
        dropout: float = 0.1,
        colours: Colours = "half",
        start: str | None = None,
    ):
        super().__init__(channels, image_size, colours)
        self.size, self.stages, inputs = size, nn.ModuleList(), channels
        for stage in range(layers):
            outputs = max(size >> (layers - 1 - stage), 1)
            first = Convolution(inputs, outputs, norm=norm)
            self.stages.append(nn.Sequential(first, Convolution(outputs, outputs, norm=norm)))
            inputs = outputs
        self.dropout = Dropout(dropout)

    def forward(self, source: Images) -> Encoded:
        x = self.maps(source)
        for number, stage in enumerate(self.stages):
            x = stage(F.max_pool2d(x, 2, ceil_mode=True) if number else x)
        return encoded_maps(self.dropout(x))
