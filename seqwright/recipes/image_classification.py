"""A configuration for images with labels, chosen by their number and size, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import ENDS, Choice, Recipe, merged
from seqwright.data.readers.images import ImageExample
from seqwright.data.survey import Survey
from seqwright.data.text_display import pluralize
from seqwright.errors import InputError
from seqwright.models.building import resolve
from seqwright.recipes.bases.held_out import held_out, share_of
from seqwright.recipes.bases.images import (
    SMALL,
    image_size,
    mirrored_labels,
    mirrored_strokes,
    started_encoder,
)

UNEVEN = 10  # times as frequent as the rarest label from which on labels are weighted
BALANCE = 0.5
CORES = 2
HELD_OUT = 2500
DECODED = 2000  # images that a validation labels
BATCH = 64
SPEED = 700  # images of 32 × 32 pixels per second on two cores, roughly
SEEN = 5  # times that each image is seen, from which on augmentation and small patches pay
PRESET = "resnet20"
RATES = {"resnet": 4e-3, "cnn": 2e-3, "hybrid": 1.5e-3, "patches": 1e-3}  # the highest, by encoder


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    if len(survey.labels) < 2:
        (only,) = survey.labels or [""]
        raise InputError(
            f"{survey.name}: every image has the label {only!r}; a classifier needs at least two labels: a "
            "folder for each class, or a table of labels"
        )
    images, ending = survey.report.examples, requested.get("training", {})
    size = image_size(survey, requested.get("model", {}))
    time = [] if ending.keys() & set(ENDS) else [_time(images)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    pixels = requested.get("data", {}).get("image_size", size.table["data"]["image_size"])
    encoder = started_encoder(PRESET, requested.get("model", {}))
    asked = merged(Recipe(tuple(encoder)).table().get("model", {}), requested.get("model", {}))
    epochs = _epochs(images, pixels, ends)
    choices = [
        size,
        _augmentation(survey, epochs),
        _model(survey, pixels, epochs, asked),
        *encoder,
        _batch(asked),
        *time,
        _validation(ends),
    ]
    each = f"{pluralize(images, 'image')} of each label"
    return Recipe((*choices, *held_out(requested, share_of(images, HELD_OUT), each)))


def _epochs(images: int, pixels: int, ends: Mapping[str, Any]) -> float:
    """Return about how often each image is seen."""
    if ends.get("epochs"):
        return float(ends["epochs"])
    if ends.get("steps"):
        return ends["steps"] * ends.get("tokens", BATCH) / images
    return ends["minutes"] * 60 * SPEED * min((32 / pixels) ** 2, 4) / images


def _augmentation(survey: Survey, epochs: float) -> Choice:
    """No flips where left and right have a meaning; colours change only where there are some."""
    if epochs < SEEN:
        reason = f"each image is seen about {epochs:.1f} times: changes would only make it harder to learn"
        return Choice("no augmentation", {"data": {"augment": []}}, reason)
    sample: list[ImageExample] = list(survey.sample)
    colour = any(each.image.facts.colour for each in sample)
    kinds, reason = ["crop"], "the images are shifted by up to an eighth"
    if meaning := mirrored_labels(survey.labels) or mirrored_strokes(sample):
        reason += f"; no flips, because {meaning}: mirrored, they may mean something else"
    else:
        kinds.append("flip")
        reason += " and mirrored, because no label names a side, a number or a letter"
    if colour:
        kinds += ["colour", "erase"]
        reason += "; brightness, contrast and saturation change, and rectangles are erased"
    return Choice(f"augmentation: {', '.join(kinds)}", {"data": {"augment": kinds}}, reason)


def _model(survey: Survey, pixels: int, epochs: float, asked: Mapping[str, Any]) -> Choice:
    table: dict[str, Any] = {} if asked.keys() & {"preset", "kind"} else {"preset": PRESET}
    what, reason = f"model {PRESET}", "convolutions learn the most from few images"
    encoder = asked.get("encoder", {})
    set_by_user = {*asked, *encoder} if isinstance(encoder, Mapping) else {"kind"}
    if not table:
        what, reason = f"model {asked.get('preset', 'of the configuration')}", "as requested"
        if asked.get("preset") == "tiny-vit" and not set_by_user & {"kind", "patch"}:
            side = 4 if epochs < SEEN else 8
            patch = max(-(-pixels // side), 1)
            table["encoder"] = {"patch": patch}
            what += f", patches of {patch} × {patch} pixels"
            reason += f"; {side} × {side} of them, because each image is seen about {epochs:.1f} times"
    elif pixels > SMALL and not set_by_user & {"kind", "stem"}:
        table["encoder"] = {"stem": "large"}
        what += " with a large stem"
    most, least = (count for _, count in (survey.labels.most_common()[0], survey.labels.most_common()[-1]))
    if most >= UNEVEN * least:
        table["head"] = {"balance": BALANCE}
        what += f", classes weighted by their frequency to the power of −{BALANCE}"
        reason += f"; the most frequent label has {most:,} images, the rarest {least:,}"
    return Choice(what, {"model": table}, reason)


def _batch(asked: Mapping[str, Any]) -> Choice:
    encoder = resolve({"preset": PRESET, **asked})["encoder"]["kind"]
    rate = RATES.get(encoder, RATES["resnet"])
    optimizer = {"kind": "adamw", "rate": rate, "decay": 0.05}
    table = {"tokens": BATCH, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.05}
    what = f"{BATCH} images per batch, in {CORES} parts for up to {CORES} cores, rate {rate:g}"
    return Choice(what, {"training": table}, "on small data more steps beat larger batches")


def _time(images: int) -> Choice:
    minutes = 3.0 if images < 10_000 else 10.0
    reason = "usual for so many images; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(ends: Mapping[str, Any]) -> Choice:
    validations = min(max(round(2 * ends.get("minutes", 3)), 5), 20)
    table = {"training": {"metric": "accuracy", "validations": validations, "decode": DECODED, "traces": 0}}
    return Choice(f"about {validations} validations, by accuracy", table, "a label is right or wrong")
