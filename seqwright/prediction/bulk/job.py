"""Predict all lines of one input with one model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from seqwright import __version__
from seqwright.data.read_report import Occurrences, Place, ReadReport
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, first_lines
from seqwright.data.results import Prediction
from seqwright.data.task import Task
from seqwright.data.text_display import excerpt, pluralize
from seqwright.errors import InputError, UnusableInput
from seqwright.files import encode_json, sha256
from seqwright.prediction.bulk.blocks import Block, Shard, line_blocks, row_blocks
from seqwright.prediction.bulk.output import Output, ResumableFile, StandardOutput
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import WEIGHTS

UNKNOWN_SHOWN = 8  # unknown symbols that a warning lists
FAULTS_SHOWN = 5  # inputs that cannot be used, which a warning describes


class Unusable(NamedTuple):
    """A line whose input cannot be used; its output is empty."""

    source: str
    fault: str


class Job:
    """Reads lines, predicts them with the options of `Predictor.predict`, and reports faults of the input.

    named: each output follows its input and a tab, or the name of its file. rows: the inputs of a file that
    does not have one on each line.
    """

    def __init__(
        self,
        predictor: Predictor,
        source: Input,
        options: Mapping[str, Any],
        *,
        json: bool = False,
        named: bool = False,
        decoding: Decoding | None = None,
        shard: Shard | None = None,
        rows: Callable[[ReadReport], Iterator[Any]] | None = None,
        report: Callable[[str], None] = lambda text: None,
    ):
        if shard is not None and source.single_pass:
            raise InputError(f"{source.name} cannot be divided into shards; save it to a file first")
        self.predictor, self.source, self.options, self.json = predictor, source, options, json
        self.named, self.rows = named, rows
        self.decoding, self.shard, self.report = decoding or Decoding(), shard, report
        self.request = predictor.task.request(predictor.search, **options)
        self.tally, self.warnings = ReadReport(), InputWarnings(predictor, source.name)
        lined = rows is None and not source.single_pass  # a pipe has no end yet
        self.joined = lined and predictor.task.in_blocks(first_lines(source, self.decoding)[1])

    def output(self, path: Path | None) -> Output:
        """Return the output to pass to `run`: a file, or standard output if `path` is None."""
        if path is None:
            return StandardOutput()
        file = path if self.shard is None else self.shard.path(path)
        if self.source.single_pass:  # a pipe cannot be read again, so its output cannot be resumed
            return ResumableFile(file, None)
        assert self.predictor.folder is not None
        request = None if self.request is None else asdict(self.request)  # a classifier has no options
        depends_on = {
            "weights": sha256(self.predictor.folder / WEIGHTS),
            "tokenizers": self.predictor.task.fingerprint,
            **({} if self.predictor.ranking is None else {"ranking": self.predictor.ranking.identity()}),
            "input": self.source.digest(),
            "options": {"request": request, "json": self.json, **asdict(self.decoding)},
            "shard": None if self.shard is None else asdict(self.shard),
            "version": __version__,
        }
        return ResumableFile(file, depends_on)

    def run(self, output: Output) -> None:
        """Predict all lines that `output` does not contain yet."""
        requested = None
        if not self.source.single_pass:  # read it once: an error in any line is reported before all work
            count = sum(len(inputs) for _, inputs in self._blocks(ReadReport()))
            requested = (self.shard or Shard()).lines(count)
            if self.rows is not None:
                inputs = pluralize(count, self.predictor.task.nouns.group)
                self.report(f"{self.source.name} has {inputs}, each with a line of output")
        with output:
            if output.lines:
                self.report(f"resuming after {pluralize(output.lines, 'line')}")
            lines = self._predict(None if requested is None else requested[output.lines :], output)
            output.finish()
        unsure = [] if self.json else self.warnings.unsure_answers
        for line in (*self.tally.summary(), *self.warnings.summary(), *unsure):
            self.report(line)
        if lines and self.warnings.unusable.count == lines:
            raise InputError(f"{self.source.name} has no input that can be used")

    def _predict(self, requested: range | None, output: Output) -> int:
        """Write the outputs of the requested lines; return their number."""
        on_terminal = isinstance(output, StandardOutput) and sys.stdout.isatty()
        progress = Progress(requested, visible=not on_terminal)
        warned, lines = False, 0
        for first, inputs in self._blocks(self.tally, requested):
            usable = [each for each in inputs if not isinstance(each, Unusable)]
            predictions = self.predictor.stream(usable, first=first, **self.options)
            answers = [each if isinstance(each, Unusable) else next(predictions) for each in inputs]
            output.write([self._line(*each) for each in zip(inputs, answers, strict=True)])
            for row, answer in enumerate(answers, start=first):
                self.warnings.add(row, answer)
            progress.show(len(answers))
            lines += len(answers)
            if not warned and (warning := self.warnings.mostly_unknown):
                warned = True
                progress.clear()
                self.report(warning)
        progress.clear()
        return lines

    def _line(self, example: Any, prediction: Prediction | Unusable) -> bytes:
        """Return the line of a prediction; tabs separate alternatives. A blank line has a blank one."""
        if isinstance(prediction, Unusable):
            return encode_json({**prediction._asdict(), "output": ""}) if self.json else b"\n"
        file = None if self.rows is None or not self.named else example.place.file
        if self.json:
            return encode_json(({} if file is None else {"file": file}) | prediction.to_json())
        if not prediction.source.strip():
            return b"\n"
        outputs = [str(each) for each in prediction.all]
        if len(outputs) > 1:
            outputs = [output.replace("\t", " ") for output in outputs]
        if self.named:
            outputs.insert(0, prediction.source if file is None else file)
        return "\t".join(outputs).encode() + b"\n"

    def _blocks(self, tally: ReadReport, requested: range | None = None) -> Iterator[tuple[int, list[Any]]]:
        """Yield the requested inputs in blocks, each with the number of its first one."""
        if self.rows is not None:
            yield from row_blocks(self.rows(tally), requested)
            return
        for block in line_blocks(self.source, self.decoding, tally, requested, joined=self.joined):
            yield block.first, parsed(self.predictor.task, self.source.name, block)


def parsed(task: Task[Any, Any], name: str, block: Block) -> list[Any]:
    """Parse the lines of a block of the file `name`. An error names the line."""
    inputs = []
    for row, line in enumerate(block.lines, start=block.first + 1):
        try:
            inputs.append(task.from_line(line))
        except UnusableInput as error:
            inputs.append(Unusable(line, str(error)))
        except InputError as error:
            raise InputError(f"{Place(name, row)}: {error}") from error
    return inputs


class InputWarnings:
    """Counts lines with unknown symbols, with tabs where one text is expected, overlong lines, those that
    cannot be used, answers that are unsure, and those with a remark.
    """

    def __init__(self, predictor: Predictor, file: str):
        self.predictor, self.file, self.one_text = predictor, file, predictor.task.one_text
        # items, such as images, are all read at one size
        self.longest = None if predictor.task.usage.file == "item" else predictor.trained_length
        self.tokens = self.unknown = self.answers = self.unsure = 0
        self.with_unknown, self.with_tab, self.cut, self.long, self.unparsed, self.unusable = (
            Occurrences() for _ in range(6)
        )
        self.remarked, self.remark = Occurrences(), ""  # the first remark
        self.symbols: dict[str, None] = {}  # the first unknown symbols
        self.faults: list[str] = []  # the first ones

    def add(self, row: int, prediction: Prediction | Unusable) -> None:
        """Count one line; `row` starts at 0."""
        place = Place(self.file, row + 1)
        if isinstance(prediction, Unusable):
            self.unusable.add(place)
            if len(self.faults) < FAULTS_SHOWN:
                self.faults.append(prediction.fault)
            return
        if self.predictor.task.threshold and prediction.source.strip():
            self.answers += 1
            self.unsure += bool(prediction.details().get("unsure"))
        if remark := prediction.remark:
            self.remarked.add(place)
            self.remark = self.remark or remark
        reading = prediction.reading
        self.tokens, self.unknown = self.tokens + reading.tokens, self.unknown + reading.unknown
        if reading.unknown:
            self.with_unknown.add(place)
            if self.one_text and len(self.symbols) < UNKNOWN_SHOWN:
                self.symbols |= dict.fromkeys(self.predictor.task.unknown_symbols(prediction.source))
        if self.one_text and "\t" in prediction.source:
            self.with_tab.add(place)
        if reading.unparsed:
            self.unparsed.add(place)
        if reading.unread:
            self.cut.add(place)
        elif self.longest is not None and reading.tokens > self.longest:
            self.long.add(place)

    @property
    def mostly_unknown(self) -> str | None:
        """The warning to print at once if at least half of all symbols are unknown."""
        if 2 * self.unknown < max(self.tokens, 1):
            return None
        return f"{100 * self.unknown / self.tokens:.0f} % unknown symbols: wrong language or tokenizer?"

    @property
    def unsure_answers(self) -> list[str]:
        """A line about the answers that are unsure, if there are any."""
        if not self.unsure:
            return []
        unsure = f"of {pluralize(self.answers, 'answer')} {'are' if self.unsure > 1 else 'is'} unsure"
        threshold = f"below p = {self.predictor.task.threshold:.2f}"
        return [f"{self.unsure:,} {unsure}, {threshold}; --json has the probabilities"]

    def summary(self) -> list[str]:
        """Return one line for each kind of warning."""
        symbols = ", ".join(excerpt(symbol) for symbol in list(self.symbols)[:UNKNOWN_SHOWN])
        such_as = f", such as {symbols}" if symbols else ""
        trained = f"{self.longest or 0:,} tokens"
        unread = self.predictor.task.nouns.unread
        kinds = (
            (self.with_tab, "with a tab, but the model takes one text: is this a file of pairs?"),
            (self.with_unknown, f"with symbols that are unknown to the model{such_as}"),
            (self.cut, f"longer than the limit of {self.predictor.longest:,} tokens: {unread} was not read"),
            (self.long, f"longer than all training sources ({trained}): read in full, outputs may be poor"),
            (self.unparsed, "without a dependency tree: their positions are linear"),
            (self.remarked, f"with a remark: {self.remark}"),
            (self.unusable, f"with an empty output: {'; '.join(self.faults)}"),
        )
        return [
            f"{pluralize(count.count, 'line')} {kind} "
            f"({', '.join(map(str, count.places))}{', …' if count.count > len(count.places) else ''})"
            for count, kind in kinds
            if count.count
        ]


class Progress:
    """Progress line on a terminal. `visible`: false if it would mix with the outputs."""

    def __init__(self, requested: range | None, *, visible: bool):
        self.total, self.done, self.began = len(requested or ()), 0, time.monotonic()
        self.visible = visible and requested is not None and sys.stderr.isatty()

    def show(self, lines: int) -> None:
        self.done += lines
        if not self.visible:
            return
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        left = (self.total - self.done) / speed / 60
        text = f"{self.done:,} of {self.total:,} lines, {speed:,.0f} lines/s, {left:.0f} min left"
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
