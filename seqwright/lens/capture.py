"""Attention weights of any model, by name, while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from seqwright.nn.attention import Attention, Look


class Captured(dict[str, list[Tensor]]):
    """The weights of each attention (`decoder.stack.blocks.2.cross`), one tensor (G, H, Q, K) for each time
    it was called.
    """

    def __getitem__(self, name: str) -> list[Tensor]:
        try:
            return super().__getitem__(name)
        except KeyError:
            raise KeyError(
                f"no attention {name!r} was used; there are: {', '.join(self) or 'none'}"
            ) from None


@contextmanager
def capture(model: nn.Module) -> Iterator[Captured]:
    """Collects the weights of every attention that is used inside the block."""
    seen = Captured()

    def keep(name: str) -> Callable[[Look], None]:
        return lambda look: seen.setdefault(name, []).append(look.weights.detach())

    with recording(model, keep):
        yield seen


@contextmanager
def recording(model: nn.Module, recorder_for: Callable[[str], Callable[[Look], None]]) -> Iterator[None]:
    """Gives every attention of a model a recorder of its own, and takes it away again."""
    attentions = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    before = {name: part.recorder for name, part in attentions.items()}
    try:
        for name, part in attentions.items():
            part.recorder = recorder_for(name)
        yield
    finally:
        for name, part in attentions.items():
            part.recorder = before[name]
