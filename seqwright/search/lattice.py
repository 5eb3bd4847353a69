"""A record of a beam search: every candidate, its parent and its fate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from seqwright.search.stepping import Proposals
from seqwright.search.tree import Beam, Node, Verdict

Fate = Literal["kept", "finished", "dropped"]


@dataclass(frozen=True)
class Candidate:
    """A token after a parent. `parent` is its number; None for the token before the first step.

    `log_prob` is that of the whole path, `score` is log_prob / length penalty. `reason` explains the fate.
    """

    sentence: int
    step: int
    parent: int | None
    token: int
    log_prob: float
    score: float
    fate: Fate
    reason: str


@dataclass
class Lattice:
    """The recorder of `beam_search`. The index of a candidate in `candidates` is its number."""

    candidates: list[Candidate] = field(default_factory=list)
    _numbers: dict[Node, int] = field(default_factory=dict, repr=False)

    def of(self, sentence: int) -> dict[int, Candidate]:
        """The candidates of one input by their numbers."""
        return {number: one for number, one in enumerate(self.candidates) if one.sentence == sentence}

    def path(self, number: int) -> Iterator[Candidate]:
        """Yield the candidates from this one back to the token before the first step."""
        place: int | None = number
        while place is not None:
            yield self.candidates[place]
            place = self.candidates[place].parent

    def record(
        self, beam: Beam, proposals: Proposals, live: list[Node], over: list[Node], verdict: Verdict
    ) -> None:
        """Record one step of one sentence, after the verdict and before the live nodes are seated."""
        nodes = {(node.seat, node.token): node for node in live + over}
        for rank, (seat, token, score) in enumerate(zip(*proposals, strict=True)):
            parent = beam.seats[seat]
            if parent is None:
                return
            node = nodes.get((seat, token))
            fate: tuple[Fate, str] = ("dropped", f"rank {rank + 1} of {beam.options.size}")
            if node is not None:
                if token == beam.end:
                    fate = "finished", "end"
                elif verdict is Verdict.CONTINUE:
                    fate = "kept", fate[1]
                else:
                    fate = "finished" if verdict is Verdict.LENGTH else "dropped", verdict.value
            number = self._add(beam, beam.length, parent, token, score, *fate)
            if node is not None:
                self._numbers[node] = number

    def record_bans(
        self, beams: list[Beam], proposals: list[Proposals], stages: Iterable[str], log_probs: Tensor
    ) -> None:
        """Run the stages, which write into log_probs (R, V), and record which filter bans which proposal."""
        grouped = log_probs.view(len(beams), -1, log_probs.shape[1])
        banned: list[dict[tuple[int, int], str]] = [{} for _ in beams]  # (seat, token) -> the first to ban it
        for name in stages:
            for rows, proposal, names in zip(grouped, proposals, banned, strict=True):
                for place in zip(proposal.seats, proposal.tokens, strict=True):
                    if rows[place] == -math.inf:
                        names.setdefault(place, name)
        for rows, beam, proposal, names in zip(grouped, beams, proposals, banned, strict=True):
            for seat, token, score in zip(*proposal, strict=True):
                parent = beam.seats[seat]
                if parent is not None and rows[seat, token] == -math.inf:  # a fallback token is not banned
                    reason = f"banned by {names[seat, token]}"
                    self._add(beam, beam.length + 1, parent, token, score, "dropped", reason)

    def _add(
        self, beam: Beam, step: int, parent: Node, token: int, token_score: float, fate: Fate, reason: str
    ) -> int:
        if parent not in self._numbers:  # the token before the first step
            first = Candidate(beam.sentence, 0, None, parent.token, 0.0, 0.0, "kept", "first")
            self._numbers[parent] = len(self.candidates)
            self.candidates.append(first)
        number, log_prob = self._numbers[parent], parent.log_prob + token_score
        score = log_prob / beam.options.penalty(step)
        self.candidates.append(Candidate(beam.sentence, step, number, token, log_prob, score, fate, reason))
        return len(self.candidates) - 1
