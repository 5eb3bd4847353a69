"""The heads of a model, and the gates that switch them.

Head h gives ξ_h · Att_h(x) to the output of its attention (Michel et al. 2019, 2.3). ξ is `Attention.gate`,
and it is the only way to a head: ablation sets it to 0, importance is the gradient in it, gates that are
learned are values of it, and a page that switches a head off sets it too.

    with closed(model, [Head("cross", 2, 0)]):
        ...  # here the model is without that head
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqwright.errors import ConfigError
from seqwright.models.ensemble import Ensemble
from seqwright.nn.attention import Attention
from seqwright.nn.blocks import Block

Kind = Literal["enc", "dec", "cross"]
Place = tuple[Kind, int]
"""Which attention: its kind and layer."""
KINDS: tuple[Kind, ...] = ("enc", "dec", "cross")


class Head(NamedTuple):
    """One head: the kind of its attention, the layer and the number in it, both from 0."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


@dataclass(frozen=True, eq=False)
class Site:
    """An attention and where it stands: `name` in the model, the layer-th of its kind.

    stacked: in a block of a Transformer, where one call has all queries; the attention of a recurrent decoder
    may be called for each of them.
    """

    kind: Kind
    layer: int
    name: str
    attention: Attention
    stacked: bool

    @property
    def place(self) -> Place:
        return self.kind, self.layer

    @property
    def heads(self) -> list[Head]:
        return [Head(self.kind, self.layer, number) for number in range(self.attention.heads)]

    def ones(self, *shape: int) -> Tensor:
        """An open gate of this shape, of the kind of numbers that the attention has."""
        like = next(self.attention.parameters(), torch.empty(0))
        return torch.ones(shape, dtype=like.dtype, device=like.device)


def sites(model: nn.Module) -> list[Site]:
    """Every attention: enc in the encoder, dec where the future is hidden, cross the others; layers of a kind
    are counted by themselves, so that encoder and decoder may differ in depth.
    """
    if isinstance(model, Ensemble):
        raise ConfigError(
            f"an ensemble of {len(model.members)} has no heads of its own; look at one member, as "
            "seqwright.load(folder).member(1)"
        )
    stacked = {part for block in model.modules() if isinstance(block, Block) for part in block.children()}
    found: dict[Kind, list[Site]] = {kind: [] for kind in KINDS}
    for name, part in model.named_modules():
        if isinstance(part, Attention):
            kind: Kind = "enc" if name.startswith("encoder.") else "dec" if part.mask.causal else "cross"
            found[kind].append(Site(kind, len(found[kind]), name, part, part in stacked))
    return [site for kind in KINDS for site in found[kind]]


@contextmanager
def gated(gates: Mapping[Attention, Tensor]) -> Iterator[None]:
    """Gates (H, 1, 1) or (G, H, Q or 1, 1) inside the block, multiplied with those that are there already."""
    before = {attention: attention.gate for attention in gates}
    try:
        for attention, gate in gates.items():
            attention.gate = gate if attention.gate is None else attention.gate * gate
        yield
    finally:
        for attention, gate_before in before.items():
            attention.gate = gate_before


@contextmanager
def closed(model: nn.Module, heads: Iterable[Head | tuple[Kind, int, int]]) -> Iterator[None]:
    """The model without these heads, inside the block."""
    with gated(closing(model, heads)):
        yield


def closing(model: nn.Module, heads: Iterable[Head | tuple[Kind, int, int]]) -> dict[Attention, Tensor]:
    """The gates (H, 1, 1) that are 0 for these heads and 1 for the others of their attentions."""
    places = {site.place: site for site in sites(model)}
    gates: dict[Attention, Tensor] = {}
    for kind, layer, number in heads:
        site = places.get((kind, layer))
        if site is None or not 0 <= number < site.attention.heads:
            raise ConfigError(_no_such_head(Head(kind, layer, number), list(places.values())))
        gate = gates.setdefault(site.attention, site.ones(site.attention.heads, 1, 1))
        gate[number] = 0
    return gates


def _no_such_head(head: Head, every: list[Site]) -> str:
    there = ", ".join(f"{site.kind} {site.layer} with {site.attention.heads}" for site in every)
    return f"there is no head {head} (layers and heads count from 0); there are: {there or 'none'}"
