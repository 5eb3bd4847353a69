"""Capture the attention weights of any model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from seqwright.nn.attention import Attention, Look


class Captured(dict[str, list[Tensor]]):
    """The weights of each attention by name (`decoder.stack.blocks.2.cross`): one (G, H, Q, K) per call."""

    def __getitem__(self, name: str) -> list[Tensor]:
        try:
            return super().__getitem__(name)
        except KeyError:
            raise KeyError(
                f"no attention {name!r} was called; those called are: {', '.join(self) or 'none'}"
            ) from None


@contextmanager
def capture(model: nn.Module) -> Iterator[Captured]:
    """Collect the weights of every attention that is called inside the block."""
    captured = Captured()

    def keep(name: str) -> Callable[[Look], None]:
        return lambda look: captured.setdefault(name, []).append(look.weights.detach())

    with recording(model, keep):
        yield captured


@contextmanager
def recording(model: nn.Module, recorder_for: Callable[[str], Callable[[Look], None]]) -> Iterator[None]:
    """Give every attention of a model its own recorder inside the block."""
    attentions = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    before = {name: part.recorder for name, part in attentions.items()}
    try:
        for name, part in attentions.items():
            part.recorder = recorder_for(name)
        yield
    finally:
        for name, part in attentions.items():
            part.recorder = before[name]
