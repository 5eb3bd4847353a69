"""The configuration of a training: tables of options, read from TOML, JSON or `key=value`, checked all at
once.

Every default stands once: here, or in the signature of the part that an open table (model, optimizer,
tokenizer, …) describes.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Gt, Le, Len, Lt

from seqwright.config.registry import Count, unknown
from seqwright.errors import ConfigError

FORMAT = 1

Spec = str | dict[str, Any]
Share = Annotated[float, Ge(0), Lt(1)]
Seed = Annotated[int, Ge(0), Lt(2**63)]
Amount = Annotated[float, Gt(0), Lt(math.inf)]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pairs come from."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # none: a share of the training sources is held out, with all their pairs
    test: tuple[str, ...] = ()
    format: Literal["parallel", "tsv", "csv", "jsonl"] | None = None  # none: by the first lines
    delimiter: Annotated[str, Len(1, 1)] | None = None  # between the columns
    header: bool | None = None  # whether the first row names the columns
    columns: str | None = None  # "1,3:2": columns 1 and 3 make the source, column 2 is the target
    quoting: bool | None = None  # cells in double quotes; unsaid: only in CSV; else a quote is a character
    encoding: str = "utf-8"
    on_bad_bytes: Literal["error", "replace"] = "error"  # replace: by U+FFFD, and counted
    skip_bad_rows: bool = False  # leave out rows that do not fit the columns, and count them
    held_out: Annotated[float, Gt(0), Lt(0.5)] = (
        0.05  # of the sources for validation, and as many again for the test
    )
    split: Seed = 1  # another number holds out other sources; the seed of a training does not
    max_length: Count = 512  # pairs with a longer side, in tokens, are left out of training, and named


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How texts become ids: one tokenizer for both sides, or one for each."""

    joint: bool = False
    source: Spec = "characters"
    target: Spec = "characters"  # not looked at with joint = true
    sampled: bool = False  # cut the training texts anew in each epoch, where the tokenizers can


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the weights come about. One of steps, epochs and minutes says when it ends."""

    steps: Count | None = None
    epochs: Amount | None = None
    minutes: Amount | None = None
    tokens: Count = 1536  # target tokens in a batch, padding and ends included
    accumulate: Count = 1  # parts of a batch, computed by as many processes, or in turn to save memory
    optimizer: Spec = "adamw"
    schedule: Spec = "linear"
    smoothing: Share = 0.1
    clip: Annotated[float, Gt(0)] | None = 1.0
    average: Share = 0.998  # decay of the moving average of the weights that is validated and kept; 0: none
    validations: Count = 20  # how often in the whole training, unless validate_every says it
    validate_every: Count | None = None  # steps
    patience: Count | None = None  # stop after so many validations without a better one
    metric: str = "loss"  # what chooses the weights: the loss, or a metric of the decoded outputs
    decode: Annotated[int, Ge(0)] = 300  # sentences decoded at a validation
    traces: Annotated[int, Ge(0), Le(3)] = 1  # sources looked into at a validation, to play it back; 0: none
    keep: Count = 2  # checkpoints, beside that of the chosen weights
    save_seconds: Annotated[float, Gt(0)] = 60.0  # between two checkpoints at least


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How outputs are searched for when nothing else is asked."""

    beam: Count = 5
    length_penalty: Annotated[float, Ge(-10), Le(10)] = 1.0
    max_length: Count = 512


@dataclass(frozen=True, kw_only=True)
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: Spec = "tiny"
    start: str | None = None  # a run whose tokenizers and weights are the beginning: fine-tuning
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    seed: Seed = 1
    threads: Annotated[int, Ge(1)] | None = None  # of the CPU; none: as many as torch takes

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


def parse(table: Mapping[str, Any], open_keys: Callable[[], Iterable[str]] = tuple) -> Config:
    """A configuration from nested tables; all that is wrong is said in one error. `open_keys` are those of
    open tables, as model.dropout, to name where a key stands that was looked for elsewhere.
    """
    config, problems = read(table, open_keys)
    if problems:
        raise ConfigError("; ".join(problems))
    return config


def read(
    table: Mapping[str, Any], open_keys: Callable[[], Iterable[str]] = tuple
) -> tuple[Config, list[str]]:
    """As `parse`, with what is wrong beside a configuration of the rest."""
    from pydantic import TypeAdapter, ValidationError

    unknowns = _unknown_keys(table, Config, "")
    places = {key.rpartition(".")[2]: key for key in (*open_keys(), *_keys(Config))} if unknowns else {}
    problems = [
        unknown("key", key, known, places.get(key.rpartition(".")[2])) for key, known in unknowns.items()
    ]
    known, adapter = _known(table, Config), TypeAdapter(Config)
    try:
        config = adapter.validate_python(known)
    except ValidationError as error:
        problems += map(_problem, error.errors())
        for issue in error.errors():
            _take_out(known, issue["loc"])
        config = adapter.validate_python(known)
    return config, list(dict.fromkeys([*problems, *_contradictions(config, whole=not problems)]))


def _take_out(table: dict[str, Any], place: Sequence[str | int]) -> None:
    """The value there, or the one that it is a part of."""
    first, *rest = place
    if isinstance(inner := table.get(str(first)), dict) and rest:
        _take_out(inner, rest)
    else:
        table.pop(str(first), None)


def _problem(issue: Mapping[str, Any]) -> str:
    """One line for a value that does not fit; where a name or a table would do, both are said together."""
    place, message = issue["loc"], issue["msg"].lower()
    if place[-1] in ("str", "dict[str,any]"):
        place, message = place[:-1], "input should be a name or a table"
    elif issue["type"] == "dataclass_type":
        message = "input should be a table"
    elif issue.get("ctx", {}).get("lt") == math.inf:  # NaN is not less than it, either
        message = "input should be a finite number"
    return f"{'.'.join(map(str, place))} is {issue['input']!r}: {message}"


def _contradictions(config: Config, *, whole: bool) -> list[str]:
    """In the `whole` of a configuration, or in the rest of one, whose end may have been what was wrong."""
    ends = [name for name in ("steps", "epochs", "minutes") if getattr(config.training, name) is not None]
    found = []
    if len(ends) > 1 or (whole and not ends):
        found.append(f"training needs one of steps, epochs and minutes, not {' and '.join(ends) or 'none'}")
    if config.training.metric != "loss" and not config.training.decode:
        found.append(
            f"training.metric is {config.training.metric!r}, which needs outputs, and training.decode is 0; "
            "decode some sentences, or set the metric to loss"
        )
    return found


def _tables(kind: type) -> dict[str, type]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind) if is_dataclass(hints[f.name])}


def _unknown_keys(table: Mapping[str, Any], kind: type, path: str) -> dict[str, list[str]]:
    """Each key that there is not, with those that there are beside it."""
    known = [f.name for f in fields(kind)]
    found = {path + key: [path + name for name in known] for key in table if key not in known}
    for name, inner in _tables(kind).items():
        if isinstance(table.get(name), Mapping):
            found |= _unknown_keys(table[name], inner, f"{path}{name}.")
    return found


def _keys(kind: type, path: str = "") -> Iterator[str]:
    """Every key that is no table."""
    tables = _tables(kind)
    for each in fields(kind):
        if each.name in tables:
            yield from _keys(tables[each.name], f"{path}{each.name}.")
        else:
            yield path + each.name


def _known(table: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """What of a table can be checked. A part described without its name is of the default kind."""
    tables = _tables(kind)
    result: dict[str, Any] = {}
    for f in fields(kind):
        value = table.get(f.name)
        if isinstance(value, Mapping) and f.name in tables:
            result[f.name] = _known(value, tables[f.name])
        elif isinstance(value, Mapping) and isinstance(f.default, str):
            named = set(value) & ({"preset", "kind", "encoder", "decoder"} if f.name == "model" else {"kind"})
            result[f.name] = dict(value) if named else {_name_key(f.name): f.default, **value}
        elif f.name in table:
            result[f.name] = value
    return result


def _name_key(table: str) -> str:
    """Under which key a table says which part it describes."""
    return "preset" if table == "model" else "kind"


def read_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}") from error


def override(table: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """The table with `a.b=value` set in it; a value is read as TOML, and as a plain word where it is none."""
    result = _plain(dict(table))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{assignment!r} is not key=value")
        *path, last = key.strip().split(".")
        inner = result
        for part in path:
            nested = inner.get(part)
            if nested is not None and not isinstance(nested, str | dict):
                raise ConfigError(f"{assignment!r}: {part} is {nested!r} and no table that could hold {last}")
            inner[part] = {_name_key(part): nested} if isinstance(nested, str) else nested or {}
            inner = inner[part]
        inner[last] = _value(text.strip())
    return result


def _value(text: str) -> Any:
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return _plain(read["value"]) if len(read) == 1 else text  # a text of several lines may hold further keys


def _plain(value: Any) -> Any:
    """A copy in the types of JSON; paths, and the dates and times of TOML, are texts."""
    return json.loads(json.dumps(value, default=str))


def to_toml(table: Mapping[str, Any]) -> str:
    """Nested tables as TOML; what is None is left out."""
    lines: list[str] = []
    _write(table, "", lines)
    return "\n".join(lines).strip() + "\n"


def _write(table: Mapping[str, Any], path: str, lines: list[str]) -> None:
    for key, value in table.items():
        if value is not None and not isinstance(value, Mapping):
            lines.append(f"{_key(key)} = {_literal(value)}")
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{path}{_key(key)}]"]
            _write(value, f"{path}{_key(key)}.", lines)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: Any) -> str:
    """A value on one line, as TOML 1.0 writes it."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, Mapping):
        known = ((_key(key), _literal(item)) for key, item in value.items() if item is not None)
        return "{" + ", ".join(f"{key} = {item}" for key, item in known) + "}"
    if isinstance(value, float):
        return repr(value)  # inf and nan as TOML has them, too
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
