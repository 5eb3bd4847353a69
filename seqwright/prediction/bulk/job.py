"""All lines of one input through one model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqwright import __version__
from seqwright.data.inputs import source_of_line
from seqwright.data.read_report import Count, Place, Tally
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding
from seqwright.data.results import Prediction
from seqwright.data.text_display import amount, shown
from seqwright.errors import InputError
from seqwright.files import encode_json, sha256
from seqwright.prediction.bulk.blocks import Block, Share, line_blocks
from seqwright.prediction.bulk.output import Output, PartFile, StandardOutput
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import WEIGHTS
from seqwright.search import BeamOptions, SamplingOptions

STRANGE = 8  # symbols that are shown


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of each line: how its output is searched for, what it begins with, how it is written."""

    search: BeamOptions | SamplingOptions
    prefix: str = ""
    json: bool = False

    def line(self, prediction: Prediction) -> bytes:
        """One line. The best outputs of a beam stand on it side by side, with tabs between them."""
        if self.json:
            return encode_json(prediction.to_json())
        outputs = [str(each) for each in prediction.all]
        if len(outputs) > 1:
            outputs = [output.replace("\t", " ") for output in outputs]
        return "\t".join(outputs).encode() + b"\n"


class Job:
    """Reads, answers, writes; what was remarkable is said once."""

    def __init__(
        self,
        model: Predictor,
        source: Input,
        wanted: Wanted,
        *,
        decoding: Decoding | None = None,
        share: Share | None = None,
        say: Callable[[str], None] = lambda text: None,
    ):
        if share is not None and source.once:
            raise InputError(f"{source.name} cannot be divided into shards; save it to a file first")
        self.model, self.source, self.wanted, self.say = model, source, wanted, say
        self.decoding, self.share = decoding or Decoding(), share
        self.tally, self.remarks = Tally(), Remarks(model, source.name)

    def run(self, output: Output) -> None:
        """Everything that `output` does not have yet."""
        lines = None if self.source.once else (self.share or Share()).lines(self._count())
        with output:
            if output.lines:
                self.say(f"going on after what is there already: {amount(output.lines, 'line')}")
            if lines is not None:
                lines = range(lines.start + output.lines, lines.stop)
            self._answer(lines, output)
            output.finish()
        for remark in (*self.tally.summary(), *self.remarks.summary()):
            self.say(remark)

    def output(self, path: Path | None) -> Output:
        """Standard output if no path is given; a file is bound to all that its lines depend on.

        A pipe cannot be read again: its outputs begin anew.
        """
        if path is None:
            return StandardOutput()
        bound = None if self.source.once else self._bound()
        return PartFile(path if self.share is None else self.share.path(path), bound)

    def _bound(self) -> dict[str, Any]:
        assert self.model.folder is not None
        return {
            "weights": sha256(self.model.folder / WEIGHTS),
            "tokenizers": self.model.task.fingerprint,
            "input": sha256(Path(self.source.path)),
            "options": {**asdict(self.wanted), **asdict(self.decoding)},
            "shard": None if self.share is None else asdict(self.share),
            "version": __version__,
        }

    def _count(self) -> int:
        """The lines of a file; what is wrong with any of them is said before the first one is answered."""
        blocks = line_blocks(self.source, self.decoding, Tally())
        return sum(len(self._sources(block)) for block in blocks)

    def _sources(self, block: Block) -> list[str]:
        sources = []
        for row, line in enumerate(block.lines, start=block.first + 1):
            try:
                sources.append(source_of_line(line, self.model.fields))
            except InputError as error:
                raise InputError(f"{Place(self.source.name, row)}: {error}") from error
        return sources

    def _predictions(self, block: Block) -> list[Prediction]:
        sources, wanted = self._sources(block), self.wanted
        return list(
            self.model.stream(sources, prefix=wanted.prefix, options=wanted.search, first=block.first)
        )

    def _answer(self, lines: range | None, output: Output) -> None:
        progress = Progress(lines, visible=not isinstance(output, StandardOutput) or not sys.stdout.isatty())
        warned = False
        for block in line_blocks(self.source, self.decoding, self.tally, lines):
            found = self._predictions(block)
            output.write([self.wanted.line(prediction) for prediction in found])
            for row, prediction in enumerate(found, start=block.first):
                self.remarks.add(row, prediction)
            progress.show(len(found))
            if not warned and self.remarks.foreign:
                warned = True
                progress.clear()
                self.say(self.remarks.foreign)
        progress.clear()


class Remarks:
    """What whoever asks must know of the sources, counted: unknown symbols, tabs where one text is expected,
    and very long ones.
    """

    def __init__(self, model: Predictor, file: str):
        self.model, self.file = model, file
        self.tokens = self.unknown = 0
        self.long, self.cut, self.odd, self.tabs = Count(), Count(), Count(), Count()
        self.strange: dict[str, None] = {}  # the first unknown symbols

    def add(self, line: int, prediction: Prediction) -> None:
        """The line counts from 0, as in a block."""
        reading = prediction.reading
        self.tokens, self.unknown = self.tokens + reading.tokens, self.unknown + reading.unknown
        if reading.unknown:
            self.odd.add(Place(self.file, line + 1))
            if len(self.model.fields) == 1 and len(self.strange) < STRANGE:
                unknown = self.model.task.source.count_unknown([prediction.source]).most_common
                self.strange |= dict.fromkeys(symbol for symbol, _ in unknown)
        if "\t" in prediction.source and len(self.model.fields) == 1:
            self.tabs.add(Place(self.file, line + 1))
        if reading.unread:
            self.cut.add(Place(self.file, line + 1))
        elif self.model.trained_length is not None and reading.tokens > self.model.trained_length:
            self.long.add(Place(self.file, line + 1))

    @property
    def foreign(self) -> str | None:
        if 2 * self.unknown < max(self.tokens, 1):
            return None
        return f"{self.unknown / self.tokens:.0%} unknown symbols: wrong language or tokenizer?".replace(
            "%", " %"
        )

    def summary(self) -> list[str]:
        """One line for each kind that was met."""
        strange = ", ".join(shown(symbol) for symbol in list(self.strange)[:STRANGE])
        found = (
            (
                self.tabs,
                ("has a tab", "have a tab"),
                "but the model takes one text: is this a file of pairs?",
            ),
            (
                self.odd,
                ("has", "have"),
                "symbols that the model does not know" + (f", as {strange}" if strange else ""),
            ),
            (
                self.cut,
                ("is", "are"),
                f"longer than the {self.model.longest:,} tokens that are read: the rest was left out",
            ),
            (
                self.long,
                ("is", "are"),
                f"longer than any source in training, of {self.model.trained_length:,} tokens at most: read "
                "whole, but nothing so long was learned",
            ),
        )
        return [
            f"{amount(count.count, 'line')} {verbs[count.count > 1]} {what} "
            f"({', '.join(map(str, count.places))}{', …' if count.count > len(count.places) else ''})"
            for count, verbs, what in found
            if count.count
        ]


class Progress:
    """One line at a terminal that says how far it is; `visible` where it does not get among the outputs."""

    def __init__(self, lines: range | None, *, visible: bool):
        self.total, self.done, self.began = len(lines or ()), 0, time.monotonic()
        self.visible = visible and lines is not None and sys.stderr.isatty()

    def show(self, lines: int) -> None:
        self.done += lines
        if not self.visible:
            return
        speed = self.done / max(time.monotonic() - self.began, 1e-9)
        left = (self.total - self.done) / speed / 60
        text = f"{self.done:,} of {self.total:,} lines, {speed:,.0f} a second, {left:.0f} min left"
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
