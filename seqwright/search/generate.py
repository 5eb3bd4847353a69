"""Greedy search and sampling: one loop that yields the tokens of each step.

Rows need not start together: a pool steps all of its rows at once, and between two steps others join and
finished ones leave.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from seqwright.search.hypothesis import FinishReason, Hypothesis
from seqwright.search.options import SamplingOptions, Start
from seqwright.search.prompts import read_prompts
from seqwright.search.stepping import S, Step, log_probabilities, not_numbers

SHORT = 48  # tokens of rows that step together; longer ones step with those of a similar length
SHORTLIST = 256  # tokens that are sorted first; nearly every nucleus is smaller


class Emission(NamedTuple):
    """One token of one row. `finish_reason` is None until the row's last token."""

    row: int
    token: int
    log_prob: float
    finish_reason: FinishReason | None


class Cohort:
    """Rows that start together: they are equally long and have the same options.

    rows: the open ones. given: the tokens of the prompts, step by step. Each row draws from its own random
    stream, so that it does not depend on its neighbours.
    """

    def __init__(self, step: Step[S], state: S, start: Start, options: SamplingOptions):
        self.start, self.options = start, options
        self.rules, self.limits = options.rules(start), options.limits(start)
        derived = (f"{options.seed}/{row}" for row in range(start.rows))
        self.generators = [random.Random(seed) for seed in start.seeds or derived]
        self.state: Any
        prompt, self.state = read_prompts(step, state, start, options)
        self.rows, self.length, self.history = list(range(start.rows)), prompt.length, prompt.tokens  # (R, t)
        self.given = [  # none of them is the last token of its row
            [Emission(row, token, prompt.scores[row][place], None) for row, token in enumerate(tokens)]
            for place, tokens in enumerate(prompt.tokens.T.tolist())
        ]
        if options.temperature:  # what follows must not depend on how a prompt was read
            for generator in self.generators:
                generator.getrandbits(32 * prompt.length)  # as so many calls for 32 bits
        first = torch.full((start.rows, 1), start.first, device=start.device)
        self.tokens = prompt.tokens[:, -1:] if prompt.length else first  # (R, 1)

    def filter(self, log_probs: Tensor) -> None:
        """Apply the rules in place to log_probs (R, V)."""
        self.length += 1
        if self.length == 1:
            self.options.check_vocabulary(self.start, log_probs.shape[1])
        if self.rules:
            self.rules.apply(log_probs, self.history, self.rows)

    def advance(self, tokens: Tensor, chosen: Sequence[tuple[int, float]]) -> list[Emission]:
        """Take the tokens (R, 1) of a step, with their log-probabilities."""
        emitted = []
        for row, (token, score) in zip(self.rows, chosen, strict=True):
            if math.isnan(score):
                raise not_numbers(self.length, row)
            cut: FinishReason | None = "length" if self.length >= self.limits[row] else None
            emitted.append(Emission(row, token, score, "end" if token == self.start.end else cut))
        self.tokens = tokens
        if self.rules:
            self.history = torch.cat([self.history, tokens], 1)
        return emitted

    def keep(self, places: Sequence[int]) -> None:
        """Keep the open rows at these places."""
        self.rows = [self.rows[place] for place in places]
        self.tokens = self.tokens[places]
        self.history = self.history[places]


class Pool:
    """Cohorts that step together. No result depends on what else is in the pool.

    All rows of a step read as many places as the longest of them, so an output that does not end would slow
    down all others. Cohorts are therefore sorted by their length into lanes, each of which steps by itself.
    """

    def __init__(self, step: Step[Any]):
        self._step = step
        self._lanes: dict[int, _Lane] = {}

    def __len__(self) -> int:
        return sum(len(cohort.rows) for cohort in self.cohorts)

    @property
    def cohorts(self) -> list[Cohort]:
        return [cohort for lane in self._lanes.values() for cohort in lane.cohorts]

    def join(self, cohorts: Sequence[Cohort]) -> None:
        """Add cohorts of the same model."""
        by_lane: dict[int, list[Cohort]] = {}
        for cohort in cohorts:
            by_lane.setdefault(_lane_of(cohort.length), []).append(cohort)
        for number, joining in by_lane.items():
            self._lanes.setdefault(number, _Lane(self._step)).join(joining)

    def step(self) -> list[tuple[Cohort, list[Emission]]]:
        """Take one token for every open row."""
        found = [pair for lane in self._lanes.values() for pair in lane.step()]
        grown = [
            cohort
            for number, lane in self._lanes.items()
            for cohort in lane.leave([each for each in lane.cohorts if _lane_of(each.length) > number])
        ]
        self._remove_empty()
        self.join(grown)
        return found

    def drop(self, unwanted: dict[Cohort, set[int]]) -> None:
        """Remove open rows, by their numbers."""
        for lane in self._lanes.values():
            lane.drop(unwanted)
        self._remove_empty()

    def _remove_empty(self) -> None:
        self._lanes = {number: lane for number, lane in self._lanes.items() if lane.cohorts}


def _lane_of(length: int) -> int:
    """The number of a lane: 0 for fewer than `SHORT` tokens, and one more each time the length quadruples."""
    return 0 if length < SHORT else 1 + int(math.log(length / SHORT, 4))


class _Lane:
    """Cohorts in one state."""

    def __init__(self, step: Step[Any]):
        self._step, self._state = step, cast(Any, None)
        self.cohorts: list[Cohort] = []

    @torch.inference_mode()
    def join(self, cohorts: Sequence[Cohort]) -> None:
        states = [cohort.state for cohort in cohorts]
        if self._state is not None:
            states = [self._state, *states]
        self._state = states[0].join(states[1:]) if len(states) > 1 else states[0]
        self.cohorts += cohorts
        for cohort in cohorts:
            cohort.state = None  # its rows belong to the state of the lane now

    @torch.inference_mode()
    def leave(self, leaving: Sequence[Cohort]) -> Sequence[Cohort]:
        """Remove cohorts, and return them, each with the state of its rows."""
        kept, stay, begin = list[Cohort](), list[int](), 0
        for cohort in self.cohorts if leaving else ():
            rows = list(range(begin, begin := begin + len(cohort.rows)))
            if cohort in leaving:
                cohort.state = self._state.select(rows)
            else:
                kept.append(cohort)
                stay += rows
        if leaving:
            self.cohorts, self._state = kept, self._state.select(stay) if stay else None
        return leaving

    @torch.inference_mode()
    def step(self) -> list[tuple[Cohort, list[Emission]]]:
        """Take one token for every open row."""
        stepped, places, begin = list(self.cohorts), [], 0
        for cohort in stepped:
            places.append(slice(begin, begin := begin + len(cohort.rows)))
        logits, self._state = self._step(torch.cat([cohort.tokens for cohort in stepped]), self._state)
        silent = stepped[0].start.silent_index()  # the same for all searches with one model
        log_probs = log_probabilities(logits, silent)
        for cohort, own in zip(stepped, places, strict=True):
            cohort.filter(log_probs[own])
        scores, tokens = self._choose(log_probs)
        chosen = list(zip(tokens.flatten().tolist(), scores.flatten().tolist(), strict=True))
        found = [
            (cohort, cohort.advance(tokens[own], chosen[own]))
            for cohort, own in zip(stepped, places, strict=True)
        ]
        ended = [{place for place, each in enumerate(emitted) if each.finish_reason} for _, emitted in found]
        if any(ended):
            self._drop(ended)
        return found

    @torch.inference_mode()
    def drop(self, unwanted: dict[Cohort, set[int]]) -> None:
        """Remove open rows, by their numbers."""
        self._drop(
            [
                {place for place, row in enumerate(cohort.rows) if row in unwanted.get(cohort, ())}
                for cohort in self.cohorts
            ]
        )

    def _drop(self, places: Sequence[set[int]]) -> None:
        """Remove the rows at some places of each cohort."""
        kept, begin = [], 0
        for cohort, gone in zip(self.cohorts, places, strict=True):
            stay = [place for place in range(len(cohort.rows)) if place not in gone]
            kept += [begin + place for place in stay]
            begin += len(cohort.rows)
            if gone:
                cohort.keep(stay)
        self.cohorts = [cohort for cohort in self.cohorts if cohort.rows]
        if len(kept) < begin:
            self._state = self._state.select(kept) if kept else None

    def _choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """log_probs (R, V) -> the log-probabilities and the tokens that the rows take, (R, 1) each.

        Rows that are drawn in the same way are drawn together.
        """
        ways: dict[tuple[float, int, float], tuple[SamplingOptions, list[int]]] = {}
        generators: list[random.Random] = []
        for cohort in self.cohorts:
            first, way = len(generators), cohort.options
            generators += [cohort.generators[row] for row in cohort.rows]
            key = (way.temperature, way.top_k, way.top_p)
            ways.setdefault(key, (way, []))[1].extend(range(first, len(generators)))
        if len(ways) == 1:
            return draw(log_probs, self.cohorts[0].options, generators)
        scores, tokens = log_probs.max(-1, keepdim=True)
        for way, places in ways.values():
            if way.temperature:
                own = draw(log_probs[places], way, [generators[place] for place in places])
                scores[places], tokens[places] = own
        return scores, tokens


@torch.inference_mode()
def stream(step: Step[S], state: S, start: Start, options: SamplingOptions) -> Iterator[list[Emission]]:
    """Yield the tokens of each step, ends included. A finished row leaves the batch."""
    yield from _stream(step, state, start, options)


def _stream(step: Step[S], state: S, start: Start, options: SamplingOptions) -> Iterator[list[Emission]]:
    if not start.rows:
        return
    pool, cohort = Pool(step), Cohort(step, state, start, options)
    yield from cohort.given
    pool.join([cohort])
    while pool:
        ((_, emitted),) = pool.step()
        yield emitted


@torch.inference_mode()
def generate(step: Step[S], state: S, start: Start, options: SamplingOptions) -> list[Hypothesis]:
    """Return one complete output for each input; its score is its log-probability."""
    emissions: list[list[Emission]] = [[] for _ in range(start.rows)]
    for emitted in _stream(step, state, start, options):
        for emission in emitted:
            emissions[emission.row].append(emission)
    return [hypothesis(of_row) for of_row in emissions]


def hypothesis(emissions: Sequence[Emission]) -> Hypothesis:
    """Return the output that consists of all emissions of a row."""
    _, tokens, scores, reasons = map(list, zip(*emissions, strict=True))
    total, ended = math.fsum(scores), reasons[-1] == "end"
    return Hypothesis(tokens[:-1] if ended else tokens, scores, total, total, reasons[-1])


def draw(
    log_probs: Tensor, options: SamplingOptions, generators: Sequence[random.Random]
) -> tuple[Tensor, Tensor]:
    """log_probs (R, V) and a generator per row -> the log-probabilities and tokens that are drawn, (R, 1)."""
    if options.temperature == 0:
        return log_probs.max(-1, keepdim=True)
    mass = kept_weights(log_probs, options).cumsum(-1)
    total = mass[:, -1:]
    # 32 bits: in float64 the product then stays below the whole mass and never points past the last token
    parts = [[generator.getrandbits(32) / 2**32] for generator in generators]
    points = total * torch.tensor(parts, dtype=mass.dtype, device=mass.device)
    # right: a token without weight is an empty interval, and no point lies in it
    tokens = torch.searchsorted(mass, points, right=True).clamp_(max=mass.shape[1] - 1)
    # a row of NaN must not pass for the token where the search stopped
    return torch.where(total.isnan(), torch.nan, log_probs.gather(1, tokens)), tokens


def kept_weights(log_probs: Tensor, options: SamplingOptions) -> Tensor:
    """Weights ∝ the probabilities to draw with, 0 for excluded tokens: (R, V) -> (R, V) float64."""
    best = log_probs.amax(-1, keepdim=True)
    shifted = (log_probs - best).double()  # the best token keeps 0 at any temperature
    weights = (shifted / options.temperature).exp()
    if 0 < options.top_k < weights.shape[1]:
        least = weights.topk(options.top_k).values[:, -1:]
        weights = weights.masked_fill(weights < least, 0)
    if options.top_p < 1:
        weights = weights.masked_fill(weights < _least_of_nucleus(weights, options.top_p), 0)
    return weights


def _least_of_nucleus(weights: Tensor, top_p: float) -> Tensor:
    """The smallest weight in the smallest set whose share of the mass reaches top_p: (R, V) -> (R, 1)."""
    wanted = top_p * weights.sum(-1, keepdim=True)
    ranked = weights.topk(min(SHORTLIST, weights.shape[1])).values
    if (ranked.sum(-1, keepdim=True) < wanted).any():
        ranked = weights.sort(descending=True).values
    before = ranked.cumsum(-1) - ranked  # the mass of all better tokens
    return ranked.masked_fill(before >= wanted, torch.inf).amin(-1, keepdim=True)
