"""Images with one label each: digits, objects, scenes, defects."""

from __future__ import annotations

import io
import os
import random
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import BaseModel, PositiveInt, ValidationError

from seqwright.config import Config, DataConfig
from seqwright.data.augmentation import augmented, mixed, partners
from seqwright.data.glance import Glance
from seqwright.data.images import (
    Picture,
    as_array,
    checked,
    decoded,
    find_picture,
    in_parallel,
    is_archive,
    is_packed,
    to_uri,
)
from seqwright.data.labels import Labels
from seqwright.data.plan import RowLengths, cut_by_tokens
from seqwright.data.read_report import Place
from seqwright.data.readers.images import (
    ImageExample,
    ImageFiles,
    files_of,
    image_layout,
    images_in,
    open_images,
)
from seqwright.data.results import Label
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import Bucket, Claim, Item, Kind, Role, Row
from seqwright.errors import InputError, ModelError
from seqwright.evaluation.buckets import by_tenth
from seqwright.files import check_format, read_json, write_json
from seqwright.tasks.bases.labels import LABELS, USUAL, LabelTask

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch

FORMAT, IMAGES = 1, "images.json"
NOWHERE = Place("", 0)
CELL = 8  # pixels: an image counts as many tokens as it has cells of 8 × 8 pixels
MOST_CELLS = 256
TOKENS = 4096  # of images that are computed together


class ImageFile(BaseModel):
    """The contents of images.json."""

    format: int
    size: PositiveInt
    channels: PositiveInt


@dataclass(frozen=True)
class ImageClassification(LabelTask[ImageExample]):
    """Images of `size` × `size` pixels with 1 or 3 channels, and the numbers of labels.

    augment: the random changes of training images.
    """

    labels: Labels
    size: int
    channels: int
    augment: tuple[str, ...] = ()

    roles = (Role("image", Kind.IMAGE), Role("label", Kind.LABEL, needed="train"))
    noun, group_noun = "image", "image"
    sample_facts: ClassVar[Mapping[str, Any]] = {"channels": 3, "image_size": 32, "classes": 2}
    reads_files, speed_noun, block = True, "image", 512
    usual_metrics = (USUAL[0], "top_5", *USUAL[1:])

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        layout = image_layout(glance)
        return Claim(2, layout.evidence) if layout is not None and layout.kind == "labels" else None

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

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Bright squares on dark noise, at the left or at the right."""
        draw = np.random.default_rng(seed)
        records = []
        for number in range(240):
            pixels = draw.integers(0, 80, (8, 8, 3), dtype=np.uint8)
            right = number % 2
            row, column = draw.integers(0, 6), draw.integers(0, 2) + 5 * right
            pixels[row : row + 2, column : column + 2] = draw.integers(180, 255, 3)
            records.append({"image": to_uri(pixels), "label": "right" if right else "left"})
        random.Random(seed).shuffle(records)
        return records

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls,
        config: Config,
        examples: Callable[[], Iterable[ImageExample]],
        start: ImageClassification | None = None,
    ) -> ImageClassification:
        counts, size = cls.counted(examples), config.data.image_size
        if start is not None:
            return cls(start.labels.grown(counts), start.size, start.channels, config.data.augment)
        colour = any(example.image.facts.colour for example in examples())
        return cls(Labels.of(counts), size, 3 if colour else 1, config.data.augment)

    @classmethod
    def load(cls, folder: Path, config: Config) -> ImageClassification:
        path = folder / IMAGES
        table = read_json(path)
        check_format(path, table.get("format"), FORMAT)
        try:
            images = ImageFile.model_validate(table)
        except ValidationError as error:
            raise ModelError(f"{path} is damaged; restore it from a copy") from error
        return cls(Labels.load(folder / LABELS), images.size, images.channels, config.data.augment)

    def save(self, folder: Path) -> None:
        write_json(folder / IMAGES, {"format": FORMAT, "size": self.size, "channels": self.channels})
        self.labels.save(folder / LABELS)

    @property
    def fingerprint(self) -> str:
        return f"{self.size}x{self.channels}:{self.labels.fingerprint}"

    @property
    def summary(self) -> str:
        colours = "grey" if self.channels == 1 else "coloured"
        return f"{colours} images of {self.size} × {self.size} pixels → {len(self.labels.names):,} labels"

    # Examples as numbers ---------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {"channels": self.channels, "image_size": self.size, **super().facts()}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = ColumnSpec("content", "<i8"), ColumnSpec("label", "<u4"), ColumnSpec.pixels("pixels")
        return (*columns, ColumnSpec.text("name")) if readable else columns

    def encode(self, examples: Sequence[ImageExample]) -> list[Row[ImageExample]]:
        cells = min(max(self.size // CELL, 1) ** 2, MOST_CELLS)
        rows = []
        for example, pixels in zip(examples, in_parallel(self._pixels, examples), strict=True):
            image = example.image
            columns = {"content": [image.facts.digest], "pixels": pixels.reshape(-1), "name": image.name}
            rows.append(Row(example, columns | self.label_column(example), cells))
        return rows

    def _pixels(self, example: ImageExample) -> np.ndarray:
        return decoded(example.image, self.size, self.channels)

    def stored(self, store: Store, number: int) -> ImageExample:
        label = self.labels.names[int(store.column("label").row(number)[0])]
        pixels = store.column("pixels").row(number).reshape(self.size, self.size, self.channels)
        image = Picture(store.column("name").text(number), content=pixels)
        facts = image.facts._replace(digest=int(store.column("content").row(number)[0]))
        return ImageExample(image._replace(facts=facts), label, NOWHERE)

    def lengths(self, store: Store) -> RowLengths:
        """One token for each image: `training.tokens` is a number of images."""
        nothing = np.zeros(len(store), np.int32)
        return RowLengths(nothing, nothing)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        import torch

        from seqwright.data.batch import HeadBatch, Images

        pixels, labels = self._stored_pixels(store, numbers), self._stored_labels(store, numbers)
        expected = torch.from_numpy(labels)
        if epoch is not None and self.augment:
            pixels = augmented(pixels, self.augment, seed, epoch, numbers)
            if "mixup" in self.augment:
                others, weights = partners(seed, epoch, numbers, len(store))
                pixels = mixed(pixels, self._stored_pixels(store, others), weights)
                shares = np.zeros((len(numbers), len(self.labels.names)), np.float32)
                shares[np.arange(len(numbers)), labels] = weights
                shares[np.arange(len(numbers)), self._stored_labels(store, others)] += 1 - weights
                expected = torch.from_numpy(shares)
        return HeadBatch(Images(torch.from_numpy(pixels)), expected, numbers, len(numbers))

    def _stored_pixels(self, store: Store, numbers: np.ndarray) -> np.ndarray:
        return store.column("pixels").equal_rows(numbers).reshape(-1, self.size, self.size, self.channels)

    def _stored_labels(self, store: Store, numbers: np.ndarray) -> np.ndarray:
        return store.column("label").equal_rows(numbers)[:, 0].astype(np.int64)

    # Answers ---------------------------------------------------------------------------------------

    def is_one(self, given: Any) -> bool:
        if isinstance(given, str):
            return not _holds_images(given)
        return (
            isinstance(given, bytes | Mapping | ImageExample)
            or not isinstance(given, Iterable)
            or (isinstance(given, np.ndarray) and given.ndim < 4)
        )

    def inputs(self, given: Any) -> Iterator[ImageExample]:
        """Yield images of paths, folders, data URIs, bytes of files, PIL images and arrays."""
        for each in [given] if self.is_one(given) or isinstance(given, str) else given:
            if isinstance(each, ImageExample):
                yield each._replace(text=None)
                continue
            image = each.get("image") if isinstance(each, Mapping) else each
            if isinstance(image, str | os.PathLike) and _holds_images(os.fspath(image)):
                yield from (ImageExample(checked(found), None, NOWHERE) for found in images_in(str(image)))
            else:
                yield ImageExample(checked(_picture(image)), None, NOWHERE)

    def labelled(self, given: Any) -> Iterator[ImageExample]:
        for number, each in enumerate(given, start=1):
            if isinstance(each, ImageExample):
                yield each
            elif isinstance(each, tuple | list) and len(each) == 2 and isinstance(each[1], str):
                yield ImageExample(checked(_picture(each[0])), each[1], NOWHERE)
            else:
                rule = "give a list of (image, label)"
                raise InputError(f"example {number} is {reprlib.repr(each)}; {rule}")

    def from_line(self, line: str) -> ImageExample:
        return ImageExample(checked(find_picture(line)), None, NOWHERE)

    def to_line(self, example: ImageExample) -> str:
        return example.image.name

    def portable_line(self, example: ImageExample) -> str:
        return to_uri(self._pixels(example))

    def scores(self, model: Any, rows: Sequence[Row[ImageExample]]) -> np.ndarray:
        import torch

        from seqwright.data.batch import Images
        from seqwright.models import evaluating

        found = np.zeros((len(rows), len(self.labels.names)))
        lengths = [row.length for row in rows]
        for numbers in cut_by_tokens(range(len(rows)), lengths, TOKENS):
            pixels = np.stack([rows[i].columns["pixels"] for i in numbers])
            images = Images(torch.from_numpy(pixels.reshape(-1, self.size, self.size, self.channels)))
            with evaluating(model):
                found[numbers] = model.predictions(images).double().numpy()
        return found

    # Judging ---------------------------------------------------------------------------------------

    def buckets(
        self, items: Sequence[Item[ImageExample, Label]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by the probability of the answer."""
        found = {"probability of the label": by_tenth([item.output.probability for item in items])}
        return {respect: buckets for respect, buckets in found.items() if buckets}


def _holds_images(path: str) -> bool:
    return os.path.isdir(path) or (os.path.isfile(path) and (is_archive(path) or is_packed(path)))


def _picture(given: Any) -> Picture:
    """Return the picture of one input."""
    if isinstance(given, str | os.PathLike):
        return find_picture(os.fspath(given))
    if isinstance(given, bytes):
        return Picture(f"image of {len(given):,} bytes", content=given)
    if hasattr(given, "tobytes") and hasattr(given, "mode") and hasattr(given, "save"):  # of PIL
        file = io.BytesIO()
        given.save(file, "PNG" if given.mode != "CMYK" else "TIFF")
        return Picture(f"image of {given.width} × {given.height} pixels", content=file.getvalue())
    if isinstance(given, np.ndarray) or hasattr(given, "__array__"):
        pixels = as_array(given)
        return Picture(f"array of {' × '.join(map(str, pixels.shape))}", content=pixels)
    rule = "give a path, the bytes of a file, a PIL image or an array"
    raise InputError(f"{reprlib.repr(given)} is not an image; {rule}")
