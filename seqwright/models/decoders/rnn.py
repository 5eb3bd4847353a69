"""The recurrent decoder: with a fixed context vector (Sutskever et al. 2014, Cho et al. 2014), with
attention (Bahdanau et al. 2015, Luong et al. 2015), or without a source (Mikolov et al. 2010).

At each token: attend (from the previous or the current state), step the cells, read out. Where no output of a
step is an input of the next, the whole target goes through the cells at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn

from seqwright.config.registry import Count, check_options, parse, unknown
from seqwright.config.validation import Doc
from seqwright.data.batch import PAD
from seqwright.errors import ConfigError
from seqwright.models import Decoder, Encoded, join_lengths, same_width
from seqwright.nn.attention import Attention
from seqwright.nn.dropout import Dropout
from seqwright.nn.embedding import Embedding
from seqwright.nn.hierarchical_attention import HierarchicalAttention
from seqwright.nn.kv_cache import Keys, Memory, join_keys, select_keys
from seqwright.nn.loss import add_to_objective
from seqwright.nn.masks import AttentionContext, Places, regroup, take
from seqwright.nn.pooling import masked_mean
from seqwright.nn.recurrent import Cell, Cells, Recurrent

Attending = Annotated[
    str | Mapping[str, Any] | None, Doc(none="bahdanau where there is a source, otherwise none")
]
RECIPES: dict[str, dict[str, Any]] = {
    "bahdanau": {"score": "additive", "projections": "qk", "bias": False},
    "luong-dot": {"score": "dot", "projections": ""},
    "luong-general": {"score": "bilinear", "projections": ""},
    "luong-concat": {"score": "additive", "projections": "qk", "bias": False},
    "multi-head": {"score": "scaled_dot", "heads": 4},
    "hierarchical": {"kind": "hierarchical"},
}
KINDS = {"plain": Attention, "hierarchical": HierarchicalAttention}


@dataclass(frozen=True, eq=False)
class RnnState:
    """The cells, the last output and the source, for groups of `width` rows."""

    groups: int
    cells: Cells  # each (layers, R, size)
    output: Tensor  # (R, size)
    memory: Memory  # the keys of the source, for a hierarchical attention of each turn, the last one first
    context: Tensor | None  # the fixed context vector without attention (G, memory size, 0 without a source)
    length: int | Tensor = 0  # tokens so far, (rows,) where padding made the rows differ
    width: int = 1

    def select(self, rows: Sequence[int]) -> RnnState:
        groups, width = regroup(rows, self.width, self.groups)
        index = torch.tensor(rows, dtype=torch.long, device=self.output.device)
        memory: Any = self.memory and select_keys(self.memory, groups, rows, width)
        cells = tuple(part.index_select(1, index) for part in self.cells)
        output, context = self.output.index_select(0, index), take(self.context, groups)
        return RnnState(len(rows) // width, cells, output, memory, context, take(self.length, rows), width)

    def join(self, others: Sequence[RnnState]) -> RnnState:
        states = same_width([self, *others])
        groups, width = [state.groups for state in states], states[0].width
        memory = join_keys([state.memory for state in states], groups, width)
        cells = tuple(torch.cat(parts, 1) for parts in zip(*(state.cells for state in states), strict=True))
        output = torch.cat([state.output for state in states])
        contexts = [state.context for state in states if state.context is not None]
        context = torch.cat(contexts) if contexts else None
        length = join_lengths([(state.length, state.groups * width) for state in states])
        return RnnState(sum(groups), cells, output, memory, context, length, width)

    def spread(self) -> RnnState:
        """Each row in a group of its own."""
        rows = range(self.groups * self.width)
        groups = [row // self.width for row in rows]
        memory: Any = self.memory and select_keys(self.memory, groups, rows, 1)
        return replace(self, groups=len(rows), memory=memory, context=take(self.context, groups), width=1)


class Rnn(Decoder):
    """Recurrent layers with or without attention.

    attention: a recipe (bahdanau, luong-dot, luong-general, luong-concat, multi-head, hierarchical), a table
    of options of an attention, or none. With kind = "hierarchical" it attends to the words of each turn and
    then to the turns (Xing et al. 2018); a source without turns is one.
    query: whether the previous state (Bahdanau) or the current one (Luong) is the query of the attention.
    feed: the input of the cells in addition to the embedding: nothing, the context, or the last output
    (Luong's input feeding).
    gate: multiply the context by σ(w · query), how much the step looks at the source (Xu et al. 2015, 4.2.1).
    coverage: the weight λ of a loss that pushes the sum of the attention to each source position towards 1
    (Xu et al. 2015, eq. 14).
    readout: the input of the output layer: the state (Sutskever), tanh(W [context; state]) (Luong, eq. 5), a
    maxout over state, embedding and context (Cho et al. 2014, A.1.2; Bahdanau et al. 2015, A.2.2, with the
    state s_i that the probability is conditioned on), or their sum after linear maps (Xu et al. 2015, eq. 7).
    start: the encoder's final states layer by layer (copy), or tanh of a linear map of a summary of the
    source (tanh). Without a source the first state is zero.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        memory_size: int | None,
        size: Count = 512,
        embedding_size: Count | None = None,
        readout_size: Count | None = None,
        layers: Count = 1,
        cell: Cell = "lstm",
        attention: Attending = None,
        query: Literal["previous", "current"] = "current",
        feed: Literal["nothing", "context", "output"] = "output",
        gate: bool = False,
        coverage: Annotated[float, Ge(0)] = 0.0,
        readout: Literal["state", "tanh", "maxout", "sum"] = "tanh",
        start: Literal["copy", "tanh"] = "tanh",
        dropout: float = 0.1,
    ):
        super().__init__()
        self.query, self.feed, self.coverage = query, feed, coverage
        self.size = size if readout == "state" else readout_size or size
        self.embedding = Embedding(vocabulary, embedding_size or size)
        self.attention = _attention(attention, size, memory_size)
        context_size = memory_size or 0 if self.attention is None else self.attention.out_size
        fed = {"nothing": 0, "context": context_size, "output": self.size}[feed]
        inputs = self.embedding.size + fed
        self.recurrent = Recurrent(inputs, size=size, layers=layers, cell=cell, dropout=dropout)
        self.bridge = None if memory_size is None else Bridge(memory_size, self.recurrent, start == "tanh")
        self.gate = nn.Linear(size, 1) if gate else None
        make = {"state": _State, "tanh": _Tanh, "maxout": _Maxout, "sum": _Sum}[readout]
        self.readout = make(size, self.embedding.size, context_size, self.size)
        self.dropout = Dropout(dropout)
        attends = self.attention is not None
        # whether a step's input depends on the step before it by more than the cells, or keys on the query
        two_levels = isinstance(self.attention, HierarchicalAttention)
        self.sequential = feed == "output" or (attends and query == "previous") or two_levels
        if memory_size is None and feed == "context":
            raise ConfigError('feed = "context" needs a source; use feed = "nothing" or "output"')
        if attends and feed == "context" and query == "current":
            raise ConfigError('feed = "context" needs query = "previous"; use that, or feed = "output"')
        if not attends and (gate or coverage):
            raise ConfigError("gate and coverage are options of the attention; set attention = bahdanau")
        if coverage and two_levels:
            raise ConfigError("coverage needs one attention to the source; use attention = bahdanau")
        if coverage and query == "current":
            raise ConfigError('coverage needs query = "previous"; use that, or coverage = 0')
        if attends and readout == "state" and feed != "context":
            raise ConfigError('readout = "state" with attention needs feed = "context"; or use "tanh"')

    def start(self, encoded: Encoded | None, rows: int = 0) -> RnnState:
        if encoded is None or self.bridge is None:
            zeros = self.embedding.weight.new_zeros
            return RnnState(rows, self.recurrent.empty(rows), zeros(rows, self.size), None, zeros(rows, 0))
        rows = len(encoded.hidden)
        memory = None if self.attention is None else _memory(self.attention, encoded)
        cells, summary = self.bridge(encoded)
        context = summary if self.attention is None else None
        return RnnState(rows, cells, encoded.hidden.new_zeros(rows, self.size), memory, context)

    def forward(self, tokens: Tensor, state: RnnState, real: Tensor | None = None) -> tuple[Tensor, RnnState]:
        embedded = self.dropout(self.embedding(tokens))  # (R, T, embedding size)
        if not self.sequential and real is None:
            return self._at_once(embedded, state)
        outputs, queries, first = [], [], state
        for t in range(tokens.shape[1]):
            after = self._step(embedded[:, t], state)
            queries.append(state.cells[0][-1])
            state = after if real is None else _where(real[:, t], after, state)
            outputs.append(after.output)
        if self.coverage and self.training:
            add_to_objective(self.coverage * self._uncovered(torch.stack(queries, 1), tokens, first))
        return torch.stack(outputs, dim=1), state

    def _uncovered(self, queries: Tensor, tokens: Tensor, state: RnnState) -> Tensor:
        """Σ over rows and places of (1 − Σ_t α_t)²; padding tokens do not look (Xu et al. 2015, eq. 14)."""
        assert isinstance(self.attention, Attention)
        assert state.memory is not None
        context = AttentionContext(Places.run(0, queries.shape[1], device=queries.device), state.width)
        (keys,) = state.memory
        weights = self.attention.weights(queries, context, keys).mean(1)  # (R, T, K)
        looks = (tokens != PAD)[..., None] * weights
        missing = 1 - looks.sum(1)
        seen = keys.places.seen
        return (missing if seen is None else missing * seen).square().sum()

    def _step(self, embedded: Tensor, state: RnnState) -> RnnState:
        """embedded (R, embedding size) -> the state whose output (R, size) is the readout of this token."""
        context = None
        if self.query == "previous" or self.attention is None:
            context = self._context(state.cells[0][-1][:, None], state)[:, 0]
        fed = {"nothing": (), "context": (context,), "output": (state.output,)}[self.feed]
        hidden, cells = self.recurrent.step(torch.cat([embedded, *fed], -1), state.cells)  # type: ignore[list-item]
        if context is None:
            context = self._context(hidden[:, None], state)[:, 0]
        output = self.dropout(self.readout(hidden, embedded, context))
        return replace(state, cells=cells, output=output, length=state.length + 1)

    def _at_once(self, embedded: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        """The same for all tokens (R, T, …) together."""
        inputs = embedded
        if self.feed == "context":
            inputs = torch.cat([embedded, self._context(embedded, state)], -1)
        hidden, cells = self.recurrent(inputs, state.cells)
        outputs = self.dropout(self.readout(hidden, embedded, self._context(hidden, state)))
        length = state.length + embedded.shape[1]
        return outputs, replace(state, cells=cells, output=outputs[:, -1], length=length)

    def _context(self, queries: Tensor, state: RnnState) -> Tensor:
        """queries (R, Q, size) -> (R, Q, context size)."""
        rows, count, _ = queries.shape
        if self.attention is None or state.memory is None:
            assert state.context is not None
            return state.context.repeat_interleave(state.width, 0)[:, None].expand(-1, count, -1)
        folded = queries.reshape(state.groups, state.width * count, -1)
        if isinstance(state.length, int):
            places = Places.run(state.length, count, width=state.width, device=queries.device)
        else:
            pos = state.length[:, None] + torch.arange(count, device=queries.device)  # (R, count)
            places = Places(pos.view(state.groups, -1))
        context = self.attention(folded, AttentionContext(places, state.width), *state.memory)
        context = context.view(rows, count, -1)
        return context if self.gate is None else self.gate(queries).sigmoid() * context


def _attention(
    spec: str | Mapping[str, Any] | None, size: int, memory_size: int | None
) -> Attention | HierarchicalAttention | None:
    if spec == "none" or (spec is None and memory_size is None):
        return None
    if memory_size is None:
        raise ConfigError(f"attention is {spec!r}, but there is no source to attend to; set attention = none")
    spec = "bahdanau" if spec is None else spec
    if isinstance(spec, str):
        if spec not in RECIPES:
            raise ConfigError(unknown("attention of the rnn decoder", spec, ["none", *RECIPES]))
        spec = RECIPES[spec]
    kind, options = parse("attention", {"kind": "plain", **spec})
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(unknown("kind of attention of the rnn decoder", kind, list(KINDS)))
    check_options("attention of the rnn decoder", KINDS[kind], options)
    return KINDS[kind](size, memory_size, **options)


def _memory(attention: Attention | HierarchicalAttention, encoded: Encoded) -> tuple[Keys, ...]:
    """The keys that an attention reads: of the vectors of the source, or of the words of each turn."""
    parts = [(encoded.hidden, encoded.places)]
    if isinstance(attention, HierarchicalAttention) and encoded.words is not None:
        size, words = encoded.hidden.shape[-1], encoded.words
        if words.hidden.shape[-1] != size:
            rule = f"attention = hierarchical reads words, of size {words.hidden.shape[-1]}, not {size}"
            raise ConfigError(f"{rule}; set encoder.upper = none, or both levels to one size")
        parts = words.from_last(len(encoded.hidden))
    return tuple(attention.keys(*part) for part in parts)


def _where(real: Tensor, after: RnnState, before: RnnState) -> RnnState:
    """Rows with a real token take the state after it, the others keep theirs."""
    pairs = zip(after.cells, before.cells, strict=True)
    cells = tuple(torch.where(real[None, :, None], *pair) for pair in pairs)
    output = torch.where(real[:, None], after.output, before.output)
    return replace(after, cells=cells, output=output, length=before.length + real.long())


class Bridge(nn.Module):
    """The first state of a decoder, from any encoder.

    copy takes the encoder's final states, layer by layer from the top, and needs the same kind and size of
    cell. Otherwise each layer starts with tanh(W s) (Bahdanau et al. 2015, A.2.2; Cho et al. 2014, A.1.2),
    where s is the final state of the last layer of a recurrent encoder, or the mean vector of another one.
    """

    def __init__(self, memory_size: int, recurrent: Recurrent, learned: bool):
        super().__init__()
        self.layers, self.parts, self.size = len(recurrent.layers), recurrent.parts, recurrent.size
        self.map = nn.Linear(memory_size, self.layers * self.parts * self.size) if learned else None

    def forward(self, encoded: Encoded) -> tuple[Cells, Tensor]:
        """Return the cells, and the summary s (B, memory size)."""
        final = encoded.final
        summary = masked_mean(encoded.hidden, encoded.places) if final is None else final[0][-1]
        if self.map is not None:
            states = torch.tanh(self.map(summary)).view(len(summary), self.parts, self.layers, self.size)
            return tuple(states.permute(1, 2, 0, 3).contiguous().unbind(0)), summary
        wanted = (self.parts, self.layers, self.size)
        found = None if final is None else (len(final), len(final[0]), final[0].shape[-1])
        if final is None or found != wanted:
            raise ConfigError(
                'start = "copy" needs a recurrent encoder with the decoder\'s cell, layers and size '
                f'(parts, layers, size: {wanted}, found {found}); use start = "tanh"'
            )
        return final, summary


class _State(nn.Module):
    """The state itself."""

    def __init__(self, *sizes: int):
        super().__init__()

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return state


class _Tanh(nn.Module):
    """tanh(W [context; state]) (Luong et al. 2015, eq. 5)."""

    def __init__(self, state: int, embedding: int, context: int, size: int):
        super().__init__()
        self.map = nn.Linear(context + state, size, bias=False)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.map(torch.cat([context, state], -1)))


class _Sum(nn.Module):
    """E y + L s + M c: the deep output of Xu et al. 2015, eq. 7, with embeddings of the output's size."""

    def __init__(self, state: int, embedding: int, context: int, size: int):
        super().__init__()
        if embedding != size:
            raise ConfigError(
                f'readout = "sum" adds embeddings of {embedding} to an output of {size}; make embedding_size '
                "and readout_size equal"
            )
        self.map = nn.Linear(state + context, size)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return embedded + self.map(torch.cat([state, context], -1))


class _Maxout(nn.Module):
    """max over pairs of U s + V e + C c (Goodfellow et al. 2013)."""

    def __init__(self, state: int, embedding: int, context: int, size: int):
        super().__init__()
        self.map = nn.Linear(state + embedding + context, 2 * size)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        return self.map(torch.cat([state, embedded, context], -1)).unflatten(-1, (-1, 2)).amax(-1)
