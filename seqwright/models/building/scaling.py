"""The model of a paper at a size for a laptop, and the cost of training it.

A preset has the widths of its paper. Scaled to another number of parameters, it keeps what makes it that
family (kinds of parts, heads, wiring); all its widths are multiplied by one factor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seqwright.config.presets import PARTS, PRESETS
from seqwright.models import MODELS, Model
from seqwright.models.building import PART_REGISTRIES, build_model, parts_of, resolve
from seqwright.models.encoder_decoder import EncoderDecoder

SIZES = ("layers", "size", "hidden", "embedding_size", "readout_size")
GRAIN = 16  # widths are multiples of it, so that heads and directions divide them
STEPS = 64  # widths of the decoder that are tried, in grains

Vocabularies = tuple[int, int]


def parameters_of(model: Mapping[str, Any], vocabularies: Vocabularies) -> int:
    """Count the parameters, shared ones once, without allocating them."""
    with torch.device("meta"):
        built = build_model(model, source_vocabulary=vocabularies[0], target_vocabulary=vocabularies[1])
    return sum(parameter.numel() for parameter in built.parameters())


def preset_options(name: str) -> set[str]:
    """Return the options of a preset's model and of its parts."""
    preset = PRESETS[name]
    parts = (PART_REGISTRIES[part].options(preset.model[part]["kind"]) for part in parts_of(preset.kind))
    return set(MODELS.options(preset.kind)).union(*parts)


def described(name: str, options: Mapping[str, Any], *, joint: bool) -> dict[str, Any]:
    """Return a preset with those of the options that it has. Only a `joint` vocabulary can be shared."""
    known = {key: value for key, value in options.items() if key in preset_options(name)}
    share = joint and bool(known.get("share", PRESETS[name].model["share"]))
    return {"preset": name, **known, "share": share}


def sizes_of(model: Mapping[str, Any]) -> str:
    """Name the sizes of each part."""
    full = resolve(model)
    parts = [(part, [f"{key} {full[part][key]}" for key in SIZES if full[part].get(key)]) for part in PARTS]
    return "; ".join(f"{part} {', '.join(sizes)}" for part, sizes in parts).replace("_", " ")


def scale_to_size(
    model: Mapping[str, Any], parameters: int, vocabularies: Vocabularies, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the model with about this many parameters: one factor scales all widths but the `fixed` ones,
    and its square root the numbers of layers, because a deep model of a small width learns slowly.
    """
    full = resolve(model)

    def scaled(grains: int) -> dict[str, Any]:
        factor, result = grains * GRAIN / full["decoder"]["size"], dict(full)
        for part in PARTS:
            of_part = fixed.get(part, {})
            kept = {*fixed, *(of_part if isinstance(of_part, Mapping) else ())}
            keys = [key for key in SIZES if full[part].get(key) and key not in kept]
            result[part] = {**full[part], **{key: _times(key, full[part][key], factor) for key in keys}}
        return result

    def count(grains: int) -> int:
        return parameters_of(scaled(grains), vocabularies)

    above = 1 + bisect_left(range(1, STEPS), parameters, key=count)
    return scaled(min((max(above - 1, 1), above), key=lambda grains: abs(count(grains) - parameters)))


def _times(key: str, size: int, factor: float) -> int:
    if key == "layers":
        return max(round(size * min(factor, 1.0) ** 0.5), 1)
    return max(round(size * factor / GRAIN), 1) * GRAIN


def training_flops(model: EncoderDecoder, source_tokens: int, target_tokens: int) -> float:
    """6 · parameters · tokens (Kaplan et al. 2020, 2.1), for each side with its own tokens.

    Embeddings are looked up, not multiplied, and do not count; the output layer counts, even if it is tied to
    an embedding. Attention weights and padding are not included.
    """
    parts = (model.encoder, model.decoder)
    tables = {id(part.embedding.weight) for part in parts}
    encoder, decoder = (sum(w.numel() for w in part.parameters() if id(w) not in tables) for part in parts)
    output = sum(weight.numel() for weight in model.output.parameters())
    return 6.0 * (encoder * source_tokens + (decoder + output) * target_tokens)


def counted_flops(model: Model, batch: Any) -> float:
    """The products and sums of one training step on a batch, forward and backward, counted by torch. Those
    inside of recurrent layers are not seen.
    """
    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), counter:  # it does not see into the fused kernel
        model.loss(batch).total.backward()
    model.zero_grad()
    return float(counter.get_total_flops())
