"""The head of next-token models and of models that fill blanks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from seqwright.config.validation import Positive
from seqwright.data.tokenizer import FIRST, PAD
from seqwright.errors import ConfigError
from seqwright.models import Head, sample_ids
from seqwright.nn.inference_weights import Function, InferenceModule, linear
from seqwright.nn.loss import ROWS, Loss, capped, cross_entropy
from seqwright.nn.masks import Places


class TokenScores(InferenceModule[Function], Head):
    """Scores of all symbols, W h (+ b). The weight may be that of an embedding (Press & Wolf 2017).

    transform: a layer before the scores, norm(gelu(W h + b)), as BERT has it (Devlin et al. 2019).
    cap: no score is larger; None: no limit (see `seqwright.nn.loss.capped`).
    """

    def __init__(
        self,
        *,
        input_size: int,
        vocabulary: int,
        weight: nn.Parameter | None = None,
        bias: bool = False,
        transform: bool = False,
        cap: Positive | None = None,
    ):
        super().__init__()
        self.cap = cap
        if weight is None:
            weight = nn.Parameter(torch.empty(vocabulary, input_size))
            nn.init.normal_(weight, std=input_size**-0.5)
        elif weight.shape != (vocabulary, input_size):
            size = f"the output layer reads vectors of {input_size}, not {weight.shape[1]}"
            raise ConfigError(f"tie needs equal sizes: {size}; make them equal or set tie = false")
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None
        self.transform: nn.Sequential | None = None
        if transform:  # a layer that is not used must not draw random numbers
            layers = (nn.Linear(input_size, input_size), nn.GELU(), nn.LayerNorm(input_size))
            self.transform = nn.Sequential(*layers)

    @classmethod
    def after(cls, decoder: Any, *, tie: bool, bias: bool, cap: float | None) -> Self:
        """The head of a decoder; with `tie` its weight is the decoder's embedding."""
        embedding = decoder.embedding
        weight = embedding.weight if tie else None
        sizes = {"input_size": decoder.size, "vocabulary": embedding.vocabulary}
        return cls(**sizes, weight=weight, bias=bias, cap=cap)

    def bind(self) -> Function:
        scores, cap, transform = linear(self.weight, self.bias), self.cap, self.transform
        output = scores if cap is None else lambda hidden: capped(scores(hidden), cap)
        return output if transform is None else lambda hidden: output(transform(hidden))

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        """(…, D) -> (…, V)."""
        return self.bound()(hidden)

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        """Cross-entropy with label smoothing (Szegedy et al. 2016), summed over all that is not `PAD`.

        hidden (B, T, D), expected (B, T). Equal to F.cross_entropy(…, reduction="sum").
        """
        real = (expected != PAD).flatten().nonzero().squeeze(-1)
        rows, targets = hidden.flatten(0, -2), expected.flatten()
        if len(real) < len(targets):
            rows, targets = rows.index_select(0, real), targets.index_select(0, real)
        if self.transform is not None:
            rows = self.transform(rows)
        if torch.is_grad_enabled():
            self._cached = None  # the weights are about to change
        total = cross_entropy(rows, self.weight, self.bias, targets, smoothing, self.cap)
        return Loss(total, len(targets))

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        return sample_ids(lengths, seeds, FIRST, len(self.weight), padding=PAD)

    def log_probabilities(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """log p of one token after each vector: hidden (R, T, D), tokens (R, T) -> (R, T)."""
        logits = map(self, hidden.flatten(0, 1).split(ROWS))
        precise = (each if each.dtype is torch.float64 else each.float() for each in logits)
        chunks = zip(precise, tokens.flatten()[:, None].split(ROWS), strict=True)
        return torch.cat([each.log_softmax(-1).gather(1, own) for each, own in chunks]).view(tokens.shape)
