"""Released weights of image models, renamed to those of our encoders.

`torchvision` is the layout of its resnet18, 34, 50 …; `timm` that of its vit_*. The output layers are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from seqwright.errors import ModelError

Weights = Mapping[str, Tensor]

_STATISTICS = {"running_mean": "running_mean", "running_var": "running_variance"}
_RESNET = (
    (r"conv1\.weight", "stem.convolution.weight"),
    (r"bn1\.(\w+)", r"stem.norm.\1"),
    (r"layer(\d+)\.(\d+)\.conv(\d)\.weight", r"stages.\1.\2.path.\3.convolution.weight"),
    (r"layer(\d+)\.(\d+)\.bn(\d)\.(\w+)", r"stages.\1.\2.path.\3.norm.\4"),
    (r"layer(\d+)\.(\d+)\.downsample\.0\.weight", r"stages.\1.\2.shortcut.convolution.weight"),
    (r"layer(\d+)\.(\d+)\.downsample\.1\.(\w+)", r"stages.\1.\2.shortcut.norm.\3"),
)
_VIT = (
    (r"norm\.(weight|bias)", r"transformer.stack.norm.\1"),
    (r"patch_embed\.proj\.bias", "embed.bias"),
    (r"blocks\.(\d+)\.norm1\.(\w+)", r"transformer.stack.blocks.\1.around_attention.norm.\2"),
    (r"blocks\.(\d+)\.norm2\.(\w+)", r"transformer.stack.blocks.\1.around_feed_forward.norm.\2"),
    (r"blocks\.(\d+)\.attn\.proj\.(\w+)", r"transformer.stack.blocks.\1.attention.out.\2"),
    (r"blocks\.(\d+)\.mlp\.fc1\.(\w+)", r"transformer.stack.blocks.\1.feed_forward.rise.\2"),
    (r"blocks\.(\d+)\.mlp\.fc2\.(\w+)", r"transformer.stack.blocks.\1.feed_forward.fall.\2"),
)


def converted(weights: Weights, encoder: Any) -> dict[str, Tensor]:
    """Return released weights under the names of an encoder."""
    if "conv1.weight" in weights:
        return _resnet(weights)
    if "patch_embed.proj.weight" in weights:
        return _vit(weights, encoder)
    first = ", ".join(sorted(weights)[:3])
    raise ModelError(
        f"the weights ({first} …) have neither the layout of torchvision's resnet nor that of timm's vit"
    )


def _renamed(name: str, rules: tuple[tuple[str, str], ...]) -> str | None:
    return next((re.sub(old, new, name) for old, new in rules if re.fullmatch(old, name)), None)


def _resnet(weights: Weights) -> dict[str, Tensor]:
    found = {}
    for name, weight in weights.items():
        new = _renamed(name, _RESNET)
        if new is None or name.endswith("num_batches_tracked"):
            continue  # the output layer, and a counter
        parts = new.split(".")
        parts[-1] = _STATISTICS.get(parts[-1], parts[-1])
        if parts[0] == "stages":
            parts[1] = str(int(parts[1]) - 1)
        if "path" in parts:
            parts[4] = str(int(parts[4]) - 1)
        found[".".join(parts)] = weight
    return found


def _vit(weights: Weights, encoder: Any) -> dict[str, Tensor]:
    found = {new: weight for name, weight in weights.items() if (new := _renamed(name, _VIT)) is not None}
    # (D, C, patch, patch) -> (D, patch · patch · C), as patches are read
    found["embed.weight"] = weights["patch_embed.proj.weight"].permute(0, 2, 3, 1).flatten(1)
    if "cls_token" in weights:
        found["transformer.class_token"] = weights["cls_token"].reshape(-1)
    if "pos_embed" in weights:
        found["transformer.positions"] = weights["pos_embed"].flatten(0, 1)
    blocks = encoder.transformer.stack.blocks if hasattr(encoder, "transformer") else ()
    for number, block in enumerate(blocks):
        for kind in ("weight", "bias"):
            both = weights.get(f"blocks.{number}.attn.qkv.{kind}")
            if both is None:
                continue
            query, key, value = both.chunk(3)
            heads = [part.unflatten(0, (block.attention.heads, -1)) for part in (key, value)]
            home = f"transformer.stack.blocks.{number}.attention"
            found[f"{home}.query.{kind}"] = query
            found[f"{home}.key_value.{kind}"] = torch.cat(heads, 1).flatten(0, 1)  # a head: key, then value
    return found


def fitted_positions(saved: Tensor, wanted: Tensor) -> Tensor:
    """Interpolate learned positions of a square grid to another one (Dosovitskiy et al. 2021, 3.2).

    Both (places, D), with a class token in both or in neither.
    """
    token = int(_side(len(wanted)) is None)
    old, new = _side(len(saved) - token), _side(len(wanted) - token)
    if old is None or new is None:
        raise ModelError(f"{len(saved)} learned positions do not fit a grid of {len(wanted)}")
    cells = saved[token:].T.unflatten(1, (old, old))[None]  # (1, D, h, w)
    resized = F.interpolate(cells, (new, new), mode="bicubic", align_corners=False)
    return torch.cat([saved[:token], resized[0].flatten(1).T])


def _side(count: int) -> int | None:
    side = round(count**0.5)
    return side if side * side == count and side else None
