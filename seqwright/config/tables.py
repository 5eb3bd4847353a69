"""The tables of a configuration, with every default. Those of a part's options are in its signature."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Len, Lt

from seqwright.config.validation import Count, Doc, Positive, Seed, Share, Whole

Spec = str | dict[str, Any]
Files = tuple[str, ...]
Format = Literal["parallel", "tsv", "csv", "jsonl"]
Character = Annotated[str, Len(1, 1)]
Augmentation = Literal["crop", "flip", "colour", "erase", "mixup"]
HeldOut = Annotated[float, Gt(0), Lt(0.5)]
Rows = tuple[Count, Count, Count]
Clip = Annotated[float, Gt(0)]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The files of the data set, their format, and the split."""

    train: Annotated[Files, Doc("Files to train on.")] = ()
    valid: Annotated[Files, Doc("Validation files; without them, a share of the training sources.")] = ()
    test: Annotated[Files, Doc("Test files; without them, a share of the training sources.")] = ()
    corrections: Annotated[
        Files, Doc("Corrected outputs of the run to start from: run folders, or files.")
    ] = ()
    format: Annotated[Format | None, Doc("File format; detected by default.")] = None
    delimiter: Annotated[Character | None, Doc("Column separator; detected by default.")] = None
    header: Annotated[bool | None, Doc("Whether the first row names columns; detected by default.")] = None
    documents: Annotated[
        Literal["files", "blank_lines"], Doc("What separates the documents of plain text.")
    ] = "files"
    columns: Annotated[str | None, Doc('"1,3:2": source from columns 1 and 3, target from column 2.')] = None
    field: Annotated[
        str | None, Doc("Field of the tags: upos, xpos … of CoNLL-U, a column number, or a key of JSON.")
    ] = None
    syntax: Annotated[str | Files, Doc("CoNLL-U file, or files, with the dependency trees of sources.")] = ()
    quoting: Annotated[bool | None, Doc("Whether double quotes enclose cells; default: only in CSV.")] = None
    encoding: Annotated[str, Doc("Character encoding of the files.")] = "utf-8"
    on_bad_bytes: Annotated[
        Literal["error", "replace"], Doc("Stop at invalid bytes, or replace them by U+FFFD and count them.")
    ] = "error"
    max_line: Annotated[int, Ge(1_000_000), Doc("Bytes per line; a longer line is an error.")] = 10_000_000
    skip_bad_rows: Annotated[bool, Doc("Skip and count rows that do not fit the columns.")] = False
    held_out: Annotated[
        HeldOut, Doc("Share of the sources for validation, with all their pairs, and as many for the test.")
    ] = 0.05
    context: Annotated[
        Count | Literal["all"], Doc("Turns of a conversation that are read before a reply: a number, or all.")
    ] = "all"
    split: Annotated[Seed, Doc("Seed of the split; the seed of the training does not change it.")] = 1
    images: Annotated[
        str | None, Doc("Folder or archive of the images that a table names; default: the table's folder.")
    ] = None
    image_size: Annotated[Count, Doc("Height and width in pixels at which a model sees an image.")] = 32
    augment: Annotated[tuple[Augmentation, ...], Doc("Random changes of the training images.")] = ()
    max_length: Annotated[
        Count, Doc("Tokens per side, longer pairs are excluded; the window of a language model.")
    ] = 512
    max_sentence_length: Annotated[
        Count, Doc("Tokens per sentence for a hierarchical encoder; a longer one is cut into several.")
    ] = 60
    max_sentences: Annotated[
        Count, Doc("Sentences per text for a hierarchical encoder; further ones are not read.")
    ] = 100
    horizon: Annotated[Count | None, Doc("Steps that a forecast covers; horizon=96 is short for it.")] = None
    lookback: Annotated[Count | None, Doc("Steps that a forecast reads; lookback=336 is short for it.")] = (
        None
    )
    rows: Annotated[Rows | None, Doc("Time steps for training, validation and test, in this order.")] = None
    target: Annotated[Files, Doc("Columns of a series to forecast; default: all of numbers, or y.")] = ()
    series_id: Annotated[
        Files, Doc("Columns that tell series apart; default: unique_id, or texts that do so.")
    ] = ()
    known: Annotated[Files, Doc("Columns that are known in advance, such as holidays or prices.")] = ()
    calendar: Annotated[bool, Doc("Read the time of day, the weekday and the day of month and year.")] = False


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tokenizers: one for both sides, or one for each."""

    joint: Annotated[bool, Doc("Use one tokenizer, of the kind of the source, for both sides.")] = False
    source: Annotated[Spec, Doc("Tokenizer of the source.")] = "characters"
    target: Annotated[Spec, Doc("Tokenizer of the target; ignored if joint is true.")] = "characters"
    sampled: Annotated[bool, Doc("Sample new segmentations in each epoch, if the tokenizer can.")] = False


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The training. One of steps, epochs and minutes sets its length."""

    steps: Annotated[Count | None, Doc("Length of the training in optimizer steps.")] = None
    epochs: Annotated[Positive | None, Doc("Length of the training in passes over the data.")] = None
    minutes: Annotated[Positive | None, Doc("Length of the training in minutes.")] = None
    most_epochs: Annotated[
        Positive | None, Doc("End a training of so many minutes after so many passes over the data.")
    ] = None
    tokens: Annotated[Count, Doc("Target tokens per batch, including padding and end tokens.")] = 1536
    ramp: Annotated[Count, Doc("Epochs in which batches grow to their full size; 1: full at once.")] = 1
    accumulate: Annotated[Count, Doc("Parts of a batch: one per process, or one by one to save memory.")] = 1
    optimizer: Annotated[Spec, Doc("Optimizer, with the highest learning rate.")] = "adamw"
    schedule: Annotated[Spec, Doc("Learning rate schedule.")] = "linear"
    smoothing: Annotated[Share, Doc("Label smoothing.")] = 0.1
    clip: Annotated[Clip | None, Doc("Maximum norm of the gradients; none: no clipping.")] = 1.0
    average: Annotated[Share, Doc("Decay of the weight average that is validated and kept; 0: none.")] = 0.998
    validations: Annotated[Count, Doc("Validations in all, unless validate_every is set.")] = 20
    validate_every: Annotated[Count | None, Doc("Steps between two validations.")] = None
    validate_start: Annotated[
        bool, Doc("Validate the weights before the first step, too: no later ones are kept that are worse.")
    ] = False
    patience: Annotated[Count | None, Doc("Stop after this many validations without improvement.")] = None
    metric: Annotated[str, Doc("Selects the weights: loss, or a metric of the decoded outputs.")] = "loss"
    decode: Annotated[Whole, Doc("Outputs decoded per validation.")] = 300
    traces: Annotated[
        int, Ge(0), Le(3), Doc("Sources traced per validation, for `seqwright look --learning`; 0: none.")
    ] = 1
    keep: Annotated[Count, Doc("Checkpoints kept, in addition to that of the selected weights.")] = 2
    save_seconds: Annotated[float, Gt(0), Doc("Minimum time between two checkpoints.")] = 60.0


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """Default search options of the trained model."""

    beam: Annotated[Count, Doc("Beam size; 1 is greedy search.")] = 5
    length_penalty: Annotated[
        float, Ge(-10), Le(10), Doc("Exponent of the length penalty: above 0 favours long outputs.")
    ] = 1.0
    max_length: Annotated[Count, Doc("Maximum length of an output in tokens.")] = 512


@dataclass(frozen=True, kw_only=True)
class Config:
    task: Annotated[str, Doc("What the model learns; it depends on the kind of data.")] = "text_to_text"
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: Spec = "tiny"
    start: Annotated[
        str | None, Doc("Run folder to start from: its weights; of another task, its encoder.")
    ] = None
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    seed: Annotated[Seed, Doc("Seed of the initial weights, the order of the data, and dropout.")] = 1
    threads: Annotated[Count | None, Doc("CPU threads; none: chosen by the program.")] = None

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))
