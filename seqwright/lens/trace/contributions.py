"""What each step of an output draws on: gradient × input, by the embeddings of the source and of the prefix.

The contribution of a token is the derivative of log p(what was said) by its embedding, times the embedding
(Shrikumar et al. 2016; for the shares of source and prefix see Voita et al. 2021, who propagate relevance).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.lens.heads.gates import sites
from seqwright.lens.trace.recorders import numpy
from seqwright.lens.trace.steps import Said
from seqwright.models import Model

TOKENS = 4096  # tokens whose graph exists at one time
WORK = 5e10  # products that are worth waiting for: seconds on a laptop
SMALL = 4  # how much longer a product of small vectors, as in attention, takes than one of large ones


def too_long(model: Model, said: Said) -> str | None:
    """Why not to work them out, in a sentence; None: do. It takes a pass over all tokens for each step."""
    source, count = len(said.source), len(said.tokens)
    weights = sum(parameter.numel() for parameter in model.parameters())
    looks = {"enc": source * source, "dec": count * count, "cross": source * count}
    sizes = [
        (one.kind, one.attention.heads * (one.attention.key_size + one.attention.value_size))
        for one in sites(model)
    ]
    products = weights * (source + count) + SMALL * sum(looks[kind] * size for kind, size in sizes)
    if 3 * products * count <= WORK:  # forward once, backward twice as much
        return None
    return f"{count} steps over {source + count} places would take long for a model of {weights:,} weights"


def contributions(model: Model, said: Said) -> tuple[np.ndarray, np.ndarray]:
    """By the S tokens of the source and the T of the prefix, begin included, at each of the T steps:
    (T, S) and (T, T).
    """
    count = len(said.tokens)
    rows = max(1, TOKENS // (len(said.source) + count))
    found = [_some(model, said, range(at, min(count, at + rows))) for at in range(0, count, rows)]
    by_source, by_prefix = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return by_source, by_prefix


def _some(model: Model, said: Said, steps: range) -> tuple[np.ndarray, np.ndarray]:
    """Those of a few steps: each has a row of the batch for itself, so that one backward pass serves all."""
    batch = said.batch(len(steps))
    rows, numbers = torch.arange(len(steps)), torch.tensor(list(steps))
    with torch.enable_grad(), _embeddings(model) as embedded:
        log_probs = model(batch)[rows, numbers].log_softmax(-1)  # (rows, V)
        total = log_probs[rows, batch.expected[rows, numbers]].sum()
        gradients = torch.autograd.grad(total, embedded)
    source, prefix = (numpy((slope * x).sum(-1)) for slope, x in zip(gradients, embedded, strict=True))
    return source, prefix


@contextmanager
def _embeddings(model: Model) -> Iterator[list[Tensor]]:
    """The embedded source, then the embedded prefix, as they are made inside the block: leaves to take the
    gradient by.
    """
    leaves: list[Tensor] = []

    def leaf(module: nn.Module, inputs: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    with ExitStack() as stack:
        sides = (model.get_submodule(f"{part}.embedding") for part in ("encoder", "decoder"))
        for module in dict.fromkeys(sides):  # one, where both share it
            handle = module.register_forward_hook(leaf)
            stack.callback(handle.remove)
        yield leaves
