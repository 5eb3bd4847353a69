"""The encoder of one model as the encoder of another: which part it is, and how it is described."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from seqwright.errors import ModelError
from seqwright.models import ENCODERS

FREE = ("start", "dropout", "attention_dropout", "activation_dropout")  # options of training alone
STATE_ONLY = {"feed": "nothing", "readout": "state"}  # of a recurrent decoder that is a plain stack of cells


def as_encoder(model: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the part of a described model that can be an encoder, and its description as one.

    It is the encoder, or the decoder of a language model, which reads from left to right.
    """
    if model["kind"] in ("encoder_only", "encoder_decoder"):
        return "encoder", dict(model["encoder"])
    if model["kind"] != "decoder_only":
        raise ModelError(f"a model of the kind {model['kind']} has no encoder to take over")
    kind = model["decoder"]["kind"]
    if kind == "rnn" and not STATE_ONLY.items() <= model["decoder"].items():
        raise ModelError(
            "the decoder is recurrent with a feed or a readout, so it cannot read alone; train one with "
            "model.decoder.feed=nothing model.decoder.readout=state"
        )
    direction = {"transformer": {"causal": True}, "rnn": {"bidirectional": False}}
    if kind not in direction:
        raise ModelError(f"a decoder of the kind {kind} cannot be an encoder")
    known = ENCODERS.options(kind)
    options = {key: value for key, value in model["decoder"].items() if key in known}
    return "decoder", {"kind": kind, **options, **direction[kind]}


def with_defaults(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with the default of every option that it leaves out."""
    options = ENCODERS.options(encoder["kind"]).values()
    return {p.name: p.default for p in options if p.default is not inspect.Parameter.empty} | dict(encoder)


def fixed_options(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide which weights an encoder has, and what they mean."""
    return {key: value for key, value in with_defaults(encoder).items() if key not in FREE}
