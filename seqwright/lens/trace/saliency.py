"""Gradient saliency of an image classifier: how strongly each pixel moves the score of a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from seqwright.data.batch import Images
from seqwright.lens.trace.entries import SizeBudget
from seqwright.lens.trace.packing import quantize
from seqwright.lens.trace.readout import Readout
from seqwright.models import Model

METHOD = "gradient"
LIGHTEST = 255  # the level of a stored pixel that counts as 1
LABELS = 10  # with a map of their own: the most probable ones
LEVELS = 32  # of each map at least, if there are several


def saliency_maps(model: Model, readout: Readout, labels: Sequence[int]) -> np.ndarray:
    """max_c |∂ score_label / ∂ pixel_c| of each pixel (Simonyan et al. 2014, section 3): (labels, H, W).

    The score is the one before the softmax: a probability also rises when those of other labels fall. Pixels
    count from 0 to 1.
    """
    with torch.enable_grad():
        like = next(model.parameters())
        pixels = readout.batch.source.pixels.to(like.dtype, copy=True).requires_grad_()
        scores = model(replace(readout.batch, source=Images(pixels)))[0]  # (V,)
        found = [torch.autograd.grad(scores[label], pixels, retain_graph=True)[0][0] for label in labels]
    return torch.stack(found).mul(LIGHTEST).abs().amax(-1).double().cpu().numpy()


def saliency_entry(model: Model, readout: Readout, budget: SizeBudget) -> dict[str, Any] | None:
    """The maps of the most probable labels; of the first one alone, or None, if space is short."""
    with torch.inference_mode():
        scores = readout.logits(model)[0, 0]
    labels = scores.topk(min(LABELS, len(scores))).indices.tolist()
    maps = saliency_maps(model, readout, labels)
    for count in (len(labels), 1):
        (stored,) = quantize([maps[:count]], budget.left // 2)
        found = {"method": METHOD, "labels": labels[:count], **stored._asdict()}
        if (count == 1 or stored.levels >= LEVELS) and budget.reserve(found):
            return found
    return None
