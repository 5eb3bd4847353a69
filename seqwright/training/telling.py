"""A training in the terminal: a line that moves, and one that stays for each validation and each finding."""

from __future__ import annotations

import math
import re
from typing import TextIO

from seqwright.training.trainer import Progress, Report


class Teller:
    """A listener that writes to a stream. Where that is no terminal, nothing moves."""

    def __init__(self, stream: TextIO):
        self.stream, self.moves = stream, stream.isatty()
        self._told: set[str] = set()

    def __call__(self, report: Report) -> None:
        if report.validation is not None:
            found = [("valid loss", report.validation.loss)]
            found += [(score.name, score.value) for score in report.validation.scores]
            scores = "  ".join(f"{name} {value:.3f}" for name, value in found)
            self._line(f"step {report.step:6d}  {report.done:4.0%}  {scores}")
        elif not report.findings:
            self._moving(
                f"step {report.step:6d}  {report.done:4.0%}  loss {report.loss:.3f}  "
                f"{report.tokens_per_second:,.0f} tokens/s  {_time(report.seconds_left)} left"
            )
        for finding in report.findings:
            kind = re.sub(r"[\d.,%]+", "", finding)[:40]  # the same finding with other numbers is not news
            if kind not in self._told:
                self._line(f"  ! {finding}")
                self._told.add(kind)

    def end(self, progress: Progress, folder: str) -> None:
        self._line(
            f"finished at step {progress.step} after {_time(progress.seconds)}; the best was step "
            f"{progress.best_step}. Try: seqwright predict {folder}"
        )

    def _line(self, text: str) -> None:
        self.stream.write(("\r\x1b[K" if self.moves else "") + text + "\n")
        self.stream.flush()

    def _moving(self, text: str) -> None:
        if self.moves:
            self.stream.write("\r\x1b[K" + text)
            self.stream.flush()


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
