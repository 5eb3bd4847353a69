"""The heads of a model, and the gates that switch them.

Head h adds ξ_h · Att_h(x) to the output of its attention (Michel et al. 2019, 2.3). ξ is `Attention.gate`:
ablation sets it to 0, importance is the gradient by it, and learned gates are values of it.

    with without_heads(model, [Head("cross", 2, 0)]):
        ...  # the model runs without that head
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqwright.data.batch import Segments
from seqwright.errors import ConfigError
from seqwright.models.ensemble import Ensemble
from seqwright.nn.attention import Attention
from seqwright.nn.blocks import Block
from seqwright.nn.hierarchical_attention import HierarchicalAttention

Kind = Literal["enc", "dec", "cross"]
Side = Literal["encoder", "decoder"]
LayerKey = tuple[Kind, int]  # the kind and the layer of an attention
KINDS: tuple[Kind, ...] = ("enc", "dec", "cross")
SIDES: tuple[Side, ...] = ("encoder", "decoder")
# an encoder that reads no source; a pointer, whose weights are probabilities, and whose output is not used
NO_SITES = ("target_encoder.", "pointer")


class Head(NamedTuple):
    """One head: the kind of its attention, its layer and its number, both counted from 0."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


@dataclass(frozen=True, eq=False)
class Site:
    """An attention, its name in the model, and its layer among those of its kind.

    stacked: it is in a Transformer block, where one call has all queries. A recurrent decoder may call its
    attention once per query. by_token: its keys are single tokens, not blocks of a compressed memory.
    """

    kind: Kind
    layer: int
    name: str
    attention: Attention
    stacked: bool
    by_token: bool = True

    @property
    def key(self) -> LayerKey:
        return self.kind, self.layer

    @property
    def heads(self) -> list[Head]:
        return [Head(self.kind, self.layer, number) for number in range(self.attention.heads)]

    def ones(self, *shape: int) -> Tensor:
        """An open gate of this shape, with the dtype and device of the attention."""
        like = next(self.attention.parameters(), torch.empty(0))
        return torch.ones(shape, dtype=like.dtype, device=like.device)


def sides(model: nn.Module) -> dict[Side, nn.Module]:
    """The encoder and the decoder of a model, those that it has."""
    parts = dict(model.named_children())
    return {side: parts[side] for side in SIDES if side in parts}


def sites(model: nn.Module) -> list[Site]:
    """Every attention of a model: enc in the encoder, dec if causal, else cross. Layers count by kind.

    Of a hierarchical attention it is the level whose keys are the vectors of the encoder, one for one: turns,
    or the words of a source that has none.
    """
    if isinstance(model, Ensemble):
        raise ConfigError(f"an ensemble of {len(model.members)} models has no heads; use predictor.member(1)")
    blocks = [part for part in model.modules() if isinstance(part, Block)]
    stacked = {part for block in blocks for part in block.children()}
    in_blocks = {block.attention for block in blocks if not block.growth.windowed}
    segmented = getattr(sides(model).get("encoder"), "reads", None) is Segments
    two_levels = [part for part in model.modules() if isinstance(part, HierarchicalAttention)]
    other_levels = {part.words if segmented else part.turns for part in two_levels}
    found: dict[Kind, list[Site]] = {kind: [] for kind in KINDS}
    for name, part in model.named_modules():
        if isinstance(part, Attention) and part not in other_levels and not name.startswith(NO_SITES):
            kind: Kind = "enc" if name.startswith("encoder.") else "dec" if part.mask.causal else "cross"
            site = Site(kind, len(found[kind]), name, part, part in stacked, part not in in_blocks)
            found[kind].append(site)
    return [site for kind in KINDS for site in found[kind]]


@contextmanager
def apply_gates(gates: Mapping[Attention, Tensor]) -> Iterator[None]:
    """Multiply gates (H, 1, 1) or (G, H, Q or 1, 1) into those of the attentions inside the block."""
    with ExitStack() as stack:
        for attention, gate in gates.items():
            stack.callback(setattr, attention, "gate", attention.gate)
            attention.gate = gate if attention.gate is None else attention.gate * gate
        yield


def without_heads(model: nn.Module, heads: Iterable[tuple[Kind, int, int]]) -> AbstractContextManager[None]:
    """Switch these heads off inside the block."""
    return apply_gates(closed_gates(model, heads))


def closed_gates(model: nn.Module, heads: Iterable[tuple[Kind, int, int]]) -> dict[Attention, Tensor]:
    """Gates (H, 1, 1) that are 0 for these heads and 1 for the other heads of their attentions."""
    known = {site.key: site for site in sites(model)}
    gates: dict[Attention, Tensor] = {}
    for kind, layer, number in heads:
        site = known.get((kind, layer))
        if site is None or not 0 <= number < site.attention.heads:
            layers = ", ".join(f"{s.kind} {s.layer} with {s.attention.heads} heads" for s in known.values())
            missing = f"the model has no head {Head(kind, layer, number)}"
            raise ConfigError(f"{missing}; its layers, counted from 0, are: {layers or 'none'}")
        gate = gates.setdefault(site.attention, site.ones(site.attention.heads, 1, 1))
        gate[number] = 0
    return gates
