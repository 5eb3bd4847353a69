"""From a text to its trace: one decode, then one pass along its output with everybody watching."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from seqwright import __version__
from seqwright.config.registry import snake_case
from seqwright.data.batch import BEGIN
from seqwright.errors import InputError
from seqwright.lens.heads.gates import KINDS, Head, sites
from seqwright.lens.heads.importance import slopes
from seqwright.lens.heads.roles import Behaviour
from seqwright.lens.trace.ablation import too_much, without_each_head
from seqwright.lens.trace.branches import branches, reach
from seqwright.lens.trace.contributions import contributions, too_long
from seqwright.lens.trace.document import FORMAT, WHAT, Trace
from seqwright.lens.trace.entries import (
    ROOM,
    CacheBuffer,
    add_vectors,
    attention_entries,
    packed_size,
    recurrent_entries,
)
from seqwright.lens.trace.packing import pack
from seqwright.lens.trace.pieces import symbol_text, text_pieces
from seqwright.lens.trace.recorders import Lengths, Passes, Watched, watch
from seqwright.lens.trace.steps import Said, columns, hypothesis, judged, log_probs, output, rounded, steps
from seqwright.lens.trace.sublayers import Flow, Part, block_entries, watch_blocks
from seqwright.models import Model
from seqwright.nn.blocks import Block
from seqwright.search import BeamOptions, Hypothesis, Lattice
from seqwright.tasks.text_to_text import TextToText

Absent = dict[str, str]  # what is left out, and a sentence that says why


class Searcher(Protocol):
    """What looking needs of a predictor."""

    @property
    def model(self) -> Model: ...

    @property
    def task(self) -> TextToText: ...

    @property
    def longest(self) -> int: ...

    def search_tokens(
        self,
        rows: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        options: BeamOptions,
        places: Sequence[int] = (),
        recorder: Lattice | None = None,
    ) -> list[list[Hypothesis]]: ...


def look(
    predictor: Searcher,
    text: str,
    *,
    options: BeamOptions,
    reference: str | None = None,
    ablate: bool = True,
    branch: bool = True,
    config: Mapping[str, Any] | None = None,
    step: int | None = None,
    member: tuple[int, int] | None = None,
    room: int = ROOM,
) -> Trace:
    """The trace of one text. `ablate` decodes again without each head, `branch` after other pieces; `config`
    and `step`, those of the training that the model comes from, are noted in it, and so is which `member` of
    how many it is, if several speak together; `room` is for packed arrays, in characters.
    """
    model, task, row = predictor.model, predictor.task, predictor.task.source.encode(text)
    _check(text, len(row), predictor.longest)
    lattice, absent = Lattice(), Absent()
    with _at_rest(model):
        (hypotheses,) = predictor.search_tokens([row], [[]], options, recorder=lattice)
        best = hypotheses[0]
        said = Said.of(row, best.tokens, ended=best.finish_reason == "end")
        given = None if reference is None else Said.of(row, task.target.encode(reference))
        inside = _inside(model, said, absent, room)
        document = {
            "format": FORMAT,
            "what": WHAT,
            "version": __version__,
            "text": text,
            "source": text_pieces(task.source, text),
            "output": output(task, best),
            "reference": None if given is None else judged(model, task, reference or "", given),
            "hypotheses": [hypothesis(task, one) for one in hypotheses],
            "search": _how(options),
            "lattice": columns(lattice),
            **inside,
            "ablations": _ablations(predictor, options, said, absent) if ablate else None,
            "branches": _branches(predictor, options, said, inside["steps"], absent) if branch else None,
            "model": {**_model(model, step), "member": None if member is None else list(member)},
            "config": None if config is None else {k: v for k, v in config.items() if k != "data"},
            "seed": None if config is None else config.get("seed"),
        }
    if not ablate:
        absent["ablations"] = "it was not asked to switch off heads"
    if not branch:
        absent["branches"] = "it was not asked to go on after other pieces"
    ids = _mentioned(document, said, given)
    document["symbols"] = {str(number): symbol_text(task.target, number) for number in ids}
    return Trace({**document, "absent": absent})


def _check(text: str, tokens: int, longest: int) -> None:
    if not text or text.isspace():
        raise InputError(f"there is nothing to look at in {text!r}; give a text")
    if tokens > longest:
        raise InputError(
            f"the text has {tokens:,} tokens, and the model reads {longest:,}; shorten it to look at it"
        )


def _inside(model: Model, said: Said, absent: Absent, size: int) -> dict[str, Any]:
    """What happened on the way along an output: all weights, and of the rest what there is room for."""
    logits, watched, passes, flows = _watched(model, said, size)
    entries = attention_entries(watched, size)
    room = CacheBuffer(size - sum(map(packed_size, entries)))
    drawn = _contributions(model, said, absent)
    told, stored = steps(logits, said.tokens, None if drawn is None else _source_shares(*drawn))
    packed = None if drawn is None else _packed_contributions(*drawn, room, absent)
    cells, missing = recurrent_entries(passes, getattr(model.encoder, "reverse", False), room)
    blocks = block_entries(flows, CacheBuffer(room.left // 2))
    room.left -= sum(map(packed_size, blocks))
    missing += add_vectors(entries, watched, room)
    absent |= _reasons(model, watched, passes, missing)
    absent |= _blocks_missing(model, len(blocks))
    return {
        "steps": told,
        "logits": stored,
        "attention": entries,
        "heads": _heads(model, said, watched, absent),
        "recurrent": cells,
        "blocks": blocks,
        "contributions": packed,
    }


def _contributions(model: Model, said: Said, absent: Absent) -> tuple[np.ndarray, np.ndarray] | None:
    if reason := too_long(model, said):
        absent["contributions"] = reason
        return None
    return contributions(model, said)


def _watched(model: Model, said: Said, room: int) -> tuple[Tensor, list[Watched], list[Passes], list[Flow]]:
    """The logits (T, V) along an output, and what the parts did."""
    source, tokens = len(said.source), len(said.tokens)
    lengths: Lengths = {"enc": (source, source), "dec": (tokens, tokens), "cross": (tokens, source)}
    places: dict[Part, int] = {"encoder": source, "decoder": tokens}
    with (
        torch.inference_mode(),
        watch(model, lengths, room) as (watched, passes),
        watch_blocks(model, places, room) as flows,
    ):
        logits = model(said.batch())[0].float()
        return logits, watched, passes, flows


def _reasons(
    model: Model, watched: Sequence[Watched], passes: Sequence[Passes], missing: int
) -> Iterator[tuple[str, str]]:
    """Why kinds of attention, blocks of weights, vectors or cells are not there."""
    kinds = {one.at.kind for one in watched}
    if "enc" not in kinds:
        yield "enc", f"the encoder ({_kind(model.encoder)}) has no attention of its own"
    if "dec" not in kinds:
        yield (
            "dec",
            f"the decoder ({_kind(model.decoder)}) remembers what it said in its state, without attention",
        )
    if "cross" not in kinds:
        yield "cross", "the decoder has no attention: it knows the source by one vector of fixed size"
    if any(one.block != (1, 1) for one in watched):
        yield "attention", "the text is long: neighbouring places are stored together, as `block` says"
    if not passes:
        yield "recurrent", "the model has no recurrent layer"
    if missing:
        yield "vectors", f"vectors or gates of {missing} layers would make the trace too large"


def _blocks_missing(model: Model, stored: int) -> Iterator[tuple[str, str]]:
    count = sum(isinstance(part, Block) for part in model.modules())
    if not count:
        yield "blocks", "the model has no block of a Transformer"
    elif stored < count:
        yield "blocks", f"the numbers of {count - stored} of {count} blocks would make the trace too large"


def _kind(part: object) -> str:
    return snake_case(type(part).__name__)


def _heads(model: Model, said: Said, watched: Sequence[Watched], absent: Absent) -> list[dict[str, Any]]:
    """What each head does and how much it matters, in this text alone."""
    importance: dict[tuple[str, int], list[float | None]] = {}
    if any(one.block != (1, 1) for one in watched):
        absent["importance"] = "the text is long: the gradients of its gates would take too much memory"
    elif any(one.behaviours for one in watched):
        found = slopes(model, [said.batch()])
        importance = {place: each.normalised().by_token.tolist() for place, each in found.items()}
    rows = []
    for one in watched:
        values = importance.get((one.at.kind, one.at.layer), [None] * len(one.behaviours))
        rows += [
            _head(head, behaviour, value)
            for head, behaviour, value in zip(one.at.heads, one.behaviours, values, strict=True)
        ]
    return rows


def _head(head: Head, behaviour: Behaviour, importance: float | None) -> dict[str, Any]:
    role, rate = next(iter(behaviour.roles(head.kind).items()), (None, None))
    return {
        **head._asdict(),
        "confidence": rounded(behaviour.confidence),
        "entropy": rounded(behaviour.entropy),
        "role": role,
        "offset": behaviour.offset,
        "rate": rounded(rate),
        "importance": rounded(importance),
    }


def _ablations(
    predictor: Searcher, options: BeamOptions, said: Said, absent: Absent
) -> list[dict[str, Any]] | None:
    model, task = predictor.model, predictor.task
    if reason := too_much(model, said):
        absent["ablations"] = reason
        return None
    row, chosen = said.source[:-1], torch.tensor(said.tokens)[:, None]
    return without_each_head(
        model,
        said,
        decode=lambda: predictor.search_tokens([row], [[]], options)[0][0],
        score=lambda: float(log_probs(model, said).gather(1, chosen).sum()),
        text=task.text,
    )


def _branches(
    predictor: Searcher,
    options: BeamOptions,
    said: Said,
    steps: Sequence[Mapping[str, Any]],
    absent: Absent,
) -> list[dict[str, Any]]:
    count = reach(predictor.model, said)
    if count < len(steps):
        done = f"it was done for the first {count}" if count else "it was left out"
        absent["branches"] = f"to go on after other pieces at all {len(steps)} steps would take long; {done}"
    row = said.source[:-1]

    def search(prefixes: Sequence[Sequence[int]], greedy: BeamOptions) -> list[Hypothesis]:
        return [best for best, *_ in predictor.search_tokens([row] * len(prefixes), prefixes, greedy)]

    return branches(predictor.task, said, steps[:count], options, search=search)


def _source_shares(source: np.ndarray, prefix: np.ndarray) -> list[float]:
    """The part of the source in the magnitudes of each step (T,)."""
    one, other = (np.abs(part).sum(axis=1, dtype=np.float64) for part in (source, prefix))
    return (one / np.maximum(one + other, 1e-30)).tolist()


def _packed_contributions(
    source: np.ndarray, prefix: np.ndarray, room: CacheBuffer, absent: Absent
) -> dict[str, Any] | None:
    packed = {"method": "gradient × input", "source": pack(source), "prefix": pack(prefix)}
    if room.admits(packed):
        return packed
    absent["contributions"] = "they would make the trace too large; each step has the share of the source"
    return None


def _how(options: BeamOptions) -> dict[str, Any]:
    return {
        "beam": options.size,
        "n_best": options.n_best,
        "length_penalty": options.length_penalty,
        "length_rule": options.length_rule,
        "max_length": options.max_length,
    }


def _model(model: Model, step: int | None) -> dict[str, Any]:
    return {
        "encoder": _kind(model.encoder),
        "decoder": _kind(model.decoder),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "weights": f"sha256:{_digest(model)}",
        "layers": {kind: sum(site.kind == kind for site in sites(model)) for kind in KINDS},
        "step": step,
    }


def _digest(model: Model) -> str:
    total = hashlib.sha256()
    for name, weight in sorted(model.weights().items()):
        total.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        total.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _mentioned(document: Mapping[str, Any], said: Said, given: Said | None) -> list[int]:
    """The ids of the target that a document speaks of."""
    trace = Trace(document)
    return sorted(
        {BEGIN, *said.tokens, *([] if given is None else given.tokens), *document["lattice"]["token"]}
        | set(trace.logits()[0].flatten().tolist())
    )


@contextmanager
def _at_rest(model: Model) -> Iterator[None]:
    """Without dropout inside the block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
