"""The model of a paper at a size for a laptop, and what its training costs.

A preset has the widths of its paper. Brought near another model's number of parameters, it keeps what makes
it that family (kinds of parts, layers, heads, wiring), and all its widths are multiplied by one number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import torch

from seqwright.config.presets import PARTS, PRESETS
from seqwright.models import DECODERS, ENCODERS, MODELS
from seqwright.models.building import build_model, resolve
from seqwright.models.encoder_decoder import EncoderDecoder

SIZES = ("layers", "size", "hidden", "embedding_size", "readout_size")
GRAIN = 16  # widths are multiples of it, so that heads and directions divide them
STEPS = 64  # widths of the decoder that are tried, in grains

Vocabularies = tuple[int, int]
_REGISTRIES = {"encoder": ENCODERS, "decoder": DECODERS}


def parameters_of(model: Mapping[str, Any], vocabularies: Vocabularies) -> int:
    """Each shared parameter once; no memory is taken."""
    with torch.device("meta"):
        built = build_model(model, source_vocabulary=vocabularies[0], target_vocabulary=vocabularies[1])
    return sum(parameter.numel() for parameter in built.parameters())


def options_of(name: str) -> set[str]:
    """What can be said of a preset's model and its parts."""
    model = PRESETS[name].model
    parts = [registry.options(model[part]["kind"]) for part, registry in _REGISTRIES.items()]
    return set(MODELS.options("encoder_decoder")).union(*parts)


def described(name: str, asked: Mapping[str, Any], *, joint: bool) -> dict[str, Any]:
    """A preset with those of the options that it has; it shares embeddings only where both sides have one
    vocabulary.
    """
    known = {key: value for key, value in asked.items() if key in options_of(name)}
    return {
        "preset": name,
        **known,
        "share": joint and bool(known.get("share", PRESETS[name].model["share"])),
    }


def sizes_of(model: Mapping[str, Any]) -> str:
    """In words."""
    full = resolve(model)
    parts = [(part, [f"{key} {full[part][key]}" for key in SIZES if full[part].get(key)]) for part in PARTS]
    return "; ".join(f"{part} {', '.join(found)}" for part, found in parts).replace("_", " ")


def scale_to_size(
    model: Mapping[str, Any], parameters: int, vocabularies: Vocabularies, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """The model with all widths but the `fixed` ones multiplied by one number, so that it has about so many
    parameters, and the numbers of layers by its square root: four layers a dozen times narrower than in the
    paper would hardly begin to learn.
    """
    full = resolve(model)
    width = full["decoder"]["size"]

    def scaled(grains: int) -> dict[str, Any]:
        return _scaled(full, grains * GRAIN / width, fixed)

    def count(grains: int) -> int:
        return parameters_of(scaled(grains), vocabularies)

    above = 1 + bisect_left(range(1, STEPS), parameters, key=count)
    return scaled(min((max(above - 1, 1), above), key=lambda grains: abs(count(grains) - parameters)))


def _scaled(full: Mapping[str, Any], factor: float, fixed: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(full)
    for part in PARTS:
        free = [key for key in SIZES if full[part].get(key) and key not in {**fixed, **_table(fixed, part)}]
        result[part] = {**full[part], **{key: _times(key, full[part][key], factor) for key in free}}
    return result


def _times(key: str, size: int, factor: float) -> int:
    if key == "layers":
        return max(round(size * min(factor, 1.0) ** 0.5), 1)
    return max(round(size * factor / GRAIN), 1) * GRAIN


def _table(fixed: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    given = fixed.get(part, {})
    return given if isinstance(given, Mapping) else {}


def training_flops(model: EncoderDecoder, source_tokens: int, target_tokens: int) -> float:
    """6 · parameters · tokens (Kaplan et al. 2020, 2.1), for each side with its own tokens.

    Tables of embeddings are looked up, not multiplied, and do not count; the output layer does, also where it
    is the table of the target. Products of attention weights and padding are left out.
    """
    parts = (model.encoder, model.decoder)
    tables = {id(part.embedding.weight) for part in parts}
    encoder, decoder = (
        sum(weight.numel() for weight in part.parameters() if id(weight) not in tables) for part in parts
    )
    output = sum(weight.numel() for weight in model.output.parameters())
    return 6.0 * (encoder * source_tokens + (decoder + output) * target_tokens)
