"""Greedy search and sampling: one loop that yields the tokens of each step."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from seqwright.search.hypothesis import FinishReason, Hypothesis
from seqwright.search.options import SamplingOptions, Start
from seqwright.search.prompts import read_prompts
from seqwright.search.stepping import S, Step, log_probabilities, not_numbers

SHORTLIST = 256  # tokens that are sorted first; nearly every nucleus is smaller


class Emission(NamedTuple):
    """One token of one row. `finish_reason` is None until the row's last token."""

    row: int
    token: int
    log_prob: float
    finish_reason: FinishReason | None


@torch.inference_mode()
def stream(step: Step[S], state: S, start: Start, options: SamplingOptions) -> Iterator[list[Emission]]:
    """Yield the tokens of each step, ends included. A finished row leaves the batch."""
    yield from _stream(step, state, start, options)


def _stream(step: Step[S], state: S, start: Start, options: SamplingOptions) -> Iterator[list[Emission]]:
    rules, limits, sampler = options.rules(start), options.limits(start), Sampler(options, start)
    rows, silent = list(range(start.rows)), start.silent_index()
    prompt, state = read_prompts(step, state, start, options)
    history = prompt.tokens  # (R, t)
    for place, given in enumerate(history.T.tolist()):  # none of them is the last token of its row
        yield [Emission(row, token, prompt.scores[row][place], None) for row, token in enumerate(given)]
    sampler.skip(prompt.length)
    first = torch.full((start.rows, 1), start.first, device=start.device)
    tokens = history[:, -1:] if prompt.length else first  # (R, 1)
    for length in itertools.count(prompt.length + 1):
        if not rows:
            return
        logits, state = step(tokens, state)
        if length == 1:
            options.check_vocabulary(start, logits.shape[1])
        log_probs = log_probabilities(logits, silent)
        if rules:
            rules.apply(log_probs, history, rows)
        scores, tokens = sampler.choose(log_probs, rows)
        emitted = []
        for row, token, score in zip(rows, tokens.flatten().tolist(), scores.flatten().tolist(), strict=True):
            if math.isnan(score):
                raise not_numbers(length, row)
            cut: FinishReason | None = "length" if length >= limits[row] else None
            reason = "end" if token == start.end else cut
            emitted.append(Emission(row, token, score, reason))
        yield emitted
        if rules:
            history = torch.cat([history, tokens], 1)
        stay = [place for place, emission in enumerate(emitted) if emission.finish_reason is None]
        if len(stay) < len(rows):
            rows = [rows[place] for place in stay]
            tokens, history = tokens[stay], history[stay]
            state = state.select(stay) if stay else state


@torch.inference_mode()
def generate(step: Step[S], state: S, start: Start, options: SamplingOptions) -> list[Hypothesis]:
    """Return one complete output for each input; its score is its log-probability."""
    emissions: list[list[Emission]] = [[] for _ in range(start.rows)]
    for emitted in _stream(step, state, start, options):
        for emission in emitted:
            emissions[emission.row].append(emission)
    results = []
    for of_row in emissions:
        _, tokens, scores, reasons = map(list, zip(*of_row, strict=True))
        total, ended = math.fsum(scores), reasons[-1] == "end"
        results.append(Hypothesis(tokens[:-1] if ended else tokens, scores, total, total, reasons[-1]))
    return results


class Sampler:
    """Draws each row from its own random stream, so that a row does not depend on its neighbours."""

    def __init__(self, options: SamplingOptions, start: Start):
        self.options = options
        derived = (f"{options.seed}/{row}" for row in range(start.rows))
        self.generators = [random.Random(seed) for seed in start.seeds or derived]

    def skip(self, count: int) -> None:
        """Draw for tokens that are given, so that what follows does not depend on how they were read."""
        if self.options.temperature:
            for generator in self.generators:
                generator.getrandbits(32 * count)  # as `count` calls for 32 bits

    def choose(self, log_probs: Tensor, rows: list[int]) -> tuple[Tensor, Tensor]:
        """log_probs (R, V) -> the log-probabilities and the tokens that the rows take, (R, 1) each."""
        if self.options.temperature == 0:
            return log_probs.max(-1, keepdim=True)
        mass = kept_weights(log_probs, self.options).cumsum(-1)
        total = mass[:, -1:]
        # 32 bits: in float64 the product then stays below the whole mass and never points past the last token
        parts = [[self.generators[row].getrandbits(32) / 2**32] for row in rows]
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
