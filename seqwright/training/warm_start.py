"""Fine-tuning: start from the weights of another run. New symbols get new embedding rows."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from seqwright.config import parse
from seqwright.data.tokenizer import UNK
from seqwright.errors import ModelError
from seqwright.models import Model
from seqwright.models.building import resolve
from seqwright.runs.folder import Run, differences

NOISE = 0.02  # of a new row, relative to its size, so that new symbols can diverge


def warm_start(model: Model, path: str | Path, description: object) -> None:
    """Copy the weights of the run at `path` into the same model with equal or larger vocabularies."""
    run = Run.open(path)
    if changed := differences(resolve(parse(run.config).model), resolve(description)):  # type: ignore[arg-type]
        changes = "; ".join(changed)
        raise ModelError(f"{path} has another model ({changes}); use its options, or train without start")
    saved, wanted = run.load_weights(), model.weights()
    if different := sorted(saved.keys() ^ wanted.keys())[:3]:
        raise ModelError(f"{path} has other weights than this model: {different}")
    model.take_weights({name: grown(saved[name], weight, name) for name, weight in wanted.items()})


def grown(saved: Tensor, wanted: Tensor, name: str) -> Tensor:
    """Extend a saved weight by rows for new symbols: copies of that of the unknown symbol, plus noise."""
    if saved.shape == wanted.shape:
        return saved
    more = wanted.shape[0] - saved.shape[0]
    if more < 0 or saved.shape[1:] != wanted.shape[1:]:
        old, new = tuple(saved.shape), tuple(wanted.shape)
        raise ModelError(f"{name} is {old} in the old run and {new} in the new one")
    unknown = saved[UNK].expand(more, *saved.shape[1:])
    spread = unknown.std() if unknown.numel() > 1 else 0.0  # undefined for one number
    noise = torch.randn(unknown.shape, generator=torch.Generator().manual_seed(more)).to(saved.dtype)
    return torch.cat([saved, unknown + NOISE * spread * noise])
