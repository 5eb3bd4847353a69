"""Synthetic traces: every shape that docs/trace.md allows, small and deterministic."""

from __future__ import annotations

import base64
import itertools
import math
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqwright.lens.trace.document import FORMAT, KINDS_OF_TRACE, NAMES

SIZE = 8  # of a head
WORDS = (
    "le",
    "la",
    "chat",
    "chien",
    "noir",
    "dort",
    "sur",
    "un",
    "tapis",
    "mange",
    "petit",
    "grand",
    "et",
    "dans",
)
BEGIN, END, FIRST = 1, 2, 3
BEAM = 4
BRANCHED = 4  # steps with branches
Document = dict[str, Any]


@dataclass
class Shape:
    """What to make a trace of. Layers are numbers of heads, one for each layer."""

    text: str = "the small black cat sleeps on the mat"
    output: str = "le petit chat noir dort sur le tapis"
    enc: list[int] = field(default_factory=lambda: [4, 4, 4])
    dec: list[int] = field(default_factory=lambda: [4, 4, 4])
    cross: list[int] = field(default_factory=lambda: [4, 4, 4])
    encoder: str = "transformer"
    decoder: str = "transformer"
    cell: str | None = None
    score: str = "scaled_dot"
    step: int | None = None
    sharpness: float = 3.0
    vectors: bool = True
    block: int = 1
    seed: int = 0


def pack(array: np.ndarray) -> Document:
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)).decode()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def pieces(text: str, ids: dict[str, int], *, ends: bool = True) -> Document:
    """Runs of at most three characters; the space belongs to the piece after it."""
    words: list[Document] = []
    found: list[Document] = []
    place = 0
    for number, word in enumerate(text.split(" ") if text else []):
        start = place + (number > 0)
        words.append({"text": word, "start": start, "end": start + len(word)})
        cuts = [start - (number > 0), *range(start + 3, start + len(word), 3), start + len(word)]
        for left, right in itertools.pairwise(cuts):
            part = text[left:right]
            token = ids.setdefault(part, FIRST + len(ids))
            found.append({"id": token, "text": part, "start": left, "end": right, "word": number})
        place = start + len(word)
    if ends:
        end = len(text)
        found.append({"id": END, "text": "", "start": end, "end": end, "word": None, "special": "end"})
    return {"text": text, "pieces": found, "words": words}


def make_trace(shape: Shape | None = None, **changes: Any) -> Document:
    """A document whose numbers agree: weights come from their vectors, scores add up."""
    shape = shape or Shape(**changes)
    random = np.random.default_rng(shape.seed)
    source = pieces(shape.text, {})
    ids: dict[str, int] = {}
    output = pieces(shape.output, ids)
    for word in WORDS:
        ids.setdefault(word, FIRST + len(ids))
    symbols = {str(number): text for text, number in ids.items()} | {str(BEGIN): "⟨begin⟩", str(END): "⟨end⟩"}
    tokens = [piece["id"] for piece in output["pieces"]]
    steps, logits = make_steps(random, tokens, FIRST + len(ids), shape.sharpness)
    lattice, hypotheses = make_lattice(random, tokens, steps, symbols)
    absent = {"branches": f"it was done for the first {BRANCHED}", "blocks": "no model made this trace"}
    attention = make_attention(random, shape, len(source["pieces"]), len(tokens), absent)
    heads = make_heads(random, attention)
    contributions = {
        "method": "gradient × input",
        "source": pack(random.normal(size=(len(tokens), len(source["pieces"]))).astype(np.float32)),
        "prefix": pack(np.tril(random.normal(size=(len(tokens), len(tokens)))).astype(np.float32)),
    }
    best = hypotheses[0]
    return {
        "format": FORMAT,
        "what": "seqwright trace",
        "version": "0.1.0",
        "names": NAMES,
        "axes": {},
        "kinds": KINDS_OF_TRACE,
        "text": shape.text,
        "source": source,
        "output": output | {key: best[key] for key in ("finish_reason", "log_prob", "score")},
        "reference": None,
        "hypotheses": hypotheses,
        "steps": steps,
        "logits": logits,
        "symbols": symbols,
        "search": {"beam": BEAM, "n_best": 3, "length_penalty": 1.0, "length_rule": "mean", "max_length": 40},
        "lattice": lattice,
        "attention": attention,
        "heads": heads,
        "recurrent": make_recurrent(random, shape, len(source["pieces"]), len(tokens)),
        "ablations": make_ablations(heads, shape.output, best),
        "branches": make_branches(output, steps, symbols),
        "blocks": [],
        "contributions": contributions,
        "absent": absent,
        "model": {
            "encoder": shape.encoder,
            "decoder": shape.decoder,
            "parameters": 1234567,
            "weights": f"sha256:{shape.seed:064x}",
            "layers": {"enc": len(shape.enc), "dec": len(shape.dec), "cross": len(shape.cross)},
            "step": shape.step,
        },
        "config": None,
        "seed": shape.seed,
    }


def older(trace: Document) -> Document:
    """As it was written before blocks and branches were kept, in format 1."""
    new = ("blocks", "branches", "names", "axes", "kinds")
    absent = {key: value for key, value in trace["absent"].items() if key not in new}
    return {key: value for key, value in trace.items() if key not in new} | {"absent": absent, "format": 1}


def make_steps(
    random: np.random.Generator, tokens: list[int], vocabulary: int, sharpness: float
) -> tuple[list[Document], Document]:
    """Random logits in which the output tokens stand out."""
    values = random.normal(size=(len(tokens), vocabulary)).astype(np.float32)
    values[:, :2] = -9
    values[np.arange(len(tokens)), tokens] += sharpness
    order = np.argsort(-values, axis=1, kind="stable")
    kept = min(50, vocabulary - 2)  # so that something is left over
    steps = []
    for row, ranked, token in zip(values.astype(float), order, tokens, strict=True):
        total = math.log(np.exp(row).sum())
        logp = row - total
        steps.append(
            {
                "id": token,
                "log_prob": logp[token],
                "rank": int(np.flatnonzero(ranked == token)[0]) + 1,
                "entropy": float(-(np.exp(logp) * logp).sum()),
                "total": total,
                "rest": math.log(np.exp(row[ranked[kept:]]).sum()),
                "source_share": float(random.uniform(0.4, 0.9)),
                "top": [[int(one), float(logp[one])] for one in ranked[:20]],
            }
        )
    ids = order[:, :kept].astype(np.int32)
    return steps, {"ids": pack(ids), "values": pack(np.take_along_axis(values, ids, 1))}


def make_lattice(
    random: np.random.Generator, tokens: list[int], steps: list[Document], symbols: dict[str, str]
) -> tuple[Document, list[Document]]:
    """A beam in which the output stays first, and neighbours come, end and go."""
    names = ("step", "parent", "token", "log_prob", "score", "fate", "reason")
    table: dict[str, list[Any]] = {name: [] for name in names}
    reasons = ["first", "end", *(f"rank {rank} of {BEAM}" for rank in range(1, 2 * BEAM + 1))]

    def add(step: int, parent: int | None, token: int, log_prob: float, fate: int, reason: str) -> int:
        row = (step, parent, token, log_prob, log_prob / max(1, step), fate, reasons.index(reason))
        for name, value in zip(names, row, strict=True):
            table[name].append(value)
        return len(table["step"]) - 1

    live: list[tuple[int, float, list[int]]] = [(add(0, None, BEGIN, 0.0, 0, "first"), 0.0, [])]
    done: list[tuple[float, list[int], int]] = []
    for number, (token, entry) in enumerate(zip(tokens, steps, strict=True), 1):
        best = live[0][1] + entry["log_prob"]
        offers = [(best, live[0], token)]
        for rank in range(1, 2 * BEAM):
            parent = live[int(random.integers(len(live)))]
            other = (
                END
                if rank == 1 and number > 2
                else int(random.choice([int(key) for key in symbols if int(key) >= FIRST]))
            )
            below = rank * float(random.uniform(0.2, 0.9)) + 1.5 * (other == END)
            offers.append((best - below, parent, other))
        offers.sort(key=lambda offer: -offer[0])
        grown = []
        for rank, (log_prob, parent, other) in enumerate(offers, 1):
            ends = other == END and rank <= BEAM
            fate = 1 if ends else 0 if rank <= BEAM and number < len(tokens) else 2
            place = add(number, parent[0], other, log_prob, fate, "end" if ends else f"rank {rank} of {BEAM}")
            if ends:
                done.append((log_prob / number, parent[2], number))
            elif fate == 0:
                grown.append((place, log_prob, [*parent[2], other]))
        live = grown or live
    done.sort(reverse=True)
    total = sum(entry["log_prob"] for entry in steps)
    first = (total / len(tokens), tokens[:-1], len(tokens))
    ranked = [first, *[one for one in done if one[1] != tokens[:-1]][:2]]
    hypotheses = [
        {
            "text": "".join(symbols[str(token)] for token in ids),
            "ids": ids,
            "log_prob": score * length,
            "score": score,
            "token_scores": [],
            "finish_reason": "end",
        }
        for score, ids, length in ranked
    ]
    return table | {"fates": ["kept", "finished", "dropped"], "reasons": reasons}, hypotheses


def make_attention(
    random: np.random.Generator, shape: Shape, source: int, target: int, absent: dict[str, str]
) -> list[Document]:
    found = []
    kinds = {
        "enc": (source, source, shape.enc),
        "dec": (target, target, shape.dec),
        "cross": (target, source, shape.cross),
    }
    for kind, (queries, keys, layers) in kinds.items():
        if not layers:
            absent[kind] = f"this model has no {kind} attention: it is recurrent"
        for layer, heads in enumerate(layers):
            found.append(one_attention(random, shape, kind, layer, heads, queries, keys))
    return found


def one_attention(
    random: np.random.Generator, shape: Shape, kind: str, layer: int, heads: int, queries: int, keys: int
) -> Document:
    """Vectors that prefer the diagonal, one before it, or the last key, and the weights that follow."""
    places_q, places_k = np.linspace(0, 1, queries), np.linspace(0, 1, keys)
    waves = np.arange(1, SIZE // 2 + 1) * 2.2
    q = np.concatenate([np.cos(places_q[:, None] * waves), np.sin(places_q[:, None] * waves)], 1)
    k = np.concatenate([np.cos(places_k[:, None] * waves), np.sin(places_k[:, None] * waves)], 1)
    strength = random.uniform(0.3, 3.2, size=(heads, 1, 1))
    q = (q[None] * strength * 2 + random.normal(size=(heads, queries, SIZE)) * 0.3).astype(np.float32)
    k = (np.repeat(k[None], heads, 0) * 2 + random.normal(size=(heads, keys, SIZE)) * 0.3).astype(np.float32)
    v = random.normal(size=(heads, keys, SIZE)).astype(np.float32)
    weight = random.normal(size=(heads, SIZE)).astype(np.float32)
    causal = kind == "dec"
    bias = (
        np.where(np.arange(keys) > np.arange(queries)[:, None], -np.inf, 0).astype(np.float32)[None]
        if causal
        else None
    )
    if shape.score == "additive":
        scores = np.einsum("hqke,he->hqk", np.tanh(q[:, :, None] + k[:, None]), weight)
    else:
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(SIZE)
    scores = scores if bias is None else scores + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e9))
    weights /= weights.sum(-1, keepdims=True)
    vectors = {
        "score": shape.score,
        "factor": 1 / math.sqrt(SIZE),
        "q": pack(q),
        "k": pack(k),
        "v": pack(v),
        "bias": None if bias is None else pack(bias),
        "raw_q": pack(q) if shape.score == "bilinear" else None,
        "weight": pack(weight) if shape.score == "additive" else None,
        "value_bias": None,
    }
    size = shape.block
    if size > 1:
        rows = np.stack([part.mean(1) for part in np.array_split(weights, -(-queries // size), 1)], 1)
        weights = np.stack([part.sum(2) for part in np.array_split(rows, -(-keys // size), 2)], 2)
    scales = weights.max(axis=(1, 2)) if heads else np.zeros(0)
    numbers = np.round(weights / np.maximum(scales, 1e-9)[:, None, None] * 65535).astype(np.uint16)
    return {
        "kind": kind,
        "layer": layer,
        "name": f"{kind}.{layer}",
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "block": [size, size],
        "levels": 65535,
        "scales": [float(scale) for scale in scales],
        "weights": pack(numbers),
        "mask": {"causal": causal, "window": None},
        "vectors": vectors if shape.vectors and size == 1 else None,
    }


def make_heads(random: np.random.Generator, attention: list[Document]) -> list[Document]:
    roles = ("positional", "rare", "alignment", "end", "diffuse", "syntactic", None)
    return [
        {
            "kind": one["kind"],
            "layer": one["layer"],
            "head": head,
            "confidence": float(random.uniform(0.2, 1)),
            "entropy": float(random.uniform(0.1, 2)),
            "role": (role := roles[int(random.integers(len(roles)))]),
            "offset": -1 if role == "positional" else None,
            "rate": float(random.uniform(0.5, 1)),
            "importance": float(random.uniform(0, 1)),
        }
        for one in attention
        for head in range(one["heads"])
    ]


def make_ablations(heads: list[Document], output: str, best: Document) -> list[Document]:
    """Every third head matters: without it, the first word is another."""
    rows = []
    for number, head in enumerate(heads):
        words = output.split(" ")
        changed = number % 3 == 0
        rows.append(
            {
                **{key: head[key] for key in ("kind", "layer", "head")},
                "text": " ".join(["un", *words[1:]]) if changed else output,
                "log_prob": best["log_prob"] - 0.5 - number / 100,
                "score": best["score"] - 0.05 - number / 1000,
                "output_log_prob": best["log_prob"] - 1 - number / 100,
                "changed": changed,
            }
        )
    return rows


def make_branches(output: Document, steps: list[Document], symbols: dict[str, str]) -> list[Document]:
    """The same output with another piece at one of the first steps, or over before it."""
    found = []
    for t, (piece, step) in enumerate(zip(output["pieces"], steps, strict=True)):
        others = [(token, log_prob) for token, log_prob in step["top"] if token != step["id"]]
        for token, log_prob in others[:3] if t < BRANCHED else []:
            before = output["text"][: piece["start"]]
            new = "" if token == END else symbols[str(token)]
            after = "" if token == END else output["text"][piece["end"] :]
            found.append(
                {
                    "step": t,
                    "id": token,
                    "text": before + new + after,
                    "start": len(before),
                    "end": len(before + new),
                    "log_prob": log_prob - 3,
                    "score": (log_prob - 3) / 4,
                    "finish_reason": "end",
                }
            )
    return found


def make_recurrent(random: np.random.Generator, shape: Shape, source: int, target: int) -> list[Document]:
    """Gates in their ranges; the states follow from them by the equations of docs/trace.md."""
    if shape.cell is None:
        return []
    return [
        one_recurrent(random, shape.cell, part, steps)
        for part, steps in (("encoder", source), ("decoder", target))
    ]


def one_recurrent(random: np.random.Generator, cell: str, part: str, steps: int) -> Document:
    def sigmoid() -> np.ndarray:
        return (1 / (1 + np.exp(-random.normal(size=(steps, SIZE)) * 2))).astype(np.float32)

    h = np.zeros((steps + 1, SIZE), np.float32)
    if cell == "gru":
        gates = {
            "r": sigmoid(),
            "z": sigmoid(),
            "n": np.tanh(random.normal(size=(steps, SIZE))).astype(np.float32),
        }
        for t in range(steps):
            h[t + 1] = (1 - gates["z"][t]) * gates["n"][t] + gates["z"][t] * h[t]
        states = {"h": h}
    else:
        gates = {name: sigmoid() for name in "ifo"}
        gates["g"] = np.tanh(random.normal(size=(steps, SIZE))).astype(np.float32)
        c = np.zeros((steps + 1, SIZE), np.float32)
        for t in range(steps):
            c[t + 1] = gates["f"][t] * c[t] + gates["i"][t] * gates["g"][t]
            h[t + 1] = gates["o"][t] * np.tanh(c[t + 1])
        states = {"h": h, "c": c}
    packed = {"gates": gates, "states": states}
    return {
        "part": part,
        "layer": 0,
        "direction": "forward",
        "cell": cell,
        "steps": steps,
        "size": SIZE,
        **{name: {key: pack(value) for key, value in group.items()} for name, group in packed.items()},
    }


def recurrent(score: str | None = "additive", cell: str = "lstm", **changes: Any) -> Document:
    """An encoder-decoder of 2014 (no score) or 2015, with one attention of one head."""
    cross = [1] if score else []
    document = make_trace(
        Shape(
            enc=[],
            dec=[],
            cross=cross,
            encoder="rnn",
            decoder="rnn",
            cell=cell,
            score=score or "dot",
            **changes,
        )
    )
    if not score:
        document["ablations"] = None
        document["absent"]["ablations"] = "there is no head to switch off"
    return document
