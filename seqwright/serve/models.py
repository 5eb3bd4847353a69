"""The models of a server: each with its predictor, its dispatcher and the names by which clients reach it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from seqwright.data.corrections import CORRECTIONS, correctable_tasks
from seqwright.data.read_report import Place
from seqwright.data.results import Prediction
from seqwright.data.task import Kind, Row, Task
from seqwright.errors import ConfigError, InputError, SeqwrightError, WriteError
from seqwright.models.building import resolve
from seqwright.prediction.predictor import Predictor, load
from seqwright.serve.corrections import add_correction
from seqwright.serve.dispatcher import Dispatcher, Entry
from seqwright.serve.host import Source, WorkerProcess, WorkerThread
from seqwright.serve.http import in_time
from seqwright.serve.limits import Limits, Refusal, check_texts
from seqwright.serve.looks import Looks
from seqwright.serve.messages import Piece, Ticket
from seqwright.serve.metrics import Metrics

T = TypeVar("T")
TEXT = "text"  # in place of an unknown language
PAIR = re.compile(r"(?:^|[^a-z])([a-z]{2,3})[-_]([a-z]{2,3})$")
BOUNDS = {  # the options that decide how long a prediction takes, and the limit of each
    "beam": "beam",
    "n_best": "beam",
    "samples": "samples",
    "length": "output",
    "max_length": "output",
    "horizon": "output",
}
REQUESTS = 256  # different options that are remembered
BYTES = 4  # of a character of UTF-8, each of which is a token at most
ROOM = 0.05  # seconds after which a wave looks for room again
QUICK = 2000  # characters and numbers that are encoded in the event loop; more in a thread

logger = logging.getLogger("seqwright.serve")


@dataclass(frozen=True)
class Pair:
    """The languages of a translator, as codes."""

    source: str
    target: str

    @property
    def known(self) -> bool:
        return self.source != TEXT

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Served:
    """One model. `name` is the name of its run folder.

    The predictor reads requests and looks inside. The predictions are those of the worker of the dispatcher.
    """

    def __init__(self, name: str, predictor: Predictor, limits: Limits, dispatcher: Dispatcher):
        self.name, self.predictor, self.limits = name, predictor, limits
        self.task = predictor.task
        self.kind = predictor.config.task if predictor.config is not None else type(self.task).__name__
        self.created = int(predictor.folder.stat().st_mtime) if predictor.folder else 0
        self.pair = language_pair(name, predictor)
        self.dispatcher = dispatcher
        self.looks = Looks(name, limits)
        self._requests: dict[str, Any] = {}  # checked options by their JSON
        self._mailbox: Mailbox | None = None

    @property
    def images(self) -> bool:
        return any(role.kind is Kind.IMAGE for role in self.task.roles)

    @property
    def writes(self) -> bool:
        """Whether its outputs are texts that can grow token by token."""
        return type(self.task).drafts is not Task.drafts

    @property
    def retrieves(self) -> bool:
        """Whether its outputs are texts of the training data, for which there is nothing to sample."""
        return getattr(self.task, "retrieves", False)

    @cached_property
    def traced(self) -> bool:
        """Whether `look` shows predictions of this model."""
        config, kinds = self.predictor.config, self.task.usage.traced
        return bool(kinds) if config is None else resolve(config.model)["kind"] in kinds

    def describe(self) -> dict[str, Any]:
        """Return what a client needs to know to use the model."""
        roles = [
            {"name": role.name, "kind": role.kind.value, "needed": role.needed}
            for role in self.task.own_roles
        ]
        return {
            "task": self.kind,
            "roles": roles,
            "traced": self.traced,
            "writes": self.writes,
            "retrieves": self.retrieves,
            "source": self.pair.source,
            "target": self.pair.target,
            "parameters": self.predictor.parameters,
            "summary": self.task.summary,
            **self.task.described,
        }

    def request(self, options: Mapping[str, Any], count: int) -> Any:
        """Return the checked options of a prediction; what is wrong is a Refusal."""
        if any(isinstance(value, list | dict) for value in options.values()):
            return self._checked(options, count)  # they may have one value for each input
        key = json.dumps(options)  # distinguishes 1 from true, which are equal
        if key not in self._requests:
            if len(self._requests) >= REQUESTS:
                self._requests.clear()
            self._requests[key] = self._checked(options, count)
        return self._requests[key]

    def _checked(self, options: Mapping[str, Any], count: int) -> Any:
        for name, limit in BOUNDS.items():
            value, most = options.get(name), getattr(self.limits, limit)
            if isinstance(value, int) and value > most:
                raise Refusal(400, f"{name} is {value}; it must be at most {most}", fields={"param": name})
        for name, value in options.items():
            check_texts(name, value, self.limits)
        if reserved := {"count", "search", "self", "options"} & options.keys():
            raise Refusal(400, f"{', '.join(sorted(reserved))}: there is no such option; leave it out")
        try:
            return self.task.request(self.predictor.search, count=count, **options)
        except SeqwrightError as error:
            raise Refusal(400, str(error)) from error
        except (TypeError, ValueError) as error:  # a value of a type that the task does not expect
            names = ", ".join(options)
            raise Refusal(400, f"an option has a value of the wrong type ({names}); correct it") from error

    async def encode(self, inputs: Sequence[Any], first: int = 0) -> list[Row[Any]]:
        """Return the encoded inputs; one that the model cannot take is a Refusal.

        first: the number of the first input in its request.
        """
        if sum(_size(inputs)) <= QUICK and not self.images:
            return self._encode(inputs, first)
        return await asyncio.to_thread(self._encode, inputs, first)

    def _encode(self, inputs: Sequence[Any], first: int) -> list[Row[Any]]:
        limits = self.limits
        for number, given in enumerate(inputs, start=first + 1):
            sizes = {} if self.images else dict(zip(("characters", "numbers"), _size(given), strict=True))
            for name, size in sizes.items():
                if size > (most := getattr(limits, name)):
                    raise Refusal(400, f"input {number} has {size} {name}; at most {most}")
        try:
            rows = self.task.encode(list(self.task.inputs(list(inputs))))
        except SeqwrightError as error:
            raise Refusal(400, str(error)) from error
        most = self.predictor.longest
        for number, row in enumerate(rows, start=first + 1):
            if row.length > most:
                raise Refusal(
                    400, f"input {number} has {row.length} tokens; the model reads {most}; split it"
                )
        return rows

    async def check_size(self, inputs: Sequence[Any], count: int) -> None:
        """Refuse inputs that are submitted one by one, `count` times each, and are too many for the queue."""
        characters = sum(_size(inputs))
        if count * (BYTES * characters + len(inputs)) > self.limits.tokens:
            self._check_tokens(count * (await self.encode(inputs)))

    def _check_tokens(self, rows: Sequence[Row[Any]]) -> None:
        if sum(row.length + 1 for row in rows) > (most := self.limits.tokens):
            raise Refusal(400, f"the inputs have more than {most} tokens; send fewer at a time")

    async def count_tokens(self, given: Any) -> int:
        """Return the number of tokens of an input."""
        (row,) = await self.encode([given])
        return self.task.reading(row, self.predictor.longest).tokens

    async def predict(
        self,
        inputs: Sequence[Any],
        options: Mapping[str, Any],
        deadline: float,
        grown: Callable[[int, Piece], None] | None = None,
    ) -> list[Prediction]:
        """Return the predictions in order. Cancelling the call cancels the work.

        grown: called in the event loop with the number of an input and each new token of its output, where
        the task can produce it token by token.
        """
        if not 1 <= len(inputs) <= (most := self.limits.items):
            raise Refusal(400, f"the request has {len(inputs)} inputs; it must have 1 to {most}")
        self.dispatcher.check_room(len(inputs))
        request = self.request(options, len(inputs))
        rows = await self.encode(inputs)
        self._check_tokens(rows)
        return await self._computed(rows, request, deadline, grown)

    async def predict_in_waves(
        self, inputs: Sequence[Any], options: Mapping[str, Any], deadline: float
    ) -> list[Prediction]:
        """Return the predictions of any number of inputs. A wave takes at most half of the queue, so that
        other clients have room; the first one is refused if there is none, and the others wait for it.
        """
        size, tokens = max(self.limits.requests // 2, 1), self.limits.tokens // 2
        self.dispatcher.check_room(min(len(inputs), size))
        request = self.request(options, len(inputs))
        found: list[Prediction] = []
        for start in range(0, len(inputs), size):
            rows = await self.encode(inputs[start : start + size], start)
            for wave in _waves(rows, tokens):
                self._check_tokens(wave)
                found += await self._next_wave(wave, request, deadline, len(found))
        return found

    async def _next_wave(
        self, rows: Sequence[Row[Any]], request: Any, deadline: float, first: int
    ) -> list[Prediction]:
        while True:
            try:
                return await self._computed(rows, request, deadline, first=first)
            except Refusal as refusal:
                if not first or refusal.reason != "full":
                    raise
            await in_time(asyncio.sleep(ROOM), deadline)

    async def _computed(
        self,
        rows: Sequence[Row[Any]],
        request: Any,
        deadline: float,
        grown: Callable[[int, Piece], None] | None = None,
        first: int = 0,
    ) -> list[Prediction]:
        """Submit encoded inputs and return their predictions. `first` is the number of the first one."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = Mailbox(loop)
        post = self._mailbox.post
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in rows]
        entries = []
        for number, (row, future) in enumerate(zip(rows, futures, strict=True), start=first):
            ticket = Ticket(row, request, number, deadline, streamed=grown is not None)
            told = partial(post, partial(grown, number)) if grown is not None else None
            entries.append(Entry(ticket, partial(post, partial(_settle, future)), told))
        self.dispatcher.submit(entries)
        try:
            return list(await in_time(asyncio.gather(*futures), deadline))
        except (ConfigError, InputError) as error:
            raise Refusal(400, str(error)) from error
        finally:
            self.dispatcher.cancel([entry.ticket for entry in entries])

    async def look(self, given: Any, deadline: float, show: Callable[[Any], T], **options: Any) -> T:
        """Return what `show` makes of the trace of one input; `options` are those of `Predictor.look`.

        `show` is called in the thread of the looks.
        """
        if not self.traced:
            raise Refusal(404, f"{self.name}: look does not support this kind of model")
        (row,) = await self.encode([given])
        self._check_length("the input", row.length)
        for name in ("reference", "output"):
            text = options.get(name)
            if text is not None and self.task.usage.generates:
                self._check_length(f"the {name}", len(cast(Any, self.task).target.encode(text)))

        def work(check: Callable[[], None]) -> T:
            try:
                return show(self.predictor.look(given, check=check, **options))
            except (ConfigError, InputError) as error:
                raise Refusal(400, str(error)) from error

        return await self.looks.run(work, deadline)

    def _check_length(self, what: str, tokens: int) -> None:
        """Refuse a text whose trace would take too much time and memory."""
        if tokens > (most := self.limits.look):
            raise Refusal(400, f"{what} has {tokens} tokens; a look takes at most {most}; shorten it")

    def check_correctable(self) -> None:
        """Refuse corrections of a task that cannot be trained on them."""
        if not self.task.learning.correctable:
            rule = f"which cannot be trained on corrections ({', '.join(correctable_tasks())} can)"
            raise Refusal(400, f"{self.name} is a run of {self.kind}, {rule}; correct another model")

    async def correct(self, columns: Mapping[str, Any], output: str | None) -> None:
        """Store the right answer to an input, as columns of the task, in the run folder.

        What a training could not use is refused.
        """
        folder, config = self.predictor.folder, self.predictor.config
        if folder is None or config is None:
            raise Refusal(404, f"{self.name} has no run folder to store corrections in")
        for name, value in columns.items():
            if len(str(value)) > self.limits.characters:
                raise Refusal(400, f"{name} has more than {self.limits.characters} characters")
        try:
            self.task.corrected(columns, Place(CORRECTIONS, 0), config.data)
        except InputError as error:
            raise Refusal(400, str(error)) from error
        try:
            await asyncio.to_thread(add_correction, folder, columns, output, self.limits.corrections)
        except WriteError as error:
            logger.error("a correction of %s cannot be stored: %s", self.name, error)
            rule = f"the run folder must be writable and {CORRECTIONS} not full"
            message = f"the correction cannot be stored: {rule}; ask the operator of the server"
            raise Refusal(409, message, reason="store") from error


class Models:
    """The models of a server, by name."""

    def __init__(self, served: Sequence[Served]):
        self.all = {model.name: model for model in served}

    def find(self, name: str | None) -> Served:
        """Return the model of a name or of a language pair, such as en-de; without a name the first one."""
        if name is None or not name:
            return next(iter(self.all.values()))
        if name in self.all:
            return self.all[name]
        pair, fields = name.lower().replace("_", "-"), {"param": "model"}
        found = [model for model in self.translators() if model.pair.known and str(model.pair) == pair]
        if len(found) > 1:
            names = ", ".join(model.name for model in found)
            raise Refusal(
                400, f"{pair} is the language pair of {names}; choose one by its name", fields=fields
            )
        if not found:
            message = f"the model {name[:100]!r} does not exist; choose from: {', '.join(self.all)}"
            raise Refusal(404, message, fields=fields)
        return found[0]

    def translators(self) -> list[Served]:
        """Return the models that turn one text into another."""
        return [model for model in self.all.values() if model.kind == "text_to_text"]

    def refuse(self) -> None:
        """Refuse what is not answered, and everything that comes."""
        for model in self.all.values():
            model.dispatcher.refuse()
            model.looks.refuse()

    def close(self) -> None:
        for model in self.all.values():
            model.looks.close()
            model.dispatcher.close()

    @property
    def looking(self) -> bool:
        """Whether a look is computed, which the end of the server does not interrupt."""
        return any(model.looks.busy for model in self.all.values())


def load_models(
    folders: Sequence[str],
    limits: Limits,
    metrics: Metrics,
    *,
    threads: int | None = None,
    trusted: bool,
    processes: bool = False,
) -> Models:
    """Load run folders. A number distinguishes folders of the same name.

    processes: each model is computed in a process of its own, which loads it at the same time as this one.
    """
    names = names_of(folders)
    with ExitStack() as opened:
        started: dict[str, Dispatcher] = {}

        def start(name: str, launch: Callable[[], Any]) -> Dispatcher:
            started[name] = Dispatcher(name, launch, limits, metrics)
            opened.callback(started[name].close)
            return started[name]

        if processes:
            for name, folder in names.items():
                start(name, partial(WorkerProcess, Source(folder, threads, trusted)))
        served = []
        for name, folder in names.items():
            predictor = load(folder, threads=threads, trusted=trusted)
            dispatcher = started.get(name) or start(name, partial(WorkerThread, predictor))
            served.append(Served(name, predictor, limits, dispatcher))
        for dispatcher in started.values():
            dispatcher.wait_until_loaded()
        opened.pop_all()  # they stay open
    return Models(served)


def names_of(folders: Sequence[str]) -> dict[str, str]:
    """Return the folders by the names of their models."""
    names: dict[str, str] = {}
    for folder in folders:
        base = Path(folder).resolve().name
        others = (f"{base}-{number}" for number in range(2, len(folders) + 2))
        names[next(name for name in (base, *others) if name not in names)] = folder
    return names


def language_pair(name: str, predictor: Predictor) -> Pair:
    """Return the languages of a model: the endings of its two training files, or the end of its name, as in
    `news-en-de`; otherwise its source is called "text" and its target by its name.
    """
    files = () if predictor.config is None else predictor.config.data.train
    endings = [Path(file).suffix.lstrip(".").lower() for file in files]
    if len(endings) == 2 and all(re.fullmatch("[a-z]{2,3}", ending) for ending in endings):
        known = {"tsv", "csv", "txt", "gz", "xz", "zst"}
        if endings[0] != endings[1] and not known & set(endings):
            return Pair(*endings)
    if found := PAIR.search(name.lower()):
        return Pair(found[1], found[2])
    return Pair(TEXT, name)


def _waves(rows: Sequence[Row[Any]], most: int) -> Iterator[list[Row[Any]]]:
    """Yield the rows in runs of at most `most` tokens, and of at least one row."""
    wave: list[Row[Any]] = []
    tokens = 0
    for row in rows:
        tokens += row.length + 1
        if wave and tokens > most:
            yield wave
            wave, tokens = [], row.length + 1
        wave.append(row)
    yield wave


def _size(given: Any) -> tuple[int, int]:
    """Return how many characters and how many numbers an input, or a list of them, has."""
    if isinstance(given, str):
        return len(given), 0
    if not isinstance(given, Mapping | list | tuple):
        return 0, 1
    characters = numbers = 0
    for each in given.values() if isinstance(given, Mapping) else given:
        more, others = _size(each)
        characters, numbers = characters + more, numbers + others
    return characters, numbers


class Mailbox:
    """Calls that other threads leave for an event loop. Calls that come together wake it once."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop = loop
        self._calls: list[tuple[Callable[[Any], None], Any]] = []
        self._lock = threading.Lock()

    def post(self, call: Callable[[Any], None], value: Any) -> None:
        with self._lock:
            self._calls.append((call, value))
            if len(self._calls) > 1:
                return  # the loop is awake, or about to be
        with suppress(RuntimeError):  # the loop is closed: no client waits any more
            self.loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for call, value in calls:
            call(value)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Set the result of a future, or its exception."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
