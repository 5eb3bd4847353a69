"""All pictures by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from examples.pictures.complexity import complexity
from examples.pictures.learning import schedules, smoothing
from examples.pictures.masks import masks
from examples.pictures.positions import relative, rotation, sinusoids
from examples.pictures.pruning import pruning
from examples.pictures.translation import attention_lines, attention_matrix, beam_tree, head_wall
from examples.pictures.weights import scaling, temperature
from seqwright.files import write_text

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES: dict[str, Callable[[], str]] = {
    "temperature": temperature,
    "scaling": scaling,
    "attention-lines": attention_lines,
    "attention-matrix": attention_matrix,
    "head-wall": head_wall,
    "pruning": pruning,
    "complexity": complexity,
    "masks": masks,
    "sinusoids": sinusoids,
    "rotation": rotation,
    "relative": relative,
    "schedules": schedules,
    "smoothing": smoothing,
    "beam-tree": beam_tree,
}


def draw_all(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        write_text(folder / f"{name}.svg", draw())
