"""A training that starts from another run: what it takes over, and what the recipe chooses otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seqwright.config.recipe import Choice, Recipe, merged
from seqwright.data.task import Kind, task_class
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, Problem
from seqwright.models import ENCODERS
from seqwright.models.building import parts_of, resolve
from seqwright.models.building.transfer import with_defaults
from seqwright.recipes.bases.starting import gentle
from seqwright.training.warm_start import Start

TIMES = 4  # an input may be so many times as long as those that an encoder was trained with
DROPOUT = 0.2  # of an encoder that is taken over, at most: it overfits less than a new one


def started(
    choose: Callable[[Mapping[str, Any]], Recipe], start: Start, task: str, requested: Mapping[str, Any]
) -> Recipe:
    """Return the recipe that `choose` makes for a request, with what is taken over from a run in place of its
    own choices.
    """
    if start.config.task == task:
        table = {key: start.run.config[key] for key in ("tokenizer", "model")}
        reason = f"those of {start.path}, which is fine-tuned"
        return choose(requested).over(Choice("tokenizers and model", table, reason))
    start.check_transfer(task)
    source, asked = start.config.tokenizer.source, requested.get("tokenizer", {})
    if asked.get("source", source) != source:
        rule = f"the encoder of {start.path} reads with its own tokenizer; leave it out"
        raise ConfigError(Problem("tokenizer.source", asked["source"], rule))
    kind = start.encoder()[1]["kind"]
    known = {"tokenizer": {"source": source}, "model": {"encoder": {"kind": kind}}}
    recipe = choose(merged(requested, known))
    table = recipe.table()
    model = resolve(merged(table.get("model", {}), requested.get("model", {})))
    if "encoder" not in parts_of(model["kind"]):
        return recipe  # refused when the training begins
    others = (choice for choice in recipe.choices if not choice.table.keys() & {"tokenizer", "model"})
    taken = (_tokenizer(table, start, task), *_parts(model, start, requested.get("model", {})))
    return Recipe((*taken, *others, *_gentle(merged(table, requested), start)))


def _tokenizer(table: Mapping[str, Any], start: Start, task: str) -> Choice:
    tokenizer: dict[str, Any] = {"source": start.config.tokenizer.source}
    if sum(role.kind is Kind.TEXT for role in task_class(task).roles) > 1:
        tokenizer |= {"joint": False, "target": table["tokenizer"]["target"]}
    reads = start.task.reads
    assert reads is not None  # checked above
    ids = f", {reads.kind} with {pluralize(reads.size, 'id')}"
    reason = "the encoder knows its ids; new characters get ids behind them"
    return Choice(f"tokenizer of {start.path}{ids}", {"tokenizer": tokenizer}, reason)


def _parts(model: Mapping[str, Any], start: Start, requested: Mapping[str, Any]) -> Iterator[Choice]:
    """Yield the encoder that is taken over into a model, and the parts that are new."""
    part, taken = start.encoder()
    own, known = requested.get("encoder", {}), ENCODERS.options(taken["kind"])
    wanted = {key: value for key, value in requested.items() if key in known}
    wanted |= own if isinstance(own, Mapping) else {"kind": own}
    dropout = min(model["encoder"].get("dropout", DROPOUT), DROPOUT)
    unset = {key: value for key, value in with_defaults(taken).items() if key in model["encoder"]}
    encoder = {**unset, **taken, "dropout": dropout, **wanted}
    described = {**model, "encoder": encoder} | ({"share": False} if "share" in model else {})
    direction = " as an encoder that reads from left to right" if part == "decoder" else ""
    sizes = f"{start.parameters(part):,} parameters, dropout {encoder['dropout']:g}"
    yield Choice(
        f"{part} of {start.path}{direction}, {sizes}",
        {"model": described},
        f"trained by {start.config.task} on {shorten_list(start.config.data.train)}",
    )
    for other in parts_of(model["kind"]):
        if other != "encoder":
            has = f"the {other} {start.model[other]['kind']}" if other in start.model else f"no {other}"
            reason = f"{start.path} has {has}"
            yield Choice(f"new {other}, {model[other]['kind']}", {}, reason)


def _gentle(table: Mapping[str, Any], start: Start) -> Iterator[Choice]:
    """Yield a lower rate for what is taken over, a short warm-up, and inputs that fit its positions."""
    yield gentle()
    window = start.config.data.max_length
    position = start.encoder()[1].get("position")
    places = position.get("length") if isinstance(position, Mapping) else None
    most = min(TIMES * window, places - 1 if isinstance(places, int) else math.inf)
    if table.get("data", {}).get("max_length", 0) > most:
        reason = f"the encoder was trained with {window} tokens"
        reason += "" if places is None else f", and has {places} positions"
        yield Choice(f"the first {most} tokens of a text", {"data": {"max_length": most}}, reason)
