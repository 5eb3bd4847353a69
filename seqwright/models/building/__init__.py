"""From the description of a model to the model: presets are filled in, options are passed to the parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from seqwright.config.presets import KIND, PINNED, PRESETS, as_table, pinned
from seqwright.config.registry import parse, unknown
from seqwright.data.batch import Segments
from seqwright.errors import ConfigError, Problem
from seqwright.models import DECODERS, ENCODERS, HEADS, MODELS, NETWORKS
from seqwright.nn.positions import POSITIONS

PART_REGISTRIES = {"encoder": ENCODERS, "decoder": DECODERS, "network": NETWORKS, "head": HEADS}
KEPT = ("size", "dropout")  # options of a preset's part that mean the same in a part of another kind


def parts_of(kind: str) -> list[str]:
    """Return the parts of a kind of model: its options that name a registry."""
    options = MODELS.options(kind)
    return [part for part in PART_REGISTRIES if part in options]


def resolve(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete description of a model: its kind, its own options, and a table for each part.

    It starts from `preset`, if there is one. An option that the model does not have goes to every part that
    has it (layers = 2), unless the table of the part sets it; an option that no part has is an error. A part
    of another kind than the preset's keeps only the width and the dropout of the preset.
    """
    given = pinned(model)
    given.pop("preset", None)
    start = copy.deepcopy(given.pop(PINNED, {}))
    kind = given.pop("kind", start.get("kind", KIND))
    own = MODELS.options(kind)
    parts, options = {}, {}
    explicit = {part: _as_table(part, given.pop(part, None)) for part in parts_of(kind)}
    for part, table in explicit.items():
        base = _as_table(part, start.get(part, own[part].default))
        if "kind" not in base:
            raise ConfigError(Problem(f"{PINNED}.{part}", base, "it needs a kind"))
        chosen = table.get("kind") or base["kind"]
        options[part] = accepted = PART_REGISTRIES[part].options(chosen)
        if chosen != base["kind"]:
            base = {"kind": chosen} | {key: base[key] for key in KEPT if key in base and key in accepted}
        parts[part] = base
    result = {"kind": kind, **{key: start[key] for key in start if key in own and key not in parts}}
    for key, value in given.items():
        takers = [part for part in parts if key in options[part]]
        if key in own:
            result[key] = value
        elif not takers:
            known = sorted({"kind", "preset", *own}.union(*options.values()))
            raise ConfigError(unknown("option of the model", key, known))
        else:
            parts |= {part: {**parts[part], key: value} for part in takers}
    return result | {part: {**parts[part], **explicit[part]} for part in parts}


def unpinned(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the description as a user would write it: with its preset if that is still the same."""
    given = as_table(model)
    description, name = given.pop(PINNED, None), given.get("preset")
    same = isinstance(name, str) and name in PRESETS and PRESETS[name].model == description
    return given if description is None or same else resolve(model)


def build_model(model: str | Mapping[str, Any], **facts: Any) -> Any:
    """Build a model with new weights from the name of a preset or a description.

    `facts` are properties of the data: source_vocabulary, target_vocabulary, vocabulary, classes, values.
    """
    return MODELS.build(resolve(model), facts=facts, **facts)


def reads_sentences(model: str | Mapping[str, Any]) -> bool:
    """Whether the encoder of a described model reads `Segments`."""
    encoder = resolve(model).get("encoder")
    return encoder is not None and ENCODERS.get(encoder["kind"]).reads is Segments  # type: ignore[attr-defined]


def reads_trees(model: str | Mapping[str, Any]) -> bool:
    """Whether the encoder of a described model has positions that read dependency trees."""
    position = resolve(model).get("encoder", {}).get("position", "none")
    return POSITIONS.get(parse("position", position)[0]).structural  # type: ignore[attr-defined]


def reads_features(model: str | Mapping[str, Any]) -> bool:
    """Whether the network of a described forecaster reads covariates and the calendar."""
    network = resolve(model).get("network")
    return network is not None and "features" in NETWORKS.options(network["kind"])


def _as_table(part: str, spec: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(spec, str | Mapping | None):
        raise ConfigError(Problem(part, spec, "it must be a name, or a table of options"))
    return {"kind": spec} if isinstance(spec, str) else dict(spec or {})
