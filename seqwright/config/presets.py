"""Named models: those of the papers, with their sizes, and our own. Plain data that needs no torch.

A preset describes a model as a user would: options of the model, and a table for each part. `pinned` adds the
description to the name, so that a run does not change its meaning when a preset changes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seqwright.config.registry import unknown
from seqwright.errors import ConfigError, Problem

PARTS = ("encoder", "decoder")  # parts that a model of the default kind has
KIND = "encoder_decoder"  # of a model that does not name its kind
PINNED = "preset_model"  # the key of the description of a preset that is pinned


@dataclass(frozen=True)
class Preset:
    """A description of a model, its source, and the known differences from the source."""

    source: str
    model: dict[str, Any]
    note: str = ""

    @property
    def kind(self) -> str:
        return self.model.get("kind", KIND)


def _transformer(**options: Any) -> dict[str, Any]:
    part = {"kind": "transformer", **options}
    return {"encoder": part, "decoder": dict(part), "share": True, "tie": True}


def _rnn(both: dict[str, Any], encoder: dict[str, Any], decoder: dict[str, Any]) -> dict[str, Any]:
    """Describe a model with the same options in both parts, and further ones for each."""
    part = {"kind": "rnn", **both}
    return {"encoder": {**part, **encoder}, "decoder": {**part, **decoder}, "share": False, "tie": False}


_REVERSED = {"bidirectional": False, "reverse": True}
_CHO = {"feed": "context", "readout": "maxout", "start": "tanh"}
_BAHDANAU = {"attention": "bahdanau", "query": "previous", **_CHO}
_OURS = {"position": "rotary", "zero_start": True}
_TINY = {"layers": 4, "size": 128, "hidden": 256, "heads": 4, "dropout": 0.3}
_LEVEL = {**_OURS, "hidden": 256, "heads": 4}
_TINY_WORDS = _transformer(**_TINY, position={"kind": "shaw", "distance": 8})
_VASWANI_BASE = {"layers": 6, "size": 512, "hidden": 2048, "heads": 8, "order": "post", "dropout": 0.1}
_VASWANI_BIG = {**_VASWANI_BASE, "size": 1024, "hidden": 4096, "heads": 16, "dropout": 0.3}


def _language(**options: Any) -> dict[str, Any]:
    """Describe a Transformer language model with the parts of recent ones.

    Its output layer is its own: tied, blocks that start as the identity predict the token that they read.
    """
    squared = {"kind": "plain", "activation": "squared_relu"}
    recent = {"position": "rotary", "feed_forward": squared, "zero_start": True}
    return {"kind": "decoder_only", "decoder": {"kind": "transformer", **recent, **options}, "tie": False}


def _liu(**options: Any) -> dict[str, Any]:
    """Describe the decoder of Liu et al. 2018, which reads the source as the beginning of its text."""
    sizes = {"layers": 5, "size": 512, "hidden": 2048, "heads": 8, "order": "post", "dropout": 0.1}
    return {"kind": "decoder_only", "decoder": {"kind": "transformer", **sizes, **options}, "tie": True}


def _luong(attention: str) -> dict[str, Any]:
    return _rnn(
        {"cell": "lstm", "layers": 4, "size": 1000, "dropout": 0.2},
        _REVERSED,
        {"attention": attention, "query": "current", "feed": "output", "readout": "tanh", "start": "copy"},
    )


def _small_bahdanau(size: int) -> dict[str, Any]:
    return _rnn(
        {"cell": "gru", "size": size, "embedding_size": size // 2, "dropout": 0.1},
        {"bidirectional": True},
        {"readout_size": size // 2, **_BAHDANAU},
    )


def _classifier(encoder: dict[str, Any], pooling: str, **head: Any) -> dict[str, Any]:
    head = {"kind": "classes", "pooling": pooling, **head}
    return {"kind": "encoder_only", "encoder": encoder, "head": head}


def _forecaster(network: dict[str, Any], normalise: str = "window", **head: Any) -> dict[str, Any]:
    values = {"kind": "values", "pooling": "first", **head}
    return {"kind": "forecaster", "network": network, "head": values, "normalise": normalise}


_INTERVALS: dict[str, Any] = {"quantiles": [0.1, 0.9]}
_PATCHES = {"kind": "patches", "patch": 16, "stride": 8, "layers": 3}


def _masked(encoder: dict[str, Any], **head: Any) -> dict[str, Any]:
    reader, output = {"kind": "transformer", **encoder}, {"kind": "tokens", **head}
    return {"kind": "encoder_only", "encoder": reader, "head": output, "tie": True}


def _vit(pooling: str = "mean", **options: Any) -> dict[str, Any]:
    """Describe a vision Transformer: GELU, layer normalisation first."""
    gelu = {"kind": "plain", "activation": "gelu"}
    return _classifier({"kind": "patches", "feed_forward": gelu, **options}, pooling)


def _resnet(size: int, layers: list[int], bottleneck: bool = False) -> dict[str, Any]:
    """Describe a residual network for images of about 200 pixels, as torchvision has it."""
    shape = {"size": size, "stages": 4, "layers": layers, "bottleneck": bottleneck}
    options = {"stem": "large", "shortcut": "project", "colours": "imagenet"}
    return _classifier({"kind": "resnet", **shape, **options}, "mean")


_DOSOVITSKIY = {"patch": 16, "class_token": True, "layers": 12, "dropout": 0.1}


_CAPTION_CNN = {"kind": "resnet", "size": 128, "stages": 3, "layers": 2, "stem": "large"}
_WRITER = {"kind": "transformer", **_OURS, **_TINY, "layers": 2, "dropout": 0.1}


def _captioner(encoder: dict[str, Any], decoder: dict[str, Any], *, tie: bool = True) -> dict[str, Any]:
    return {"encoder": encoder, "decoder": decoder, "share": False, "tie": tie}


def _lstm_writer(**options: Any) -> dict[str, Any]:
    return {"kind": "rnn", "cell": "lstm", "size": 512, "dropout": 0.3, "start": "tanh", **options}


def _tagger(encoder: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "encoder_only", "encoder": encoder, "head": {"kind": "tags"}}


_TEXT_TO_TEXT: dict[str, Preset] = {
    "sutskever2014": Preset(
        "Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks, 3.4",
        _rnn(
            {"cell": "lstm", "layers": 4, "size": 1000, "dropout": 0.0},
            _REVERSED,
            {"attention": "none", "feed": "nothing", "readout": "state", "start": "copy"},
        ),
    ),
    "cho2014": Preset(
        "Cho et al. 2014, Learning Phrase Representations using RNN Encoder-Decoder, A.1",
        _rnn(
            {"cell": "gru", "size": 1000, "embedding_size": 100, "dropout": 0.0},
            {"bidirectional": False},
            {"readout_size": 500, "attention": "none", **_CHO},
        ),
        "torch's GRU; the summary is the last state, without the tanh layer of the paper",
    ),
    "bahdanau2015": Preset(
        "Bahdanau, Cho & Bengio 2015, NMT by Jointly Learning to Align and Translate, A.2",
        _rnn(
            {"cell": "gru", "embedding_size": 620, "dropout": 0.0},
            {"size": 2000, "bidirectional": True},
            {"size": 1000, "readout_size": 500, **_BAHDANAU},
        ),
        "torch's GRU; the first state is computed from the final states of both directions, not of one",
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
    "tiny": Preset(
        "ours: Vaswani et al. 2017 with layer normalisation first, rotary positions (Su et al. 2021) and "
        "residual outputs that start at zero (Zhang et al. 2019)",
        _transformer(**_OURS, **_TINY),
    ),
    "tiny-words": Preset(
        "ours: the sizes of tiny, with a convolution over neighbouring characters (Mohamed et al. 2019) "
        "and relative positions (Shaw et al. 2018)",
        {**_TINY_WORDS, "encoder": {**_TINY_WORDS["encoder"], "neighbours": 2}},
    ),
    "tiny-rnn": Preset(
        "ours: Bahdanau, Cho & Bengio 2015 at a size that a laptop trains in minutes", _small_bahdanau(256)
    ),
    "small-rnn": Preset("ours: tiny-rnn, 1.5 times as wide", _small_bahdanau(384)),
    "small": Preset(
        "ours: tiny, twice as wide",
        _transformer(**_OURS, layers=4, size=256, hidden=1024, heads=4, dropout=0.2),
    ),
    "base": Preset(
        "ours: the sizes of vaswani2017-base with the parts of tiny",
        _transformer(**_OURS, layers=6, size=512, hidden=2048, heads=8, dropout=0.1),
    ),
    "liu2018-d": Preset(
        "Liu et al. 2018, Generating Wikipedia by Summarizing Long Sequences, 4.2.3 (T-D)",
        _liu(),
        "the sizes of vaswani2017-base, and as many layers as liu2018-dmca",
    ),
    "liu2018-dmca": Preset(
        "Liu et al. 2018, 4.2.4 (T-DMCA: local and memory-compressed attention in turn)",
        _liu(window=256, growth=["last", "compressed"]),
        "a window of 256 tokens to the left in place of separate blocks of 256; no experts: add "
        "feed_forward=experts",
    ),
}

_TEXT_CLASSIFICATION: dict[str, Preset] = {
    "tiny-classifier": Preset(
        "ours: a Transformer encoder with the parts of tiny, a convolution over neighbouring tokens, and the "
        "mean of its vectors",
        _classifier({"kind": "transformer", **_OURS, **_TINY, "layers": 2, "neighbours": 1}, "mean"),
    ),
    "ngram-classifier": Preset(
        "ours: the n-gram detectors of Kim 2014, narrower, with dropout of whole tokens (Iyyer et al. 2015) "
        "and attention pooling (Yang et al. 2016)",
        _classifier(
            {
                "kind": "ngrams",
                "size": 384,
                "embedding_size": 128,
                "widths": [1, 2, 3],
                "dropout": 0.2,
                "token_dropout": 0.1,
            },
            "attention",
            dropout=0.5,
        ),
    ),
    "kim2014": Preset(
        "Kim 2014, Convolutional Neural Networks for Sentence Classification, 3.1 (CNN-rand)",
        _classifier(
            {"kind": "ngrams", "size": 300, "embedding_size": 300, "widths": [3, 4, 5], "dropout": 0.0},
            "max",
            dropout=0.5,
        ),
        "decay of all matrices instead of a limit on the norm of the output layer",
    ),
    "lstm-classifier": Preset(
        "ours: a bidirectional LSTM with attention pooling (Yang et al. 2016)",
        _classifier({"kind": "rnn", "cell": "lstm", "size": 192, "embedding_size": 128}, "attention"),
    ),
    "yang2016": Preset(
        "Yang et al. 2016, Hierarchical Attention Networks for Document Classification, 3.3",
        {
            "kind": "encoder_only",
            "encoder": {
                "kind": "hierarchical",
                "size": 100,
                "dropout": 0.0,
                "lower": {"kind": "rnn", "cell": "gru", "embedding_size": 200},
                "upper": {"kind": "rnn", "cell": "gru"},
            },
            "head": {"kind": "classes", "pooling": "attention", "dropout": 0.0},
        },
        "torch's GRU, with a second bias; embeddings without word2vec, of the tokens of the tokenizer",
    ),
    "tiny-hierarchical": Preset(
        "ours: the levels of yang2016 as Transformers with the parts of tiny-classifier",
        _classifier(
            {
                "kind": "hierarchical",
                "size": 128,
                "dropout": 0.3,
                "lower": {"kind": "transformer", **_LEVEL, "neighbours": 1},
                "upper": {"kind": "transformer", **_LEVEL},
            },
            "attention",
        ),
    ),
}

_IMAGE_CLASSIFICATION: dict[str, Preset] = {
    "resnet20": Preset(
        "He et al. 2016, Deep Residual Learning for Image Recognition, 4.2 (0.27 M parameters)",
        {
            "kind": "encoder_only",
            "encoder": {"kind": "resnet", "size": 64, "stages": 3, "layers": 3, "shortcut": "pad"},
            "head": {"kind": "classes", "pooling": "mean", "dropout": 0.0},
        },
    ),
    "resnet18": Preset("He et al. 2016, table 1 (224 × 224 pixels)", _resnet(512, [2, 2, 2, 2])),
    "resnet34": Preset("He et al. 2016, table 1", _resnet(512, [3, 4, 6, 3])),
    "resnet50": Preset(
        "He et al. 2016, table 1",
        _resnet(2048, [3, 4, 6, 3], bottleneck=True),
        "the stride of a bottleneck is in its 3 × 3 convolution, as in the weights of torchvision",
    ),
    "tiny-vit": Preset(
        "ours: Dosovitskiy et al. 2021 for small images: patches of 4 × 4 pixels, blocks that start as the "
        "identity, the mean of the vectors",
        _vit(patch=4, layers=4, size=128, hidden=256, heads=4, dropout=0.0, zero_start=True),
    ),
    "hybrid-tiny": Preset(
        "ours: tiny-vit with two convolutions of stride 2 in place of the patches (Xiao et al. 2021)",
        _classifier(
            {
                "kind": "hybrid",
                "halvings": 2,
                "feed_forward": {"kind": "plain", "activation": "gelu"},
                "layers": 4,
                "size": 128,
                "hidden": 256,
                "heads": 4,
                "dropout": 0.0,
                "zero_start": True,
            },
            "mean",
        ),
    ),
    "dosovitskiy2021-tiny": Preset(
        "Dosovitskiy et al. 2021, An Image is Worth 16x16 Words; the sizes of Touvron et al. 2021 (tiny)",
        _vit("first", **_DOSOVITSKIY, size=192, hidden=768, heads=3),
    ),
    "dosovitskiy2021-base": Preset(
        "Dosovitskiy et al. 2021, An Image is Worth 16x16 Words, table 1 (ViT-Base, 86 M parameters)",
        _vit("first", **_DOSOVITSKIY, size=768, hidden=3072, heads=12),
        "the head is one linear layer, as in fine-tuning",
    ),
}

_IMAGE_CAPTIONING: dict[str, Preset] = {
    "vinyals2015": Preset(
        "Vinyals et al. 2015, Show and Tell: A Neural Image Caption Generator, 4.3.1 (no attention)",
        _captioner(_CAPTION_CNN, _lstm_writer(attention="none", feed="nothing", readout="state"), tie=False),
        "the image is the first state of the LSTM, not its first input; a small residual network in place "
        "of GoogLeNet: model.encoder.start=RUN takes a trained one",
    ),
    "xu2015": Preset(
        "Xu et al. 2015, Show, Attend and Tell, 3.1 and 4.2 (soft attention)",
        _captioner(
            _CAPTION_CNN,
            _lstm_writer(
                attention="bahdanau", query="previous", feed="context", readout="sum", gate=True, coverage=1.0
            ),
            tie=False,
        ),
        "a small residual network in place of VGG: model.encoder.start=RUN takes a trained one",
    ),
    "cnn-transformer": Preset(
        "ours: the residual network of xu2015, and a Transformer that attends to its grid",
        _captioner(_CAPTION_CNN, _WRITER),
    ),
    "vit-transformer": Preset(
        "ours: a vision Transformer (Dosovitskiy et al. 2021) with the decoder of cnn-transformer: patches "
        "in place of every convolution",
        _captioner(
            {
                "kind": "patches",
                "patch": 8,
                "feed_forward": {"kind": "plain", "activation": "gelu"},
                "layers": 4,
                "size": 128,
                "hidden": 256,
                "heads": 4,
                "dropout": 0.1,
            },
            _WRITER,
        ),
    ),
}

_TOKEN_CLASSIFICATION: dict[str, Preset] = {
    "tiny-tagger": Preset(
        "ours: the encoder of tiny-classifier over words, which are read with their spelling (dos Santos & "
        "Zadrozny 2014)",
        _tagger({"kind": "transformer", **_OURS, **_TINY, "layers": 2, "neighbours": 1}),
    ),
    "lstm-tagger": Preset(
        "ours: a bidirectional LSTM over words with their spelling (Lample et al. 2016, without the CRF)",
        _tagger({"kind": "rnn", "cell": "lstm", "size": 192, "embedding_size": 128}),
    ),
}

_LANGUAGE_MODELING: dict[str, Preset] = {
    "tiny-lm": Preset(
        "ours: rotary positions (Su et al. 2021), squared ReLU (So et al. 2021), blocks that start as the "
        "identity",
        _language(layers=4, size=128, hidden=512, heads=4, dropout=0.0),
    ),
    "small-lm": Preset(
        "ours: tiny-lm, deeper and wider", _language(layers=6, size=256, hidden=1024, heads=8, dropout=0.1)
    ),
    "lstm-lm": Preset(
        "ours: a recurrent language model (Mikolov et al. 2010) of two LSTM layers",
        {
            "kind": "decoder_only",
            "decoder": {
                "kind": "rnn",
                "cell": "lstm",
                "layers": 2,
                "size": 384,
                "feed": "nothing",
                "readout": "state",
                "dropout": 0.2,
            },
            "tie": True,
        },
    ),
    "radford2019-small": Preset(
        "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2 (117 M, in fact "
        "124 M with 50,257 tokens)",
        {
            "kind": "decoder_only",
            "decoder": {
                "kind": "transformer",
                "layers": 12,
                "size": 768,
                "hidden": 3072,
                "heads": 12,
                "position": {"kind": "learned", "length": 1024},
                "feed_forward": {"kind": "plain", "activation": "gelu"},
                "dropout": 0.1,
            },
            "tie": True,
        },
        "exact GELU, where the released weights use its tanh approximation",
    ),
}

_CONVERSATION: dict[str, Preset] = {
    "xing2018": Preset(
        "Xing et al. 2018, Hierarchical Recurrent Attention Network for Response Generation",
        {
            "encoder": {
                "kind": "hierarchical",
                "size": 2000,
                "dropout": 0.0,
                "lower": {"kind": "rnn", "cell": "gru", "embedding_size": 620},
                "upper": "none",
                "pooling": "mean",
            },
            "decoder": {
                "kind": "rnn",
                "cell": "gru",
                "size": 1000,
                "embedding_size": 620,
                "readout_size": 500,
                "dropout": 0.0,
                **_BAHDANAU,
                "attention": "hierarchical",
            },
            "share": False,
            "tie": False,
        },
        "equations and sizes checked against the code of the authors, not against the text of the paper; "
        "torch's GRU; no biases in the scores; the decoder starts from both final states of the last turn, "
        "the GRU over turns from a learned vector, where their code takes the backward state of the last "
        "turn for both; the output layer reads the maxout directly, where theirs has a linear map in between",
    ),
    "tiny-turns": Preset(
        "ours: a hierarchical encoder with Transformer levels, words to turns to conversation, and a decoder "
        "like that of tiny",
        {
            "encoder": {
                "kind": "hierarchical",
                "size": 128,
                "dropout": 0.3,
                "lower": {"kind": "transformer", **_LEVEL},
                "upper": {"kind": "transformer", **_LEVEL},
            },
            "decoder": {"kind": "transformer", **_OURS, **_TINY},
            "share": False,
            "tie": True,
        },
    ),
    "tiny-retriever": Preset(
        "ours: the dual encoder of Henderson et al. 2017, section 4, with the n-gram detectors of Kim 2014 "
        "in place of sums of n-grams",
        {
            "kind": "dual_encoder",
            "encoder": {"kind": "ngrams", "size": 128, "embedding_size": 128, "dropout": 0.2},
            "pooling": "mean",
        },
    ),
}

_FORECASTING: dict[str, Preset] = {
    "nie2023": Preset(
        "Nie et al. 2023, A Time Series is Worth 64 Words (PatchTST/42), A.1.4, at the size for small data",
        _forecaster(
            {
                **_PATCHES,
                "size": 16,
                "heads": 4,
                "hidden": 128,
                "dropout": 0.3,
                "feed_forward": {"kind": "plain", "activation": "gelu"},
                "position": {"kind": "learned", "length": 512},
                "order": "post",
            },
            dropout=0.0,
        ),
        "layer normalisation where the paper has batch normalisation, and no residual attention",
    ),
    "tiny-forecaster": Preset(
        "ours: the best linear forecast (Toner & Darlow 2024), and nie2023 with layer normalisation first "
        "for what it misses; quantiles next to the mean",
        {
            **_forecaster(
                {**_PATCHES, **_OURS, "layers": 2, "size": 32, "heads": 4, "hidden": 64, "dropout": 0.2},
                dropout=0.2,
                **_INTERVALS,
            ),
            "base": "least_squares",
        },
    ),
    "nlinear": Preset(
        "Zeng et al. 2023, Are Transformers Effective for Time Series Forecasting?, 4 (NLinear)",
        _forecaster({"kind": "linear"}, "last", dropout=0.0),
    ),
    "dlinear": Preset(
        "Zeng et al. 2023, 4 (DLinear)", _forecaster({"kind": "linear", "trend": 25}, "none", dropout=0.0)
    ),
    "repeat_last": Preset(
        "the last value again: a floor, nothing is learned", _forecaster({"kind": "repeat"})
    ),
    "seasonal_naive": Preset(
        "the last season again: a floor, nothing is learned",
        _forecaster({"kind": "repeat", "seasonal": True}),
    ),
    "lstm": Preset(
        "ours: a recurrent encoder-decoder over patches with attention (Luong et al. 2015); "
        "network.attention=false is that of Sutskever et al. 2014",
        _forecaster({"kind": "recurrent", "size": 64, "cell": "lstm", "dropout": 0.1}, **_INTERVALS),
    ),
    "transformer-series": Preset(
        "Vaswani et al. 2017 over time steps, with the decoder of Informer (Zhou et al. 2021)",
        _forecaster(
            {"kind": "steps", "layers": 2, "size": 32, "heads": 4, "hidden": 64, "dropout": 0.1}, **_INTERVALS
        ),
        "every channel on its own, where the papers join all channels in one vector",
    ),
}

_MASKED_LANGUAGE_MODELING: dict[str, Preset] = {
    "tiny-mlm": Preset(
        "ours: a masked language model (Devlin et al. 2019) with the parts of tiny",
        _masked({**_OURS, **_TINY, "hidden": 512, "dropout": 0.1}, bias=True),
    ),
    "devlin2019-base": Preset(
        "Devlin et al. 2019, BERT, 3 (110 M with 30,522 tokens)",
        _masked(
            {
                "layers": 12,
                "size": 768,
                "hidden": 3072,
                "heads": 12,
                "order": "post",
                "position": {"kind": "learned", "length": 512},
                "feed_forward": {"kind": "plain", "activation": "gelu"},
                "embedding_norm": True,
                "dropout": 0.1,
                "attention_dropout": 0.1,
            },
            transform=True,
            bias=True,
        ),
        "one text, so no segment embeddings and no prediction of the next sentence; embeddings are scaled "
        "as in Vaswani et al. 2017",
    ),
}

BY_TASK: dict[str, dict[str, Preset]] = {  # those that it is usually trained with
    "text_to_text": _TEXT_TO_TEXT,
    "text_classification": _TEXT_CLASSIFICATION,
    "image_classification": _IMAGE_CLASSIFICATION,
    "image_captioning": _IMAGE_CAPTIONING,
    "token_classification": _TOKEN_CLASSIFICATION,
    "language_modeling": _LANGUAGE_MODELING,
    "conversation": _CONVERSATION,
    "forecasting": _FORECASTING,
    "masked_language_modeling": _MASKED_LANGUAGE_MODELING,
}
PRESETS = {name: preset for presets in BY_TASK.values() for name, preset in presets.items()}


def as_table(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a description as a table; a name is that of a preset."""
    return {"preset": model} if isinstance(model, str) else dict(model)


def pinned(model: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with that of its preset under `PINNED`."""
    given = as_table(model)
    name = given.get("preset")
    if not isinstance(given.get(PINNED, {}), Mapping):
        raise ConfigError(Problem(f"model.{PINNED}", given[PINNED], "it must be the table of a preset"))
    if name is None or PINNED in given:
        return given
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(unknown("preset", str(name), list(PRESETS)))
    return {**given, PINNED: copy.deepcopy(PRESETS[name].model)}
