"""Images with captions: photographs, drawings, symbols; each image may have several captions."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from pydantic import BaseModel, PositiveInt, ValidationError

from seqwright.config import Config, SearchConfig
from seqwright.config.registry import parse
from seqwright.data.augmentation import augmented
from seqwright.data.glance import Glance
from seqwright.data.images import to_uri
from seqwright.data.plan import RowLengths
from seqwright.data.readers.images import ImageExample, image_layout
from seqwright.data.results import Reading, Text
from seqwright.data.store import ColumnSpec, Ragged, Store
from seqwright.data.task import Bucket, Claim, Item, Judge, Kind, Learning, Mistake, Nouns, Role, Row, Usage
from seqwright.data.tokenizer import BEGIN, Tokenizer, load_tokenizer, train_tokenizer
from seqwright.errors import ConfigError, ModelError
from seqwright.evaluation.buckets import ENDING, by_ending, by_length
from seqwright.evaluation.metrics.bases.captions import caption_words
from seqwright.evaluation.mistakes import mistakes_of
from seqwright.evaluation.text_outputs import build_metric, metric_label
from seqwright.files import check_format, read_json, write_json
from seqwright.tasks.bases.generated_text import GeneratedText
from seqwright.tasks.bases.images import SHEET, ImageTask, channels_of, dark_noise
from seqwright.tasks.text_to_text import TARGET

if TYPE_CHECKING:
    from seqwright.data.batch import Batch, Images
    from seqwright.lens.trace.readout import Readout
    from seqwright.models import Model
    from seqwright.tasks.bases.generated_text import TextRequest

FORMAT, CAPTIONS = 1, "captions.json"
METRICS = ("cider", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "chrf", "word_f1", "exact_match", "distinct")
VALIDATED = ("cider", "bleu_4", "word_f1", "exact_match", "distinct")
ORDERS = range(1, 5)  # n-grams by which captions are compared


class CaptionFile(BaseModel):
    """The contents of captions.json: the longest training caption in tokens, and the most typical one."""

    format: int
    longest: PositiveInt
    typical: str


@dataclass(frozen=True)
class ImageCaptioning(ImageTask[Text], GeneratedText[ImageExample]):
    """Images of one size, and captions as ids of a tokenizer.

    longest: tokens of the longest training caption. typical: the training caption that describes most images
    best; the same answer for every image is the floor that a model must beat.
    """

    target: Tokenizer
    size: int
    channels: int
    longest: int
    typical: str
    augment: tuple[str, ...] = ()

    roles = (Role("image", Kind.IMAGE), Role("caption", Kind.TEXT, needed="train"))
    models = ("encoder_decoder", "ensemble")
    nouns = Nouns("caption", group="image")
    learning = Learning(block=512)
    usage = Usage(file="item", generates=True, traced=models)
    shortest = 1
    sample_facts: ClassVar[Mapping[str, Any]] = {"channels": 3, "image_size": 32, "target_vocabulary": 8}

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    def claim(cls, glance: Glance) -> Claim | None:
        layout = image_layout(glance)
        return Claim(2, layout.evidence) if layout is not None and layout.kind == "captions" else None

    @classmethod
    def texts(cls, example: ImageExample) -> Sequence[str]:
        return (example.text or "",)

    @classmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """A bright square on dark noise, with its colour and place in words; every fourth image has two
        captions.
        """
        draw, records = np.random.default_rng(seed), []
        for number in range(240):
            right, colour = number % 2, number // 2 % 2
            pixels, square = dark_noise(draw, bool(right))
            square[..., colour] = draw.integers(200, 255)
            name, side = ("red", "green")[colour], ("left", "right")[right]
            captions = [f"a {name} square on the {side}"]
            if number % 4 == 0:
                captions.append(f"there is a {name} square")
            records += [{"image": to_uri(pixels), "caption": caption} for caption in captions]
        random.Random(seed).shuffle(records)
        return records

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    def fit(
        cls,
        config: Config,
        examples: Callable[[], Iterable[ImageExample]],
        start: ImageCaptioning | None = None,
    ) -> ImageCaptioning:
        captions = [written_caption(example) for example in examples()]
        if start is not None:
            target, size, channels = start.target.grown(captions), start.size, start.channels
        else:
            kind, options = parse("tokenizer", config.tokenizer.target)
            target, size = train_tokenizer(kind, captions, **options), config.data.image_size
            channels = channels_of(examples())
        longest = max(map(len, target.encode_batch(captions)))
        return cls(target, size, channels, max(longest, 1), most_typical(captions), config.data.augment)

    @classmethod
    def load(cls, folder: Path, config: Config) -> ImageCaptioning:
        path, images = folder / CAPTIONS, cls.load_images(folder)
        table = read_json(path)
        check_format(path, table.get("format"), FORMAT)
        try:
            known = CaptionFile.model_validate(table)
        except ValidationError as error:
            raise ModelError(f"{path} is damaged; restore it from a copy") from error
        target, augment = load_tokenizer(folder / TARGET), config.data.augment
        return cls(target, images.size, images.channels, known.longest, known.typical, augment)

    def save(self, folder: Path) -> None:
        self.save_images(folder)
        self.target.save(folder / TARGET)
        write_json(folder / CAPTIONS, {"format": FORMAT, "longest": self.longest, "typical": self.typical})

    @property
    def fingerprint(self) -> str:
        return f"{self.size}x{self.channels}:{self.target.fingerprint}"

    @property
    def summary(self) -> str:
        return f"{self.form} → {self.target.kind} with {self.target.size:,} ids"

    # Examples as numbers ---------------------------------------------------------------------------

    @classmethod
    def check(cls, config: Config) -> None:
        from seqwright.data.batch import Images
        from seqwright.models import ENCODERS
        from seqwright.models.building import resolve

        if "mixup" in config.data.augment:
            raise ConfigError(
                "data.augment has mixup, which mixes labels; captions cannot be mixed: leave it out"
            )
        kind = resolve(config.model)["encoder"]["kind"]
        if ENCODERS.get(kind).reads is not Images:  # type: ignore[attr-defined]
            raise ConfigError(
                f"model.encoder is {kind}, which reads no images; use cnn, resnet, hybrid or patches"
            )

    def facts(self) -> Mapping[str, Any]:
        return {"channels": self.channels, "image_size": self.size, "target_vocabulary": self.target.size}

    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        columns = (*self.image_columns(readable=readable), ColumnSpec.ids("target", self.target.size))
        return (*columns, ColumnSpec.text("caption")) if readable else columns

    def encode(self, examples: Sequence[ImageExample]) -> list[Row[ImageExample]]:
        """Encode images, and captions where all examples have one."""
        images = list(self.encoded_images(examples))
        sources = [{**image, "source": image["pixels"]} for image in images]
        if any(example.text is None for example in examples):
            pairs = zip(examples, sources, strict=True)
            return [Row(example, columns, self.cells) for example, columns in pairs]
        captions = [written_caption(example) for example in examples]
        rows, ids = [], self.target.encode_batch(captions)
        for example, source, caption, target in zip(examples, sources, captions, ids, strict=True):
            columns = {**source, "target": target, "caption": caption}
            rows.append(Row(example, columns, max(self.cells, len(target))))
        return rows

    def stored(self, store: Store, number: int) -> ImageExample:
        return self.stored_image(store, number, store.column("caption").text(number))

    def lengths(self, store: Store) -> RowLengths:
        targets = store.column("target").lengths()
        return RowLengths(np.zeros_like(targets), targets)

    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Batch:
        from seqwright.data.batch import with_targets

        pixels = self.stored_pixels(store, numbers)
        if epoch is not None and self.augment:
            pixels = augmented(pixels, self.augment, seed, epoch, numbers)
        return with_targets(self._images(pixels), store.column("target").gather(numbers), numbers)

    def source_of(self, rows: Ragged) -> Images:
        return self._images(self.shaped(rows.flat))

    def _images(self, pixels: np.ndarray) -> Images:
        import torch

        from seqwright.data.batch import Images

        return Images(torch.from_numpy(pixels))

    @property
    def chance_loss(self) -> float:
        return math.log(self.target.size)

    # Answers ---------------------------------------------------------------------------------------

    def is_blank(self, example: ImageExample) -> bool:
        return False

    def input_limit(self, model: Model) -> int:
        """An image is read whole."""
        return self.size * self.size * self.channels

    def source_length(self, row: Row[ImageExample]) -> int:
        return self.cells

    def output_limit(self, source: Sequence[int]) -> int:
        return 2 * self.longest + 10

    def reading(self, row: Row[ImageExample], limit: int) -> Reading:
        return Reading(self.cells)

    def readout(
        self, model: Any, example: ImageExample, request: TextRequest | None = None, output: str | None = None
    ) -> Readout:
        """The cells of the encoder's grid, and a caption: `output`, or the best one."""
        import torch

        from seqwright.data.batch import Batch, Tokens
        from seqwright.lens.trace import steps
        from seqwright.lens.trace.pieces import symbol_text, text_pieces
        from seqwright.lens.trace.readout import Readout

        (row,) = self.encode([example._replace(text=None)])
        images = self.source_of(Ragged.of([row.columns["source"]]))
        source, image = self.picture_of(model, images)
        if output is None:
            options = (request or self.request(SearchConfig(beam=1))).options
            ((best, *_),) = self.search(model, [row.columns["source"]], [[]], options)
            written = steps.output(cast(Any, self), best)
        else:
            written = {"text": output, **text_pieces(self.target, output)}
        ids = [piece["id"] for piece in written["pieces"]]
        read, expected = torch.tensor([[BEGIN, *ids[:-1]]]), torch.tensor([ids])
        return Readout(
            Batch(images, Tokens(read), expected, np.zeros(1, np.int64)),
            self.to_line(example),
            source,
            written,
            partial(symbol_text, self.target),
            {"source": "image", "output": "caption"},
            decoded=True,
            image=image,
        )

    # Judging ---------------------------------------------------------------------------------------

    def truth(self, example: ImageExample) -> str:
        return written_caption(example)

    def judge(
        self,
        examples: Sequence[ImageExample],
        references: Sequence[Sequence[str]],
        *,
        metrics: Sequence[Any] = (),
        validation: bool = False,
        **options: Any,
    ) -> Judge:
        specs = dict.fromkeys((*VALIDATED, *metrics)) if validation else metrics or METRICS
        known = {key: options[key] for key in ("tokenize", "lowercase") if key in options}
        built = tuple(build_metric(spec, "text", **known) for spec in specs)
        labels = {metric.name: metric_label(metric.name, "text") for metric in built}
        return Judge(built, {"writing": "text", "item": "text"}, labels)

    def mistakes(self, judge: Judge, items: Sequence[Item[ImageExample, Text]]) -> list[Mistake]:
        outputs, references = [item.output.text for item in items], [item.references for item in items]
        return mistakes_of(outputs, references, "text")

    def buckets(
        self, items: Sequence[Item[ImageExample, Text]], folder: Path | None
    ) -> dict[str, tuple[Bucket, ...]]:
        """Group by the length of the first caption and by the end of the output, where these differ."""
        found = {
            "length of the caption in words": by_length([item.references[0] for item in items], "text"),
            ENDING: by_ending([item.output.finish_reason for item in items]),
        }
        return {respect: buckets for respect, buckets in found.items() if len(buckets) > 1}

    def contact_sheet(self, items: Sequence[Item[ImageExample, Text]]) -> list[dict[str, Any]]:
        """The captions closest to a reference and those farthest from all, the most confident first."""
        found = mistakes_of([item.output.text for item in items], [item.references for item in items], "text")
        order = sorted(range(len(items)), key=lambda i: (found[i].share, -items[i].output.probability))
        wrong = [i for i in order if found[i].edits]
        wrong.sort(key=lambda i: (-found[i].share, -items[i].output.probability))
        shown = [("best", i) for i in order[:SHEET]] + [("worst", i) for i in wrong[:SHEET]]
        return [self.on_sheet(kind, items[i], found[i].reference) for kind, i in shown]

    def baseline(self, example: ImageExample) -> str:
        """The most typical training caption, whatever the image."""
        return self.typical


def most_typical(captions: Sequence[str]) -> str:
    """Return the caption whose n-grams of one to four words occur in the most captions: the geometric mean
    over the orders, as in BLEU. Short captions are easily typical, so it is of median length at least.
    """
    seen = Counter(gram for caption in captions for gram in _grams(caption))
    least = median(len(caption_words(caption)) for caption in captions)

    def shared(caption: str) -> float:
        grams = _grams(caption)  # computed twice: all of them together would take hundreds of megabytes
        by_order = [[seen[gram] for gram in grams if len(gram) == order] for order in ORDERS]
        logs = [math.log(sum(counts) / len(counts)) for counts in by_order if counts]
        return sum(logs) / max(len(logs), 1)

    long = [caption for caption in dict.fromkeys(captions) if len(caption_words(caption)) >= least]
    return max(long, key=lambda caption: (shared(caption), caption))


def _grams(caption: str) -> set[tuple[str, ...]]:
    words = caption_words(caption)
    return {tuple(words[i : i + order]) for order in ORDERS for i in range(len(words) - order + 1)}


def written_caption(example: ImageExample) -> str:
    """Return the caption that a person wrote, on one line."""
    assert example.text is not None
    return " ".join(example.text.split())
