"""The lines of a training in the terminal."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from seqwright.data.language_results import Surprise
from seqwright.training.console import Console
from seqwright.training.forecast import Forecast
from seqwright.training.trainer import Progress

PLANNED = Forecast(
    parameters=1,
    processes=1,
    threads=1,
    step_seconds=0.1,
    tokens_per_second=1.0,
    epoch_steps=1,
    steps=1000,
    seconds=120.0,
    memory=None,
)


@pytest.mark.parametrize(
    ("steps", "seconds", "shown"), [(620, 120.0, "62"), (900, 120.0, ""), (310, 37.2, "")]
)
def test_a_slow_training_is_reported(steps: int, seconds: float, shown: str) -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.announce(PLANNED)
    console.end(Progress(step=steps, seconds=seconds, best_step=2, kept_step=300), Path("run"))
    _, finished, *more = stream.getvalue().splitlines()
    assert finished.endswith("run has the weights of step 300")
    assert [line.split()[1] for line in more] == [shown] * bool(shown)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [120, 80, 60, 30])
def test_the_progress_line_fits_into_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    report = SimpleNamespace(
        validation=None, findings=[], done=0.5, step=123456, loss=2.5, tokens_per_second=1e5, seconds_left=9e4
    )
    stream = Terminal()
    Console(stream)(report)  # type: ignore[arg-type]
    line = stream.getvalue().removeprefix("\r\x1b[K")
    assert len(line) < columns
    assert "50 %  step 123,456" in line
    assert (line.endswith("25:00:00 left"), "━" in line) == (columns > 60, columns > 60)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("chat", "“cat” → “chat”"), (Surprise("cat", -6.0, 3), "“cat” → 2.000 nats per character")],
)
def test_texts_have_quotes_and_numbers_none(value: str | Surprise, shown: str) -> None:
    """As outputs of a validation."""

    class Output:
        def __init__(self) -> None:
            self.value = value

        def __str__(self) -> str:
            return str(value)

    stream = io.StringIO()
    item = SimpleNamespace(output=Output(), references=[])
    validation = SimpleNamespace(loss=1.0, measured=[], probes=[("cat", item)])
    Console(stream)(SimpleNamespace(validation=validation, step=1, done=0.5, findings=[]))  # type: ignore[arg-type]
    assert stream.getvalue().splitlines()[1].strip() == shown
