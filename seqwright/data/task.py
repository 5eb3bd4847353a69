"""The task contract: everything that depends on the kind of data, answered by one class per task.

A task is one file in `seqwright/tasks`, its recipe the file of the same name in `seqwright/recipes`. Readers,
split, survey, store, plan, trainer, validation, predictor, evaluation and lens know only this contract. A
task outside of the package is named `my.module:Class`. Nothing here imports torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from seqwright.config.registry import Registry
from seqwright.data.plan import cut_by_tokens
from seqwright.data.readers.files import files_in
from seqwright.data.results import Prediction, Reading
from seqwright.data.split import Part, SplitRule
from seqwright.errors import ConfigError, InputError, Problem

if TYPE_CHECKING:
    from pathlib import Path

    from seqwright.config import Config, DataConfig, SearchConfig
    from seqwright.data.glance import Glance
    from seqwright.data.plan import RowLengths
    from seqwright.data.read_report import Place, ReadReport
    from seqwright.data.store import ColumnSpec, Store
    from seqwright.data.tokenizer import Tokenizer

E = TypeVar("E")
P = TypeVar("P", bound=Prediction)
Example = TypeVar("Example", covariant=True)

MEANT = {  # words for tasks
    "conversation": "chat dialog dialogue chatbot",
    "forecasting": "forecast time_series series regression",
    "image_captioning": "captioning captions caption",
    "image_classification": "images image",
    "language_modeling": "lm text_generation generation language_modelling language_model",
    "masked_language_modeling": "mlm bert pretraining masked_language_modelling",
    "text_classification": "classification sentiment sentiment_analysis topics intents",
    "text_to_text": "translation pronunciation inflection normalisation normalization summarisation "
    "summarization seq2seq g2p mt",
    "token_classification": "tagging ner pos pos_tagging",
}
TASKS = Registry("task", "seqwright.tasks", "seqwright.data.task:Task", MEANT)
Check = Callable[[], None]
PROMPT = 4  # words of an input that become a prompt
TOGETHER = 16_384  # tokens of inputs that a validation answers together


class Kind(StrEnum):
    """What the cells of a column hold."""

    TEXT = "text"
    LABEL = "label"
    IMAGE = "image"
    NUMBER = "number"
    TIME = "time"
    ID = "id"


@dataclass(frozen=True)
class Role:
    """A named column of the data. What is needed to train may be absent in a prediction."""

    name: str
    kind: Kind
    needed: Literal["always", "train"] = "always"


class Claim(NamedTuple):
    """A task's statement that files are its own. The lowest tier wins; `evidence` is one sentence."""

    tier: int
    evidence: str


class Reader(Protocol[Example]):
    """Files as examples, read as often as needed. `form` describes how the files are read, in sentences."""

    @property
    def name(self) -> str: ...
    @property
    def form(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> str | None:
        """The columns to record in the configuration, where predictions depend on them."""

    @property
    def named_twice(self) -> str | None:
        """A file that is named twice by mistake."""

    def read(self, report: ReadReport) -> Iterator[Example]:
        """Yield the examples in order; `report` counts what is skipped or changed."""


class TimedReader(Reader[Example], Protocol[Example]):
    """A reader of a task that is split by time."""

    def read_part(self, part: Part, report: ReadReport) -> Iterator[Example]:
        """Yield the examples of a part of the split, in order."""

    def share(self, example: Any) -> float:
        """Return a number from 0 to 1 by the time of an example: the last ones come first, for the test."""


@dataclass(frozen=True)
class Row(Generic[E]):
    """An encoded example: its columns by name, and the length that limits and batching look at."""

    example: E
    columns: Mapping[str, Any]
    length: int


@dataclass(frozen=True)
class Item(Generic[E, P]):
    """An input, the answers that are right for it, and the model's answer."""

    example: E
    references: tuple[Any, ...]
    output: P


class TaskBatch(Protocol):
    """Examples side by side, as a model's `loss` takes them."""

    rows: int
    count: int  # what a summed loss is divided by
    tokens: int  # what training speed is counted in
    index: np.ndarray  # the numbers of the examples in their store (B,)

    def with_shuffled_inputs(self) -> Self:
        """Return the same targets with the inputs of other rows: does the model use its input?"""


@dataclass(frozen=True)
class Nouns:
    """What people call the parts of the data, in the singular."""

    example: str = "example"
    group: str = "input"  # the examples that stay in one part of the split
    speed: str = "token"  # what training speed is counted in
    epochs: str = "epochs"  # in which the length of a training is counted
    unread: str = "the rest"  # the part of a long input that is not read


@dataclass(frozen=True)
class Learning:
    """How a training takes its examples, and where else it can learn from."""

    split: SplitRule = SplitRule.BY_GROUP  # how validation and test splits are taken from the training files
    block: int = 20_000  # examples that are encoded together
    transfers: bool = False  # `fit` can take the tokenizer of a run of another task
    correctable: bool = False  # training can read corrections of its outputs, with `corrected`
    takes_field: bool = False  # files can have several columns of labels, of which `data.field` names one
    takes_trees: bool = False  # examples can have dependency trees, for positions from syntax


@dataclass(frozen=True)
class Usage:
    """How commands and the server use a trained model.

    file: what a file named to `predict` holds: an input per line or block of lines; one input as a whole,
    which the reader reads; or it is an item, such as an image, and several may be named.
    """

    file: Literal["lines", "whole", "item"] = "lines"
    prompted: bool = False  # `predict` takes even one word that names no file as the input itself
    streams: bool = False  # in a terminal, `predict` prints the output for such an argument as it grows
    generates: bool = False  # outputs are searched for, with the options of a beam
    chat: Mapping[str, Any] | None = None  # options of predictions in a chat; None: there is no chat
    traced: tuple[str, ...] = ()  # kinds of models whose predictions `look` shows
    schema: Mapping[str, Any] | None = None  # JSON schema of an input of a client; None: by the roles


@dataclass(frozen=True)
class Judging:
    """How an evaluation takes examples and predicts.

    fixed: the metrics are the same for any examples, so a validation reads only those that it predicts.
    trivial: which of the `baselines` is the trivial answer; without a name, `baseline` returns it.
    """

    merges: bool = True  # examples of one group are one item with several right answers
    options: Mapping[str, Any] = field(default_factory=dict)  # of predictions that are scored or recorded
    fixed: bool = False
    trivial: str = ""


class Task(ABC, Generic[E, P]):
    """One kind of data and what is wanted from it. E is an example, P a prediction.

    models: the kinds of models that fit. sample_facts: small `facts`, to check a model before there is data.
    """

    roles: ClassVar[tuple[Role, ...]]
    models: ClassVar[tuple[str, ...]]
    nouns: ClassVar[Nouns] = Nouns()
    learning: ClassVar[Learning] = Learning()
    usage: ClassVar[Usage] = Usage()
    judging: ClassVar[Judging] = Judging()
    sample_facts: ClassVar[Mapping[str, Any]] = {}

    # The user's files ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def claim(cls, glance: Glance) -> Claim | None:
        """Claim files, or None. Depends on the glance alone."""

    @classmethod
    @abstractmethod
    def reader(cls, paths: Sequence[str], data: DataConfig) -> Reader[E]:
        """Open files with the options of `data`."""

    def own_reader(self, paths: Sequence[str], data: DataConfig) -> Reader[E]:
        """Open files with what the fitted task knows about their form, in addition to the options."""
        return self.reader(paths, data)

    @classmethod
    def files(cls, paths: Sequence[str], data: DataConfig) -> list[str]:
        """Return every file that reading these paths depends on; a training resumes only with the same."""
        return files_in(paths)

    @classmethod
    @abstractmethod
    def group(cls, example: E) -> str:
        """Return the key that decides the part of the split: equal keys stay together."""

    @classmethod
    def texts(cls, example: E) -> Sequence[str]:
        """Return the texts of an example, one per role of kind TEXT, for the survey and the doctor."""
        return ()

    @classmethod
    def corrected(cls, record: Mapping[str, Any], place: Place, data: DataConfig) -> E:
        """Return the example of a correction, a JSON object with the columns of the task."""
        raise NotImplementedError

    @classmethod
    def identity(cls, example: E) -> str | None:
        """Return what identifies an input that is not a text, or more than one, to find duplicates."""
        return None

    @classmethod
    def label(cls, example: E) -> str | None:
        """Return the label of an example, for a stratified split."""
        return None

    @classmethod
    def prompt(cls, line: str) -> tuple[str, str]:
        """Return the beginning of an input to try a task with prompts, and what the task does with it."""
        return " ".join(line.split()[:PROMPT]), "continues the prompt"

    @classmethod
    def all_labels(cls, example: E) -> Iterable[str]:
        """Return all labels of an example, for the survey."""
        label = cls.label(example)
        return () if label is None else (label,)

    @classmethod
    @abstractmethod
    def toy(cls, seed: int) -> list[dict[str, str]]:
        """Return records by role that a small model learns in seconds; every law of a task runs on them."""

    @property
    def own_roles(self) -> tuple[Role, ...]:
        """The columns that a fitted task reads, where they depend on the files."""
        return self.roles

    # What is learned from the training split --------------------------------------------------------

    @classmethod
    @abstractmethod
    def fit(cls, config: Config, examples: Callable[[], Iterable[E]], start: Any = None) -> Self:
        """Learn tokenizers, labels or scalers. `examples` iterates the training split, as often as called.

        With `start`, the task of the run that fine-tuning starts from, what it knows keeps its ids. It is of
        this class, or with `transfers` of any class that `reads` text.
        """

    @property
    def reads(self) -> Tokenizer | None:
        """The tokenizer of the text that the encoder reads; None where that is not one text."""
        return None

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, config: Config) -> Self: ...

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Identify everything that was fitted."""

    def indexed(self, model: Any, examples: Iterable[E]) -> Self:
        """Return the task with what the trained model computes from the training examples."""
        return self

    def calibrated(self, model: Any, examples: Sequence[E]) -> Self:
        """Return the task with what is fitted to the trained model on validation examples."""
        return self

    @property
    @abstractmethod
    def summary(self) -> str:
        """Describe what was fitted, in a few words."""

    @property
    def described(self) -> Mapping[str, Any]:
        """What a client needs to know of the inputs, in addition to their roles."""
        return {}

    # Examples as numbers ---------------------------------------------------------------------------

    @classmethod
    def check(cls, config: Config) -> None:
        """Refuse a configuration whose parts do not fit each other."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Return what the parts of a model may ask for: vocabulary sizes, classes, channels."""

    @abstractmethod
    def columns(self, *, readable: bool) -> tuple[ColumnSpec, ...]:
        """Return what the store keeps; `readable` adds what `stored` needs to give the example back."""

    @abstractmethod
    def encode(self, examples: Sequence[E]) -> list[Row[E]]:
        """Encode examples; their targets may be absent."""

    @abstractmethod
    def stored(self, store: Store, number: int) -> E:
        """Return an example of a readable store."""

    @abstractmethod
    def lengths(self, store: Store) -> RowLengths:
        """Return the lengths that batches are made by."""

    @abstractmethod
    def batch(self, store: Store, numbers: np.ndarray, *, seed: int = 0, epoch: int | None = None) -> Any:
        """Return the batch of these examples; with an epoch, as training augments them in it."""

    @property
    def chance_loss(self) -> float:
        """The loss per token of a model that knows nothing; NaN where there is no such number."""
        return math.nan

    # Answers ---------------------------------------------------------------------------------------

    @abstractmethod
    def inputs(self, given: Any) -> Iterator[E]:
        """Yield the examples in what a user gives to `predict`: one input, or an iterable of inputs."""

    @abstractmethod
    def labelled(self, given: Any) -> Iterator[E]:
        """Yield the examples with their targets in what a user gives to `evaluate` and `score`."""

    def whole_inputs(self, reader: Any) -> list[E]:
        """Return the inputs in whole files, where a file is one input."""
        raise ConfigError(f"{type(self).__name__} reads lines")

    def looked_at(self, reader: Any, text: str | None) -> E:
        """Return the input that `look` shows by the text that a user gives, where a file is one input."""
        raise NotImplementedError

    def written(self, predictions: Sequence[P]) -> str:
        """Return the answers to whole files as the text of a file."""
        return "".join(f"{prediction}\n" for prediction in predictions)

    def remarks(self, inputs: Sequence[E], predictions: Sequence[P]) -> list[str]:
        """Return lines for a person about the answers to whole files."""
        return []

    def check_compatible(self, example: E, files: Sequence[str]) -> None:
        """Refuse the examples of files that were read in another form than the model was trained with."""

    def beside(self, other: Any) -> Self:
        """Return the task for a comparison with a model of another task of this class: it is evaluated on
        examples that both can answer.
        """
        return self

    def file_inputs(self, path: str, data: DataConfig) -> Callable[[ReadReport], Iterator[E]] | None:
        """Return the inputs in a file or folder of a layout of training data, one for each row; their targets
        may be absent. None for a file with an input on each line, or on each block of lines.
        """
        return None

    def in_blocks(self, head: Sequence[str]) -> bool:
        """Whether the inputs of a file are blocks of lines between blank lines, by its first lines."""
        return False

    @abstractmethod
    def from_line(self, line: str) -> E:
        """Return the example of one line of input, or of one block, which ends with a line end."""

    @abstractmethod
    def to_line(self, example: E) -> str:
        """Return the input of an example as one line."""

    def portable_line(self, example: E) -> str:
        """Return the input of an example as one line that depends on no other file."""
        return self.to_line(example)

    def is_one(self, given: Any) -> bool:
        """Whether what a user gives to `predict` is one input, not an iterable of inputs."""
        return isinstance(given, str | tuple | Mapping | bytes) or not isinstance(given, Iterable)

    def readout(self, model: Any, example: E) -> Any:
        """Return an input with its prediction as `look` traces them: a `Readout` of `lens.trace.readout`, or
        a `ForecastReadout` of `lens.series.build`.

        Tasks from text to text are traced by their search instead. A task that searches from something else
        takes a request as well.
        """
        raise NotImplementedError

    def caption(self, example: E) -> str:
        """Return the input of an example for people; by default the line itself."""
        return self.to_line(example)

    @property
    def one_text(self) -> bool:
        """Whether an input is one text, so that a tab in it is suspicious."""
        return False

    def unknown_symbols(self, line: str) -> Iterable[str]:
        """Return the symbols of an input that the model does not know."""
        return ()

    @property
    def threshold(self) -> float:
        """The probability below which an answer is marked as unsure; 0: none is."""
        return 0.0

    def request(self, search: SearchConfig, *, count: int | None = None, **options: Any) -> Any:
        """Check the options of a prediction of `count` inputs; what is not given comes from `search`."""
        if options:
            raise ConfigError(f"{', '.join(options)}: this task has no such option; leave it out")
        return None

    def after_turns(self, turns: Sequence[str]) -> Any:
        """Return the input for which the next turn of a chat is predicted."""
        raise ConfigError(f"{type(self).__name__} does not converse")

    def last_reply(self, turns: Sequence[str]) -> Any:
        """Return the input whose trace shows how the last turn of a chat came about."""
        return self.after_turns(turns[:-1])

    def width(self, request: Any) -> int:
        """Return how many rows the model computes for one input: the width of a beam."""
        return 1

    def reading(self, row: Row[E], limit: int) -> Reading:
        """Count the tokens of an input, of which `limit` are read."""
        return Reading(row.length)

    def input_limit(self, model: Any) -> int:
        """Return how many tokens of one input the model reads."""
        return 1 << 30

    @abstractmethod
    def answer(
        self, model: Any, rows: Sequence[Row[E]], request: Any, numbers: Sequence[int] = ()
    ) -> list[P]:
        """Answer encoded inputs in one batch, in order. `numbers` seed what is drawn at random."""

    def from_messages(self, messages: Sequence[Mapping[str, str]]) -> Any:
        """Return the input that answers messages with a role and a content: all turns of a conversation, or
        the last message of the user.
        """
        if self.usage.chat is not None:
            return self.after_turns([each["content"] for each in messages if each["role"] != "system"])
        users = [message["content"] for message in messages if message["role"] == "user"]
        if not users:
            raise InputError("there is no message of the user, whose text is the input; add one")
        return users[-1]

    def drafts(
        self, model: Any, rows: Sequence[Row[E]], request: Any, numbers: Sequence[int]
    ) -> list[Any] | None:
        """Return the answers as drafts (`search.drafts`), which a server lets grow together with those of
        other requests; None where only `answer` can compute them.
        """
        return None

    def legs(self, model: Any, drafts: Sequence[Any]) -> list[Any]:
        """Return searches that begin drafts, or continue those whose last search is over. Dropout and
        gradients are off.
        """
        raise NotImplementedError

    def score(self, model: Any, examples: Sequence[E]) -> list[float]:
        """Return the log-probability of the target of each example."""
        raise ConfigError(f"{type(self).__name__} does not score examples")

    def draft(self, model: Any, items: Sequence[tuple[E, Sequence[Any]]], check: Check) -> list[P]:
        """Answer inputs quickly, for a validation; `items` are examples with their right answers."""
        rows = self.encode([example for example, _ in items])
        order = sorted(range(len(rows)), key=lambda i: rows[i].length)
        found: dict[int, P] = {}
        for numbers in cut_by_tokens(order, [row.length + 1 for row in rows], TOGETHER):
            check()
            found |= zip(numbers, self.answer(model, [rows[i] for i in numbers], None), strict=True)
        return [found[i] for i in range(len(rows))]

    # Judging ---------------------------------------------------------------------------------------

    @abstractmethod
    def truth(self, example: E) -> Any:
        """Return the right answer, as `Prediction.value` gives the model's."""

    @abstractmethod
    def judge(self, examples: Sequence[E], references: Sequence[Sequence[Any]], **options: Any) -> Judge:
        """Choose the metrics for these answers; the first one is the one to look at first."""

    def mistakes(self, judge: Judge, items: Sequence[Item[E, P]]) -> Sequence[Mistake]:
        """Say how wrong each answer is."""
        wrong = ((item, item.output.value not in item.references) for item in items)
        return [Mistake(item.references[0], int(bad), float(bad), ()) for item, bad in wrong]

    def buckets(self, items: Sequence[Item[E, P]], folder: Path | None) -> dict[str, tuple[Bucket, ...]]:
        """Group the items by what may explain their scores."""
        return {}

    def tables(self, items: Sequence[Item[E, P]]) -> dict[str, Table]:
        """Return further figures, such as precision and recall of each label."""
        return {}

    def contact_sheet(self, items: Sequence[Item[E, P]]) -> list[dict[str, Any]]:
        """Return thumbnails for the report: kind (best, worst, confused), image (a data URI of PNG or JPEG),
        source, expected, output and probability of each.
        """
        return []

    def baseline(self, example: E) -> Any:
        """Return a trivial answer, or None; its score is shown next to the model's."""
        return None

    def baselines(self, examples: Sequence[E]) -> Mapping[str, Sequence[Any]]:
        """Return the answers of simpler methods by name; their scores are shown next to the model's."""
        return {}

    def pictures(
        self, model: Any, items: Sequence[Item[E, P]], baselines: Mapping[str, Sequence[Any]]
    ) -> Mapping[str, Any]:
        """Return the data of pictures for the report, as JSON; `baselines` as returned above."""
        return {}


@dataclass(frozen=True)
class Judge:
    """The metrics of an evaluation, the facts that their choice depends on, and their names for people.

    remarks: sentences about the choice, such as why a usual metric is absent. options: of the predictions, in
    addition to those of `Judging`; single predictions, whose time is measured, do not have them. tokens: what
    identifies the tokens of the answers. across: the metrics that compare models with different tokens, the
    one to look at first in front; where `tokens` is equal, all metrics compare.
    """

    metrics: tuple[Any, ...]
    settings: Mapping[str, str]
    labels: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    tokens: str = ""
    across: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """An answer laid against the closest reference.

    share: edits over the longer of the two; 0 is right, 1 is all wrong. changes: (expected, output) of each
    edit; "" is nothing.
    """

    reference: Any
    edits: int
    share: float
    changes: tuple[tuple[str, str], ...]


class Table(NamedTuple):
    """Figures by row: `headings` name the columns; a row is a name and numbers, None where there is none."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class Bucket(NamedTuple):
    """Items that are alike in one respect, by their numbers."""

    name: str
    items: tuple[int, ...]


def group_items(task: Task[E, Any], examples: Iterable[E]) -> tuple[list[E], list[list[Any]], list[int]]:
    """Return inputs with all their right answers, and the item of each example.

    Examples of one group are one item with several references, in order of appearance, none twice; where the
    task does not merge them, each example is an item.
    """
    firsts: dict[str, E] = {}
    answers: dict[str, dict[Any, None]] = {}
    order = []
    places: dict[str, int] = {}
    for number, example in enumerate(examples):
        key = task.group(example) if task.judging.merges else str(number)
        firsts.setdefault(key, example)
        answers.setdefault(key, {})[task.truth(example)] = None
        order.append(places.setdefault(key, len(places)))
    return list(firsts.values()), [list(known) for known in answers.values()], order


def fit_tokenizer(spec: Any, texts: Iterable[str], start: Task[Any, Any] | None) -> Tokenizer:
    """Learn a tokenizer from texts, or extend the one that `start` reads with by what is new in them."""
    from seqwright.config.registry import parse
    from seqwright.data.tokenizer import train_tokenizer

    if start is None:
        kind, options = parse("tokenizer", spec)
        return train_tokenizer(kind, texts, **options)
    assert start.reads is not None  # checked when the run to start from is opened
    return start.reads.grown(texts)


def task_class(name: str) -> type[Task[Any, Any]]:
    """Return the task of that name; `my.module:Class` reaches one outside of the package."""
    return TASKS.get(name)


def check_field(task: str, field: str | None) -> None:
    """Refuse `data.field` for a task whose files have no columns of labels to choose from."""
    if field is not None and not task_class(task).learning.takes_field:
        rule = f"it names the tags of token_classification, and the task here is {task}"
        raise ConfigError(Problem("data.field", field, f"{rule}: leave out --field"))
