"""Beam search over several sentences at a time.

Scores. A hypothesis of `length` tokens, its end included, has the score log p / penalty(length). Within a
step all have the same length, so candidates are ranked by log p alone.

Ended and cut. A hypothesis that reached its maximum length without an end is a fragment. Its probability is
that of all outputs that begin with it, and does not compare with the probability of one output. So hypotheses
that ended come first, and cut ones fill the remaining places.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor

from seqwright.search.filters import Rules
from seqwright.search.hypothesis import Hypothesis
from seqwright.search.lattice import Lattice
from seqwright.search.options import BeamOptions, Start
from seqwright.search.prompts import read_prompts
from seqwright.search.stepping import Proposals, S, Step, best_candidates, log_probabilities, not_numbers
from seqwright.search.tree import Beam, Verdict


@torch.inference_mode()
def beam_search(
    step: Step[S], state: S, start: Start, options: BeamOptions, recorder: Lattice | None = None
) -> list[list[Hypothesis]]:
    """Return the best outputs of each input, best first: `n_best`, or fewer if there are fewer.

    Each open sentence has `size` rows side by side at every step, dead ones included; a finished sentence
    leaves the batch. No result depends on other sentences. A `recorder` gets every candidate.
    """
    rules, limits, size = options.rules(start), options.limits(start), options.size
    silent = start.silent_index()
    beams = [Beam(sentence, limits[sentence], start, options) for sentence in range(start.rows)]
    alive = list(beams)
    # a recorder gets the candidates of every step, so that no token is read ahead
    readable = start if recorder is None else replace(start, prefill=None)
    prompt, state = read_prompts(step, state, readable, options)
    for beam, of_beam, scores in zip(beams, prompt.tokens.tolist(), prompt.scores, strict=False):
        beam.read(of_beam, scores)
    history = prompt.tokens[:, :-1].repeat_interleave(size, 0)  # (R, t)
    if size > 1 and beams:
        state = state.select([row for row in range(start.rows) for _ in range(size)])
    for length in itertools.count(prompt.length + 1):
        if not alive:
            break
        latest = [token for beam in alive for token in beam.tokens()]
        tokens = torch.tensor(latest, dtype=torch.int64, device=start.device)[:, None]  # (R, 1)
        if rules and length > 1:
            history = torch.cat([history, tokens], 1)
        logits, state = step(tokens, state)
        if length == 1:
            options.check_vocabulary(start, logits.shape[1])
        parents: list[int] = []
        stay: list[Beam] = []
        offers = propose(log_probabilities(logits, silent), alive, rules, history, recorder)
        for first_row, beam, proposals in zip(itertools.count(0, size), alive, offers, strict=False):
            if proposals.scores and math.isnan(proposals.scores[0]):
                raise not_numbers(length, beam.sentence)
            live, over = beam.expand(proposals)
            verdict = beam.verdict(live)
            if recorder is not None:
                recorder.record(beam, proposals, live, over, verdict)
            if verdict is Verdict.CONTINUE:
                parents += [first_row + seat for seat in beam.seat(live)]
                stay.append(beam)
            elif verdict is Verdict.LENGTH:
                beam.cut(live)
        if stay:
            if parents != list(range(len(alive) * size)):
                state = state.select(parents)
            history = history[torch.tensor(parents, device=start.device)] if rules else history
        alive = stay
    return [beam.hypotheses() for beam in beams]


def propose(
    log_probs: Tensor, beams: list[Beam], rules: Rules, history: Tensor, recorder: Lattice | None
) -> list[Proposals]:
    """The candidates of each beam after the filters. log_probs (R, V), history (R, t)."""
    size = beams[0].options.size
    twice = 2 * size  # half may end, and the beam must stay full
    carried = torch.tensor([beam.carried() for beam in beams], dtype=torch.float64, device=log_probs.device)
    if rules:
        inputs = [beam.sentence for beam in beams for _ in range(size)]
        if recorder is None:
            rules.apply(log_probs, history, inputs)
        else:
            before = best_candidates(log_probs, carried, twice)
            recorder.record_bans(beams, before, rules.stages(log_probs, history, inputs), log_probs)
    return best_candidates(log_probs, carried, twice)
