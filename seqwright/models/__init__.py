"""Models, and the contracts of their parts.

An encoder turns an input into an `Encoded`. A decoder starts a state from it, or from nothing, and maps
tokens and a state to hidden vectors and the next state: the whole target in training, a prompt or one token
in decoding, by the same call. A state can be indexed by rows (`select`). A head turns hidden vectors into
predictions and their loss.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.data.batch import PAD, Batch, SpelledTokens, Tokens, within
from seqwright.data.tokenizer import FIRST
from seqwright.errors import ModelError
from seqwright.nn.inference_weights import invalidate_inference_weights
from seqwright.nn.loss import Loss
from seqwright.nn.masks import Places
from seqwright.nn.positions import Learned
from seqwright.nn.spelling import Spelling

MODELS = Registry("model", "seqwright.models", "seqwright.models:Model")
ENCODERS = Registry("encoder", "seqwright.models.encoders", "seqwright.models:Encoder")
DECODERS = Registry("decoder", "seqwright.models.decoders", "seqwright.models:Decoder")
HEADS = Registry("head", "seqwright.models.heads", "seqwright.models:Head")
NETWORKS = Registry("network", "seqwright.models.networks", "seqwright.models:Network")


@dataclass(frozen=True)
class Words:
    """The lower level of a hierarchical encoder: the words of all N sentences of a batch."""

    hidden: Tensor  # (N, T, D)
    places: Places
    rows: Tensor  # the row of each sentence (N,)
    numbers: Tensor  # its place in that row (N,)

    def from_last(self, count: int) -> list[tuple[Tensor, Places]]:
        """Return the words of the last sentence of each of `count` rows, of the one before it, and so on:
        vectors (count, T, D) and places. A row that has no such sentence has padding there.
        """
        behind = self.rows.bincount(minlength=count)[self.rows] - 1 - self.numbers  # sentences behind it (N,)
        seen, width = self.places.seen, self.hidden.shape[1]
        real = self.hidden.new_ones(self.hidden.shape[:2], dtype=torch.bool) if seen is None else seen
        found = []
        for number in range(int(behind.max()) + 1):
            (own,) = (behind == number).nonzero(as_tuple=True)
            rows, longest = self.rows[own], int(real[own].sum(1).max()) if seen is not None else width
            hidden = self.hidden.new_zeros(count, longest, self.hidden.shape[2])
            hidden = hidden.index_put((rows,), self.hidden[own, :longest])
            visible = real.new_zeros(count, longest).index_put((rows,), real[own, :longest])
            places = Places.run(0, longest, device=hidden.device)
            found.append((hidden, places.with_seen(None if bool(visible.all()) else visible)))
        return found


@dataclass(frozen=True)
class Encoded:
    """The output of an encoder."""

    hidden: Tensor  # a vector per place, (B, S, D)
    places: Places
    final: tuple[Tensor, ...] | None = None  # states of a recurrent encoder, each (layers, B, size)
    words: Words | None = None  # what each vector of a hierarchical encoder was pooled from
    # rows and columns of the cells of an image, which are the last places, row by row
    grid: tuple[int, int] | None = None


class Encoder(nn.Module):
    """Turns a source (tokens, images, series) into an `Encoded` with vectors of `size`.

    reads: the type of its sources, from which a task knows what to put into a batch.
    """

    reads: ClassVar[type] = Tokens
    size: int
    embedding: Any

    def forward(self, source: Any) -> Encoded:
        raise NotImplementedError

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Any:
        """Return random sources for tests, padded together. Row i has lengths[i] tokens, decided by seeds[i]
        alone; padding is a word, so that reading it would show. Encoders of other sources override this.
        """
        ids = sample_ids(lengths, seeds, FIRST, self.embedding.vocabulary, padding=FIRST)
        return Tokens(ids, None if len(set(lengths)) == 1 else torch.tensor(lengths))

    def sampled_lengths(self, lengths: Sequence[int]) -> Sequence[int]:
        """Return how many places the samples of these lengths have."""
        return lengths


class SequenceEncoder(Encoder):
    """Encodes a sequence of vectors of `input_size`, which `embedding` makes of tokens.

    Built with vocabulary None it has no embedding: it is a level of another encoder, which calls `encode`.
    spelling: adds to the embedding of words that of their pieces.
    """

    input_size: int

    def __init__(self) -> None:
        super().__init__()
        self.spelling: Spelling | None = None

    def forward(self, source: Tokens) -> Encoded:
        return self.encode(self.embed(source), source.lengths)

    def embed(self, source: Tokens) -> Tensor:
        """Return the vectors of the tokens, (B, S) -> (B, S, embedding size)."""
        embedded = self.embedding(source.ids)
        if self.spelling is None or not isinstance(source, SpelledTokens):
            return embedded
        spelled, real = self.spelling(source.pieces, source.counts), source.real
        whole = torch.zeros_like(embedded)
        whole[torch.ones_like(source.ids, dtype=torch.bool) if real is None else real] = spelled
        return embedded + whole

    def encode(self, vectors: Tensor, lengths: Tensor | None) -> Encoded:
        """vectors (B, S, input size), padded at the right; lengths (B,), None: no padding."""
        raise NotImplementedError


def sequence_places(x: Tensor, lengths: Tensor | None) -> Places:
    """The positions 0, 1, … of x (B, S, …); padding is hidden."""
    seen = None if lengths is None else within(lengths, x.shape[1])
    return Places.run(0, x.shape[1], device=x.device).with_seen(seen)


class Decoder(nn.Module):
    """Maps tokens and a state to vectors of `size` and the next state. memory_size None: a language model.

    counts_tokens: whether padding must be marked even behind the last token, where no token sees it.
    """

    size: int
    counts_tokens = False

    def start(self, encoded: Encoded | None, rows: int = 0) -> Any:
        """Return the state before the first token, with one row per source, or `rows` rows without one."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, state: Any, real: Tensor | None = None) -> tuple[Tensor, Any]:
        """tokens (R, T), real (R, T) False for padding at the right -> (R, T, size), and the next state."""
        raise NotImplementedError


def same_width(states: Sequence[Any]) -> Sequence[Any]:
    """States whose groups are equally wide: as they are, or with each row in a group of its own."""
    if len({state.width for state in states}) == 1:
        return states
    return [state.spread() for state in states]


def join_lengths(lengths: Sequence[tuple[int | Tensor, int]]) -> int | Tensor:
    """The tokens so far of several states, each of so many rows: one number, or (rows,)."""
    first = lengths[0][0]
    if all(isinstance(length, int) and length == first for length, _ in lengths):
        return first
    return torch.cat([torch.as_tensor(length).expand(rows) for length, rows in lengths])


class Head(nn.Module):
    """An output layer: vectors (B, T, D) become predictions. `places` marks the real ones; None: all."""

    def forward(self, hidden: Tensor, places: Places | None = None) -> Tensor:
        raise NotImplementedError

    def loss(
        self, hidden: Tensor, expected: Tensor, places: Places | None = None, *, smoothing: float = 0.0
    ) -> Loss:
        raise NotImplementedError

    def sample(self, lengths: Sequence[int], seeds: Sequence[int]) -> Tensor:
        """Return something to expect for `Encoder.sample` with the same arguments."""
        raise NotImplementedError


class Network(nn.Module):
    """The body of a forecaster: from normalised past values to vectors, each of which predicts some steps.

    size: of a vector; 0: the vectors are the forecast itself, without a head. each: the steps per vector.
    """

    size: int
    each: int

    def forward(self, past: Tensor, source: Any) -> Tensor:
        """past (B, lookback), source a `Past` with everything else that is known -> (B, vectors, size)."""
        raise NotImplementedError


def sample_ids(lengths: Sequence[int], seeds: Sequence[int], low: int, high: int, *, padding: int) -> Tensor:
    """Random ids from low to high − 1, (B, longest). Row i has lengths[i], decided by seeds[i] alone."""
    ids = torch.full((len(lengths), max(lengths)), padding)
    for row, length, seed in zip(ids, lengths, seeds, strict=True):
        generator = torch.Generator().manual_seed(seed)
        row[:length] = torch.randint(low, high, (length,), generator=generator)
    return ids


class Model(nn.Module):
    """The interface between a model and training."""

    def weights(self) -> dict[str, Tensor]:
        """Return everything that is saved, by name: parameters, a tied one once, and persistent buffers."""
        saved = self.state_dict().keys()
        buffers = {name: buffer for name, buffer in self.named_buffers() if name in saved}
        return {**{name: parameter.detach() for name, parameter in self.named_parameters()}, **buffers}

    @torch.no_grad()
    def take_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights into the model. They must be complete and have the right shapes."""
        own = self.weights()
        wrong = [f"only one of them has {name}" for name in sorted(own.keys() ^ weights.keys())] or [
            f"{name} has the shape {list(weight.shape)} instead of {list(own[name].shape)}"
            for name, weight in weights.items()
            if own[name].shape != weight.shape
        ]
        if wrong:
            raise ModelError(f"the weights do not belong to this model: {'; '.join(wrong[:3])}")
        for name, weight in weights.items():
            own[name].copy_(weight)
        invalidate_inference_weights(self)

    def learners(self, count: int) -> Sequence[Model]:
        """Return `count` models that together hold every weight of this one once and whose training losses
        add up to its own; this model alone where it cannot be divided.
        """
        return [self]

    def forward(self, batch: Any) -> Tensor:
        """Return the predictions for a batch: a score per symbol or class, or a number."""
        raise NotImplementedError

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        raise NotImplementedError


class Generative(Model):
    """A model that produces tokens one by one: the interface between a model and search."""

    def start(self, source: Any) -> Any:
        """Return the state before the first token, one row per source."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens (R, T) -> the scores of the next token (R, V), and the next state."""
        raise NotImplementedError

    def prefill(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a prompt (R, T + 1) but its last token -> log p of each but the first (R, T), next state."""
        raise NotImplementedError


class DecoderModel(Generative):
    """Base of models with one decoder and, as `output`, the head `tokens`."""

    decoder: Any
    output: Any

    def hidden(self, batch: Any) -> Tensor:
        """Return the input of the output layer (B, T, D). The whole target is decoded from one state."""
        return self.decoder(batch.target.ids, self.start(batch.source), self.marked(batch.target))[0]

    def marked(self, target: Tokens) -> Tensor | None:
        """Return which tokens of a target are real (B, T) if its decoder counts them; None: no mask."""
        return target.real if self.decoder.counts_tokens else None

    def forward(self, batch: Any) -> Tensor:
        return self.output(self.hidden(batch))

    def loss(self, batch: Any, *, smoothing: float = 0.0) -> Loss:
        return self.output.loss(self.hidden(batch), batch.expected, smoothing=smoothing)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.decoder(tokens, state)
        return self.output(hidden[:, -1]), state

    def prefill(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        hidden, state = self.decoder(tokens[:, :-1], state)
        return self.output.log_probabilities(hidden, tokens[:, 1:]), state


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block, and restore the mode of the model after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off inside the block."""
    with eval_mode(model), torch.inference_mode():
        yield


@contextmanager
def checked_steps(model: nn.Module, check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before each step of a generative model inside the block; it may raise, which ends the
    search.
    """
    if not isinstance(model, Generative):
        yield
        return
    step, own = model.step, vars(model).get("step")

    def checked(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        check()
        return step(tokens, state)

    vars(model)["step"] = checked
    try:
        yield
    finally:
        del vars(model)["step"]
        if own is not None:
            vars(model)["step"] = own


def shared_copy(model: Model) -> Model:
    """Return a copy of the modules with the same weights: recorders and modes of the copy are its own."""
    return copy.deepcopy(model, {id(weight): weight for weight in (*model.parameters(), *model.buffers())})


def log_probs(model: Model, batch: Batch) -> np.ndarray:
    """log p of the target of each row (B,), inside `evaluating`."""
    chosen = model(batch).log_softmax(-1).gather(-1, batch.expected[..., None]).squeeze(-1)
    return chosen.masked_fill(batch.expected == PAD, 0.0).sum(-1).numpy()


def table_length(model: nn.Module, part: str, otherwise: int) -> int:
    """Number of learned positions in a part of a model; `otherwise` if its positions are not a table."""
    known = _table_lengths.setdefault(model, {})
    if part not in known:
        inside = (module for name, module in model.named_modules() if part in name.split("."))
        lengths = (len(module.table) for module in inside if isinstance(module, Learned))
        known[part] = min(lengths, default=None)
    found = known[part]
    return otherwise if found is None else found


_table_lengths: WeakKeyDictionary[nn.Module, dict[str, int | None]] = WeakKeyDictionary()
