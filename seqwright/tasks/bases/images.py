"""Images as inputs: what the tasks share that read them, from the user's files to pixels."""

from __future__ import annotations

import logging
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel, PositiveInt, ValidationError

from seqwright.config import DataConfig
from seqwright.data.images import (
    ImageFault,
    Picture,
    as_array,
    checked,
    decoded,
    find_picture,
    in_parallel,
    is_home,
    of_pillow,
    thumbnail,
    to_uri,
)
from seqwright.data.read_report import Place
from seqwright.data.readers.images import ImageExample, ImageFiles, files_of, images_in, open_images
from seqwright.data.results import Prediction
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import Item, Task
from seqwright.data.text_display import pluralize
from seqwright.errors import InputError, ModelError
from seqwright.files import check_format, read_json, write_json

if TYPE_CHECKING:
    from seqwright.data.batch import Images

logger = logging.getLogger(__name__)

P = TypeVar("P", bound=Prediction)

FORMAT, IMAGES = 1, "images.json"
NOWHERE = Place("", 0)
CELL = 8  # pixels: an image counts as many tokens as it has cells of 8 × 8 pixels
MOST_CELLS = 256
NAMED = 5  # images that cannot be used are named
SHEET = 12  # images of each kind in the contact sheet
CLASS_TOKEN = "class"  # the piece of a vector that stands for the whole image


class ImageFile(BaseModel):
    """The contents of images.json."""

    format: int
    size: PositiveInt
    channels: PositiveInt


class ImageTask(Task[ImageExample, P]):
    """A task whose inputs are images of `size` × `size` pixels with 1 or 3 channels.

    augment: the random changes of training images.
    """

    size: int
    channels: int
    augment: tuple[str, ...]

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> ImageFiles:
        return open_images(paths, data)

    @classmethod
    def files(cls, paths: Sequence[str], data: DataConfig) -> list[str]:
        return files_of(paths, data)

    @classmethod
    def group(cls, example: ImageExample) -> str:
        """Equal images stay together, whatever their names."""
        return f"{example.image.facts.digest:x}"

    @classmethod
    def identity(cls, example: ImageExample) -> str:
        return cls.group(example)

    # What is learned from the training split --------------------------------------------------------

    @staticmethod
    def load_images(folder: Path) -> ImageFile:
        """Return the form of the images that a saved task reads."""
        path = folder / IMAGES
        table = read_json(path)
        check_format(path, table.get("format"), FORMAT)
        try:
            return ImageFile.model_validate(table)
        except ValidationError as error:
            raise ModelError(f"{path} is damaged; restore it from a copy") from error

    def save_images(self, folder: Path) -> None:
        write_json(folder / IMAGES, {"format": FORMAT, "size": self.size, "channels": self.channels})

    @property
    def form(self) -> str:
        """The form of the images in a few words."""
        colours = "grey" if self.channels == 1 else "coloured"
        return f"{colours} images of {self.size} × {self.size} pixels"

    # Examples as numbers ---------------------------------------------------------------------------

    @property
    def cells(self) -> int:
        """The number of tokens that an image counts as."""
        return min(max(self.size // CELL, 1) ** 2, MOST_CELLS)

    def image_columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = ColumnSpec("content", "<i8"), ColumnSpec.pixels("pixels")
        return (*columns, ColumnSpec.text("name")) if readable else columns

    def encoded_images(self, examples: Sequence[ImageExample]) -> Iterator[dict[str, Any]]:
        """Yield the columns of each image."""
        for example, pixels in zip(examples, in_parallel(self.pixels, examples), strict=True):
            image = example.image
            yield {"content": [image.facts.digest], "pixels": pixels.reshape(-1), "name": image.name}

    def pixels(self, example: ImageExample) -> np.ndarray:
        return decoded(example.image, self.size, self.channels)

    def shaped(self, flat: np.ndarray) -> np.ndarray:
        """Return rows of pixels as images (B, H, W, C)."""
        return flat.reshape(-1, self.size, self.size, self.channels)

    def stored_pixels(self, store: Store, numbers: np.ndarray) -> np.ndarray:
        return self.shaped(store.column("pixels").equal_rows(numbers))

    def stored_image(self, store: Store, number: int, text: str) -> ImageExample:
        (pixels,) = self.shaped(store.column("pixels").row(number))
        image = Picture(store.column("name").text(number), content=pixels)
        facts = image.facts._replace(digest=int(store.column("content").row(number)[0]))
        return ImageExample(image._replace(facts=facts), text, NOWHERE)

    def on_sheet(self, kind: str, item: Item[ImageExample, Any], expected: str) -> dict[str, Any]:
        """Return an image of the contact sheet."""
        return {
            "kind": kind,
            "image": thumbnail(item.example.image, self.channels),
            "source": item.output.source,
            "expected": expected,
            "output": item.output.value,
            "probability": item.output.probability,
        }

    def picture_of(self, model: Any, images: Images) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return one image as the source of a readout, its cells row by row, and as its `image`."""
        from seqwright.models import evaluating

        with evaluating(model):
            encoded = model.encoder(images)
        rows, columns = encoded.grid
        cells = [f"{i + 1}·{j + 1}" for i in range(rows) for j in range(columns)]
        marks = [CLASS_TOKEN] * (encoded.hidden.shape[1] - len(cells))
        place = {"start": 0, "end": 0, "word": None}
        source = {"pieces": [{"text": text, **place} for text in (*marks, *cells)], "words": []}
        pixels = images.pixels[0].numpy()
        image = {"uri": to_uri(pixels), "rows": rows, "columns": columns}
        return source, {**image, "brightness": round(float(pixels.mean()) / 255, 3)}

    # Inputs ----------------------------------------------------------------------------------------

    def is_one(self, given: Any) -> bool:
        if isinstance(given, str):
            return not is_home(given)
        return (
            isinstance(given, bytes | Mapping | ImageExample)
            or not isinstance(given, Iterable)
            or getattr(given, "ndim", 0) in (2, 3)  # an array of any library
        )

    def inputs(self, given: Any) -> Iterator[ImageExample]:
        """Yield images of paths, folders, data URIs, bytes of files, PIL images and arrays."""
        for each in [given] if self.is_one(given) or isinstance(given, str) else given:
            if isinstance(each, ImageExample):
                yield each._replace(text=None)
                continue
            image = each.get("image") if isinstance(each, Mapping) else each
            if isinstance(image, str | os.PathLike) and is_home(os.fspath(image)):
                yield from _usable(os.fspath(image))
            else:
                yield ImageExample(checked(_picture(image)), None, NOWHERE)

    def labelled(self, given: Any) -> Iterator[ImageExample]:
        for number, each in enumerate(given, start=1):
            if isinstance(each, ImageExample):
                yield each
            elif isinstance(each, tuple | list) and len(each) == 2 and isinstance(each[1], str):
                yield ImageExample(checked(_picture(each[0])), each[1], NOWHERE)
            else:
                rule = f"give a list of (image, {self.roles[1].name})"
                raise InputError(f"example {number} is {reprlib.repr(each)}; {rule}")

    def from_line(self, line: str) -> ImageExample:
        return ImageExample(checked(find_picture(line)), None, NOWHERE)

    def to_line(self, example: ImageExample) -> str:
        return example.image.name

    def caption(self, example: ImageExample) -> str:
        return example.image.name.rpartition("/")[2]

    def portable_line(self, example: ImageExample) -> str:
        return to_uri(self.pixels(example))


def dark_noise(draw: np.random.Generator, right: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return an image for a toy, and the part of it, at the left or at the right, that a square fills."""
    pixels = draw.integers(0, 60, (8, 8, 3), dtype=np.uint8)
    row, column = draw.integers(0, 6), draw.integers(0, 2) + 5 * right
    return pixels, pixels[row : row + 2, column : column + 2]


def channels_of(examples: Iterable[ImageExample]) -> int:
    return 3 if any(example.image.facts.colour for example in examples) else 1


def _usable(path: str) -> Iterator[ImageExample]:
    """Yield the images of a folder or an archive; those that cannot be used are counted and named."""
    faults = []
    for found in images_in(path):
        try:
            yield ImageExample(checked(found), None, NOWHERE)
        except ImageFault as fault:
            faults.append(str(fault))
    if faults:
        named = "; ".join(faults[:NAMED]) + ("; …" if len(faults) > NAMED else "")
        logger.warning("%s of %s cannot be used: %s", pluralize(len(faults), "image"), path, named)


def _picture(given: Any) -> Picture:
    """Return the picture of one input."""
    if isinstance(given, str | os.PathLike):
        return find_picture(os.fspath(given))
    if isinstance(given, bytes):
        return Picture(f"image of {len(given):,} bytes", content=given)
    if hasattr(given, "tobytes") and hasattr(given, "mode") and hasattr(given, "save"):  # of PIL
        return of_pillow(given)
    if isinstance(given, np.ndarray) or hasattr(given, "__array__"):
        pixels = as_array(given)
        return Picture(f"array of {' × '.join(map(str, pixels.shape))}", content=pixels)
    rule = "give a path, the bytes of a file, a PIL image or an array"
    raise InputError(f"{reprlib.repr(given)} is not an image; {rule}")
