"""Help for every option, read from its definition: fields of tables, signatures and docstrings of parts."""

from __future__ import annotations

import difflib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

from seqwright.config.presets import PRESETS
from seqwright.config.registry import Registry, hints_of, options_of
from seqwright.config.tables import Config
from seqwright.config.validation import doc, field_hints, help_text, in_words, limits
from seqwright.errors import ConfigError

REGISTRIES = {  # by the name of a part in a configuration; imported when they are needed
    "model": "seqwright.models:MODELS",
    "encoder": "seqwright.models:ENCODERS",
    "decoder": "seqwright.models:DECODERS",
    "network": "seqwright.models:NETWORKS",
    "head": "seqwright.models:HEADS",
    "score": "seqwright.nn.scores:SCORES",
    "position": "seqwright.nn.positions:POSITIONS",
    "feed_forward": "seqwright.nn.feedforward:FEED_FORWARDS",
    "growth": "seqwright.nn.kv_cache:GROWTHS",
    "pooling": "seqwright.nn.pooling:POOLINGS",
    "tokenizer": "seqwright.data.tokenizer:TOKENIZERS",
    "optimizer": "seqwright.training.optimizer:OPTIMIZERS",
    "schedule": "seqwright.training.schedule:SCHEDULES",
    "metric": "seqwright.evaluation.metrics:METRICS",
    "task": "seqwright.data.task:TASKS",
}
MODEL_PARTS = ("encoder", "decoder", "network", "head", "position", "feed_forward", "growth")
OPEN = {  # keys whose value is a part: its name, or a table with its name and its options
    "model.kind": "model",
    **{f"model.{part}": part for part in MODEL_PARTS},
    **{f"tokenizer.{side}": "tokenizer" for side in ("source", "target")},
    **{f"training.{part}": part for part in ("optimizer", "schedule", "metric")},
    "task": "task",
}
SOURCES = {name: preset.source for name, preset in PRESETS.items()}
MODEL = (
    "The name of a preset, or a table: the `preset` to start from, options of the model, options that every "
    "part with such an option receives (layers = 2), and one table per part."
)


@dataclass(frozen=True)
class Option:
    """One key. `default` is written as in TOML; it is None if the model or the data determine the value."""

    name: str
    type: str
    default: str | None
    range: str = ""
    help: str = ""


@dataclass(frozen=True)
class Topic:
    """The help for one name."""

    name: str
    summary: str = ""
    options: tuple[Option, ...] = ()
    lists: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # title -> related name -> summary
    settings: Mapping[str, Any] = field(default_factory=dict)  # of a preset


def describe(name: str = "") -> Topic:
    """Return the help for a name such as training, training.optimizer, optimizer.muon or tiny."""
    if not name:
        return contents()
    if name in PRESETS:
        preset = PRESETS[name]
        summary = ". ".join(filter(None, (preset.source, preset.note))) + "."
        return Topic(name, summary, settings={"kind": preset.kind, **preset.model})
    if name in OPEN:
        return Topic(name, _summary(registry(OPEN[name]).base), _own_option(name), _kinds(OPEN[name]))
    if name == "model":
        options = _options_of(registry("model").get("encoder_decoder"))
        return Topic(name, MODEL, options, {**_kinds("model"), "presets": SOURCES})
    if name in (tables := _tables()):
        lists = _kinds(name) if name in REGISTRIES else {}
        return Topic(name, _summary(tables[name]), _fields_of(tables[name]), lists)
    if name in REGISTRIES:
        return Topic(name, _summary(registry(name).base), lists=_kinds(name))
    above, _, last = name.rpartition(".")
    home = OPEN.get(above, above)
    homes = [each for each in REGISTRIES if name.lower() in registry(each).names()]
    if home in REGISTRIES and last in registry(home).names():
        return _part(home, last)
    return _part(homes[0], name.lower()) if len(homes) == 1 else _option(name)


def contents() -> Topic:
    """Return the list of all names that have help."""
    tables = {name: _summary(kind) for name, kind in _tables().items()}
    keys = {option.name: option.help for option in _fields_of(Config) if option.name != "model"}
    parts = {name: ", ".join(registry(name).names()) for name in REGISTRIES}
    lists = {"tables": {**tables, "model": MODEL}, "keys outside of tables": keys, "parts": parts}
    return Topic("", lists={**lists, "presets": SOURCES})


def registry(name: str) -> Registry:
    return pkgutil.resolve_name(REGISTRIES[name])


def _tables() -> dict[str, type]:
    return {name: hint for name, hint in field_hints(Config).items() if is_dataclass(hint)}  # type: ignore[misc]


def _part(kind: str, name: str) -> Topic:
    part = registry(kind).get(name)
    if kind == "task":  # what its constructor takes is made from the data
        return Topic(f"{kind}.{name}", _summary(part))
    summary, _ = split_docstring(inspect.getdoc(part) or "", list(options_of(part)))
    return Topic(f"{kind}.{name}", summary, _options_of(part))


def _own_option(name: str) -> tuple[Option, ...]:
    """Return the option with this full name, if its table or part has it."""
    above, _, last = name.rpartition(".")
    options = describe(above).options if above else _fields_of(Config)
    return tuple(option for option in options if option.name == last)


def _option(name: str) -> Topic:
    """Return the help for one option by its full name; for `model.layers`, the option of every part."""
    above, _, last = name.rpartition(".")
    with suppress(ConfigError):  # raised below for the whole name
        if own := _own_option(name):
            return Topic(name, options=own)
    homes = ("encoder", "decoder", "head", "model") if above == "model" else ()
    parts = [_part(home, kind) for home in homes for kind in registry(home).names()]
    if found := {part.name: _brief(each) for part in parts for each in part.options if each.name == last}:
        return Topic(name, lists={"parts": found})
    near = difflib.get_close_matches(name, list(_all_names()), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"nothing is called {name!r}; {hint}`seqwright describe` lists all names")


def _brief(option: Option) -> str:
    default = "set by the model or the data" if option.default is None else f"default {option.default}"
    return ", ".join(filter(None, (option.type, option.range, default)))


def _all_names() -> Iterator[str]:
    topics = [*_tables(), *OPEN, *REGISTRIES]
    topics += [f"{name}.{kind}" for name in REGISTRIES for kind in registry(name).names()]
    yield from (*topics, *PRESETS)
    yield from (f"{topic}.{option.name}" for topic in topics for option in describe(topic).options)
    yield from (option.name for option in _fields_of(Config))


def _kinds(name: str) -> dict[str, dict[str, str]]:
    home = registry(name)
    return {f"{name}.…": {kind: _summary(home.get(kind)) for kind in home.names()}}


def _summary(part: type) -> str:
    """Return the first paragraph of a docstring."""
    text = " ".join((inspect.getdoc(part) or "").split("\n\n")[0].split())
    return text[6:7].upper() + text[7:] if text.startswith("Base: ") else text


def split_docstring(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Separate the help texts of options ("size: …", at the start of a sentence) from the rest."""
    mark = re.compile(rf"(?:^|(?<=\. ))({'|'.join(map(re.escape, names)) or '(?!)'}): ")
    rest: list[str] = []
    helps: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        first, *marked = mark.split(" ".join(paragraph.split()))
        rest.append(first.strip())
        helps.update((name, words.strip()) for name, words in zip(marked[::2], marked[1::2], strict=True))
    return "\n".join(filter(None, rest)), helps


def _fields_of(table: type) -> tuple[Option, ...]:
    """Return the options of a table; the tables in it are not options."""
    hints, options = field_hints(table), (each for each in fields(table) if each.default is not MISSING)
    return tuple(_documented(each.name, hints[each.name], each.default) for each in options)


def _options_of(part: type) -> tuple[Option, ...]:
    """Return the options of a part, with help from its annotations or docstring, or from `passes_to`."""
    options, hints, helps = options_of(part), hints_of(part), dict[str, str]()
    home: type | None = part
    while home is not None:
        helps = split_docstring(inspect.getdoc(home) or "", list(options))[1] | helps
        home = getattr(home, "passes_to", None)
    return tuple(
        _documented(name, hints[name], parameter.default, helps.get(name, ""))
        for name, parameter in options.items()
    )


def _documented(name: str, hint: Any, default: Any, text: str = "") -> Option:
    literal = None
    if default is not inspect.Parameter.empty:
        literal = doc(hint).none if default is None else json.dumps(default, ensure_ascii=False)
    return Option(name, in_words(hint), literal, limits(hint), help_text(hint) or text)
