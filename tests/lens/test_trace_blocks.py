"""The numbers of a block lead from stream to stream, by the equations of docs/trace.md and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from looked import OPTIONS, TEXT, case, looked, predictor
from torch import Tensor

from seqwright.errors import InputError
from seqwright.lens.trace.build import look
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.steps import DecodedPath
from seqwright.nn.blocks import Block
from seqwright.prediction.predictor import Predictor

VARIANTS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post": {"order": "post"},
    "rms": {"norm": "rms", "bias": False, "feed_forward": {"kind": "gated", "activation": "gelu"}},
    "post-rms": {"order": "post", "norm": "rms", "feed_forward": "gated"},
    "wide": {"size": 80},  # more numbers than are kept
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def traced(variant: str) -> tuple[Predictor, Trace]:
    subject = predictor("transformer-sinusoidal", **VARIANTS[variant])
    with torch.no_grad():
        for name, weight in subject.model.named_parameters():
            if "norm" in name:
                weight.add_(0.3 * torch.randn_like(weight))  # as training would
    return subject, look(subject, TEXT, options=OPTIONS, ablate=False, branch=False)


@torch.no_grad()
def recorded(subject: Predictor, trace: Trace) -> dict[str, Tensor]:
    """Outputs of norms, feed-forwards and blocks (Q, D) by name, from the parts themselves."""
    found: dict[str, Tensor] = {}

    def listen(name: str):
        return lambda module, inputs, output: found.__setitem__(
            name, (output[0] if isinstance(output, tuple) else output)[0].clone()
        )

    hooks = []
    for name, part in subject.model.named_modules():
        if isinstance(part, Block) or name.endswith((".norm", ".feed_forward")):
            hooks.append(part.register_forward_hook(listen(name)))
    source = [piece["id"] for piece in trace.document["source"]["pieces"]]
    subject.model.eval()(DecodedPath(source, [step["id"] for step in trace.document["steps"]]).batch)
    for hook in hooks:
        hook.remove()
    return found


def normed(block: dict[str, Any], sublayer: dict[str, Any], x: np.ndarray) -> np.ndarray:
    mean = 0.0 if sublayer["mean"] is None else sublayer["mean"][:, None]
    scaled = (x - mean) / np.sqrt(sublayer["variance"][:, None] + block["epsilon"])
    return scaled * sublayer["scale"] + (0.0 if sublayer["shift"] is None else sublayer["shift"])


@every_variant
def test_a_block_leads_from_stream_to_stream(variant):
    subject, trace = traced(variant)
    values = recorded(subject, trace)
    assert len(trace.document["blocks"]) == 4
    for entry in trace.document["blocks"]:
        block = trace.block(entry["part"], entry["layer"])
        x = block["start"]
        assert x.shape == (block["steps"], min(64, block["size"]))
        for name, sublayer in block["sublayers"].items():
            total = x + sublayer["output"]
            result = normed(block, sublayer, x if block["order"] == "pre" else total)
            expected = values[f"{entry['name']}.around_{name}.norm"][:, : x.shape[1]]
            assert result == pytest.approx(expected.numpy(), abs=1e-4)
            x = total if block["order"] == "pre" else result
        assert x == pytest.approx(values[entry["name"]][:, : x.shape[1]].numpy(), abs=1e-4)


@every_variant
def test_a_number_of_the_feed_forward_is_summed_from_its_units(variant):
    subject, trace = traced(variant)
    values = recorded(subject, trace)
    for entry in trace.document["blocks"]:
        block = trace.block(entry["part"], entry["layer"])
        hidden, output = block["hidden"], block["sublayers"]["feed_forward"]["output"]
        whole = values[f"{entry['name']}.feed_forward"].numpy()
        assert output == pytest.approx(whole[:, : output.shape[1]], abs=1e-4)
        sums = (hidden["after"] * hidden["weights"]).sum(1) + hidden["rest"]
        sums += 0.0 if hidden["bias"] is None else hidden["bias"]
        assert sums == pytest.approx(output[np.arange(len(output)), hidden["to"]], abs=1e-4)
        assert (np.abs(output).argmax(1) == hidden["to"]).all()
        assert hidden["size"] == 4 * block["size"]
        assert (hidden["above"] <= hidden["size"]).all()


@pytest.mark.parametrize(("variant", "activation"), [("pre", "relu"), ("rms", "gelu"), ("post-rms", "silu")])
def test_units_are_the_strongest_before_and_after_their_activation(variant, activation):
    subject, trace = traced(variant)
    entry = trace.document["blocks"][-1]
    hidden = trace.block("decoder", 1)["hidden"]
    part = subject.model.get_submodule(f"{entry['name']}.feed_forward")
    assert hidden["activation"] == activation
    before = torch.tensor(hidden["before"])
    after = getattr(torch.nn.functional, activation)(before)
    if hidden["value"] is not None:
        after = after * torch.tensor(hidden["value"])
    assert hidden["after"] == pytest.approx(after.numpy(), abs=1e-5)
    lengths = part.fall.weight.norm(dim=0).detach().numpy()
    strengths = np.abs(hidden["after"]) * lengths[hidden["units"]]
    assert (np.diff(strengths, axis=1) <= 1e-6).all()
    norms = recorded(subject, trace)[f"{entry['name']}.around_feed_forward.norm"]
    if trace.block("decoder", 1)["order"] == "pre":
        risen = part.rise(norms).detach().chunk(2, -1)[0] if hidden["value"] is not None else part.rise(norms)
        assert hidden["before"] == pytest.approx(
            risen.detach().numpy()[np.arange(len(norms))[:, None], hidden["units"]], abs=1e-4
        )
        assert hidden["above"].tolist() == (risen > 0).sum(-1).tolist()


def test_blocks_that_do_not_fit_are_missed_from_the_first_layers():
    size = len(case("transformer-sinusoidal")[1].to_bytes())
    trace = looked("transformer-sinusoidal", size=size // 2)
    kept = [(entry["part"], entry["layer"]) for entry in trace.document["blocks"]]
    assert ("decoder", 1) in kept
    assert len(kept) < 4
    assert f"{4 - len(kept)} of 4 blocks" in trace.why("blocks")
    with pytest.raises(InputError, match=r"no block 0 of the encoder: the numbers of . of 4 blocks"):
        trace.block("encoder", 0)


def test_a_recurrent_model_has_no_blocks():
    _, trace = case("rnn-bahdanau")
    assert trace.document["blocks"] == []
    with pytest.raises(InputError, match="has no Transformer blocks"):
        trace.block("decoder", 0)
    assert [entry["part"] for entry in case("mixed")[1].document["blocks"]] == ["encoder"] * 2


def test_an_older_trace_is_read():
    """As it was written before blocks and branches were kept."""
    _, trace = case("transformer-sinusoidal")
    older = Trace.load(
        {key: value for key, value in trace.document.items() if key not in ("blocks", "branches")}
    )
    assert older.output == trace.output
    with pytest.raises(InputError, match="no block 0 of the encoder"):
        older.block("encoder", 0)
    assert "seqwright" in older.page()
