"""The search options of a prediction, as `predict`, the command line and the server take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from seqwright.config import SearchConfig
from seqwright.config.registry import unknown_each
from seqwright.config.validation import check
from seqwright.errors import ConfigError, Problem
from seqwright.search.options import BeamOptions, SamplingOptions


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """Options of one search; None leaves the choice to the model. Temperature, top_k and top_p imply
    sampling.
    """

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SearchRequest:
        """Refuse options that a search does not have."""
        known = [field.name for field in fields(cls)]
        wrong = [name for name in options if name not in known]
        if wrong:
            raise ConfigError(*unknown_each("option of a search", wrong, known))
        return cls(**options)

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(SearchRequest, name)}

    @property
    def sampling(self) -> bool:
        return self.sample or any(value is not None for value in (self.temperature, self.top_k, self.top_p))

    def options(self, search: SearchConfig) -> BeamOptions | SamplingOptions:
        """Return complete options, with those of the run as defaults; all problems are one error."""
        if wrong := [*filter(None, (check("n_best", self.n_best, int), check("sample", self.sample, bool)))]:
            raise ConfigError(*wrong)  # the others are checked with the options that they become
        choose = self._sampling if self.sampling else self._beam
        problems = [*self._contradictions(), *_problems(choose, search)]
        if self.sampling:  # the options of a beam may be wrong, too
            problems += _problems(replace(self, max_length=None)._beam, search)
        if problems:
            raise ConfigError(*problems)
        return choose(search)

    def _beam(self, search: SearchConfig) -> BeamOptions:
        return BeamOptions(
            size=max(search.beam, self.n_best) if self.beam is None else self.beam,
            n_best=self.n_best,
            length_penalty=search.length_penalty if self.length_penalty is None else self.length_penalty,
            max_length=search.max_length if self.max_length is None else self.max_length,
        )

    def _sampling(self, search: SearchConfig) -> SamplingOptions:
        drawn = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
        given: dict[str, Any] = {name: value for name, value in drawn.items() if value is not None}
        return SamplingOptions(
            max_length=search.max_length if self.max_length is None else self.max_length, **given
        )

    def _contradictions(self) -> list[Problem | str]:
        if not self.sampling:
            return (
                [] if self.seed is None else [Problem("seed", self.seed, "it needs sampling; add {sample}")]
            )
        of_beam = {"beam": self.beam, "length_penalty": self.length_penalty}
        of_beam["n_best"] = None if self.n_best == 1 else self.n_best
        return [
            Problem(name, value, "it belongs to beam search, but sampling is on; leave one of them out")
            for name, value in of_beam.items()
            if value is not None
        ]


def _problems(choose: Callable[[SearchConfig], object], search: SearchConfig) -> list[Problem | str]:
    try:
        choose(search)
    except ConfigError as error:
        return list(error.renamed({"size": "beam"}).problems)
    return []
