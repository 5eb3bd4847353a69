"""Common training problems, detected while the training runs, each with a way out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from seqwright.data.task import Item
from seqwright.runs.folder import DIAGNOSED_FROM
from seqwright.training.validation import Validation

FEW = 8  # with fewer outputs, the shares below mean nothing


def first_loss(loss: float, guess: float) -> list[str]:
    """Compare the loss of an untrained model with that of guessing; NaN where guessing has no loss."""
    if math.isnan(guess) or loss <= 1.5 * guess + 1:
        return []
    return [
        f"the first loss is {loss:.1f}, but guessing costs {guess:.1f}: the initial weights are too large; "
        "check the initialisation, or lower the learning rate"
    ]


def findings(validation: Validation, done: float, step: int) -> list[str]:
    """The findings of a validation, when the share `done` of the training is done."""
    found, items = _unknowns(validation.unknown), validation.items
    if done < 0.2 or step < DIAGNOSED_FROM:
        return found
    if done >= 0.5 or step >= 5 * DIAGNOSED_FROM:  # attention to the source is learned late
        found += _ignored_source(validation)
    if len(items) >= FEW:
        found += [*_same_outputs(items), *_copies(validation), *_empty(items), *_endless(items)]
    return found


def _unknowns(unknown: float) -> list[str]:
    if unknown < 0.05:
        return []
    return [
        f"{unknown:.0%} of the tokens of the validation texts are unknown to the tokenizer: is their "
        "language or alphabet that of the training data? Use smaller units (characters, bpe, bytes)"
    ]


def _ignored_source(validation: Validation) -> list[str]:
    """Wrong sources should raise the loss."""
    gap = validation.shuffled_loss - validation.loss
    if math.isnan(gap) or gap > 0.02 * validation.loss:
        return []
    return [
        f"the model ignores its source: with the sources of other sentences its loss is "
        f"{validation.shuffled_loss:.2f}, with the right ones {validation.loss:.2f}. Do the source and "
        "target lines belong together? If so, train longer or with a higher learning rate"
    ]


def _same_outputs(items: Sequence[Item[Any, Any]]) -> list[str]:
    texts = [item.output.value for item in items]
    commonest = max(set(texts), key=texts.count)
    share = texts.count(commonest) / len(texts)
    references = [item.references[0] for item in items]
    if share < 0.5 or references.count(commonest) / len(texts) > share / 2:
        return []
    return [
        f"{share:.0%} of the outputs are the same, {_short(commonest)}: the model has not learned to use "
        "the source; train longer, lower the learning rate, or check the choice of columns"
    ]


def _copies(validation: Validation) -> list[str]:
    copied = right = 0
    for item, line in zip(validation.items, validation.inputs, strict=True):
        copied += item.output.value == line
        right += line in item.references
    count = len(validation.items)
    if copied < 0.5 * count or right > copied / 2:
        return []
    share = copied / count
    return [f"{share:.0%} of the outputs are copies of the source: are there untranslated pairs in the data?"]


def _empty(items: Sequence[Item[Any, Any]]) -> list[str]:
    empty = sum(item.output.value == "" for item in items) / len(items)
    if empty < 0.2:
        return []
    return [f"{empty:.0%} of the outputs are empty: are there blank or truncated targets in the data?"]


def _endless(items: Sequence[Item[Any, Any]]) -> list[str]:
    endless = sum(not item.output.complete for item in items) / len(items)
    if endless < 0.2:
        return []
    return [f"{endless:.0%} of the outputs reach the maximum length without an end symbol; train longer"]


def _short(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 42 else shown[:40] + "…" + shown[0]
