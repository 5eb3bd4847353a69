"""Capture the attention weights of any model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from seqwright.nn import pooling
from seqwright.nn.attention import Attention, Look


class Captured(dict[str, list[Tensor]]):
    """The weights of each attention by name (`decoder.stack.blocks.2.cross`): one (G, H, Q, K) per call.

    Attention pooling (`head.pooling`) has one head and one query.
    """

    def __missing__(self, name: str) -> list[Tensor]:
        raise KeyError(f"no attention {name!r} was called; those called are: {', '.join(self) or 'none'}")


@contextmanager
def capture(model: nn.Module) -> Iterator[Captured]:
    """Collect the weights of every attention and attention pooling that is called inside the block."""
    captured = Captured()

    def keep(name: str) -> Callable[[Look], None]:
        return lambda look: captured.setdefault(name, []).append(look.weights.detach())

    with recording(model, keep, (Attention, pooling.Attention)):
        yield captured


@contextmanager
def recording(
    model: nn.Module,
    recorder_for: Callable[[str], Callable[[Look], None] | None],
    kinds: tuple[type[Attention] | type[pooling.Attention], ...] = (Attention,),
) -> Iterator[None]:
    """Give every attention of these kinds its own recorder inside the block; None: it keeps its own."""
    with ExitStack() as stack:
        for name, part in model.named_modules():
            if isinstance(part, kinds) and (recorder := recorder_for(name)) is not None:
                stack.callback(setattr, part, "recorder", part.recorder)
                part.recorder = recorder
        yield
