"""Contribution of each source and prefix token to each step of an output: gradient × input.

It is the derivative of log p(output token) by the embedding of a token, times that embedding (Shrikumar et
al. 2016). Voita et al. 2021 study the shares of source and prefix, with relevance propagation.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.lens.heads.gates import SIDES, sides, sites
from seqwright.lens.trace.recorders import numpy
from seqwright.lens.trace.steps import DecodedPath
from seqwright.models import Model

TOKENS = 4096  # tokens whose graph exists at one time
WORK = 5e10  # multiplications: seconds on a laptop
SMALL = 4  # a multiplication in the small matrices of attention takes so many times longer


def contributions_limit(model: Model, path: DecodedPath) -> str | None:
    """Why contributions are impossible or would take too long, one pass over all tokens for each step."""
    if missing := [side for side in SIDES if side not in sides(model)]:
        return f"this model has no {missing[0]}"
    source, count = len(path.source), len(path.tokens)
    weights = sum(parameter.numel() for parameter in model.parameters())
    cells = {"enc": source * source, "dec": count * count, "cross": source * count}
    products = weights * (source + count) + SMALL * sum(
        cells[site.kind] * site.attention.heads * (site.attention.key_size + site.attention.value_size)
        for site in sites(model)
    )
    if 3 * products * count <= WORK:  # one forward pass, and a backward pass of twice the work
        return None
    tokens = source + count
    return f"{count} steps over {tokens} tokens would take too long for a model of {weights:,} weights"


def contributions(model: Model, path: DecodedPath) -> tuple[np.ndarray, np.ndarray]:
    """Contributions of the S source tokens (T, S) and of the T prefix tokens with the begin token (T, T)."""
    count = len(path.tokens)
    rows = max(1, TOKENS // (len(path.source) + count))
    found = [_some(model, path, range(at, min(count, at + rows))) for at in range(0, count, rows)]
    return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])


def _some(model: Model, path: DecodedPath, steps: range) -> list[np.ndarray]:
    """Contributions to a few steps: each has its own row, so one backward pass is enough."""
    batch = path.batch(len(steps))
    rows, numbers = torch.arange(len(steps)), torch.tensor(list(steps))
    embedded: list[Tensor] = []  # the source, then the prefix, as leaves of the graph

    def leaf(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    embeddings = [part.get_submodule("embedding") for part in sides(model).values()]
    with torch.enable_grad(), ExitStack() as stack:
        for module in dict.fromkeys(embeddings):  # encoder and decoder may share one
            stack.enter_context(module.register_forward_hook(leaf))
        log_probs = model(batch)[rows, numbers].log_softmax(-1)  # (rows, V)
        total = log_probs[rows, batch.expected[rows, numbers]].sum()
        gradients = torch.autograd.grad(total, embedded)
    return [numpy((slope * x).sum(-1)) for slope, x in zip(gradients, embedded, strict=True)]
