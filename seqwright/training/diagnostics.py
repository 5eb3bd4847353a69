"""Common training problems, detected while the training runs, each with a way out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from seqwright.data.text_display import percent
from seqwright.runs.folder import DIAGNOSED_FROM
from seqwright.training.validation import Validation

IDLE = 0.05  # of an equal share of the tokens, below which an expert is hardly used
FEW = 8  # with fewer outputs, the shares below mean nothing


def first_loss(loss: float, guess: float) -> list[str]:
    """Compare the loss of an untrained model with that of guessing; NaN where guessing has no loss."""
    if math.isnan(guess) or loss <= 1.5 * guess + 1:
        return []
    return [
        f"the first loss is {loss:.1f}, but guessing costs {guess:.1f}: the initial weights are too large; "
        "check the initialisation, or lower the learning rate"
    ]


def overfitting(trained: float, validated: float, step: int) -> list[str]:
    """Compare the recent training loss with the validation loss; NaN where it is not known."""
    if math.isnan(trained) or step < DIAGNOSED_FROM or validated <= 1.5 * trained + 0.5:
        return []
    return [
        f"overfitting: the training loss is {trained:.2f}, but the validation loss {validated:.2f}: the "
        "model memorises its training data; add data or dropout, use a smaller model, or train less"
    ]


def findings(validation: Validation, done: float, step: int) -> list[str]:
    """The findings of a validation, when the share `done` of the training is done."""
    found = []
    if validation.unknown >= 0.05:
        found.append(
            f"{percent(validation.unknown)} of the tokens of the validation texts are unknown to the "
            "tokenizer: is their language or alphabet that of the training data? Use smaller units "
            "(characters, bpe, bytes)"
        )
    if done < 0.2 or step < DIAGNOSED_FROM:
        return found
    found += _findings_of_experts(validation.experts)
    late = done >= 0.5 or step >= 5 * DIAGNOSED_FROM  # attention to the source is learned late
    if late and validation.shuffled_loss - validation.loss <= 0.02 * validation.loss:
        found.append(
            f"the model ignores its input: with the inputs of other examples its loss is "
            f"{validation.shuffled_loss:.2f}, with the right ones {validation.loss:.2f}. Do inputs and "
            "outputs belong together? If so, train longer or with a higher learning rate"
        )
    return found + (_findings_of_outputs(validation) if len(validation.items) >= FEW else [])


def _findings_of_experts(experts: Mapping[str, Sequence[float]]) -> list[str]:
    shares = [
        (share * len(own), name, number) for name, own in experts.items() for number, share in enumerate(own)
    ]
    least, name, number = min(shares, default=(1.0, "", 0))
    if least >= IDLE:
        return []
    return [
        f"expert {number + 1} of {name} receives {percent(least)} of an equal share of the tokens: raise "
        "feed_forward.balance, or use fewer experts"
    ]


def _findings_of_outputs(validation: Validation) -> list[str]:
    found, items, count = [], validation.items, len(validation.items)
    texts = [item.output.value for item in items]
    commonest = max(set(texts), key=texts.count)
    same = texts.count(commonest) / count
    expected = sum(item.references[0] == commonest for item in items) / count
    if same >= 0.5 and expected <= same / 2:
        shown = repr(commonest)
        shown = shown if len(shown) <= 42 else shown[:40] + "…" + shown[0]
        found.append(
            f"{percent(same)} of the outputs are the same, {shown}: the model has not learned to use its "
            "input; train longer, lower the learning rate, or check the choice of columns"
        )
    copies = sum(text == line for text, line in zip(texts, validation.inputs, strict=True)) / count
    copied = (line in item.references for item, line in zip(items, validation.inputs, strict=True))
    expected = sum(copied) / count
    if copies >= 0.5 and expected <= copies / 2:
        found.append(f"{percent(copies)} of the outputs copy the input: are there pairs with equal sides?")
    if (empty := texts.count("") / count) >= 0.2:
        found.append(f"{percent(empty)} of the outputs are empty: are there blank or truncated targets?")
    if (endless := sum(not item.output.complete for item in items) / count) >= 0.2:
        found.append(
            f"{percent(endless)} of the outputs reach the maximum length without an end; train longer"
        )
    return found
