"""Several models that speak with one voice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from seqwright.errors import ConfigError, ModelError
from seqwright.nn.voices import EnsembleState, mixture
from seqwright.search.stepping import State, Step, log_probabilities


class Ensemble:
    """A step made of steps; the members may be of any families that share a vocabulary.

    "probability": log of the mean of p_m, a mixture: one member that is sure is enough.
    "log_probability": mean of log p_m, a product (the search normalises it): one member can veto.
    """

    def __init__(
        self, steps: Sequence[Step[Any]], *, mean: Literal["probability", "log_probability"] = "probability"
    ):
        if not steps:
            raise ConfigError("an ensemble has no members; give it at least one")
        if mean not in ("probability", "log_probability"):
            raise ConfigError(f"mean is {mean!r}, it must be 'probability' or 'log_probability'")
        self.steps, self.mean = tuple(steps), mean

    def start(self, states: Sequence[State]) -> EnsembleState:
        """One state of each member, in the order of the members."""
        if len(states) != len(self.steps):
            raise ConfigError(f"{len(states)} states for {len(self.steps)} members; give one state for each")
        return EnsembleState(tuple(states))

    def __call__(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        answers = [step(tokens, member) for step, member in zip(self.steps, state.members, strict=True)]
        sizes = [logits.shape[-1] for logits, _ in answers]
        if len(set(sizes)) > 1:
            raise ModelError(
                f"the members have vocabularies of {', '.join(map(str, sizes))} tokens, and they must share "
                "one: train them with the same tokenizer"
            )
        voices = [log_probabilities(logits) for logits, _ in answers]  # each (R, V)
        joint = torch.stack(voices).mean(0) if self.mean == "log_probability" else mixture(voices)
        return joint, EnsembleState(tuple(after for _, after in answers))
