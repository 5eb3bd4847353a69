"""Whole models, and the contract that their parts and the search keep.

An encoder makes an `Encoded` of a source. A decoder starts a state from it, and maps tokens and a state to
hidden vectors and the next state: the whole target in training, a token in decoding, a prompt before it, by
the same call. A state can be asked for other rows (`select`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.errors import ModelError
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.nn.masks import Places
from seqwright.nn.output import Loss

MODELS = Registry("model", "seqwright.models", "seqwright.models:Model")
ENCODERS = Registry("encoder", "seqwright.models.encoders", "seqwright.models:Encoder")
DECODERS = Registry("decoder", "seqwright.models.decoders", "seqwright.models:Decoder")


@dataclass(frozen=True)
class Encoded:
    """What an encoder hands on: a vector per place (B, S, D), the places, and, if it is recurrent, the states
    it ended with.

    final: the tensors of a recurrent state, each (layers, B, size of a layer's output).
    """

    hidden: Tensor
    places: Places
    final: tuple[Tensor, ...] | None = None


class State(Protocol):
    """A decoder's memory between two calls. Immutable: going on from it twice gives the same twice."""

    def select(self, rows: Sequence[int]) -> Self:
        """The state whose row i is row rows[i] of this one. Rows may repeat, vanish and change places."""


class Encoder(nn.Module):
    """A source (token ids, later images or series) becomes an `Encoded`. `size` is that of its vectors."""

    size: int

    def forward(self, source: Any) -> Encoded:
        raise NotImplementedError


class Decoder(nn.Module):
    """Tokens and a state become hidden vectors of `size` and the next state. `memory_size` is that of the
    encoder's vectors.
    """

    size: int

    def start(self, encoded: Encoded) -> Any:
        """The state before the first token, one row per source."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, state: Any, real: Tensor | None = None) -> tuple[Tensor, Any]:
        """tokens (R, T), real (R, T) False for padding at the left -> (R, T, size), and the state behind
        them.
        """
        raise NotImplementedError


class Model(nn.Module):
    """What training and search need of a model, whatever it is made of."""

    def weights(self) -> dict[str, Tensor]:
        """All there is to save, by name: parameters, a tied one once, and persistent buffers."""
        saved = self.state_dict().keys()
        buffers = {name: buffer for name, buffer in self.named_buffers() if name in saved}
        return {**{name: parameter.detach() for name, parameter in self.named_parameters()}, **buffers}

    @torch.no_grad()
    def take_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copies weights in; they must be all, and of the right shapes."""
        own = self.weights()
        if own.keys() != weights.keys():
            odd = sorted(own.keys() ^ weights.keys())
            raise ModelError(
                f"the weights are not those of this model: {', '.join(odd[:5])} on one side only"
            )
        for name, weight in weights.items():
            if own[name].shape != weight.shape:
                raise ModelError(
                    f"the weights are not those of this model: {name} has the shape {list(weight.shape)} "
                    f"instead of {list(own[name].shape)}"
                )
        for name, weight in weights.items():
            own[name].copy_(weight)
        invalidate_inference_weights(self)

    def learners(self, count: int) -> Sequence[Model]:
        """`count` models that have all weights of this one between them, each once, and whose losses in
        training add up to its own; this one alone where it cannot be divided so.
        """
        return [self]

    def forward(self, batch: Any) -> Tensor:
        """The scores of all symbols at each place of the target (B, T, V)."""
        raise NotImplementedError

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        raise NotImplementedError

    def start(self, source: Any) -> Any:
        """The state before the first token, one row per source."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens (R, T) -> the scores of what comes after them (R, V), and the next state."""
        raise NotImplementedError
