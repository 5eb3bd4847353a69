"""A trace as text for a terminal: the output, the alternatives, and the attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from seqwright.data.fields import as_line
from seqwright.data.text_display import pluralize, visible
from seqwright.lens.trace.alignment import mean_cross

if TYPE_CHECKING:
    from seqwright.lens.trace.document import Trace

SHADES = " ░▒▓█"
MOST = 48  # pieces per side
LETTERS = 8  # of a column label
CARRIERS = 3  # words shown for a neighbour
MARKS = {"end": "∎", "next": "…"}  # labels of tokens without a text


def summary(trace: Trace) -> str:
    """The output with its alternatives, the steps, and where the model looked."""
    if not trace.document["hypotheses"]:
        return "\n".join(
            [
                *_predictions(trace),
                "",
                *_steps(trace),
                "",
                *_neighbours(trace),
                *_parts(trace),
                *_carriers(trace),
                *_alignment(trace),
            ]
        )
    best, *others = rows = trace.document["hypotheses"]
    lines = [f"{visible(as_line(trace.text))} → {_hypothesis(best)}"]
    lines += [f"  or: {_hypothesis(other)}" for other in others]
    # Truncated outputs come after complete ones, whatever their score.
    keys = [(one["finish_reason"], -math.inf if one["log_prob"] is None else one["log_prob"]) for one in rows]
    if any(first[0] == second[0] and first[1] < second[1] for first, second in pairwise(keys)):
        lines.append("  (sorted by score, which is normalised by length; p: probability of the whole output)")
    reference = trace.document["reference"]
    if reference is not None:
        lines.append(f"  reference: {visible(reference['text'])}  {_probability(reference['log_prob'])}")
    return "\n".join([*lines, "", *_steps(trace), "", *_alignment(trace)])


def _predictions(trace: Trace) -> list[str]:
    """The predictions and their probability; of a given text, its surprise."""
    output, text = trace.document["output"], visible(as_line(trace.text))
    if not output["given"]:
        return [f"{text} → {visible(output['text'])}  {_probability(output['log_prob'])}"]
    count = len(output["pieces"]) - 1  # the last one comes after the text
    mean = math.inf if output["log_prob"] is None else -output["log_prob"] / count
    surprise = f"{mean:.2f} nats per token, perplexity {math.exp(min(mean, 700)):.3g}"
    return [text, f"{pluralize(count, 'token')}: {surprise}; most probable at each place:"]


def _parts(trace: Trace) -> list[str]:
    """The weight of each part of the source, such as a sentence, that the head pools."""
    lines = []
    for axis, parts in trace.document["axes"].items():
        if trace.layers(axis):
            texts, weights = (
                (visible(as_line(part["text"])) for part in parts["pieces"]),
                trace.attention(axis, 0)[0, 0],
            )
            shown = [
                f"  {weight:.3f} {_bar(weight):10} {text}"
                for weight, text in zip(weights, texts, strict=True)
            ]
            lines += [f"Pooling weight of the {axis}", *shown[:MOST], *_left_out(len(shown), axis), ""]
    return lines


def _neighbours(trace: Trace) -> list[str]:
    """The texts near the source, with the words that brought each of them nearest."""
    found = trace.document.get("neighbours")
    if found is None:
        return []
    words = [word["text"] for word in found["words"]]
    lines = [f"Nearest texts: cosine, and the words with the largest effect ({found['method']})"]
    for text in found["texts"]:
        best = np.argsort([-effect for effect in text["effects"]], kind="stable")[:CARRIERS]
        effects = ", ".join(f"{visible(words[at])} {text['effects'][at]:+.3f}" for at in best)
        unfit = "" if text["cosine"] >= found["least"] else " (does not fit)"
        line = f"  {text['cosine']:.3f} {visible(text['text'])}{unfit}  [{effects}]"
        lines.append(line.replace("-0.", "−0."))
    return [*lines, ""]


def _pooling_weights(trace: Trace) -> np.ndarray | None:
    """The weight of each token of the source; with parts, its weight in its part times that of the part."""
    if trace.layers("pool"):
        return trace.attention("pool", 0)[0, 0]
    pooled = [axis for axis in trace.document["axes"] if trace.layers(axis) and trace.layers("words")]
    return trace.attention(pooled[0], 0)[0, 0] @ trace.attention("words", 0)[0] if pooled else None


def _carriers(trace: Trace) -> list[str]:
    """How much each token of the source carried a single prediction: pooling weight and gradient × input."""
    source, parts = trace.document["source"], trace.document["contributions"]
    decoded = trace.document["output"].get("decoded") or len(trace.document["steps"]) > 1
    if source is None or parts is None or decoded:
        return []
    labels = [_label(piece) for piece in source["pieces"]]
    width = max(map(cell_len, labels[:MOST]))
    (effects,), weights = trace.contributions()[0], _pooling_weights(trace)
    measures = "gradient × input" if weights is None else "pooling weight and gradient × input"
    lines = [f"Which tokens carried the {trace.document['names']['step']}: {measures}"]
    lines += [f"  ({trace.why('pool')})"] if weights is None else []
    for at, label in enumerate(labels[:MOST]):
        weight = "" if weights is None else f"{weights[at]:6.3f} {_bar(weights[at]):10}"
        lines.append(f"  {_padded(label, width)}  {weight} {effects[at]:+.4f}".replace("-", "−"))
    return [*lines, *_left_out(len(labels), "tokens"), ""]


def _bar(share: float) -> str:
    return SHADES[-1] * round(10 * share)


def _hypothesis(found: dict[str, Any]) -> str:
    cut = "" if found["finish_reason"] == "end" else " (truncated at the maximum length)"
    return f"{visible(found['text']) or '(empty)'}  {_probability(found['log_prob'])}{cut}"


def _probability(log_prob: float | None) -> str:
    return "p = 0" if log_prob is None else f"p = {math.exp(log_prob):.3g}"


def _steps(trace: Trace) -> list[str]:
    """Each step with its most probable symbols."""
    names, lines = trace.document["symbols"], []
    pieces = trace.document["output"]["pieces"]
    labels, steps = [_label(piece) for piece in pieces], trace.document["steps"]
    width = max(map(cell_len, labels))
    shown = list(zip(labels, steps, strict=True))
    for label, step in shown[:MOST]:
        top = [f"{_symbol(names[str(number)])} {math.exp(score):.2f}" for number, score in step["top"][:5]]
        lines.append(f"  {_padded(label, width)}  {'  '.join(top)}")
    return [*lines, *_left_out(len(labels), "steps")]


def _alignment(trace: Trace) -> list[str]:
    if not trace.layers("cross"):
        return [f"No alignment: {trace.why('cross')}."]
    weights = mean_cross(trace)
    axis = trace.document["kinds"]["cross"]["columns"]
    own = trace.document["axes"].get(axis, trace.document["source"])
    sources = [_label(piece) for piece in own["pieces"]]
    outputs = [_label(piece) for piece in trace.document["output"]["pieces"]]
    if weights.shape != (len(outputs), len(sources)):
        return ["The alignment is too large for the terminal; write a page with -o page.html."]
    most = float(weights.max(initial=0.0))
    width = max(map(cell_len, outputs[:MOST]))
    title = trace.document["kinds"]["cross"]["title"]
    lines = [f"{title}, mean of all heads ({SHADES[-1]} = {most:.2f}; rows: output, columns: {axis})"]
    lines += [" " * (width + 4) + row for row in _header(sources[:MOST])]
    for label, row in zip(outputs[:MOST], weights, strict=False):
        levels = [int(len(SHADES) * weight / most) if most else 0 for weight in row[:MOST]]
        shades = "".join(2 * SHADES[min(level, len(SHADES) - 1)] for level in levels)
        lines.append(f"  {_padded(label, width)}  {shades}".rstrip())
    return [*lines, *_left_out(len(sources), "source pieces"), *_left_out(len(outputs), "steps")]


def _header(labels: Sequence[str]) -> list[str]:
    """Labels written from top to bottom above their columns, which are two cells wide."""
    tall = [label[:LETTERS] for label in labels]
    height = max(map(len, tall), default=0)
    columns = ([""] * (height - len(label)) + list(label) for label in tall)
    rows = zip(*columns, strict=True)
    return ["".join(_padded(letter, 2) for letter in row).rstrip() for row in rows]


def _label(piece: dict[str, Any]) -> str:
    if piece.get("special") in MARKS:
        return MARKS[piece["special"]]
    return visible(as_line(piece["text"])).strip() or "·"


def _symbol(text: str) -> str:
    return visible(text) if text.strip(" ") else "·"


def _padded(text: str, width: int) -> str:
    """Pad to a number of terminal cells; some characters take two."""
    return text + " " * max(0, width - cell_len(text))


def _left_out(count: int, what: str) -> list[str]:
    return [f"  … and {count - MOST} more {what}"] if count > MOST else []
