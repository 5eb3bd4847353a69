"""What can be configured, read from where it is defined: tables from their dataclasses, parts from the
signatures of their constructors, words of explanation from docstrings and from the comments beside the lines.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import io
import json
import math
import re
import textwrap
import tokenize
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from annotated_types import Ge, Gt, Le, Len, Lt

from seqwright.config import Config
from seqwright.config.presets import PARTS, PRESETS
from seqwright.config.registry import Registry, options_of
from seqwright.errors import ConfigError
from seqwright.models.building import resolve

REGISTRIES = {  # by what their parts are called in a configuration
    "encoder": "seqwright.models:ENCODERS",
    "decoder": "seqwright.models:DECODERS",
    "score": "seqwright.nn.scores:SCORES",
    "position": "seqwright.nn.positions:POSITIONS",
    "feed_forward": "seqwright.nn.feedforward:FEED_FORWARDS",
    "tokenizer": "seqwright.data.tokenizer:TOKENIZERS",
    "optimizer": "seqwright.training.optimizer:OPTIMIZERS",
    "schedule": "seqwright.training.schedule:SCHEDULES",
    "metric": "seqwright.evaluation.metrics:METRICS",
}
OPEN = {  # keys whose value is a part: its name, or a table with its name and its options
    "model.encoder": "encoder",
    "model.decoder": "decoder",
    "model.position": "position",
    "model.feed_forward": "feed_forward",
    "tokenizer.source": "tokenizer",
    "tokenizer.target": "tokenizer",
    "training.optimizer": "optimizer",
    "training.schedule": "schedule",
    "training.metric": "metric",
}
MODEL = (
    "The name of a preset, or a table: `preset` to start from, options of the model itself, options for "
    "every part that has them (layers = 2), and a table for each of encoder and decoder."
)
WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text", Any: "anything"}
SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}


@dataclass(frozen=True)
class Option:
    """One key. `default` is as TOML writes it, and None where the surroundings give the value."""

    name: str
    type: str
    default: str | None
    range: str = ""
    help: str = ""


@dataclass(frozen=True)
class Topic:
    """Something that can be described: its options, lists of what belongs to it (by title, then by name, each
    with a summary), and for a preset all its settings.
    """

    name: str
    summary: str = ""
    options: tuple[Option, ...] = ()
    lists: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def describe(name: str = "") -> Topic:
    """What is known under a name, such as training, training.optimizer, optimizer.muon, tiny; none: all."""
    if not name:
        return contents()
    if name in PRESETS:
        preset = PRESETS[name]
        return Topic(name, f"{preset.source}. {preset.note}".rstrip(". ") + ".", settings=resolve(name))
    if name in OPEN:
        return _open_key(name)
    if name == "model":
        lists = {**_kinds("model"), "presets": _presets()}
        return _part(name, registry("model").get("encoder_decoder"), MODEL, lists)
    if name in _tables():
        return _table(name)
    if name in REGISTRIES:
        return Topic(name, _summary(registry(name).base), lists=_kinds(name))
    above, _, last = name.rpartition(".")
    home = OPEN.get(above, above)
    if home in (*REGISTRIES, "model") and last in registry(home).names():
        return _part(f"{home}.{last}", registry(home).get(last))
    homes = [home for home in (*REGISTRIES, "model") if name.lower() in registry(home).names()]
    return describe(f"{homes[0]}.{name.lower()}") if len(homes) == 1 else _option(name)


def contents() -> Topic:
    """Everything that has a description, by name."""
    tables = {name: _summary(kind) for name, kind in _tables().items()}
    keys = {option.name: option.help for option in _fields_of(Config) if option.name != "model"}
    parts = {name: ", ".join(registry(name).names()) for name in REGISTRIES}
    lists = {"tables of a configuration": {**tables, "model": MODEL}, "keys beside them": keys}
    return Topic("", lists={**lists, "parts": parts, "presets": _presets()})


def registry(name: str) -> Registry:
    module, _, attribute = REGISTRIES.get(name, "seqwright.models:MODELS").partition(":")
    return getattr(importlib.import_module(module), attribute)


def _tables() -> dict[str, type]:
    hints = typing.get_type_hints(Config)
    return {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}


def _table(name: str) -> Topic:
    kind = _tables()[name]
    return Topic(name, _summary(kind), tuple(_fields_of(kind)), _kinds(name) if name in REGISTRIES else {})


def _open_key(name: str) -> Topic:
    """A key that names a part: what it is by itself, and the parts that it may name."""
    table, _, key = name.partition(".")
    own = tuple(option for option in describe(table).options if option.name == key)
    return Topic(name, _summary(registry(OPEN[name]).base), own, _kinds(OPEN[name]))


def _part(
    name: str, part: type, summary: str = "", lists: Mapping[str, Mapping[str, str]] | None = None
) -> Topic:
    """What a docstring says of an option stands with the option."""
    options = list(_arguments_of(part))
    names = [option.name for option in options]
    text, helps = explained(inspect.getdoc(part) or "", names)
    further = getattr(part, "passes_to", None)
    helps = {**(explained(inspect.getdoc(further) or "", names)[1] if further else {}), **helps}
    options = [replace(option, help=option.help or helps.get(option.name, "")) for option in options]
    return Topic(name, summary or text, tuple(options), lists or {})


def _option(name: str) -> Topic:
    """One option by its full name; for `model.layers`, what each part makes of it."""
    above, dot, last = name.rpartition(".")
    for option in _options_above(above) if dot else _fields_of(Config):
        if option.name == last:
            return Topic(name, options=(option,))
    if above == "model":
        parts = [f"{part}.{kind}" for part in (*PARTS, "model") for kind in registry(part).names()]
        found = {part: option for part in parts for option in describe(part).options if option.name == last}
        if found:
            return Topic(name, lists={"parts": {part: _in_words(option) for part, option in found.items()}})
    near = difflib.get_close_matches(name, list(_all_names()), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"nothing is called {name!r}; {hint}`seqwright describe` lists what there is")


def _options_above(name: str) -> tuple[Option, ...]:
    try:
        return describe(name).options
    except ConfigError:
        return ()  # what is wrong is said of the whole name


def _all_names() -> Iterator[str]:
    topics = [*_tables(), "model", *OPEN, *REGISTRIES]
    topics += [f"{name}.{kind}" for name in REGISTRIES for kind in registry(name).names()]
    yield from (*topics, *PRESETS)
    yield from (f"{topic}.{option.name}" for topic in topics for option in describe(topic).options)
    yield from (option.name for option in _fields_of(Config))


def _presets() -> dict[str, str]:
    return {name: preset.source for name, preset in PRESETS.items()}


def _kinds(name: str) -> dict[str, dict[str, str]]:
    found = registry(name)
    return {f"{name}.…": {kind: _summary(found.get(kind)) for kind in found.names()}}


def _summary(part: type) -> str:
    """The first paragraph of a docstring."""
    text = inspect.getdoc(part) or ""
    summary = " ".join(text.split("\n\n")[0].split()).removeprefix("Base: ")
    return summary[:1].upper() + summary[1:]


def explained(text: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A docstring without what it says of options ("start: …" after a sentence or at the beginning of a
    paragraph), and what that is.
    """
    mark = re.compile(rf"(?:^|(?<=\. ))({'|'.join(map(re.escape, names))}): ") if names else None
    kept: list[str] = []
    helps: dict[str, str] = {}
    for paragraph in text.split("\n\n"):
        first, *rest = mark.split(" ".join(paragraph.split())) if mark else [paragraph]
        kept.append(first.strip())
        helps.update((name, words.strip()) for name, words in zip(rest[::2], rest[1::2], strict=True))
    return "\n".join(filter(None, kept)), helps


def _in_words(option: Option) -> str:
    default = "given by the model" if option.default is None else f"default {option.default}"
    return ", ".join(filter(None, (option.type, option.range, default)))


# Reading definitions ----------------------------------------------------------------------------------


def _fields_of(kind: type) -> Iterator[Option]:
    """The options of a table; a table in it is no option."""
    hints, comments = typing.get_type_hints(kind, include_extras=True), _comments(kind)
    for each in fields(kind):
        if each.default is not MISSING:
            limits = ", ".join(_ranges(hints[each.name]))
            said = comments.get(each.name, "")
            yield Option(each.name, _type(hints[each.name]), _literal(each.default), limits, said)


def _arguments_of(part: type) -> Iterator[Option]:
    """The options of a part, as `options_of` finds them, each with the words of the class that has it."""
    for name, parameter in options_of(part).items():
        home = part
        while name not in inspect.signature(home).parameters:
            home = home.passes_to  # type: ignore[attr-defined]
        hint = typing.get_type_hints(home.__init__, include_extras=True).get(name, Any)  # type: ignore[misc]
        default = None if parameter.default is parameter.empty else _literal(parameter.default)
        yield Option(name, _type(hint), default, ", ".join(_ranges(hint)), _comments(home).get(name, ""))


@cache
def _comments(kind: type) -> dict[str, str]:
    """The comment beside each field of a class, or beside each argument of its constructor."""
    source = textwrap.dedent(inspect.getsource(kind))
    lines = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    found = {}
    for name, node in _named_nodes(ast.parse(source)):
        beside = [lines[line] for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in lines]
        if beside:
            found[name] = " ".join(beside)
    return found


def _named_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AnnAssign | ast.arg]]:
    (kind,) = tree.body
    assert isinstance(kind, ast.ClassDef)
    for node in kind.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from ((argument.arg, argument) for argument in node.args.kwonlyargs)


def _type(hint: Any) -> str:
    """A type in words: `int | None` is "whole number or none"."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        named = any(typing.get_origin(each) in (dict, Mapping) for each in inner)  # or else described
        words = ["name" if named and each is str else _type(each) for each in inner]
        return " or ".join(dict.fromkeys(words))
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is tuple and Ellipsis not in inner:
        return " and ".join(map(_type, inner))
    if origin in (tuple, list, Sequence):
        return f"list of {_type(inner[0])}s"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    return "none" if hint is NoneType else WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _ranges(hint: Any) -> Iterator[str]:
    """The limits in an annotation, wherever they stand in it."""
    for each in typing.get_args(hint):
        if type(each) in SIGNS:
            sign, attribute = SIGNS[type(each)]
            if (limit := getattr(each, attribute)) != math.inf:
                yield f"{sign} {limit:,}"
        elif isinstance(each, Len):
            yield f"{each.min_length} to {each.max_length} characters"
        else:
            yield from _ranges(each)


def _literal(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
