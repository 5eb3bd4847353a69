"""Recurrent layers: LSTM and GRU with an explicit state, for whole sequences and for single steps.

The cells are torch's. Its GRU applies the reset gate after the product with the state's matrix, Cho et al.
2014 apply it before; the rest is as in the papers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seqwright.nn.dropout import Dropout

Cell = Literal["lstm", "gru"]
CELLS: dict[str, tuple[Any, Any]] = {"lstm": (nn.LSTM, torch.lstm_cell), "gru": (nn.GRU, torch.gru_cell)}

Cells = tuple[Tensor, ...]
"""(hidden, memory cells) of an LSTM, (hidden,) of a GRU; each (layers · directions, B, size)."""


@dataclass(frozen=True)
class Pass:
    """The input of one layer in one call, as a recorder gets it."""

    layer: int
    x: Tensor  # (B, T, input size)
    start: Cells  # the state of the layer before it, each part (directions, B, size)


class Recurrent(nn.Module):
    """Layers of cells of `size` in one or both directions (outputs concatenated), with dropout in between."""

    recorder: Callable[[Pass], None] | None = None

    def __init__(
        self, inputs: int, *, size: int, layers: int, cell: Cell, bidirectional: bool = False, dropout: float
    ):
        super().__init__()
        self.cell, self.size, self.directions = cell, size, 2 if bidirectional else 1
        self.parts = 2 if cell == "lstm" else 1  # tensors of a state
        make, self._step = CELLS[cell]
        sizes = [inputs] + [size * self.directions] * (layers - 1)
        options = {"batch_first": True, "bidirectional": bidirectional}
        self.layers = nn.ModuleList(make(n, size, **options) for n in sizes)
        self.dropout = Dropout(dropout)

    def empty(self, rows: int) -> Cells:
        zeros = next(self.parameters()).new_zeros(len(self.layers) * self.directions, rows, self.size)
        return (zeros,) * self.parts

    def forward(
        self, x: Tensor, state: Cells | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Cells]:
        """x (B, T, input size), padded at the right -> (B, T, directions · size), and the state after it."""
        state = self.empty(len(x)) if state is None else state
        real = None if lengths is None else lengths.cpu().clamp(min=1)
        ends: list[Cells] = []
        for i, layer in enumerate(self.layers):
            own = slice(i * self.directions, (i + 1) * self.directions)
            start = tuple(part[own].contiguous() for part in state)
            x = self.dropout(x) if i else x
            if self.recorder is not None:
                self.recorder(Pass(i, x, start))
            given = start if self.cell == "lstm" else start[0]
            if real is None:
                x, end = layer(x, given)
            else:
                packed = pack_padded_sequence(x, real, batch_first=True, enforce_sorted=False)
                out, end = layer(packed, given)
                x, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
            ends.append(end if self.cell == "lstm" else (end,))
        return x, tuple(torch.cat(parts) for parts in zip(*ends, strict=True))

    def step(self, x: Tensor, state: Cells) -> tuple[Tensor, Cells]:
        """One token: x (B, input size) -> (B, size) and the next state. One direction only."""
        ends: list[Cells] = []
        for i, layer in enumerate(self.layers):
            x = self.dropout(x) if i else x
            if self.recorder is not None:
                self.recorder(Pass(i, x[:, None], tuple(part[i : i + 1] for part in state)))
            given = tuple(part[i] for part in state) if self.cell == "lstm" else state[0][i]
            weights = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0
            end = self._step(x, given, *weights)
            ends.append(end if self.cell == "lstm" else (end,))
            x = ends[-1][0]
        return x, tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
