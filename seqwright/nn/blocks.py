"""Blocks and their stack: attention, cross-attention and feed-forward, with residuals, norms and dropout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seqwright.config.registry import Count, Whole, parse
from seqwright.errors import ConfigError
from seqwright.nn.attention import Attention, Spec
from seqwright.nn.dropout import Dropout
from seqwright.nn.fast_step import fast_step
from seqwright.nn.feedforward import FEED_FORWARDS, FeedForward
from seqwright.nn.inference_weights import Function, InferenceModule, bound, drops
from seqwright.nn.kv_cache import GROWTHS, Growth, Keys, Memory, Past
from seqwright.nn.masks import AttentionContext, Mask, Places
from seqwright.nn.positions import POSITIONS

Norm = Literal["layer", "rms"]
Order = Literal["pre", "post"]
NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class Residual(nn.Module):
    """The residual connection around a sublayer f. post: norm(x + dropout(f(x))) (Vaswani et al. 2017, 5.4);
    pre: x + dropout(f(norm(x))) (Xiong et al. 2020).
    """

    def __init__(self, size: int, norm: Norm, order: Order, dropout: float):
        super().__init__()
        self.norm = NORMS[norm](size)
        self.dropout = Dropout(dropout)
        self.pre = order == "pre"


class BoundResidual:
    """The operations before and after a sublayer."""

    def __init__(self, home: Residual):
        norm, self.dropout = bound(home.norm), home.dropout if drops(home.dropout) else _same
        self.before: Function = norm if home.pre else _same
        self.norm_after: Function = _same if home.pre else norm
        only_adds = home.pre and self.dropout is _same
        self.after: Callable[[Tensor, Tensor], Tensor] = torch.add if only_adds else self._after

    def _after(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm_after(x + self.dropout(y))


def _same(x: Tensor) -> Tensor:
    return x


class Block(nn.Module):
    """One layer of a Transformer: self-attention, cross-attention if there is a memory, feed-forward.

    growth: how a block keeps the keys of earlier tokens; None: all, or those within the window.
    mixes: whether its values are mixed with those of the first block.
    """

    def __init__(
        self,
        size: int,
        attention: Attention,
        cross: Attention | None,
        feed_forward: FeedForward,
        *,
        norm: Norm = "layer",
        order: Order = "pre",
        dropout: float = 0.0,
        growth: Spec | None = None,
        mixes: bool = False,
    ):
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.5)) if mixes else None
        self.attention, self.cross, self.feed_forward = attention, cross, feed_forward
        self.around_attention = Residual(size, norm, order, dropout)
        self.around_cross = None if cross is None else Residual(size, norm, order, dropout)
        self.around_feed_forward = Residual(size, norm, order, dropout)
        mask = attention.mask
        window = mask.window if mask.causal else None
        usual = "append" if window is None else "last"
        self.growth = GROWTHS.build(
            growth if growth and (mask.causal or not kind_of(growth).causal) else usual,
            window=window,
            global_tokens=mask.global_tokens,
            key_size=attention.key_size,
            value_size=attention.value_size,
        )

    def bound(self) -> BoundBlock:
        return BoundBlock(self)

    def forward(
        self, hidden: Tensor, context: AttentionContext, past: Keys | None, memory: Keys | None
    ) -> tuple[Tensor, Keys]:
        """hidden (G, Q, D) -> (G, Q, D), and the keys that the next call needs."""
        return BoundBlock(self)(hidden, context, past, memory)


class BoundBlock:
    """A block as functions of its weights."""

    def __init__(self, home: Block):
        self.growth, self.share = home.growth, home.share
        self.attention: Any = bound(home.attention)
        self.cross = None if home.cross is None else bound(home.cross)
        self.feed_forward: Callable[..., Tensor] = bound(home.feed_forward)
        self.counts_tokens = home.feed_forward.counts_tokens
        self.around_attention = BoundResidual(home.around_attention)
        self.around_cross = None if home.around_cross is None else BoundResidual(home.around_cross)
        self.around_feed_forward = BoundResidual(home.around_feed_forward)

    def __call__(
        self, hidden: Tensor, context: AttentionContext, past: Keys | None, memory: Keys | None
    ) -> tuple[Tensor, Keys]:
        x = self.around_attention.before(hidden)
        attended, keys = self._attend(x, context, past)
        hidden = self.around_attention.after(hidden, attended)
        if self.cross is not None and self.around_cross is not None and memory is not None:
            x = self.around_cross.before(hidden)
            hidden = self.around_cross.after(hidden, self.cross(x, context, memory))
        x = self.around_feed_forward.before(hidden)
        real = (context.queries.seen,) if self.counts_tokens else ()
        hidden = self.around_feed_forward.after(hidden, self.feed_forward(x, *real))
        return hidden, self.growth.keep(keys, context)

    def _attend(self, x: Tensor, context: AttentionContext, past: Keys | None) -> tuple[Tensor, Keys]:
        """The output of self-attention, and the keys that it attended to."""
        attention = self.attention
        if isinstance(attention, Attention):  # it has hooks, which run when it is called
            keys = self._grown(past, attention.keys(x, context.queries), context)
            return attention(x, context, keys), keys
        q, new = attention.queries_and_keys(x, context.queries)
        keys = self._grown(past, new, context)
        return attention.attend(q, context, keys), keys

    def _grown(self, past: Keys | None, new: Keys, context: AttentionContext) -> Keys:
        position = self.attention.position
        return self.growth(past, self._mixed(new, context), context, position if position.inside else None)

    def _mixed(self, new: Keys, context: AttentionContext) -> Keys:
        """The keys of new tokens, with values that are mixed with those of the first block."""
        if self.share is None:
            context.first_values = new.v if context.first_values is None else context.first_values
            return new
        assert context.first_values is not None  # the first block has no share
        return Keys.of(new.k, torch.lerp(context.first_values, new.v, self.share), new.places)


class Stack(InferenceModule["BoundStack"]):
    """Blocks over embeddings.

    memory_size: the size of the vectors of a memory that they attend to, too; None: there is no memory.
    causal: whether the future is hidden.

    heads: a number, or one for each layer (0 where all are pruned; then head_size must be given).
    head_size: the size of a query and a key, one for all layers or one for each; by default size / heads.
    cross_heads: as heads, of the attention to the memory, if they differ.
    cross_head_size: as head_size, of the attention to the memory, if it differs.
    cross_score: the score of the attention to the memory, if it differs.
    position: how the order of tokens is encoded, on the embeddings or inside each self-attention.
    window: each token sees that many neighbours on each side (the restricted self-attention of Vaswani et al.
    2017, section 4). global_tokens: the first tokens, which attend to all tokens and are attended to by all,
    whatever the window (Beltagy et al. 2020, 3.1).
    growth: how keys are kept, one way or several that the layers take in turn: append (all of them), last
    (those within the window) or compressed (blocks of them, which no window hides); by default the one that
    fits the window.
    embedding_norm: a norm of the embeddings with their positions (Devlin et al. 2019).
    zero_start: the output projections of attention and feed-forward start at zero, so that a block starts as
    the identity (as in Fixup, Zhang et al. 2019).
    value_residual: from the second layer on, self-attention mixes its values with those of the first layer;
    the share of its own is learned and starts at one half (Zhou et al. 2024, eq. 5).
    """

    def __init__(
        self,
        memory_size: int | None = None,
        causal: bool = False,
        *,
        size: Count = 512,
        layers: Count = 6,
        heads: Whole | Sequence[Whole] = 8,
        cross_heads: Whole | Sequence[Whole] | None = None,
        head_size: Count | Sequence[Count] | None = None,
        cross_head_size: Count | Sequence[Count] | None = None,
        hidden: Count | None = None,
        feed_forward: Spec = "plain",
        position: Spec = "sinusoidal",
        score: Spec = "scaled_dot",
        cross_score: Spec | None = None,
        window: Whole | None = None,
        global_tokens: Whole = 0,
        growth: Spec | Sequence[Spec] | None = None,
        norm: Norm = "layer",
        order: Order = "pre",
        bias: bool = True,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        embedding_norm: bool = False,
        zero_start: bool = False,
        value_residual: bool = False,
    ):
        super().__init__()
        self.size = size
        kind: Any = POSITIONS.get(parse("position", position)[0])
        inside, self.reads_trees = kind.inside, kind.structural
        self.position = POSITIONS.build(kind.outside if inside else position, size=size)
        own, sizes = per_layer("heads", heads, layers), per_layer("head_size", head_size, layers)
        heads_across = own if cross_heads is None else per_layer("cross_heads", cross_heads, layers)
        sizes_across = per_layer("cross_head_size", cross_head_size or head_size, layers)
        if value_residual and len(set(own)) > 1:
            raise ConfigError(f"value_residual needs the same number of heads in each layer, not {own}")
        common: dict[str, Any] = {"bias": bias, "dropout": attention_dropout}
        around: dict[str, Any] = {"norm": norm, "order": order, "dropout": dropout}
        ways = [growth] if growth is None or isinstance(growth, str | Mapping) else growth
        growths = [ways[i % len(ways)] for i in range(layers)]
        wide = {"size": size, "hidden": hidden or 4 * size, "dropout": activation_dropout, "bias": bias}
        if global_tokens and window is None:
            raise ConfigError(
                f"global_tokens is {global_tokens}, but every token sees all others; set window"
            )
        # one mask for all layers, so that its bias is computed once
        near, whole = Mask(causal, window, global_tokens), Mask(causal)
        inner = {**common, "score": score, "position": position if inside else "none"}
        self.blocks = nn.ModuleList()
        for i in range(layers):
            way = growths[i]
            mask = near if way is None or kind_of(way).windowed else whole
            attention = Attention(size, heads=own[i], head_size=sizes[i], mask=mask, **inner)
            across = {
                **common,
                "score": cross_score or score,
                "heads": heads_across[i],
                "head_size": sizes_across[i],
            }
            cross = None if memory_size is None else Attention(size, memory_size, **across)
            feed = FEED_FORWARDS.build(feed_forward, **wide)
            mixes = value_residual and i > 0
            self.blocks.append(Block(size, attention, cross, feed, growth=way, mixes=mixes, **around))
            for part in (attention, cross, feed) if zero_start else ():
                if part is not None:
                    part.zero_output()
        self.dropout = Dropout(dropout)
        self.embedding_norm = NORMS[norm](size) if embedding_norm else None
        self.norm = NORMS[norm](size) if order == "pre" else nn.Identity()

    @property
    def counts_tokens(self) -> bool:
        """Whether padding must be marked even where no token sees it (see `FeedForward`)."""
        blocks: Any = self.blocks
        return any(block.feed_forward.counts_tokens for block in blocks)

    @property
    def embedding_size(self) -> int:
        """The size of the model without the dimensions of a concatenated position."""
        return self.size - self.position.taken

    def memory(self, hidden: Tensor, places: Places) -> tuple[Keys, ...]:
        """The keys of a memory (G, S, memory size) for the cross-attention of each block, projected once."""
        return self.bound().memory(hidden, places)

    def bind(self) -> BoundStack:
        return BoundStack(self)

    def forward(
        self, x: Tensor, places: Places, past: Past | None = None, memory: Memory = None, width: int = 1
    ) -> tuple[Tensor, Past]:
        """x (G, Q, embedding size) -> (G, Q, D), and the keys of each block. Q is T · `width` rows."""
        return self.bound()(x, places, past, memory, width)


class BoundStack:
    """A stack as functions of its weights."""

    def __init__(self, home: Stack):
        self.position, self.norm = home.position, bound(home.norm)
        self.embedding_norm = None if home.embedding_norm is None else bound(home.embedding_norm)
        self.dropout = home.dropout if drops(home.dropout) else None
        self.blocks: list[Any] = [bound(block) for block in home.blocks]
        self.nothing = (None,) * len(self.blocks)
        growths: list[Any] = [block.growth for block in home.blocks]
        self.shares_keys = all(growth.shared for growth in growths)  # among the rows of a group
        self.keys_by_place = any(growth.by_place for growth in growths)
        unhooked = all(type(block) is BoundBlock for block in self.blocks)
        self.fast_step = fast_step(home, self.blocks) if unhooked else None

    def memory(self, hidden: Tensor, places: Places) -> tuple[Keys, ...]:
        return tuple(block.cross.keys(hidden, places) for block in self.blocks)

    def __call__(
        self, x: Tensor, places: Places, past: Past | None, memory: Memory, width: int = 1
    ) -> tuple[Tensor, Past]:
        hidden = self.position.embed(x, places)
        if self.embedding_norm is not None:
            hidden = self.embedding_norm(hidden)
        if self.dropout is not None:
            hidden = self.dropout(hidden)
        context, kept = AttentionContext(places, width), []
        if self.fast_step is not None and self.fast_step.suits(hidden, context, memory):
            hidden, cache = self.fast_step(hidden, context, past, memory)
            return self.norm(hidden), cache
        for block, old, source in zip(self.blocks, past or self.nothing, memory or self.nothing, strict=True):
            hidden, keys = block(hidden, context, old, source)
            kept.append(keys)
        return self.norm(hidden), tuple(kept)


def kind_of(growth: Spec) -> type[Growth]:
    return GROWTHS.get(parse("growth", growth)[0])


def per_layer(name: str, value: int | Sequence[int] | None, layers: int) -> list[Any]:
    if value is None or isinstance(value, int):
        return [value] * layers
    if len(value) != layers:
        numbers = f"{name} = {list(value)} has {len(value)} numbers"
        raise ConfigError(f"{numbers} for {layers} layers; give one, or one each")
    return list(value)
