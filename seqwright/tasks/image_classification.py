"""Images with one label each: digits, objects, scenes, defects."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqwright.config import Config
from seqwright.data.augmentation import augmented, mixed, partners
from seqwright.data.glance import Glance
from seqwright.data.images import to_uri
from seqwright.data.labels import Labels
from seqwright.data.plan import RowLengths, cut_by_tokens
from seqwright.data.readers.images import ImageExample, image_layout
from seqwright.data.results import Label
from seqwright.data.split import SplitRule
from seqwright.data.store import ColumnSpec, Store
from seqwright.data.task import Bucket, Claim, Item, Kind, Learning, Nouns, Role, Row, Usage
from seqwright.evaluation.buckets import by_tenth
from seqwright.tasks.bases.images import SHEET, ImageTask, channels_of, dark_noise
from seqwright.tasks.bases.labels import LABELS, USUAL, LabelTask

if TYPE_CHECKING:
    from seqwright.data.batch import HeadBatch
    from seqwright.lens.trace.readout import Readout

TOKENS = 4096  # of images that are computed together


@dataclass(frozen=True)
class ImageClassification(ImageTask[Label], LabelTask[ImageExample]):
    """Images of `size` × `size` pixels with 1 or 3 channels, and the numbers of labels.

    augment: the random changes of training images.
    """

    labels: Labels
    size: int
    channels: int
    augment: tuple[str, ...] = ()

    roles = (Role("image", Kind.IMAGE), Role("label", Kind.LABEL, needed="train"))
    nouns = Nouns("image", group="image", speed="image")
    learning = Learning(SplitRule.BY_LABEL, block=512)
    usage = Usage(file="item", traced=LabelTask.models)
    sample_facts: ClassVar[Mapping[str, Any]] = {"channels": 3, "image_size": 32, "classes": 2}
    usual_metrics = (USUAL[0], "top_5", *USUAL[1:])

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        layout = image_layout(glance)
        return Claim(2, layout.evidence) if layout is not None and layout.kind == "labels" else None

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Bright squares on dark noise, at the left or at the right."""
        draw = np.random.default_rng(seed)
        records = []
        for number in range(240):
            right = bool(number % 2)
            pixels, square = dark_noise(draw, right)
            square[:] = draw.integers(180, 255, 3)
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
        return cls(Labels.of(counts), size, channels_of(examples()), config.data.augment)

    @classmethod
    def load(cls, folder: Path, config: Config) -> ImageClassification:
        images = cls.load_images(folder)
        return cls(Labels.load(folder / LABELS), images.size, images.channels, config.data.augment)

    def save(self, folder: Path) -> None:
        self.save_images(folder)
        self.labels.save(folder / LABELS)

    @property
    def fingerprint(self) -> str:
        return f"{self.size}x{self.channels}:{self.labels.fingerprint}"

    @property
    def summary(self) -> str:
        return f"{self.form} → {len(self.labels.names):,} labels"

    # Examples as numbers ---------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Any]:
        return {"channels": self.channels, "image_size": self.size, **super().facts()}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        return *self.image_columns(readable=readable), ColumnSpec("label", "<u4")

    def encode(self, examples: Sequence[ImageExample]) -> list[Row[ImageExample]]:
        found = zip(examples, self.encoded_images(examples), strict=True)
        return [Row(example, image | self.label_column(example), self.cells) for example, image in found]

    def stored(self, store: Store, number: int) -> ImageExample:
        label = self.labels.names[int(store.column("label").row(number)[0])]
        return self.stored_image(store, number, label)

    def lengths(self, store: Store) -> RowLengths:
        """One token for each image: `training.tokens` is a number of images."""
        nothing = np.zeros(len(store), np.int32)
        return RowLengths(nothing, nothing)

    def batch(
        self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None
    ) -> HeadBatch:
        import torch

        from seqwright.data.batch import HeadBatch, Images

        pixels, labels = self.stored_pixels(store, numbers), self._stored_labels(store, numbers)
        expected = torch.from_numpy(labels)
        if epoch is not None and self.augment:
            pixels = augmented(pixels, self.augment, seed, epoch, numbers)
            if "mixup" in self.augment:
                others, weights = partners(seed, epoch, numbers, len(store))
                pixels = mixed(pixels, self.stored_pixels(store, others), weights)
                shares = np.zeros((len(numbers), len(self.labels.names)), np.float32)
                shares[np.arange(len(numbers)), labels] = weights
                shares[np.arange(len(numbers)), self._stored_labels(store, others)] += 1 - weights
                expected = torch.from_numpy(shares)
        return HeadBatch(Images(torch.from_numpy(pixels)), expected, numbers, len(numbers))

    def _stored_labels(self, store: Store, numbers: np.ndarray) -> np.ndarray:
        return store.column("label").equal_rows(numbers)[:, 0].astype(np.int64)

    # Answers ---------------------------------------------------------------------------------------

    def scores(self, model: Any, rows: Sequence[Row[ImageExample]]) -> np.ndarray:
        import torch

        from seqwright.data.batch import Images
        from seqwright.models import evaluating

        found = np.zeros((len(rows), len(self.labels.names)))
        lengths = [row.length for row in rows]
        for numbers in cut_by_tokens(range(len(rows)), lengths, TOKENS):
            pixels = np.stack([rows[i].columns["pixels"] for i in numbers])
            images = Images(torch.from_numpy(self.shaped(pixels)))
            with evaluating(model):
                found[numbers] = model.predictions(images).double().numpy()
        return found

    def readout(self, model: Any, example: ImageExample) -> Readout:
        """The cells of the encoder's grid, and the most probable label."""
        import torch

        from seqwright.data.batch import HeadBatch, Images
        from seqwright.lens.trace.pieces import joined_entries
        from seqwright.lens.trace.readout import Readout

        (row,) = self.encode([example._replace(text=None)])
        number = int(self.scores(model, [row])[0].argmax())
        images = Images(torch.tensor(self.shaped(row.columns["pixels"])))
        source, image = self.picture_of(model, images)
        return Readout(
            HeadBatch(images, torch.tensor([number]), np.zeros(1, np.int64), 1),
            self.to_line(example),
            source,
            joined_entries([number], [self.labels.names[number]]),
            self.labels.names.__getitem__,
            {"source": "image", "output": "label", "step": "label", "symbol": "label"},
            temperature=self.labels.temperature,
            image=image,
        )

    # Judging ---------------------------------------------------------------------------------------

    def buckets(
        self, items: Sequence[Item[ImageExample, Label]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by the probability of the answer."""
        found = {"probability of the label": by_tenth([item.output.probability for item in items])}
        return {respect: buckets for respect, buckets in found.items() if buckets}

    def contact_sheet(self, items: Sequence[Item[ImageExample, Label]]) -> list[dict[str, Any]]:
        """The most confident correct and wrong predictions, and those with the smallest lead."""
        right = [item for item in items if item.output.label in item.references]
        wrong = [item for item in items if item.output.label not in item.references]
        groups = {
            "best": _by_label(sorted(right, key=lambda item: -item.output.probability)),
            "worst": sorted(wrong, key=lambda item: -item.output.probability),
            "confused": sorted(items, key=lambda item: _lead(item.output)),
        }
        shown = ((kind, item) for kind, found in groups.items() for item in found[:SHEET])
        return [self.on_sheet(kind, item, item.references[0]) for kind, item in shown]


def _by_label(items: Sequence[Item[ImageExample, Label]]) -> list[Item[ImageExample, Label]]:
    """Return the first item of every label, then the second of every label, and so on."""
    seen: Counter[str] = Counter()
    ranks = []
    for item in items:
        ranks.append(seen[item.output.label])
        seen[item.output.label] += 1
    return [items[i] for i in sorted(range(len(items)), key=ranks.__getitem__)]


def _lead(output: Label) -> float:
    """Return by how much the most probable label leads."""
    first, second = islice(output.probabilities.values(), 2)
    return first - second
