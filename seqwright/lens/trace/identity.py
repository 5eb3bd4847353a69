"""What identifies the program, the run and the model of a trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch

from seqwright import __version__
from seqwright.models import Model


def program_and_run(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The version of Seqwright, the configuration of the run without `data`, and its seed."""
    return {
        "version": __version__,
        "config": None if config is None else {k: v for k, v in config.items() if k != "data"},
        "seed": None if config is None else config.get("seed"),
    }


def weights_of(model: Model) -> dict[str, Any]:
    """The number of parameters, and a hash of all weights."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.weights().items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weights": f"sha256:{digest.hexdigest()}",
    }
