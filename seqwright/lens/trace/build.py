"""Build the trace of one text: decode it, then run the model along the output and record every layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqwright.config.registry import snake_case
from seqwright.data.batch import BEGIN, END
from seqwright.lens.heads.gates import KINDS, SIDES, Side, sides, sites
from seqwright.lens.heads.importance import gate_gradients
from seqwright.lens.trace import entries, rollout, steps
from seqwright.lens.trace.ablation import ablation_limit, predicted_without_heads, without_each_head
from seqwright.lens.trace.branches import affordable_steps, branches
from seqwright.lens.trace.contract import Searcher, text_task
from seqwright.lens.trace.contributions import contributions, contributions_limit
from seqwright.lens.trace.document import FORMAT, KINDS_OF_TRACE, NAMES, WHAT, Trace, prompted_kinds
from seqwright.lens.trace.grid_positions import learned_positions, position_similarity
from seqwright.lens.trace.identity import program_and_run, weights_of
from seqwright.lens.trace.packing import pack
from seqwright.lens.trace.pieces import symbol_text, text_pieces
from seqwright.lens.trace.readout import NEXT, Readout, Retrieval, check_text
from seqwright.lens.trace.recorders import (
    AttentionRecord,
    KindShapes,
    RecurrentRecord,
    after_prompt,
    numpy,
    record_layers,
    record_pooling,
)
from seqwright.lens.trace.saliency import saliency_entry
from seqwright.lens.trace.steps import DecodedPath, Path, rounded
from seqwright.lens.trace.sublayers import block_entries, record_blocks
from seqwright.models import Model, eval_mode
from seqwright.models.pointer_generator import PointerGenerator
from seqwright.nn.blocks import Block
from seqwright.nn.pooling import Pooling
from seqwright.nn.recurrent import Recurrent
from seqwright.search import BeamOptions, Lattice

SEARCH = ("n_best", "length_penalty", "length_rule", "max_length")  # options in the trace
PROMPTED = "the decoder reads the source and the output as one sequence"
CHOSEN = "the output was chosen, not found by the search that an ablation repeats"
PARTS = "reads its input in parts, so its numbers are not those of single tokens of the text"
COMPRESSED = "attends to compressed keys, so its weights are not those of single tokens"
COPIED = "copied"  # the kind of the probabilities that a pointer_generator copies each token of the source
SIDE_NAMES: dict[str, Side] = {"source": "encoder", "prefix": "decoder"}  # of contributions
Absent = dict[str, str]  # a part of the trace that is left out -> the reason


def look(
    predictor: Searcher,
    text: str,
    *,
    options: BeamOptions,
    reference: str | None = None,
    chosen: str | None = None,
    ablate: bool = True,
    branch: bool = True,
    config: Mapping[str, Any] | None = None,
    step: int | None = None,
    member: tuple[int, int] | None = None,
    size: int = entries.ARRAYS_SIZE,
) -> Trace:
    """Return the trace of one text.

    chosen: the output to look into, by default the best one. ablate: decode again without each head. branch:
    continue after alternative pieces. config, step and member (number, count of an ensemble) describe the
    model. size: characters for packed arrays.
    """
    model, task = predictor.model, text_task(predictor.task)
    row = task.source.encode(text)
    check_text(text, len(row), predictor.longest)
    lattice, absent = Lattice(), Absent()
    with eval_mode(model):
        (hypotheses,) = predictor.search_tokens([row], [[]], options, recorder=lattice)
        path = DecodedPath.of(row, [], prompted="encoder" not in sides(model))
        best = hypotheses[0] if chosen is None else steps.written(model, task, chosen, path, hypotheses)
        path = path.instead(best)
        given = None if reference is None else replace(path, tokens=[*task.target.encode(reference), END])
        scored = given and steps.scored_reference(model, task, reference or "", given)
        inside = _inside(model, path, absent, size)
        reason = ablation_limit(model, path) if ablate else "ablations were not requested"
        if reason := CHOSEN if best.tokens != hypotheses[0].tokens else reason:
            ablate, absent["ablations"] = False, reason
        count, wanted = affordable_steps(model, path), len(path.tokens)
        if not branch:
            absent["branches"] = "branches were not requested"
        elif count < wanted:
            done = f"only the first {count} have them" if count else "they are left out"
            absent["branches"] = f"branches for all {wanted} steps would take too long; {done}"
        document = {
            **_head(model, config, step, member),
            "names": NAMES,
            "text": text,
            "source": text_pieces(task.source, text),
            "output": steps.output(task, best),
            "axes": {},
            "reference": scored,
            "hypotheses": [steps.hypothesis(task, one) for one in hypotheses],
            "search": {"beam": options.size, **{name: getattr(options, name) for name in SEARCH}},
            "lattice": steps.lattice_columns(lattice),
            **inside,
            "ablations": without_each_head(predictor, path, options) if ablate else None,
            "branches": branches(predictor, path, inside["steps"][:count], options) if branch else None,
        }
    ids = {BEGIN, *path.tokens, *(given.tokens if given else ()), *document["lattice"]["token"]}
    return _finished(document, absent, ids, partial(symbol_text, task.target))


def look_at(
    model: Model,
    readout: Readout,
    *,
    ablate: bool = True,
    config: Mapping[str, Any] | None = None,
    step: int | None = None,
    member: tuple[int, int] | None = None,
    size: int = entries.ARRAYS_SIZE,
) -> Trace:
    """Return the trace of an input and its predictions. The options are those of `look`."""
    unsearched = "the predictions are not found by a search"
    if readout.decoded:
        unsearched = "the search of this task is not traced"
    absent = Absent.fromkeys(("lattice", "branches"), unsearched)
    with eval_mode(model):
        inside = _inside(model, readout, absent, size)
        if reason := ablation_limit(model, readout) if ablate else "ablations were not requested":
            ablate, absent["ablations"] = False, reason
        document = {
            **_head(model, config, step, member),
            "names": {**NAMES, **readout.names},
            "text": readout.text,
            "source": readout.source,
            "output": {
                "given": readout.given,
                "decoded": readout.decoded,
                **readout.output,
                "finish_reason": "end",
                "score": None,
            },
            "axes": readout.axes,
            **({} if readout.image is None else {"image": dict(readout.image)}),
            **({} if readout.neighbours is None else {"neighbours": dict(readout.neighbours)}),
            "reference": None,
            "hypotheses": [],
            "search": None,
            "lattice": None,
            **inside,
            "ablations": predicted_without_heads(model, readout) if ablate else None,
            "branches": None,
        }
    for one, place in zip(inside["steps"], readout.scored or (), strict=False):
        one["place"] = place
    own = zip(inside["steps"], readout.output["pieces"], strict=True)
    scores = [one["log_prob"] for one, piece in own if piece.get("special") != NEXT]
    document["output"]["log_prob"] = None if None in scores else rounded(math.fsum(scores))
    return _finished(document, absent, set(readout.tokens), readout.symbol)


def _head(
    model: Model, config: Mapping[str, Any] | None, step: int | None, member: tuple[int, int] | None
) -> dict[str, Any]:
    """The format of a trace, and the model."""
    return {
        "format": FORMAT,
        "what": WHAT,
        "model": {**_model(model, step), "member": None if member is None else list(member)},
        **program_and_run(config),
    }


def _finished(document: dict[str, Any], absent: Absent, ids: set[int], symbol: Callable[[int], str]) -> Trace:
    """The trace, with the text of every id in it."""
    ids |= set(Trace(document).logits()[0].flatten().tolist())
    symbols = {str(number): symbol(number) for number in sorted(ids)}
    return Trace({**document, "symbols": symbols, "absent": absent})


def _inside(model: Model, path: Path, absent: Absent, size: int) -> dict[str, Any]:
    """The layers along an output: all attention weights, and as many other arrays as the size allows."""
    read = path.lengths
    source, tokens = read.get("encoder", 0), read.get("decoder", 0)
    kinds = {**KINDS_OF_TRACE, **_own_kinds(path)}
    looked_at = kinds["cross"]["columns"]  # the tokens of the source, or its parts
    keys = path.count(looked_at) if isinstance(path, Readout) and looked_at != "source" else source
    lengths: KindShapes = {"enc": (source, source), "dec": (tokens, tokens), "cross": (tokens, keys)}
    with (
        torch.inference_mode(),
        record_layers(model, lengths, size) as (every_attention, every_recurrent),
        record_blocks(model, read, size) as every_block,
        record_pooling(model) as pooling,
    ):
        logits = path.logits(model)[0]  # (T, V)
    attentions = [one for one in every_attention if one.complete]
    recurrent = [one for one in every_recurrent if one.covers(read[one.side])]
    blocks = [one for one in every_block if len(one.start) == read[one.side]]
    if path.prompted:
        attentions, recurrent, blocks = after_prompt(attentions, path.prompt), [], []
    attention = entries.attention_entries(attentions, size)
    if isinstance(path, Readout):
        attention += entries.pooling_entries(path, pooling)
        kinds |= {one.kind: one.axes for name, one in path.pooled.items() if name in pooling}
        absent |= _pooling_reason(model, pooling)
    image = path if isinstance(path, Readout) and path.image is not None else None
    layers = [one for one in attentions if one.site.kind == "enc"]
    if image and layers and all(one.block == (1, 1) for one in layers):
        rolled = rollout.attention_rollout([one.weights for one in layers])
        attention.append(entries.single_entry(rollout.KIND, "encoder", rolled))
        kinds[rollout.KIND] = rollout.AXES
    if isinstance(model, PointerGenerator):
        with torch.inference_mode():
            copied = numpy(model.copied(path.batch)[0])  # (T, S)
        attention.append(entries.single_entry(COPIED, "pointer", copied))
        kinds[COPIED] = {"title": "Copied from the source", "rows": "steps", "columns": "source"}
    budget = entries.SizeBudget(size - sum(map(entries.packed_size, attention)))
    of_image = _of_image(model, image, budget, absent) if image else {}
    packed, shares = _contributions(model, path, budget, absent)
    step_entries, stored_logits = steps.step_entries(logits, path.tokens, shares)
    backward = getattr(sides(model).get("encoder"), "reverse", False)
    recurrent_stored, missing = entries.recurrent_entries(recurrent, backward, budget)
    blocks_stored = block_entries(blocks, entries.SizeBudget(budget.left // 2))
    budget.left -= sum(map(entries.packed_size, blocks_stored))
    missing += entries.add_vectors(attention, attentions, budget)
    absent |= _reasons(model, attentions, recurrent, missing, len(blocks_stored))
    if path.prompted:
        absent |= dict.fromkeys(("enc", "vectors", "recurrent", "blocks"), PROMPTED)
    return {
        "steps": step_entries,
        "logits": stored_logits,
        "kinds": kinds,
        "attention": attention,
        "heads": _heads(model, path, attentions, absent),
        "recurrent": recurrent_stored,
        "blocks": blocks_stored,
        "contributions": packed,
        **of_image,
    }


def _own_kinds(path: Path) -> Mapping[str, Mapping[str, str]]:
    """The kinds of attentions whose axes or titles are those of the model or of the task."""
    names, own = (path.names, path.kinds) if isinstance(path, Readout) else ({}, {})
    return {**(prompted_kinds({**NAMES, **names}) if path.prompted else {}), **own}


def _of_image(model: Model, readout: Readout, budget: entries.SizeBudget, absent: Absent) -> dict[str, Any]:
    """The saliency of an image that is classified, and the similarity of the positions of its cells."""
    found: dict[str, Any] = {"saliency": None, "positions": None}
    if readout.decoded:
        absent["saliency"] = "it is computed for labels, and the output is a text"
    else:
        found["saliency"] = saliency_entry(model, readout, budget)
        if found["saliency"] is None:
            absent["saliency"] = "it would make the trace too large"
    positions = learned_positions(model)
    if positions is None:
        absent["positions"] = "the model does not learn positions of the cells"
        return found
    packed = {"similarity": pack(position_similarity(positions))}
    if budget.reserve(packed):
        return {**found, "positions": packed}
    absent["positions"] = "they would make the trace too large"
    return found


def _contributions(
    model: Model, path: Path, budget: entries.SizeBudget, absent: Absent
) -> tuple[dict[str, Any] | None, list[float] | None]:
    """The packed contributions, and the share of the source in those to each step, if there are two sides."""
    if reason := contributions_limit(model, path):
        absent["contributions"] = reason
        return None, None
    parts, shares = contributions(model, path), None
    if isinstance(path, Readout) and path.embedded is not None:
        parts["encoder"] = parts["encoder"][:, list(path.embedded)]
    if path.prompted:
        whole, end = parts.pop("decoder"), path.prompt
        parts = {"encoder": whole[:, :end], "decoder": whole[:, end:]}
    if len(parts) == len(SIDES):
        by_source, by_prefix = (np.abs(parts[side]).sum(axis=1, dtype=np.float64) for side in SIDES)
        shares = (by_source / np.maximum(by_source + by_prefix, 1e-30)).tolist()
    arrays = {name: pack(parts[side]) if side in parts else None for name, side in SIDE_NAMES.items()}
    packed = {"method": "gradient × input", **arrays}
    if budget.reserve(packed):
        return packed, shares
    rest = "; each step has the share of the source" if shares else ""
    absent["contributions"] = f"they would make the trace too large{rest}"
    return None, shares


def _pooling_reason(model: Model, recorded: Mapping[str, Tensor]) -> dict[str, str]:
    """Why there are no weights of an attention pooling."""
    pooling = next((part for part in model.modules() if isinstance(part, Pooling)), None)
    return {} if recorded or pooling is None else {"pool": f"the head reads {pooling.summary}"}


def _reasons(
    model: Model,
    attentions: Sequence[AttentionRecord],
    recurrent: Sequence[RecurrentRecord],
    missing: int,
    stored_blocks: int,
) -> Iterator[tuple[str, str]]:
    """The reasons for missing attentions, weights, vectors, recurrent layers and blocks."""
    kinds, families = {one.site.kind for one in attentions}, _families(model)
    gone = {side: f"this model has no {side}" for side in SIDES if side not in families}
    compressed = {site.kind for site in sites(model) if not site.by_token}
    unfit = {site.kind for site in sites(model)} - kinds - compressed
    if "enc" not in kinds:
        other = PARTS if "enc" in unfit else "has no self-attention"
        other = COMPRESSED if "enc" in compressed else other
        yield "enc", gone.get("encoder") or f"the encoder ({families['encoder']}) {other}"
    if "dec" not in kinds:
        other = PARTS if "dec" in unfit else "has no self-attention; it keeps its output in its state"
        other = COMPRESSED if "dec" in compressed else other
        yield "dec", gone.get("decoder") or f"the decoder ({families['decoder']}) {other}"
    if "cross" not in kinds:
        reason = "the decoder has no cross-attention; it receives the source as one vector of fixed size"
        if gone:
            reason = f"{next(iter(gone.values()))}, so no output is aligned with a source"
        yield "cross", reason
    if any(one.block != (1, 1) for one in attentions):
        yield "attention", "the text is long: neighbouring weights are stored as one (see `block`)"
    if not recurrent:
        some = any(isinstance(part, Recurrent) for part in model.modules())
        yield "recurrent", f"the model {PARTS}" if some else "the model has no recurrent layers"
    if missing:
        yield "vectors", f"the vectors or gates of {missing} layers would make the trace too large"
    count = sum(isinstance(part, Block) for part in model.modules())
    if not count:
        yield "blocks", "the model has no Transformer blocks"
    elif unfit:
        yield "blocks", f"the model {PARTS}"
    elif stored_blocks < count:
        left_out = count - stored_blocks
        yield "blocks", f"the numbers of {left_out} of {count} blocks would make the trace too large"


def _families(model: Model) -> dict[Side, str]:
    return {side: snake_case(type(part).__name__) for side, part in sides(model).items()}


def _heads(
    model: Model, path: Path, attentions: Sequence[AttentionRecord], absent: Absent
) -> list[dict[str, Any]]:
    """The role and the importance of each head, in this text alone."""
    importance: dict[tuple[str, int], list[float | None]] = {}
    if any(one.block != (1, 1) for one in attentions):
        absent["importance"] = "the text is long: the gradients by its gates would take too much memory"
    elif isinstance(path, Readout) and path.image is not None and "enc" in {o.site.kind for o in attentions}:
        absent["importance"] = "the encoder reads an image, not tokens"
    elif path.prompted:
        absent["importance"] = PROMPTED
    elif isinstance(path, Retrieval):
        absent["importance"] = "a reply is retrieved, and has no loss of its own"
    elif isinstance(path, Readout) and path.axes:
        absent["importance"] = f"the model {PARTS}"
    elif any(one.behaviours for one in attentions):
        found = gate_gradients(model, [path.batch])
        importance = {key: each.normalised().by_token.tolist() for key, each in found.items()}
    rows = []
    for one in attentions:
        values = importance.get(one.site.key, [None] * len(one.behaviours))
        for head, behaviour, value in zip(one.site.heads, one.behaviours, values, strict=True):
            role, rate = next(iter(behaviour.roles(head.kind).items()), (None, None))
            rows.append(
                {
                    **head._asdict(),
                    "confidence": rounded(behaviour.confidence),
                    "entropy": rounded(behaviour.entropy),
                    "role": role,
                    "offset": behaviour.offset,
                    "rate": rounded(rate),
                    "importance": rounded(value),
                }
            )
    return rows


def _model(model: Model, step: int | None) -> dict[str, Any]:
    families = _families(model)
    return {
        **{side: families.get(side) for side in SIDES},
        **weights_of(model),
        "layers": {kind: sum(site.kind == kind for site in sites(model)) for kind in KINDS},
        "step": step,
    }
