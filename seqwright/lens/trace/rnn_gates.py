"""The gates of recurrent cells, worked out from what went into them.

torch's LSTM and GRU show only their outputs; the equations are theirs (torch.nn.LSTM, torch.nn.GRU).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seqwright.lens.trace.packing import Packed, pack
from seqwright.lens.trace.recorders import Passes, numpy

NAMES = {"lstm": (("i", "f", "g", "o"), ("h", "c")), "gru": (("r", "z", "n"), ("h",))}


@torch.inference_mode()
def unrolled(layer: nn.Module, x: Tensor, start: Sequence[Tensor], suffix: str = "") -> dict[str, Tensor]:
    """Gates (T, n) and states (T + 1, n) by name, of x (T, input size) from the state `start`, each (n,).

    suffix: "_reverse" for the weights of the second direction, whose tokens must come in its order.
    """
    kind = "lstm" if isinstance(layer, nn.LSTM) else "gru"
    weights = [
        getattr(layer, f"{name}_l0{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    ]
    into, into_bias, back, back_bias = weights
    driven = x @ into.t() + into_bias  # (T, gates · n)
    gate_names, state_names = NAMES[kind]
    gates: dict[str, list[Tensor]] = {name: [] for name in gate_names}
    states: dict[str, list[Tensor]] = {name: [part] for name, part in zip(state_names, start, strict=True)}
    for token in driven:
        recalled = back @ states["h"][-1] + back_bias
        found, after = (_lstm if kind == "lstm" else _gru)(
            token, recalled, [states[n][-1] for n in state_names]
        )
        for name, value in zip(gate_names, found, strict=True):
            gates[name].append(value)
        for name, value in zip(state_names, after, strict=True):
            states[name].append(value)
    return {name: torch.stack(values) for name, values in (gates | states).items()}


Gates = tuple[Tensor, ...]


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


def cells(passes: Passes, *, backward: bool, room: int) -> list[dict[str, Any]]:
    """The entries of a trace for one layer, one for each direction, if they have at most `room` bytes raw.

    backward: whether the tokens came from the end of the text to its beginning.
    """
    part = passes.part
    x = torch.cat([one.x[0] for one in passes.found])  # (T, input size)
    gates, states = NAMES[part.cell]
    if 4 * part.size * part.directions * len(x) * (len(gates) + len(states)) > room:
        return []
    entries = []
    for direction in range(part.directions):
        start = [value[direction, 0] for value in passes.found[0].start]
        read, suffix = (x.flip(0), "_reverse") if direction else (x, "")
        found = unrolled(part.layers[passes.layer], read, start, suffix)
        entries.append(
            {
                "part": passes.name.partition(".")[0],
                "layer": passes.layer,
                "direction": "backward" if backward != bool(direction) else "forward",
                "cell": part.cell,
                "steps": len(x),
                "size": part.size,
                "gates": {name: _packed(found[name]) for name in gates},
                "states": {name: _packed(found[name]) for name in states},
            }
        )
    return entries


def _packed(x: Tensor) -> Packed:
    return pack(numpy(x))
