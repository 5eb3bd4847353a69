"""From the description of a model to the model: presets filled in, options passed down to the parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from seqwright.config.presets import PARTS, PINNED, PRESETS, as_table, pinned
from seqwright.config.registry import unknown
from seqwright.errors import ConfigError

KEPT = ("size", "dropout")  # options of a preset's part that mean the same in a part of another kind


def resolve(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """The complete description of a model: its kind, its own options, and a table for each part.

    Starts from `preset`, if one is named. An option that the model itself does not have goes to every part
    that has it (layers = 2), unless the part says otherwise; one that nobody has is an error. Of a part of
    another kind than the preset's only width and dropout stay as the preset has them.
    """
    from seqwright.models import MODELS  # torch is loaded only now

    given = pinned(model)
    given.pop("preset", None)
    start = copy.deepcopy(given.pop(PINNED, {}))
    kind = given.pop("kind", start.get("kind", "encoder_decoder"))
    own = MODELS.options(kind)
    parts = {part: _part(part, start.get(part), given.pop(part, None)) for part in PARTS if part in own}
    result = {"kind": kind, **{key: value for key, value in start.items() if key not in PARTS}}
    for key, value in given.items():
        if key in own:
            result[key] = value
        else:
            _pass_down(key, value, parts, own)
    for part, (table, explicit) in parts.items():
        result[part] = {**table, **explicit}
    return result


def unpinned(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """The same description as somebody would write it: by the name of its preset while that says the same,
    otherwise part by part.
    """
    given = as_table(model)
    said, name = given.pop(PINNED, None), given.get("preset")
    same = said is None or (isinstance(name, str) and name in PRESETS and PRESETS[name].model == said)
    return given if same else resolve(model)


def _part(part: str, start: Any, given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table of a part before and after what is said of it explicitly."""
    table = _as_table(part, start) if start is not None else {"kind": "transformer"}
    explicit = {} if given is None else _as_table(part, given)
    if explicit.get("kind", table["kind"]) != table["kind"]:
        options = _registries()[part].options(explicit["kind"])
        kept = {key: table[key] for key in KEPT if key in table and key in options}
        table = {"kind": explicit["kind"], **kept}
    return table, explicit


def _registries() -> dict[str, Any]:
    from seqwright.models import DECODERS, ENCODERS

    return {"encoder": ENCODERS, "decoder": DECODERS}


def _as_table(part: str, spec: str | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(spec, str | Mapping):
        raise ConfigError(f"{part} is {spec!r}; it must be a name, or a table of options")
    return {"kind": spec} if isinstance(spec, str) else dict(spec)


def _pass_down(
    key: str, value: Any, parts: dict[str, tuple[dict[str, Any], dict[str, Any]]], own: Mapping[str, Any]
) -> None:
    registries, known = _registries(), set[str]()
    for part, (table, explicit) in parts.items():
        options = registries[part].options(explicit.get("kind", table["kind"]))
        known |= set(options)
        if key in options:
            table[key] = value
    if key not in known:
        raise ConfigError(unknown("option of the model", key, sorted({*known, *own, "kind", "preset"})))


def build_model(model: str | Mapping[str, Any], *, source_vocabulary: int, target_vocabulary: int) -> Any:
    """A model with fresh weights from a preset's name or a description."""
    from seqwright.models import MODELS

    return MODELS.build(
        resolve(model), source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary
    )
