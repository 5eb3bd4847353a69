"""A configuration for images with captions, chosen by their number, size and words, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seqwright.config.recipe import ENDS, Choice, Recipe
from seqwright.data.survey import Survey
from seqwright.data.text_display import pluralize
from seqwright.recipes.bases.held_out import held_out, share_of
from seqwright.recipes.bases.images import image_size, mirrored_captions, mirrored_strokes, started_encoder
from seqwright.recipes.text_to_text import SUBWORDS

NAMED_SIDES = 0.01  # share of captions that name a side from which on images are not mirrored
SHORT = 6  # words on average, below which a caption is right or wrong
PRESET = "cnn-transformer"
ALONE = 0.9  # images per caption from which on images count as having one caption each
CORES = 2
HELD_OUT = 1000  # images
DECODED = 500  # images that a validation captions
MANY = 20_000  # captions


def choose(survey: Survey, requested: Mapping[str, Any]) -> Recipe:
    """Return a recipe for the files of a survey; what is requested is not chosen."""
    captions, ending = survey.report.examples, requested.get("training", {})
    asked = requested.get("model", {})
    time = [] if ending.keys() & set(ENDS) else [_time(captions)]
    ends = {**(time[0].table["training"] if time else {}), **ending}
    choices = [
        image_size(survey, asked),
        _augmentation(survey),
        _tokenizer(captions),
        *([] if asked.keys() & {"preset", "kind"} else [_model()]),
        *started_encoder(PRESET, asked),
        _batch(captions),
        *time,
        _validation(survey, ends),
    ]
    images = survey.report.distinct
    whole = f"{pluralize(images, 'image')} with all their captions"
    return Recipe((*choices, *held_out(requested, share_of(images, HELD_OUT), whole)))


def _augmentation(survey: Survey) -> Choice:
    """No flips where captions name sides or are signs; colours stay, because captions name them."""
    texts = [example.text for example in survey.sample]
    kinds, reason = ["crop"], "the images are shifted by up to an eighth"
    if meaning := mirrored_captions(texts, NAMED_SIDES) or mirrored_strokes(survey.sample):
        reason += f"; no flips, because {meaning}"
    else:
        kinds.append("flip")
        reason += " and mirrored, because hardly a caption names left or right"
    reason += "; colours stay, because captions name them"
    return Choice(f"augmentation: {', '.join(kinds)}", {"data": {"augment": kinds}}, reason)


def _tokenizer(captions: int) -> Choice:
    size = next(size for limit, size in SUBWORDS if captions < limit)
    table = {"tokenizer": {"target": {"kind": "bpe", "max_size": size}}}
    return Choice(f"captions: BPE with {size:,} pieces", table, "words that are new are made of known pieces")


def _model() -> Choice:
    reason = "convolutions learn the most from few images, and a Transformer writes the fastest"
    return Choice(f"model {PRESET}", {"model": {"preset": PRESET}}, reason)


def _batch(captions: int) -> Choice:
    tokens = 512 if captions < MANY else 1024
    optimizer = {"kind": "adamw", "rate": 2e-3, "decay": 0.05}
    table = {"tokens": tokens, "accumulate": CORES, "optimizer": optimizer, "smoothing": 0.1}
    what = f"{tokens} caption tokens per batch, in {CORES} parts for up to {CORES} cores, rate 0.002"
    return Choice(what, {"training": table}, "on small data more steps beat larger batches")


def _time(captions: int) -> Choice:
    minutes = 3.0 if captions < 1000 else 10.0 if captions < MANY else 20.0
    reason = "usual for so many captions; --minutes changes it"
    return Choice(f"{minutes:g} minutes of training", {"training": {"minutes": minutes}}, reason)


def _validation(survey: Survey, ends: Mapping[str, Any]) -> Choice:
    validations = min(max(round(1.5 * ends.get("minutes", 3)), 5), 20)
    alone = survey.report.distinct >= ALONE * survey.report.examples
    if alone and survey.report.columns["caption"].words.mean < SHORT:
        metric, name, reason = "word_f1", "word F1", "captions are short, one for each image"
    else:
        metric, name, reason = "cider", "CIDEr-D", "a caption can be right in many ways"
    table = {"training": {"metric": metric, "validations": validations, "decode": DECODED, "traces": 0}}
    what = f"about {validations} validations, by the {name} of up to {DECODED} greedy outputs"
    return Choice(what, table, reason)
