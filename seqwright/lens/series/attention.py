"""Which parts of the past a forecast attends to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import Past
from seqwright.lens.capture import Captured, capture
from seqwright.models import evaluating
from seqwright.models.forecaster import Forecaster
from seqwright.models.networks.patches import Patches
from seqwright.models.networks.recurrent import Recurrent
from seqwright.models.networks.steps import Steps

Span = tuple[int, int]  # steps from the first to behind the last one


class Weights(NamedTuple):
    """The weights of one layer (B, heads, rows, columns), 0 or more. Rows and columns are spans of steps.

    kind: forecast (a row is a part of the forecast), output (the same, by the output layer alone) or past (a
    row is a part of the past). Columns are parts of the past. Rows sum to 1, less the share of features that
    are known in advance.
    """

    kind: str
    layer: int
    weights: np.ndarray
    rows: tuple[Span, ...]
    columns: tuple[Span, ...]


def attention_weights(model: Forecaster, source: Past) -> tuple[list[Weights], str]:
    """Return the weights of every layer, or none and the reason."""
    network = model.network
    if isinstance(network, Patches):
        found = _of_patches(model, network, source)
        return found, "" if found else "the output layer is zero: the forecast is that of the linear part"
    if isinstance(network, Steps):
        seen, _ = _run(model, source)
        rows, columns = spans(model.horizon), spans(model.lookback)
        layers = range(len(network.decoder.blocks))
        every = (seen[f"network.decoder.blocks.{layer}.cross"][0] for layer in layers)
        return [Weights("forecast", n, each.numpy(), rows, columns) for n, each in enumerate(every)], ""
    if isinstance(network, Recurrent) and network.attention is not None:
        seen, _ = _run(model, source)
        size, first = network.each, model.lookback % network.each
        columns = tuple((first + a, first + b) for a, b in spans(model.lookback - first, size))
        (weights,) = seen["network.attention"]
        return [Weights("forecast", 0, weights.numpy(), spans(model.horizon, size), columns)], ""
    if isinstance(network, Recurrent):
        return [], "the decoder has no attention; it receives the past as one vector"
    return [], "the model has no attention"


def patch_attention(model: Forecaster, source: Past) -> np.ndarray | None:
    """Return how much each patch of the forecast draws on each patch of the past, (B, future, past), by the
    mean of the heads of the last layer; rows sum to 1. None without patches, or with an output layer of
    zeros.
    """
    if not isinstance(model.network, Patches):
        return None
    layers = [one for one in _of_patches(model, model.network, source) if one.kind == "forecast"]
    if not layers:
        return None
    drawn = layers[-1].weights.mean(1)
    return drawn / drawn.sum(-1, keepdims=True)


def _of_patches(model: Forecaster, network: Patches, source: Past) -> list[Weights]:
    """Return the weights of patches; none if the output layer is zero.

    The output layer is linear: step h gets W_hj · z_j from the vector of patch j. This share |W_hj · z_j|
    goes to the patches that j attends to.
    """
    if model.head is None:
        return []
    seen, vectors = _run(model, source)
    layers = [seen[f"network.stack.blocks.{n}.attention"][0] for n in range(len(network.stack.blocks))]
    tokens = layers[0].shape[-1]
    with torch.inference_mode():
        z = vectors.view(len(vectors), tokens, -1)  # (B, tokens, D)
        output = model.head.linear.weight.view(model.horizon, -1, tokens, z.shape[-1])[:, 0]  # of the mean
        shares = torch.einsum("htd,btd->bht", output, z).abs()
        patches = torch.stack([part.mean(1) for part in shares.split(network.patch, dim=1)], dim=1)
        total = patches.sum(-1, keepdim=True)
        if not bool((total > 0).all()):
            return []
        patches = (patches / total)[:, None]  # (B, 1, rows, tokens)
        drawn = [(patches @ attended)[..., : network.count].numpy() for attended in layers]
    rows = spans(model.horizon, network.patch)
    starts = (network.stride * number for number in range(network.count))
    columns = tuple((start, min(start + network.patch, model.lookback)) for start in starts)
    count = network.count
    return [
        *(Weights("forecast", layer, each, rows, columns) for layer, each in enumerate(drawn)),
        Weights("output", 0, patches[..., :count].numpy(), rows, columns),
        *(
            Weights("past", layer, each[..., :count, :count].numpy(), columns, columns)
            for layer, each in enumerate(layers)
        ),
    ]


def _run(model: Forecaster, source: Past) -> tuple[Captured, Tensor]:
    """Return the weights of every attention, and the output of the network."""
    vectors: list[Tensor] = []
    hook = model.network.register_forward_hook(lambda part, given, output: vectors.append(output))
    try:
        with evaluating(model), capture(model) as seen:
            model.predictions(source)
    finally:
        hook.remove()
    return seen, vectors[0]


def spans(steps: int, size: int = 1) -> tuple[Span, ...]:
    """Cut so many steps into spans of `size`; the last one may be shorter."""
    return tuple((first, min(first + size, steps)) for first in range(0, steps, size))
