"""Contribution of each source and prefix token to each step of an output: gradient × input.

It is the derivative of log p(output token) by the embedding of a token, times that embedding (Shrikumar et
al. 2016). Voita et al. 2021 study the shares of source and prefix, with relevance propagation.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.lens.heads.gates import Side, sides, sites
from seqwright.lens.trace.readout import Readout, repeatable
from seqwright.lens.trace.recorders import numpy
from seqwright.lens.trace.steps import Path
from seqwright.models import Model
from seqwright.nn.spelling import Spelling

TOKENS = 4096  # tokens whose graph exists at one time
WORK = 5e10  # multiplications: seconds on a laptop
SMALL = 4  # a multiplication in the small matrices of attention takes so many times longer


def contributions_limit(model: Model, path: Path) -> str | None:
    """Why contributions would take too long, one pass over all tokens for each step; None if they do not."""
    if isinstance(path, Readout) and path.image is not None:
        return "the source is an image, which has no embedded tokens"
    count, tokens = len(path.tokens), sum(path.lengths.values())
    source, target = path.lengths.get("encoder", 0), path.lengths.get("decoder", 0)
    weights = sum(parameter.numel() for parameter in model.parameters())
    cells = {"enc": source * source, "dec": target * target, "cross": source * target}
    products = weights * tokens + SMALL * sum(
        cells[site.kind] * site.attention.heads * (site.attention.key_size + site.attention.value_size)
        for site in sites(model)
    )
    if 3 * products * count <= WORK:  # one forward pass, and a backward pass of twice the work
        return None
    return f"{count} steps over {tokens} tokens would take too long for a model of {weights:,} weights"


def contributions(model: Model, path: Path) -> dict[Side, np.ndarray]:
    """Contributions of the tokens that the encoder and the decoder read to each step, (T, tokens) each."""
    count, tokens = len(path.tokens), sum(path.lengths.values())
    rows = max(1, TOKENS // tokens) if repeatable(path.batch) else 1
    found = [_some(model, path, range(at, min(count, at + rows))) for at in range(0, count, rows)]
    return {side: np.concatenate([part[side] for part in found]) for side in found[0]}


def _some(model: Model, path: Path, steps: range) -> dict[Side, np.ndarray]:
    """Contributions to a few steps: each has its own row, so one backward pass is enough."""
    rows, numbers = torch.arange(len(steps)), torch.tensor(list(steps))
    chosen = torch.tensor(path.tokens)[numbers]
    embedded: list[Tensor] = []  # the source, then the prefix, as leaves of the graph
    spelled: list[Tensor] = []  # what the spelling of words adds to the source

    def leaf(found: list[Tensor], module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        found.append(output.detach().requires_grad_())
        return found[-1]

    parts = {side: part.get_submodule("embedding") for side, part in sides(model).items()}
    with torch.enable_grad(), ExitStack() as stack:
        for module in dict.fromkeys(parts.values()):  # encoder and decoder may share one
            stack.enter_context(module.register_forward_hook(partial(leaf, embedded)))
        for module in (part for part in model.modules() if isinstance(part, Spelling)):
            stack.enter_context(module.register_forward_hook(partial(leaf, spelled)))
        scores = path.logits(model, len(steps))[rows, numbers].log_softmax(-1)  # (rows, V)
        gradients = torch.autograd.grad(scores[rows, chosen].sum(), embedded + spelled)
    products = [(slope * x).sum(-1) for slope, x in zip(gradients, embedded + spelled, strict=True)]
    found = {side: numpy(x.reshape(len(steps), -1)) for side, x in zip(parts, products, strict=False)}
    for more in products[len(embedded) :]:
        found["encoder"] += numpy(more.reshape(len(steps), -1))
    return found
