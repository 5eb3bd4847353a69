"""A training in the terminal: the forecast, a progress line, the validations, the findings and the end."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from seqwright.data.text_display import excerpt, percent, printable
from seqwright.evaluation.text_outputs import metric_label
from seqwright.training.forecast import Forecast
from seqwright.training.trainer import Progress, Report
from seqwright.training.validation import Probe

BAR = 24  # characters
WIDTH = 44  # characters shown of a source or an output
LINE = 100  # characters of probes on one line
SLOW, LONG = 0.75, 60  # a training of this many seconds is slow below this fraction of the forecast speed


class Console:
    """A listener that writes to a stream, or nowhere. The progress line needs a terminal."""

    def __init__(self, stream: TextIO | None):
        self.stream = stream
        self.moves = stream is not None and stream.isatty()
        self._reported: set[str] = set()
        self._outputs: dict[str, str] = {}
        self._forecast: Forecast | None = None

    def __call__(self, report: Report) -> None:
        if report.validation is not None:
            scores = [f"validation loss {_loss(report.validation.loss)}"]
            for each in report.validation.measured:
                label = metric_label(each.metric.name, "text")
                value = each.value()
                scores.append(f"{label} {value:.{each.metric.places(value)}f}")
            self.line(f"step {report.step:6,d}  {percent(report.done):>5}  {'  '.join(scores)}")
            self._probes(report.validation.probes)
        elif self.moves and not report.findings:
            filled = round(min(report.done, 1.0) * BAR)
            bar = f"{'━' * filled}{'─' * (BAR - filled)} "
            noun = self._forecast.noun if self._forecast else "token"
            speed = f"{report.tokens_per_second:,.0f} {noun}s/s  {clock(report.seconds_left)} left"
            text = f"{percent(report.done):>5}  step {report.step:,}  loss {_loss(report.loss)}  {speed}"
            # a line that wraps cannot be overwritten: the bar is the first to go
            room = shutil.get_terminal_size().columns - 1
            self.line(f"{bar[max(len(bar) + len(text) - room, 0) :]}{text}"[:room], end="")
        for finding in report.findings:
            kind = re.sub(r"[\d.,%]+", "", finding)[:40]  # report it once, not again with other numbers
            if kind not in self._reported:
                self.line(f"  ! {finding}")
                self._reported.add(kind)

    def announce(self, forecast: Forecast) -> None:
        self._forecast = forecast
        self.lines(f"  {line}" for line in forecast.lines())

    def end(self, progress: Progress, folder: Path) -> None:
        end = f"finished at step {progress.step:,} after {clock(progress.seconds)}"
        self.line(f"{end}; {folder} has the weights of step {progress.kept_step:,}")
        forecast = self._forecast
        if forecast is not None and forecast.seconds >= LONG:
            speed = (progress.step / progress.seconds) / (forecast.steps / forecast.seconds)
            if speed < SLOW:
                self.line(
                    f"  ! {percent(speed)} of the forecast speed; other programs may have slowed it down"
                )

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def line(self, text: str, end: str = "\n") -> None:
        if self.stream is not None:
            text = "\n".join(map(printable, text.split("\n")))
            self.stream.write(("\r\x1b[K" if self.moves else "") + text + end)
            self.stream.flush()

    def _probes(self, probes: Iterable[Probe]) -> None:
        """Show the outputs that changed since the last validation, on one line if they fit."""
        news = [(line, item) for line, item in probes if self._outputs.get(line) != str(item.output)]
        self._outputs |= {line: str(item.output) for line, item in news}
        texts = []
        for line, item in news:
            right = " ✓" if item.output.value in item.references else ""
            output = excerpt(str(item.output), WIDTH)
            if not isinstance(item.output.value, str):  # tags or numbers
                output = output.strip("“”")
            texts.append(f"{excerpt(line, WIDTH)} → {output}{right}")
        if len("   ".join(texts)) <= LINE:
            texts = ["   ".join(texts)] if texts else []
        self.lines(f"        {text}" for text in texts)


def _loss(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.2g}"


def clock(seconds: float) -> str:
    """h:mm:ss, or m:ss."""
    if math.isnan(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
