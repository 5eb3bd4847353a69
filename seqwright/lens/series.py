"""Which patches of the past a forecast attends to."""

from __future__ import annotations

import numpy as np
import torch

from seqwright.data.batch import Past
from seqwright.lens.capture import capture
from seqwright.models import evaluating
from seqwright.models.forecaster import Forecaster
from seqwright.models.networks.patches import Patches


def patch_attention(model: Forecaster, source: Past) -> np.ndarray | None:
    """Return how much each patch of the forecast draws on each patch of the past, (B, future, past); rows sum
    to 1. None for a model without patches, or with an output layer of zeros.

    The output layer is linear: step h gets W_hj · z_j from the vector of patch j. This share |W_hj · z_j|
    goes to the patches that j attends to in the last layer, by the mean of its heads.
    """
    network, vectors = model.network, []
    if not isinstance(network, Patches) or model.head is None:
        return None
    hook = network.register_forward_hook(lambda part, given, output: vectors.append(output))
    try:
        with evaluating(model), capture(model) as seen:
            model.predictions(source)
    finally:
        hook.remove()
    (attended,) = seen[f"network.stack.blocks.{len(network.stack.blocks) - 1}.attention"]
    weights = attended.mean(1)  # (B, tokens, tokens)
    tokens = weights.shape[1]
    z = vectors[0].view(len(weights), tokens, -1)  # (B, tokens, D)
    output = model.head.linear.weight.detach().view(model.horizon, -1, tokens, z.shape[-1])[
        :, 0
    ]  # the mean's
    with torch.inference_mode():
        shares = torch.einsum("htd,btd->bht", output, z).abs()
        patches = torch.stack([part.mean(1) for part in shares.split(network.patch, dim=1)], dim=1)
        drawn = (patches @ weights)[..., : network.count]
        total = drawn.sum(-1, keepdim=True)
    return (drawn / total).numpy() if bool((total > 0).all()) else None
