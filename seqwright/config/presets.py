"""Named models: those of the papers, with their sizes, and our own. Plain data; nothing here needs torch.

`resolve` turns what a user writes (a preset, options for the whole model, options for a part) into the
complete description of a model; `pinned` is how it is written down for later.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seqwright.config.registry import unknown
from seqwright.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """A model description, where it comes from, and what is known to differ from there."""

    source: str
    model: dict[str, Any]
    note: str = ""


def _transformer(**options: Any) -> dict[str, Any]:
    return {
        "encoder": {"kind": "transformer", **options},
        "decoder": {"kind": "transformer", **options},
        "share": True,
        "tie": True,
    }


def _luong(attention: str) -> dict[str, Any]:
    rnn = {"kind": "rnn", "cell": "lstm", "layers": 4, "size": 1000, "dropout": 0.2}
    reads = {"bidirectional": False, "reverse": True}
    says = {"attention": attention, "query": "current", "feed": "output", "readout": "tanh", "start": "copy"}
    return {"encoder": {**rnn, **reads}, "decoder": {**rnn, **says}, "share": False, "tie": False}


def _recurrent(size: int) -> dict[str, Any]:
    rnn = {"kind": "rnn", "cell": "gru", "size": size, "embedding_size": size // 2, "dropout": 0.1}
    says = {
        "readout_size": size // 2,
        "attention": "bahdanau",
        "query": "previous",
        "feed": "context",
        "readout": "maxout",
        "start": "tanh",
    }
    return {
        "encoder": {**rnn, "bidirectional": True},
        "decoder": {**rnn, **says},
        "share": False,
        "tie": False,
    }


def _joining(neighbours: int, model: dict[str, Any]) -> dict[str, Any]:
    """The same with so many neighbours on each side joined to each token of the source."""
    return {**model, "encoder": {**model["encoder"], "neighbours": neighbours}}


_TINY = {"layers": 4, "size": 128, "hidden": 256, "heads": 4, "dropout": 0.3}
_VASWANI_BASE = {"layers": 6, "size": 512, "hidden": 2048, "heads": 8, "order": "post", "dropout": 0.1}
_VASWANI_BIG = {**_VASWANI_BASE, "size": 1024, "hidden": 4096, "heads": 16, "dropout": 0.3}

PRESETS: dict[str, Preset] = {
    "sutskever2014": Preset(
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks, 3.4",
        {
            "encoder": {
                "kind": "rnn",
                "cell": "lstm",
                "layers": 4,
                "size": 1000,
                "bidirectional": False,
                "reverse": True,
                "dropout": 0.0,
            },
            "decoder": {
                "kind": "rnn",
                "cell": "lstm",
                "layers": 4,
                "size": 1000,
                "attention": "none",
                "feed": "nothing",
                "readout": "state",
                "start": "copy",
                "dropout": 0.0,
            },
            "share": False,
            "tie": False,
        },
    ),
    "cho2014": Preset(
        "Cho et al. 2014, Learning Phrase Representations using RNN Encoder-Decoder, A.1",
        {
            "encoder": {
                "kind": "rnn",
                "cell": "gru",
                "size": 1000,
                "embedding_size": 100,
                "bidirectional": False,
                "dropout": 0.0,
            },
            "decoder": {
                "kind": "rnn",
                "cell": "gru",
                "size": 1000,
                "embedding_size": 100,
                "readout_size": 500,
                "attention": "none",
                "feed": "context",
                "readout": "maxout",
                "start": "tanh",
                "dropout": 0.0,
            },
            "share": False,
            "tie": False,
        },
        "torch's GRU; the summary is the last state itself, without a tanh layer of its own",
    ),
    "bahdanau2015": Preset(
        "Bahdanau, Cho & Bengio 2015, NMT by Jointly Learning to Align and Translate, A.2",
        {
            "encoder": {
                "kind": "rnn",
                "cell": "gru",
                "size": 2000,
                "embedding_size": 620,
                "bidirectional": True,
                "dropout": 0.0,
            },
            "decoder": {
                "kind": "rnn",
                "cell": "gru",
                "size": 1000,
                "embedding_size": 620,
                "readout_size": 500,
                "attention": "bahdanau",
                "query": "previous",
                "feed": "context",
                "readout": "maxout",
                "start": "tanh",
                "dropout": 0.0,
            },
            "share": False,
            "tie": False,
        },
        "torch's GRU; the first state is made of the final states of both directions, not of one",
    ),
    "luong2015-dot": Preset(
        "Luong, Pham & Manning 2015, Effective Approaches to Attention-based NMT, 4.1", _luong("luong-dot")
    ),
    "luong2015-general": Preset("Luong, Pham & Manning 2015, 4.1", _luong("luong-general")),
    "luong2015-concat": Preset("Luong, Pham & Manning 2015, 4.1", _luong("luong-concat")),
    "vaswani2017-base": Preset(
        "Vaswani et al. 2017, Attention Is All You Need, table 3", _transformer(**_VASWANI_BASE)
    ),
    "vaswani2017-big": Preset("Vaswani et al. 2017, table 3", _transformer(**_VASWANI_BIG)),
    "shaw2018": Preset(
        "Shaw, Uszkoreit & Vaswani 2018, Self-Attention with Relative Position Representations, 4.1 (base)",
        _transformer(**_VASWANI_BASE, position={"kind": "shaw", "distance": 16, "per_head": True}),
    ),
    "tiny": Preset("ours", _transformer(**_TINY)),
    "tiny-words": Preset(
        "ours: tiny for characters, whose neighbours a convolution joins (Mohamed et al. 2019), and whose "
        "distances count instead of their places (Shaw et al. 2018)",
        _joining(2, _transformer(**_TINY, position={"kind": "shaw", "distance": 8})),
    ),
    "tiny-rnn": Preset(
        "ours: Bahdanau, Cho & Bengio 2015 at a size that a laptop trains in minutes", _recurrent(256)
    ),
    "small-rnn": Preset("ours: tiny-rnn, half as wide again", _recurrent(384)),
    "small": Preset("ours", _transformer(layers=4, size=256, hidden=1024, heads=4, dropout=0.2)),
    "base": Preset("ours", _transformer(layers=6, size=512, hidden=2048, heads=8, dropout=0.1)),
}

PARTS = ("encoder", "decoder")
PINNED = "preset_model"  # the key of what a preset said when its name was written down


def as_table(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """A description that is only a name is a preset."""
    return {"preset": model} if isinstance(model, str) else dict(model)


def pinned(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """The same description with what its preset says beside the name: it means the same when the preset has
    become another.
    """
    given = as_table(model)
    name = given.get("preset")
    if name is None or PINNED in given:
        return given
    return {**given, PINNED: _preset(name)}


def _preset(name: Any) -> dict[str, Any]:
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(unknown("preset", str(name), list(PRESETS)))
    return copy.deepcopy(PRESETS[name].model)
