"""Recipes of images: which are mirrored, and how an encoder with released weights is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seqwright.pipeline.design import design
from seqwright.recipes.bases.images import mirrored_captions, mirrored_labels


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("zero one two", "labels name numbers or letters, such as “zero”"),
        ("10 11 12", "labels name numbers or letters, such as “10”"),
        ("A_upper B_upper a_lower b_lower", "such as “A_upper”"),
        ("digitOne digitTwo", "such as “digitOne”"),
        ("speed_20 speed_30 stop yield", "such as “speed_20”"),
        ("speed_20 stop", "such as “speed_20”"),
        ("20kmh 30kmh", "such as “20kmh”"),
        ("4 7", "the labels are digits or letters"),
        ("clockwise counterclockwise", "labels name a side, such as “clockwise”"),
        ("anti-clockwise still", "labels name a side"),
        ("leftwards up", "labels name a side"),
        ("leftmost middle", "labels name a side"),
        ("cat dog", None),
        ("001.Black_footed_Albatross 002.Laysan_Albatross 003.Sooty_Albatross", None),
        ("leftover copyright otherwise", None),
        (" ".join([f"thing{'abc'[i % 3]}{'xyz'[i // 3]}" for i in range(9)]) + " onestop tent seventh", None),
    ],
)
def test_labels_that_are_signs_are_not_mirrored(labels, reason):
    found = mirrored_labels(labels.split())
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_a_few_numbers_among_many_names_are_mirrored():
    names = [f"bird {word}" for word in ("wren", "crow", "gull", "tern", "kite", "dove", "lark")] * 4
    assert mirrored_labels([*{f"{name} {'x' * n}y" for n, name in enumerate(names, 2)}, "ak-47"]) is None


@pytest.mark.parametrize(
    ("captions", "reason"),
    [
        (["seven three", "3 7 1", "x = 2"], "captions are numbers or letters, such as “seven three”"),
        (["turn leftwards", "go on"], "50% of the captions name left or right"),
        (["one man and two dogs", "a cat", "seven birds fly"], None),
    ],
)
def test_captions_that_are_signs_are_not_mirrored(captions, reason):
    assert mirrored_captions(captions, 0.01) == reason


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("text", ["seven three", "a line of a letter"])
def test_lines_of_writing_with_captions_are_not_mirrored(mode, text, tmp_path):
    draw, rows = np.random.default_rng(0), []
    for number in range(40):
        pixels = np.full((12, 24), 255, np.uint8)
        pixels[draw.integers(2, 10), draw.integers(0, 4, 12) + np.arange(0, 24, 2)[:12] // 2] = 0
        Image.fromarray(pixels).convert(mode).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png\t{text} {'ab'[number % 2]}\n")
    Path(tmp_path / "lines.tsv").write_text("".join(rows))
    made = design({"data": {"train": [str(tmp_path / "lines.tsv")]}, "task": "image_captioning"})
    assert made.config.data.augment == ("crop",)
    reason = "captions are numbers or letters" if "seven" in text else "they are grey strokes"
    assert f"no flips, because {reason}" in "\n".join(made.lines())
