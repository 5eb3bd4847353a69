"""Candidates of one model in the order of another: hybrid replies, and maximum mutual information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from seqwright.config.validation import Count, check
from seqwright.data.results import Text
from seqwright.data.task import Row
from seqwright.errors import ConfigError, Problem
from seqwright.files import sha256
from seqwright.runs.folder import WEIGHTS

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

Share = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True)
class Ranking:
    """Ranks the candidates of a conversation by the scores of another model.

    by = "generator": the candidates are retrieved; the score is log p(reply | context) per token of a model
    that generates. by = "mutual_information": the candidates are generated, and the other model predicts
    the last turn from a reply; the score is (1 − w) · log p(reply | context) + w · log p(last turn | reply),
    where w is the weight (Li et al. 2016, MMI-bidi). Replies that fit every context lose, because the turn
    cannot be predicted from them.
    """

    judge: Predictor
    by: Literal["generator", "mutual_information"]
    candidates: int = 20
    weight: float = 0.5

    def __post_init__(self) -> None:
        if problems := [each for each in map(self._problem, ("candidates", "weight")) if each]:
            raise ConfigError(*problems)
        task: Any = self.judge.task
        if not task.usage.generates or getattr(task, "retrieves", False):
            kind = type(task).__name__
            raise ConfigError(f"{self._judge} ({kind}) gives no probabilities of texts; name a run that does")
        if self.by == "generator" and task.usage.chat is None:
            raise ConfigError(f"{self._judge} is not a conversation; name a generative run of the same data")

    def _problem(self, name: str) -> Problem | None:
        return check(name, getattr(self, name), {"candidates": Count, "weight": Share}[name])

    @property
    def _judge(self) -> str:
        return str(self.judge.folder or "the model that ranks")

    def identity(self) -> dict[str, Any]:
        """Return what an output depends on."""
        assert self.judge.folder is not None
        weights = sha256(self.judge.folder / WEIGHTS)
        return {"weights": weights, "by": self.by, "candidates": self.candidates, "weight": self.weight}

    def check(self, task: Any) -> None:
        """Refuse a task whose candidates this ranking cannot rank."""
        if not hasattr(task, "retrieves"):
            raise ConfigError(
                f"only replies of conversations are ranked, not outputs of {type(task).__name__}"
            )
        if task.retrieves and self.by != "generator":
            raise ConfigError(
                "mutual information ranks generated replies; rank retrieved ones with --rank-by"
            )
        if not task.retrieves and self.by == "generator":
            raise ConfigError(
                "a generator ranks retrieved replies; for a generative run, use --mutual-information"
            )

    def answer(
        self, own: Predictor, rows: Sequence[Row[Any]], request: Any, numbers: Sequence[int]
    ) -> list[Text]:
        """Answer as `Task.answer` does, with the candidates in the order of the ranking."""
        wanted = getattr(request.options, "n_best", 1)
        found = []
        for row, first, *others in zip(rows, *self._drawn(own, rows, request, numbers), strict=True):
            texts = {each.text: each for draw in (first, *others) for each in draw.all}
            several = list(texts.values())[: self.candidates]
            if not first.text or len(several) == 1:
                found.append(replace(first, alternatives=first.alternatives[: wanted - 1]))
                continue
            scores = self._scores(own, row.example.context, [each.text for each in several])
            judged = [replace(first, **_output(*pair)) for pair in zip(several, scores, strict=True)]
            judged.sort(key=lambda each: each.score, reverse=True)
            # more than the candidates follow in their own order, so that a longer list only adds to a shorter
            ranked = [*judged, *list(texts.values())[self.candidates :]]
            found.append(replace(ranked[0], alternatives=tuple(ranked[1:wanted])))
        return found

    def _drawn(
        self, own: Predictor, rows: Sequence[Row[Any]], request: Any, numbers: Sequence[int]
    ) -> list[list[Text]]:
        """Return the candidates of each row: one list, or several draws of one candidate each."""
        task, options = own.task, request.options
        if getattr(task, "retrieves", False):
            from seqwright.search.options import BeamOptions

            count = max(self.candidates, getattr(options, "n_best", 1))
            request = replace(request, options=BeamOptions(size=count, n_best=count))
            return [task.answer(own.model, rows, request, numbers)]
        if hasattr(options, "n_best"):  # a beam: its best hypotheses
            count = max(self.candidates, options.n_best)
            options = replace(options, size=max(count, options.size), n_best=count)
            return [task.answer(own.model, rows, replace(request, options=options), numbers)]
        draws: list[list[Text]] = []
        for number in range(self.candidates):  # seeds that no other seed of the user shares
            seeded = replace(options, seed=options.seed * self.candidates + number)
            request = replace(request, options=seeded, checked=request.checked and not draws)
            draws.append(task.answer(own.model, rows, request, numbers))
        return draws

    def _scores(self, own: Predictor, context: Sequence[str], replies: Sequence[str]) -> list[float]:
        pairs = [(tuple(context), reply) for reply in replies]
        if self.by == "generator":
            lengths = [len(ids) + 1 for ids in self.judge.task.target.encode_batch(list(replies))]  # type: ignore[attr-defined]
            return [score / n for score, n in zip(self.judge.score(pairs), lengths, strict=True)]
        forward = own.score(pairs)
        backward = self.judge.score([(reply, context[-1]) for reply in replies])
        both = zip(forward, backward, strict=True)
        return [(1 - self.weight) * one + self.weight * other for one, other in both]


def with_ranking(predictor: Predictor, options: Any) -> Predictor:
    """Return a predictor with the ranking that `rank_by`, `mutual_information` and `candidates` describe."""
    from seqwright.prediction.predictor import load

    runs = {"generator": options.rank_by, "mutual_information": options.mutual_information}
    named: Any = [(by, run) for by, run in runs.items() if run is not None]
    if len(named) > 1:
        raise ConfigError("--rank-by and --mutual-information were both given; leave one of them out")
    if not named:
        if options.candidates is not None:
            raise ConfigError("--candidates needs --rank-by or --mutual-information; add one of them")
        return predictor
    ((by, run),) = named
    many = {} if options.candidates is None else {"candidates": options.candidates}
    return predictor.ranked(Ranking(load(run, threads=options.threads), by, **many))


def _output(text: Any, score: float) -> dict[str, Any]:
    """Return the fields in which candidates of one input differ."""
    names = ("text", "log_prob", "tokens", "token_scores", "finish_reason")
    own = {name: getattr(text, name) for name in names}
    return {**own, "score": score, "fits": getattr(text, "fits", True)}
