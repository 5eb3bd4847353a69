"""Recipes of images: which are mirrored, and how an encoder with released weights is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

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
        (["turn leftwards", "go on"], "50 % of the captions name left or right"),
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


def photos(home: Path) -> list[str]:
    draw = np.random.default_rng(0)
    for number in range(40):
        folder = home / "photos" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (48, 48, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return [str(home / "photos")]


RELEASED = {
    "resnet18": ({"conv1.weight": (64, 3, 7, 7)}, 224, 4e-3),
    "dosovitskiy2021-tiny": (
        {"patch_embed.proj.weight": (192, 3, 16, 16), "pos_embed": (1, 577, 192)},
        384,
        1e-3,
    ),
}


@pytest.mark.parametrize("preset", RELEASED)
def test_released_weights_are_trained_gently_at_their_size(preset, tmp_path):
    shapes, size, rate = RELEASED[preset]
    file = str(tmp_path / "weights.safetensors")
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, file)
    table = {"data": {"train": photos(tmp_path)}, "model": {"preset": preset, "encoder": {"start": file}}}
    made = design(table)
    assert made.config.data.image_size == size
    optimizer = made.config.training.optimizer
    assert (optimizer["rate"], optimizer["part_rates"]) == (rate, {"encoder": 0.1})
    assert made.config.training.schedule == {"kind": "linear", "warmup": 50}
    printed = " ".join("\n".join(made.lines()).split())
    assert f"images of {size} × {size} pixels: {file} was trained with images of this size" in printed
    assert "0.1 times the rate for the encoder, a warm-up of 50 steps: smaller steps keep more" in printed
    small = design({**table, "data": {**table["data"], "image_size": 96}})
    assert small.config.data.image_size == 96
