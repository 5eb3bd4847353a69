"""Going on from another run's weights, on other data: fine-tuning. Symbols that are new get rows of their
own.
"""

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

NOISE = 0.02  # of a new row, relative to its size: new symbols must not stay alike


def warm_start(model: Model, path: str | Path, description: object) -> None:
    """Copies the weights of the run at `path` into a model of the same description whose vocabularies may be
    larger.
    """
    run = Run.open(path)
    old = resolve(parse(run.config).model)
    if changed := differences(old, resolve(description)):  # type: ignore[arg-type]
        raise ModelError(
            f"{path} has another model ({'; '.join(changed)}); take its options, or start without it"
        )
    saved = run.load_weights()
    wanted = model.weights()
    if saved.keys() != wanted.keys():
        raise ModelError(
            f"{path} has other weights than this model: {sorted(saved.keys() ^ wanted.keys())[:3]}"
        )
    model.take_weights({name: grown(saved[name], weight, name) for name, weight in wanted.items()})


def grown(saved: Tensor, wanted: Tensor, name: str) -> Tensor:
    """A saved weight with further rows where the model has more symbols.

    A new row is that of the unknown symbol, nearly: what the old symbols get stays what it was, and a new one
    is as unlikely as the unknown one until it is learned.
    """
    if saved.shape == wanted.shape:
        return saved
    more = wanted.shape[0] - saved.shape[0]
    if more < 0 or saved.shape[1:] != wanted.shape[1:]:
        raise ModelError(
            f"{name} is {tuple(saved.shape)} in the old run and {tuple(wanted.shape)} in the new one"
        )
    unknown = saved[UNK].expand(more, *saved.shape[1:])
    spread = unknown.std() if unknown.numel() > 1 else 0.0  # of one number there is none
    noise = torch.randn(unknown.shape, generator=torch.Generator().manual_seed(more)).to(saved.dtype)
    return torch.cat([saved, unknown + NOISE * spread * noise])
