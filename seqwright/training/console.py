"""A training in the terminal: what is planned, a line that moves, a few that stay for each validation and
each finding, and how it ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from seqwright.data.text_display import shown
from seqwright.evaluation.metrics import in_words
from seqwright.training.forecast import Forecast
from seqwright.training.trainer import Progress, Report
from seqwright.training.validation import Item

BAR = 24  # characters
WIDTH = 44  # characters of a probe that are shown
LINE = 100  # characters of probes on one line
SLOW, LONG = 0.75, 60  # times the speed of the plan, and seconds, that are worth a word


class Console:
    """A listener that writes to a stream, or to nobody. Where the stream is no terminal, nothing moves."""

    def __init__(self, stream: TextIO | None):
        self.stream = stream
        self.moves = stream is not None and stream.isatty()
        self._told: set[str] = set()
        self._said: dict[str, str] = {}
        self._planned: Forecast | None = None

    def __call__(self, report: Report) -> None:
        if report.validation is not None:
            found = [("valid loss", report.validation.loss)]
            found += [(in_words(score.name, "text"), score.value) for score in report.validation.scores]
            scores = "  ".join(
                f"{name} {value:.3f}" if name == "valid loss" else f"{name} {value:.1f}"
                for name, value in found
            )
            self.line(f"step {report.step:6,d}  {report.done:4.0%}  {scores}")
            self._probes(report.validation.probes)
        elif not report.findings:
            self._moving(
                f"{_bar(report.done)} {report.done:4.0%}  step {report.step:,}  loss {report.loss:.3f}  "
                f"{report.tokens_per_second:,.0f} tokens/s  {clock(report.seconds_left)} left"
            )
        for finding in report.findings:
            kind = re.sub(r"[\d.,%]+", "", finding)[:40]  # the same finding with other numbers is not news
            if kind not in self._told:
                self.line(f"  ! {finding}")
                self._told.add(kind)

    def announce(self, forecast: Forecast) -> None:
        self._planned = forecast
        self.lines(f"  {line}" for line in forecast.lines())

    def end(self, progress: Progress, folder: Path) -> None:
        self.line(
            f"finished at step {progress.step:,} after {clock(progress.seconds)}; {folder} is the "
            f"model of step {progress.kept_step:,}"
        )
        planned = self._planned
        if planned is not None and planned.seconds >= LONG:
            speed = (progress.step / progress.seconds) / (planned.steps / planned.seconds)
            if speed < SLOW:
                self.line(
                    f"  ! at {speed:.0%} of the speed of the plan; other programs may have slowed it down"
                )

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def line(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(("\r\x1b[K" if self.moves else "") + text + "\n")
            self.stream.flush()

    def _probes(self, probes: Iterable[Item]) -> None:
        """What comes out for a few sources, where it is other than the last time; on one line if it fits."""
        news = [probe for probe in probes if self._said.get(probe.source) != probe.output.text]
        self._said |= {probe.source: probe.output.text for probe in news}
        texts = [
            f"{shown(probe.source, WIDTH)} → {shown(probe.output.text, WIDTH)}"
            + (" ✓" if probe.output.text in probe.references else "")
            for probe in news
        ]
        whole = "   ".join(texts)
        for text in [whole] if len(whole) <= LINE else texts:
            if text:
                self.line(f"        {text}")

    def _moving(self, text: str) -> None:
        if self.stream is not None and self.moves:
            self.stream.write("\r\x1b[K" + text)
            self.stream.flush()


def clock(seconds: float) -> str:
    """h:mm:ss, or m:ss."""
    if math.isnan(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _bar(done: float) -> str:
    filled = round(min(done, 1.0) * BAR)
    return "━" * filled + "─" * (BAR - filled)
