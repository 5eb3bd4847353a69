"""Choices for images with labels or captions: their size, a trained encoder, and mirroring."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from seqwright.config.recipe import Choice
from seqwright.data.images import decoded
from seqwright.data.readers.images import ImageExample
from seqwright.data.survey import Survey
from seqwright.data.text_display import excerpt, percent
from seqwright.models.building import resolve
from seqwright.recipes.bases.starting import RELEASED, gentle
from seqwright.training.encoder_start import encoder_of_run, size_of_released

SIZES = (32, 48, 64, 96, 128)  # pixels: larger images than the first are reduced to one of them
SMALL = 40  # pixels up to which images keep their size
LOOKED = 64  # images that decide whether they are strokes
STROKES = 28  # pixels at which they are looked at
GREY = 8  # levels by which the channels of a grey image differ at most, on average
EDGE = r"(?<=[a-z])(?=[A-Z])"  # turnLeft, LeftTurn
SIDES = re.compile(
    rf"(?:(?<![^\W\d_])|{EDGE})(?i:(?:left|right)(?:wards?|most|hand|handed|side)?"
    r"|(?:counter|anti)?-?clockwise|ccw|links|rechts|gauche|droite|izquierda|derecha)"
    rf"(?:(?![^\W\d_])|{EDGE})"
)
WORD = re.compile(r"\d+|[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])")
NUMBERS = re.compile(
    r"zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|(thir|four|fif|six|seven|eigh|nine)teen"
    r"|(twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand"
    r"|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn"
    r"|zéro|un|deux|trois|quatre|cinq|sept|huit|neuf|dix|cero|uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve"
)
SIGNS = 0.05  # share of labels that are signs from which on images are not mirrored
SPELLED = 0.5  # the same of captions


def image_size(survey: Survey, asked: Mapping[str, Any]) -> Choice:
    """The size of released weights; else the median of the longer sides, or the next smaller of a few."""
    if file := _released(asked):
        size = size_of_released(file)
        reason = f"{file} was trained with images of this size; a smaller data.image_size is faster"
        return Choice(f"images of {size} × {size} pixels", {"data": {"image_size": size}}, reason)
    longest = round(median(max(each.image.facts[:2]) for each in survey.sample))
    if longest <= SMALL:
        return Choice(
            f"images of {longest} × {longest} pixels", {"data": {"image_size": longest}}, "their own size"
        )
    size = max((each for each in SIZES if each <= longest), default=SIZES[0])
    reason = f"half of the images have at most {longest:,} pixels on a side; data.image_size changes it"
    return Choice(f"images of {size} × {size} pixels", {"data": {"image_size": size}}, reason)


def started_encoder(preset: str, asked: Mapping[str, Any]) -> list[Choice]:
    """The encoder of the run that `model.encoder.start` names, if it decides the sizes; a lower rate for the
    encoder of a run, and for released weights.
    """
    if _released(asked):
        return [gentle(RELEASED)]
    encoder = asked.get("encoder")
    if not isinstance(encoder, Mapping) or "start" not in encoder:
        return []
    taken = encoder_of_run(encoder, resolve({"preset": preset, **asked})["encoder"])
    if not taken:
        return [gentle()]
    reason = "the model starts with its weights, and therefore has its kind and sizes"
    what = f"encoder {taken['kind']} of {encoder['start']}"
    return [Choice(what, {"model": {"encoder": taken}}, reason), gentle()]


def _released(asked: Mapping[str, Any]) -> str | None:
    """Return the file of released weights from which the requested encoder starts, or None."""
    encoder = asked.get("encoder")
    start = encoder.get("start") if isinstance(encoder, Mapping) else None
    return start if isinstance(start, str) and os.path.isfile(start) else None


# Mirroring -----------------------------------------------------------------------------------------


def names_side(text: str) -> bool:
    """Whether a caption or a label has a word for a side or a turn, as in `turn_left`."""
    return SIDES.search(text) is not None


def mirrored_labels(labels: Collection[str]) -> str | None:
    """Return why mirrored images may have another of the labels, or None."""
    if sides := [label for label in labels if names_side(label)]:
        return f"labels name a side, such as {excerpt(sides[0])}"
    if all(len(label) == 1 and label.isalnum() for label in labels):
        return "the labels are digits or letters"
    signs = _signs(labels)
    if signs and len(signs) >= SIGNS * len(labels):
        return f"labels name numbers or letters, such as {excerpt(signs[0])}"
    return None


def mirrored_captions(captions: Collection[str], share: float) -> str | None:
    """Return why mirrored images may have other captions, or None; `share`: of captions that name a side."""
    sides = sum(map(names_side, captions)) / max(len(captions), 1)
    if sides >= share:
        return f"{percent(sides)} of the captions name left or right"
    spelled = [caption for caption in captions if _is_sign(_words(caption))]
    if spelled and len(spelled) >= SPELLED * len(captions):
        return f"captions are numbers or letters, such as {excerpt(spelled[0])}"
    return None


def mirrored_strokes(sample: Sequence[ImageExample]) -> str | None:
    """Return why mirrored strokes may mean something else; None for other images."""
    return "they are grey strokes on a plain background" if _strokes(sample) else None


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case; `turnLeft2` has three."""
    return [word.lower() for word in WORD.findall(text)]


def _is_sign(words: Sequence[str]) -> bool:
    """Whether all words are numbers, number words or single letters."""
    return bool(words) and all(
        len(word) == 1 or word.isdecimal() or NUMBERS.fullmatch(word) for word in words
    )


def _signs(labels: Collection[str]) -> list[str]:
    """Return the labels that name a sign: `10`, `seven`, `speed_20`; also `A_upper` next to `B_upper`, which
    differ only in a letter.
    """
    words = {label: _words(label) for label in labels}
    rests = {label: tuple(word for word in own if not _is_sign([word])) for label, own in words.items()}
    shared = Counter(rests.values())
    return [
        label
        for label, own in words.items()
        if len(rests[label]) < len(own) and (_is_sign(own[-1:]) or shared[rests[label]] > 1)
    ]


def _strokes(sample: Sequence[ImageExample]) -> bool:
    """Whether images are grey and most of their pixels black or white, as in drawings, digits and letters."""
    chosen = sample[:: max(len(sample) // LOOKED, 1)][:LOOKED]
    shares = []
    for example in chosen:
        pixels = decoded(example.image, STROKES, 3)
        grey = np.ptp(pixels, axis=-1).mean() <= GREY  # scans may be saved with three channels
        shares.append(float(((pixels < 32) | (pixels > 223)).mean()) if grey else 0.0)
    return bool(shares) and median(shares) > 0.7
