"""The learned positions of the cells of an image, compared with each other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.models import Model
from seqwright.models.encoders.bases.images import GridTransformer


def learned_positions(model: Model) -> Tensor | None:
    """The positions (h · w, D) of the cells; None if the model does not learn any."""
    for part in model.modules():
        if isinstance(part, GridTransformer) and isinstance(part.positions, nn.Parameter):
            height, width = part.grid
            return part.positions.detach()[-height * width :]  # a class token has its position before them
    return None


def position_similarity(positions: Tensor) -> Tensor:
    """Cosines of all pairs of positions (Dosovitskiy et al. 2021, figure 7), (N, D) -> (N, N)."""
    unit = F.normalize(positions.to(torch.float64), dim=-1)
    return unit @ unit.mT
