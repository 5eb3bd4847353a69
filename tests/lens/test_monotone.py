"""What a trained model shows first, the mean cross-attention of all heads, is the true alignment where there
is one: letters to sounds, made up so that every sound is known to come of its letters.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from looked import OPTIONS, case, looked

from seqwright.config import parse
from seqwright.errors import InputError
from seqwright.lens.trace.alignment import alignment_error_rate, links_of, monotonicity
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.packing import quantize
from seqwright.prediction.predictor import load
from seqwright.search import BeamOptions
from seqwright.training.run import train

TOGETHER = {"sh": "SH", "ch": "CH", "th": "TH", "ph": "F", "ck": "K"}
HALF_SILENT = {"kn": "N", "wr": "R", "mb": "M"}
SOUNDING = {"kn": 1, "wr": 1, "mb": 0}  # the place of the letter that is not silent
CONSONANTS = {letter: letter.upper() for letter in "bdfglmnprstvz"} | TOGETHER | HALF_SILENT
VOWELS = {letter: letter.upper() for letter in "aiou"} | {"ee": "IY", "oo": "UW", "ai": "EY", "ou": "AW"}

FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {  # zero start and rotary positions need more than 300 steps for words
        "preset": "tiny",
        "position": "sinusoidal",
        "zero_start": False,
        "layers": 2,
        "size": 64,
        "hidden": 128,
        "dropout": 0.0,
        "share": False,
    },
    "rnn": {
        "preset": "tiny-rnn",
        "encoder": {"size": 64, "embedding_size": 32},
        "decoder": {"size": 64, "embedding_size": 32, "readout_size": 32},
    },
}
# The RNN is nearly always correct long before its attention is: its decoder starts with the state that read
# the first letters last, and the states next to a letter contain it, too.
TRAINED = {"transformer": 300, "rnn": 500}
WORDS, NEW, APART = 4000, 40, 1000

FAMILY, STEPS = "transformer-sinusoidal", OPTIONS.max_length
FORWARD = list(range(STEPS))


@dataclass(frozen=True)
class Word:
    """sure: links of letters that alone make a sound; possible: of those that make it together."""

    letters: str
    sounds: str
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def word(draw: random.Random) -> Word:
    """Two to four uniformly drawn syllables, so that the next sound cannot be guessed."""
    letters, sounds, sure, possible = "", [], set(), set()
    for table in (CONSONANTS, VOWELS) * draw.randint(2, 4):
        written = draw.choice(list(table))
        links = [(len(letters) + place, len(sounds)) for place in range(len(written))]
        if written in SOUNDING:
            sure.add(links[SOUNDING[written]])
        elif len(written) == 1:
            sure.add(links[0])
        else:
            possible.update(links)
        letters += written
        sounds.append(table[written])
    return Word(letters, " ".join(sounds), frozenset(sure), frozenset(possible))


@pytest.fixture(scope="module")
def lexicon() -> list[Word]:
    draw = random.Random(1)
    return list({one.letters: one for one in (word(draw) for _ in range(WORDS))}.values())


@pytest.fixture(scope="module", params=FAMILIES)
def seen(request, lexicon, tmp_path_factory) -> list[tuple[Word, Trace]]:
    """New words with correct outputs, and their traces."""
    folder = tmp_path_factory.mktemp(request.param)
    file = folder / "words.tsv"
    known = "".join(f"{one.letters}\t{one.sounds}\n" for one in lexicon[:-NEW])
    file.write_text(known, encoding="utf-8")
    table = {
        "data": {"train": [str(file)]},
        "tokenizer": {"source": "characters", "target": "symbols"},
        "model": FAMILIES[request.param],
        "training": {
            "steps": TRAINED[request.param],
            "tokens": 512,
            "optimizer": {"kind": "adamw", "rate": 3e-3},
            "schedule": {"kind": "linear", "warmup": 20},
            "smoothing": 0.0,
            "validations": 1,
            "decode": 4,
            "traces": 0,
        },
        "search": {"max_length": 12},
        "threads": 1,
    }
    train(parse(table), folder / "run")
    predictor = load(folder / "run")
    traces = [(one, predictor.look(one.letters, ablate=False)) for one in lexicon[-NEW:]]
    return [(one, trace) for one, trace in traces if trace.output == one.sounds]


def error(pairs: list[tuple[Word, Trace]], **which: int) -> float:
    """AER over all words: links of different words are far apart."""
    found, sure, possible = (set() for _ in range(3))
    for number, (one, trace) in enumerate(pairs):
        kinds = (found, links_of(trace, **which)), (sure, one.sure), (possible, one.possible)
        for total, links in kinds:
            total.update((APART * number + letter, APART * number + sound) for letter, sound in links)
    return alignment_error_rate(found, sure, possible)


def test_attention_is_the_alignment_and_goes_forward(seen):
    assert len(seen) >= 0.7 * NEW, "the model has not learned to read"
    assert error(seen) <= 0.05
    assert np.mean([monotonicity(trace) for _, trace in seen]) >= 0.95


def test_an_alignment_of_other_words_is_found_wrong(seen):
    words, traces = zip(*seen, strict=True)
    assert error(list(zip(words[1:], traces[:-1], strict=True))) > 0.3


def looking_at(places: list[int], end: float = 0.0) -> Trace:
    """A trace all of whose cross-attentions look at these places, at the first step with `end` of the weight
    on the end of the source.
    """
    _, trace = case(FAMILY)
    assert len(places) == STEPS
    changed = []
    for entry in trace.document["attention"]:
        if entry["kind"] == "cross":
            weights = 0 * trace.attention("cross", entry["layer"])
            weights[:, range(STEPS), places] = 1
            weights[:, 0, places[0]], weights[:, 0, -1] = 1 - end, end
            (stored,) = quantize([weights], 10_000)
            entry = {**entry, "scales": stored.scales, "weights": stored.weights, "levels": stored.levels}
        changed.append(entry)
    return Trace({**trace.document, "attention": changed})


def test_monotonicity_counts_the_steps_that_do_not_go_back():
    assert monotonicity(looking_at(FORWARD)) == 1
    assert monotonicity(looking_at([2] * STEPS)) == 1
    assert monotonicity(looking_at(FORWARD[::-1])) == 0
    assert monotonicity(looking_at([1, 0, *FORWARD[2:]])) == pytest.approx(1 - 1 / (STEPS - 1))


def test_weight_on_the_end_is_not_counted():
    """With it, the first step would look behind the second."""
    trace = looking_at(FORWARD, end=0.9)
    assert monotonicity(trace) == monotonicity(trace, layer=1) == monotonicity(trace, layer=0, head=1) == 1
    assert links_of(trace) == {(place, place) for place in FORWARD}


def test_traces_that_cannot_be_aligned_are_refused():
    with pytest.raises(InputError, match="needs a layer"):
        links_of(looking_at(FORWARD), head=0)
    with pytest.raises(InputError, match="2 output pieces; the trace has 7 and 1"):
        monotonicity(looked(FAMILY, options=BeamOptions(size=1, max_length=1)))
    with pytest.raises(InputError, match="no cross-attention to align"):
        links_of(looked("rnn-fixed"))
