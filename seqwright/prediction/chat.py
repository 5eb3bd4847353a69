"""Talking to a model: the turns so far, the next reply as it grows, and a second attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seqwright.errors import ConfigError, SeqwrightError

if TYPE_CHECKING:
    from seqwright.lens.trace.base import TraceDocument
    from seqwright.prediction.predictor import Predictor


class Chat:
    """A conversation with a model. `turns` are those of both sides, a person's first.

    options: those of `Predictor.predict`, such as temperature. The seed grows with every reply, so that a
    second attempt is another reply; a model that retrieves replies takes the next nearest one. fits: False if
    the last reply was retrieved and does not fit.
    """

    fits = True

    def __init__(self, predictor: Predictor, *, seed: int = 1, **options: Any):
        if predictor.task.usage.chat is None:
            raise ConfigError(
                f"chat needs a conversation or a language model, not {type(predictor.task).__name__}; "
                "use seqwright predict"
            )
        self.predictor, self.options, self.seed = predictor, options, seed
        self.turns: list[str] = []
        self._attempt = 1  # at the last reply
        predictor.task.request(predictor.search, **self._options())  # wrong options are found at once

    def reply(self, text: str) -> Iterator[str]:
        """Take a turn of the person; yield the reply as it grows. What has grown when the iteration ends
        early is the reply.
        """
        yield from self._next([*self.turns, text], 1)

    def retry(self) -> Iterator[str]:
        """Yield another reply in place of the last one."""
        if len(self.turns) < 2:
            raise ConfigError("there is no reply yet; write something first")
        yield from self._next(self.turns[:-1], self._attempt + 1)

    def reset(self) -> None:
        self.turns.clear()

    def look(self) -> TraceDocument:
        """Return the trace of the last reply."""
        if len(self.turns) < 2 or not self.turns[-1]:  # stopped before its first word
            raise ConfigError("there is no reply yet; write something first")
        return self.predictor.look(self.predictor.task.last_reply(self.turns))

    def _next(self, turns: list[str], attempt: int) -> Iterator[str]:
        """Yield the reply to some turns. After an error the conversation is what it was before."""
        before = self.turns, self._attempt
        self.turns, self._attempt = [*turns, ""], attempt
        try:
            yield from self._growing(self.predictor.task.after_turns(turns))
        except SeqwrightError:
            self.turns, self._attempt = before
            raise

    def _growing(self, given: Any) -> Iterator[str]:
        self.seed += 1
        retrieves = getattr(self.predictor.task, "retrieves", False)
        whole = retrieves or self.predictor.ranking is not None
        typed = self._at_once if whole else self.predictor.typed
        for text in typed(given, **self._options()):
            self.turns[-1] = text
            yield text

    def _at_once(self, given: Any, **options: Any) -> Iterator[str]:
        if getattr(self.predictor.task, "retrieves", False):
            options = {"n_best": self._attempt}
        (found,) = self.predictor.predict([given], **options)
        reply: Any = found.all[-1]
        self.fits = reply.fits
        yield reply.text

    def _options(self) -> dict[str, Any]:
        return {**(self.predictor.task.usage.chat or {}), "seed": self.seed, **self.options}
