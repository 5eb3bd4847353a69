"""How each step of the past moves a forecast. Of a linear model, these are its weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import Past
from seqwright.models import eval_mode
from seqwright.models.forecaster import Forecaster
from seqwright.models.networks.linear import Linear
from seqwright.models.networks.repeat import Repeat


def is_linear(model: Forecaster) -> bool:
    """Whether the forecast is a fixed linear map of the past and a constant, so that `forecast_map` holds for
    every past.
    """
    if isinstance(model.network, Repeat):
        return True
    return isinstance(model.network, Linear) and model.normalise != "window"


def forecast_map(model: Forecaster, source: Past, block: int = 1) -> np.ndarray:
    """Return the derivatives of the means by the values of the past, (B, ⌈horizon / block⌉, lookback), each
    the mean over `block` steps of the forecast.
    """
    from dataclasses import replace

    values = source.values.clone().requires_grad_()
    with eval_mode(model), torch.enable_grad():
        means: Tensor = model.predictions(replace(source, values=values))[..., 0]
        rows = []
        for part in means.split(block, dim=1):
            # rows of the batch do not depend on each other, so one sum has the gradients of all
            (gradient,) = torch.autograd.grad(part.mean(1).sum(), values, retain_graph=True)
            rows.append(gradient)
    return torch.stack(rows, dim=1).numpy()


def base_map(model: Forecaster) -> np.ndarray | None:
    """Return the weights of the linear part (horizon, lookback), which is measured against the last value:
    ŷ = (x − x_last) B + x_last. None without one.
    """
    if model.base is None:
        return None
    weights = model.base.detach().clone()
    weights[-1] += 1 - weights.sum(0)
    return weights.T.contiguous().numpy()
