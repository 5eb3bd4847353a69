"""The cost of layers over n tokens: time, memory, sequential operations and path length.

python -m bench.complexity           # a table next to table 1 of Vaswani et al. 2017
python -m bench.complexity --json    # the same numbers as one document
python -m bench.complexity --write   # the same, and the table and the figure of "What attention costs"

Times are those of a forward and a backward pass, in CPU time of one thread, which other programs disturb less
than wall time; wall times are recorded next to them. Memory is the size of what a forward pass keeps for the
backward pass, parameters not counted. Exponents are fitted to the longer half of the lengths. A layer stops
where the next length could exceed `--seconds` or `--gigabytes`, and the table says so. All is measured for
two sizes d, `--size` and `--wider`; the figure shows the first one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.tables import markdown, put
from examples.pictures import complexity as figure
from examples.pictures import gallery
from seqwright.files import write_text
from seqwright.nn.attention import Attention
from seqwright.nn.convolution import Neighbours
from seqwright.nn.kv_cache import Compressed, Keys
from seqwright.nn.masks import AttentionContext, Mask, Places
from seqwright.nn.recurrent import Recurrent

LEAST, MOST = 128, 16_384
PAGE = gallery.FOLDER.parent / "concepts" / "cost-of-attention.md"
GROWTH = 4  # from one length to the next, twice as long, a quadratic cost grows by this factor


@dataclass(frozen=True)
class Sizes:
    """The sizes of the layers under comparison."""

    size: int = 256
    heads: int = 4
    window: int = 128  # r of table 1
    stride: int = 3  # of memory compression
    reach: int = 1  # neighbours on each side of a convolution: k = 2 · reach + 1


class SelfAttention(nn.Module):
    """A self-attention (1, T, D) -> (1, T, D). stride: its keys are compressed."""

    def __init__(self, sizes: Sizes, *, window: int | None = None, stride: int = 0, dropout: float = 0.0):
        super().__init__()
        mask = Mask(window=window)
        self.attention = Attention(sizes.size, mask=mask, heads=sizes.heads, dropout=dropout)
        each = {"key_size": self.attention.key_size, "value_size": self.attention.value_size}
        self.growth = Compressed(**each, stride=stride) if stride else None

    def forward(self, x: Tensor) -> Tensor:
        context = AttentionContext(Places.run(0, x.shape[1]))
        keys: Keys = self.attention.keys(x, context.queries)
        keys = keys if self.growth is None else self.growth(None, keys, context)
        return self.attention(x, context, keys)


class Recurrence(nn.Module):
    """A GRU (1, T, D) -> (1, T, D)."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.cells = Recurrent(sizes.size, size=sizes.size, layers=1, cell="gru", dropout=0.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.cells(x)[0]


class Convolution(nn.Module):
    """A convolution over neighbours (1, T, D) -> (1, T, D)."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.neighbours = Neighbours(sizes.size, sizes.reach)

    def forward(self, x: Tensor) -> Tensor:
        return self.neighbours(x, Places.run(0, x.shape[1]))


@dataclass(frozen=True)
class Kind:
    """A kind of layer, and its row of table 1.

    sequential: operations that wait for each other, over n tokens. path: the longest way between two of n
    tokens, in operations, through as many layers as it takes.
    """

    build: Callable[[Sizes], nn.Module]
    complexity: str
    sequential: Callable[[int, Sizes], int]
    path: Callable[[int, Sizes], int]


def _one(count: int, sizes: Sizes) -> int:
    return 1


KINDS = {
    "self": Kind(SelfAttention, "n² · d", _one, _one),
    # dropout of weights needs the matrix of weights, which the fused kernel never stores
    "self_dropout": Kind(lambda sizes: SelfAttention(sizes, dropout=0.1), "n² · d", _one, _one),
    "restricted": Kind(
        lambda sizes: SelfAttention(sizes, window=sizes.window),
        "r · n · d",
        _one,
        lambda count, sizes: math.ceil((count - 1) / sizes.window),
    ),
    "compressed": Kind(
        lambda sizes: SelfAttention(sizes, stride=sizes.stride), "n² · d / stride", _one, _one
    ),
    "recurrent": Kind(
        Recurrence, "n · d²", lambda count, sizes: count, lambda count, sizes: max(count - 1, 1)
    ),
    "convolutional": Kind(
        Convolution, "k · n · d²", _one, lambda count, sizes: math.ceil((count - 1) / sizes.reach)
    ),
}


@dataclass(frozen=True)
class Cost:
    """One forward and backward pass."""

    seconds: float  # of the CPU
    forward_seconds: float  # its part before the backward pass
    wall_seconds: float
    bytes: int


def kept_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the size of the tensors that a forward pass keeps for the backward pass, parameters excluded."""
    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    kept: dict[int, int] = {}
    held = []  # else a freed storage would be counted as the next one at its address

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(x)
    return sum(kept.values())


def cost(layer: nn.Module, count: int, size: int, repeats: int) -> Cost:
    """Measure the fastest of several passes over `count` tokens."""
    x = torch.randn(1, count, size, requires_grad=True)
    memory = kept_bytes(layer, x)
    times = []
    for _ in range(repeats):
        wall, begin = time.perf_counter(), time.process_time()
        hidden = layer(x)
        middle = time.process_time()
        hidden.sum().backward()
        times.append((time.process_time() - begin, middle - begin, time.perf_counter() - wall))
    best = np.array(times).min(0)
    return Cost(float(best[0]), float(best[1]), float(best[2]), memory)


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """Return e of the fit value = c · n^e over the longer half; None where fewer than two remain."""
    half = len(lengths) // 2
    longer, found = np.log(lengths[half:]), np.log(values[half:])
    return round(float(np.polyfit(longer, found, 1)[0]), 2) if len(longer) > 1 else None


def measured(kind: Kind, sizes: Sizes, options: argparse.Namespace) -> dict[str, Any]:
    """Return the costs of a kind of layer by length, and their exponents."""
    torch.manual_seed(0)
    layer, costs, count, stopped = kind.build(sizes).train(), {}, LEAST, ""
    while count <= options.most and not stopped:
        costs[count] = found = cost(layer, count, sizes.size, options.repeats)
        count *= 2
        if GROWTH * found.wall_seconds > options.seconds:
            stopped = f"{count:,} could take {GROWTH * found.wall_seconds:,.0f} s"
        elif GROWTH * found.bytes > options.gigabytes * 1e9:
            stopped = f"{count:,} could keep {GROWTH * found.bytes / 1e9:.1f} GB"
    stopped = stopped if count <= options.most else ""
    lengths = list(costs)

    def by_length(name: str) -> dict[str, Any]:
        return {str(n): getattr(each, name) for n, each in costs.items()}

    return {
        "complexity": kind.complexity,
        "stopped": stopped,
        "exponent_time": exponent(lengths, [each.seconds for each in costs.values()]),
        "exponent_memory": exponent(lengths, [each.bytes for each in costs.values()]),
        **{name: by_length(name) for name in ("seconds", "forward_seconds", "wall_seconds", "bytes")},
        "sequential_operations": {str(n): kind.sequential(n, sizes) for n in lengths},
        "maximum_path_length": {str(n): kind.path(n, sizes) for n in lengths},
    }


def table(layers: dict[str, dict[str, Any]]) -> str:
    lines = [
        "layer           complexity        time      memory    at n     CPU      kept       sequential   path"
    ]
    for name, found in layers.items():
        last = list(found["seconds"])[-1]
        fits = [f"n^{value}" if value is not None else "–" for value in _exponents(found)]
        numbers = [found[key][last] for key in ("sequential_operations", "maximum_path_length")]
        milliseconds, megabytes = 1e3 * found["seconds"][last], found["bytes"][last] / 1e6
        lines.append(
            f"{name:<15} {found['complexity']:<17} {fits[0]:<9} {fits[1]:<9} {last:<6}"
            f"{milliseconds:>7,.0f} ms{megabytes:>8,.0f} MB  {numbers[0]:>10,} {numbers[1]:>6,}"
        )
    return "\n".join(lines)


def page_table(found: dict[str, Any]) -> str:
    """Return the table of the documentation, and the conditions of the measurement."""
    layers, wider = found["layers"], found["wider"]
    common = max(
        set.intersection(
            *(set(map(int, each["seconds"])) for each in (*layers.values(), *wider["layers"].values()))
        )
    )
    at = str(common)
    tokens = f"n = {common:,}"
    head = (
        *("layer", "operations", "time", "memory", f"CPU, {tokens}", f"… d {wider['size']}"),
        f"memory, {tokens}",
        *("sequential operations", "longest path", "measured to"),
    )
    rows = []
    for name, each in layers.items():
        fits = [f"n^{value}" if value is not None else "–" for value in _exponents(each)]
        times = [f"{1e3 * one['seconds'][at]:,.0f} ms" for one in (each, wider["layers"][name])]
        cost = *times, f"{each['bytes'][at] / 1e6:,.0f} MB"
        counts = [f"{each[key][at]:,}" for key in ("sequential_operations", "maximum_path_length")]
        title = figure.STYLES[name][0]
        end = "; ".join(filter(None, (f"{int(list(each['seconds'])[-1]):,}", each["stopped"])))
        rows.append([title, each["complexity"], *fits, *cost, *counts, end])
    before, after = found["load"]
    conditions = (
        f"d {found['size']}, {found['heads']} heads, r {found['window']}, stride {found['stride']}; CPU time "
        f"of one thread, the fastest of {found['repeats']} passes. Sequential operations and path at "
        f"{tokens}. Load of the machine: {before:.1f} before, {after:.1f} after the measurement."
    )
    return f"{markdown(head, rows)}\n\n{textwrap.fill(conditions, 100)}"


def write(found: dict[str, Any]) -> None:
    """Store the measurement, and write the table and the figure of the documentation."""
    write_text(figure.MEASURED, json.dumps(found, indent=1) + "\n")
    figure.measured.cache_clear()
    put(PAGE, "complexity", page_table(found))
    write_text(gallery.FOLDER / "complexity.svg", figure.complexity())


def _exponents(found: dict[str, Any]) -> tuple[float | None, float | None]:
    return found["exponent_time"], found["exponent_memory"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--write", action="store_true", help="write the table and the figure of the page")
    parser.add_argument("--most", type=int, default=MOST, help="greatest number of tokens")
    parser.add_argument("--size", type=int, default=Sizes.size, help="d, the size of a vector")
    parser.add_argument("--wider", type=int, default=2 * Sizes.size, help="a second d")
    parser.add_argument("--window", type=int, default=Sizes.window, help="r of restricted attention")
    parser.add_argument("--repeats", type=int, default=3, help="passes of which the fastest counts")
    parser.add_argument("--seconds", type=float, default=120.0, help="stop before a pass takes longer")
    parser.add_argument("--gigabytes", type=float, default=6.0, help="stop before a pass keeps more")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sizes, before = Sizes(size=options.size, window=options.window), os.getloadavg()[0]
    layers, wider = (
        {name: measured(kind, each, options) for name, kind in KINDS.items()}
        for each in (sizes, replace(sizes, size=options.wider))
    )
    found = {
        "layers": layers,
        "wider": {"size": options.wider, "layers": wider},
        **{name: getattr(sizes, name) for name in ("size", "heads", "window", "stride")},
        "threads": 1,
        "repeats": options.repeats,
        "load": (before, os.getloadavg()[0]),
    }
    if options.write:
        write(found)
    tables = (f"d {size}\n{table(each)}" for size, each in ((sizes.size, layers), (options.wider, wider)))
    print(json.dumps(found) if options.json else "\n\n".join(tables))


if __name__ == "__main__":
    main()
