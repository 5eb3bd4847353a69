"""The gates of recurrent cells, recomputed from the inputs of their layers.

torch's LSTM and GRU return only their outputs; the equations are theirs (torch.nn.LSTM, torch.nn.GRU).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seqwright.lens.trace.packing import pack
from seqwright.lens.trace.recorders import RecurrentRecord

NAMES = {"lstm": (("i", "f", "g", "o"), ("h", "c")), "gru": (("r", "z", "n"), ("h",))}

Gates = tuple[Tensor, ...]


@torch.inference_mode()
def unrolled(layer: nn.Module, x: Tensor, start: Sequence[Tensor], suffix: str = "") -> dict[str, Tensor]:
    """Gates (T, n) and states (T + 1, n) by name, for x (T, input size) from the state `start`, each (n,).

    suffix: "_reverse" for the weights of the second direction; x must be in the order of that direction.
    """
    lstm = isinstance(layer, nn.LSTM)
    parameters = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    into, into_bias, back, back_bias = (getattr(layer, f"{name}_l0{suffix}") for name in parameters)
    gates: list[Gates] = []
    states: list[Gates] = [tuple(start)]
    for driven in x @ into.t() + into_bias:  # (gates · n,)
        recalled = back @ states[-1][0] + back_bias
        found, after = (_lstm if lstm else _gru)(driven, recalled, states[-1])
        gates.append(found)
        states.append(after)
    gate_names, state_names = NAMES["lstm" if lstm else "gru"]
    columns = [*zip(*gates, strict=True), *zip(*states, strict=True)]
    return {name: torch.stack(each) for name, each in zip(gate_names + state_names, columns, strict=True)}


def _lstm(driven: Tensor, recalled: Tensor, state: Sequence[Tensor]) -> tuple[Gates, Gates]:
    """c′ = f·c + i·g, h′ = o·tanh(c′)."""
    i, f, g, o = (driven + recalled).chunk(4)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * state[1] + i * g
    return (i, f, g, o), (o * c.tanh(), c)


def _gru(driven: Tensor, recalled: Tensor, state: Sequence[Tensor]) -> tuple[Gates, Gates]:
    """h′ = (1 − z)·n + z·h; the reset gate is applied after the product with the state's matrix."""
    r, z = (driven + recalled).chunk(3)[:2]
    r, z = r.sigmoid(), z.sigmoid()
    n = (driven.chunk(3)[2] + r * recalled.chunk(3)[2]).tanh()
    return (r, z, n), ((1 - z) * n + z * state[0],)


def gate_entries(record: RecurrentRecord, *, backward: bool, room: int) -> list[dict[str, Any]]:
    """The entries of one layer, one per direction; none above `room` bytes. backward: of a reversed text."""
    part = record.part
    x = torch.cat([one.x[0] for one in record.passes])  # (T, input size)
    gates, states = NAMES[part.cell]
    if 4 * part.size * part.directions * len(x) * (len(gates) + len(states)) > room:
        return []
    entries = []
    for direction in range(part.directions):
        start = [value[direction, 0] for value in record.passes[0].start]
        inputs, suffix = (x.flip(0), "_reverse") if direction else (x, "")
        found = unrolled(part.layers[record.layer], inputs, start, suffix)
        entries.append(
            {
                "part": record.name.partition(".")[0],
                "layer": record.layer,
                "direction": "backward" if backward != bool(direction) else "forward",
                "cell": part.cell,
                "steps": len(x),
                "size": part.size,
                "gates": {name: pack(found[name]) for name in gates},
                "states": {name: pack(found[name]) for name in states},
            }
        )
    return entries
