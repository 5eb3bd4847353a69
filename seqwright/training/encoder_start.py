"""The option `start` of an image encoder: weights of another run's encoder, or released ones from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqwright.config import Spec
from seqwright.errors import ModelError
from seqwright.models import Model
from seqwright.models.building import resolve
from seqwright.models.building.transfer import fixed_options
from seqwright.models.encoders.bases.released import converted, fitted_positions
from seqwright.runs.folder import Run
from seqwright.runs.tensors import load_tensors, tensor_shapes
from seqwright.training.warm_start import Start

USUAL = 224  # pixels of the images that released weights were trained with
PREFIX, POSITIONS = "encoder.", "transformer.positions"


def encoder_of_run(requested: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kind and sizes of the run that a requested encoder starts from, in place of those of the
    usual encoder; nothing if the request names a kind, a file of weights or no start.
    """
    path = requested.get("start")
    if "kind" in requested or not isinstance(path, str) or Path(path).is_file():
        return {}
    _, found = Start.open(path).encoder()
    named = found.keys() | usual.keys()  # other options have their defaults in both
    return {key: value for key, value in fixed_options(found).items() if key in named}


def size_of_released(path: str) -> int:
    """Return the size in pixels of the images that the released weights in a file were trained with."""
    shapes = tensor_shapes(Path(path), ("F16", "BF16", "F32", "F64", "I64"))
    patch, places = shapes.get("patch_embed.proj.weight"), shapes.get("pos_embed")
    # a class token is one place more than the square of the side
    return USUAL if patch is None or places is None else math.isqrt(places[-2]) * patch[-1]


def start_encoder(model: Model, description: Spec) -> None:
    """Copy weights into the encoder of a model whose option `start` names a run folder, or a safetensors file
    with released weights. Learned positions of another grid are interpolated.
    """
    path = _start_of(description)
    if path is None:
        return
    encoder: Any = model.get_submodule("encoder")
    if Path(path).is_file():
        found = converted(load_tensors(Path(path)), encoder)
    else:
        found = _own(Run.open(path).load_weights())
    own = _own(model.weights())
    if POSITIONS in own and POSITIONS in found and len(own[POSITIONS]) != len(found[POSITIONS]):
        found[POSITIONS] = fitted_positions(found[POSITIONS], own[POSITIONS])
    wrong = [f"only one of them has {name}" for name in sorted(own.keys() ^ found.keys())] or [
        f"{name} is {tuple(found[name].shape)} there and {tuple(weight.shape)} here"
        for name, weight in own.items()
        if found[name].shape != weight.shape
    ]
    if wrong:
        raise ModelError(f"{path} has another encoder than this model: {'; '.join(wrong[:3])}")
    model.take_weights({**model.weights(), **{f"{PREFIX}{name}": weight for name, weight in found.items()}})


def check_encoder_start(description: Spec) -> None:
    """Refuse an encoder that starts from a run whose encoder has other options."""
    path = _start_of(description)
    if path is not None and not Path(path).is_file():
        Start.open(path).check_encoder(resolve(description)["encoder"])


def _start_of(description: Spec) -> str | None:
    """Return the option `start` of the encoder of a described model."""
    start: str | None = resolve(description).get("encoder", {}).get("start")
    return start


def _own(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the weights of the encoder, by their names inside of it."""
    return {name.removeprefix(PREFIX): each for name, each in weights.items() if name.startswith(PREFIX)}
