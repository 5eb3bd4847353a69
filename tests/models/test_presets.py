"""Presets: the sizes of the papers, complete descriptions, and weights that survive a file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model

from seqwright.config.presets import PRESETS, pinned
from seqwright.data.batch import Tokens
from seqwright.errors import ConfigError
from seqwright.models import DECODERS, ENCODERS, MODELS, NETWORKS
from seqwright.models.building import build_model, parts_of, resolve, unpinned
from seqwright.models.dual_encoder import DualEncoder
from seqwright.models.encoder_only import EncoderOnly
from seqwright.models.encoders.bases.images import ImageEncoder
from seqwright.models.forecaster import Forecaster

SMALL = {"layers": 2, "size": 32, "hidden": 24, "heads": 4, "embedding_size": 32, "readout_size": 32}


def small(name: str) -> dict:
    """A preset with sizes that fit into a test; without options that its parts do not have."""
    model = PRESETS[name].model
    registries = {"encoder": ENCODERS, "decoder": DECODERS, "network": NETWORKS}
    parts = [registries[part].options(model[part]["kind"]) for part in registries if part in model]
    known = set().union(*parts)
    return {"preset": name, **{key: value for key, value in SMALL.items() if key in known}}


def build(description, source: int = 20, target: int = 20):
    facts = {"source_vocabulary": source, "target_vocabulary": target, "vocabulary": target, "classes": 3}
    images = {"channels": 3, "image_size": 32}
    return build_model(description, **facts, **images, lookback=24, horizon=5, season=3)


def scores(model) -> torch.Tensor:
    source = Tokens(torch.tensor([[4, 5, 6, 7], [8, 9, 10, 4]]), torch.tensor([4, 2]))
    with torch.no_grad():
        if isinstance(model, Forecaster):
            return model(model.sample([0, 0], [1, 2]))
        if isinstance(getattr(model, "encoder", None), ImageEncoder):
            source = model.encoder.sample([1, 1], [1, 2])
        if isinstance(model, EncoderOnly):
            return model.predictions(source)
        if isinstance(model, DualEncoder):
            return model(model.sample([3, 2], [1, 2]))
        return model.output(model.decoder(torch.tensor([[2, 4, 5], [2, 6, 7]]), model.start(source))[0])


@pytest.mark.parametrize("name", PRESETS)
def test_weights_survive_a_file(name, tmp_path):
    torch.manual_seed(1)
    model = build(small(name)).eval()
    for weight in model.parameters():  # some start at zero
        torch.nn.init.normal_(weight)
    save_model(model, str(tmp_path / "model.safetensors"))
    torch.manual_seed(2)
    other = build(small(name)).eval()
    assert not torch.equal(scores(other), scores(model))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert torch.equal(scores(other), scores(model))


@pytest.mark.parametrize("name", PRESETS)
def test_a_shared_weight_is_saved_once(name, tmp_path):
    model = build(small(name))
    save_model(model, str(tmp_path / "model.safetensors"))
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        saved = sum(file.get_tensor(key).numel() for key in file.keys())  # noqa: SIM118 (no mapping)
    assert saved == sum(weight.numel() for weight in model.weights().values())  # each one counts once
    if isinstance(model, EncoderOnly | Forecaster | DualEncoder):
        return
    tied = model.output.weight is model.decoder.embedding.weight
    assert tied == PRESETS[name].model["tie"]
    if "encoder" in PRESETS[name].model and not isinstance(model.encoder, ImageEncoder):
        shared = model.encoder.embedding.weight is model.decoder.embedding.weight
        assert shared == PRESETS[name].model["share"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_complete_description_stays_as_it_is(name):
    for description in (resolve(name), resolve(small(name))):
        assert resolve(description) == description


@pytest.mark.parametrize("name", PRESETS)
def test_a_description_is_ours_to_change(name):
    """The result of resolve shares nothing with the preset."""
    description, preset = resolve(name), PRESETS[name].model
    for part in parts_of(PRESETS[name].kind):
        assert description[part] is not preset[part]
        for key, value in preset[part].items():
            assert description[part][key] == value
            assert not isinstance(value, dict) or description[part][key] is not value


def parameters(name: str, source: int, target: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(name, source, target).parameters())


@pytest.mark.parametrize(
    ("name", "source", "target", "millions", "tolerance"),
    [
        ("vaswani2017-base", 37_000, 37_000, 65, 0.04),  # Vaswani et al. 2017, table 3; vocabulary: 5.1
        ("vaswani2017-big", 37_000, 37_000, 213, 0.04),
        ("sutskever2014", 160_000, 80_000, 384, 0.01),  # Sutskever et al. 2014, 3.4
    ],
)
def test_the_sizes_of_the_papers(name, source, target, millions, tolerance):
    assert parameters(name, source, target) / 1e6 == pytest.approx(millions, rel=tolerance)


def test_the_smallest_gpt_2_has_its_number_of_parameters():
    assert parameters("radford2019-small", 0, 50_257) == 124_439_808  # as released, 1,024 positions


def test_the_base_model_of_bert_has_its_number_of_parameters():
    """Of BERT's 110 million, with the layer before its output, all but the two segment embeddings."""
    assert parameters("devlin2019-base", 0, 30_522) == 109_514_298 - 2 * 768


def test_the_recurrent_connections_of_sutskever():
    """32 million in each of the two LSTMs (Sutskever et al. 2014, 3.4)."""
    with torch.device("meta"):
        model = build("sutskever2014", 160_000, 80_000)
    for part in (model.encoder, model.decoder):
        assert sum(p.numel() for p in part.recurrent.parameters()) / 1e6 == pytest.approx(32, rel=0.01)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_in_full_size(name):
    assert parameters(name, 1000, 1000) > 0
    assert PRESETS[name].source


def test_an_option_of_the_model_reaches_both_parts_unless_one_says_otherwise():
    description = resolve({"preset": "tiny", "layers": 3, "decoder": {"layers": 1}})
    assert (description["encoder"]["layers"], description["decoder"]["layers"]) == (3, 1)


def test_of_another_kind_of_part_only_width_and_dropout_are_the_preset_s():
    description = resolve({"preset": "tiny", "encoder": "rnn"})
    assert description["encoder"] == {"kind": "rnn", "size": 128, "dropout": 0.3}
    assert list(description["encoder"]) == [
        "kind",
        "size",
        "dropout",
    ]  # config.json has the same bytes each time
    assert description["decoder"]["kind"] == "transformer"


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("encoder_decoder", ["encoder", "decoder"]),
        ("ensemble", ["encoder", "decoder"]),
        ("decoder_only", ["decoder"]),
        ("encoder_only", ["encoder", "head"]),
    ],
)
def test_the_kind_of_a_model_determines_its_parts(kind, parts):
    assert parts_of(kind) == parts
    description = resolve({"preset": "tiny", "kind": kind, "layers": 2, "tie": kind != "encoder_only"})
    tables = [key for key, value in description.items() if isinstance(value, dict)]
    assert (description["kind"], tables) == (kind, parts)
    assert ("share" in description) == ("share" in MODELS.options(kind))
    facts = {"source_vocabulary": 20, "target_vocabulary": 20, "vocabulary": 20, "classes": 3}
    assert sum(p.numel() for p in build_model(description, **facts).parameters()) > 0
    assert resolve(description) == description


def test_a_part_that_the_kind_does_not_have_is_an_unknown_option():
    with pytest.raises(ConfigError, match="unknown option of the model 'encoder'"):
        resolve({"preset": "tiny", "kind": "decoder_only", "encoder": "rnn"})


@pytest.mark.parametrize("part", ["encoder", "decoder"])
@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_parts_of_other_kinds_share_the_embedding_of_the_preset(part, kind):
    built = build_model({"preset": "tiny", part: kind}, source_vocabulary=20, target_vocabulary=20)
    assert built.encoder.embedding.weight is built.decoder.embedding.weight


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("vaswani2017-bas", r"unknown preset 'vaswani2017-bas'; did you mean 'vaswani2017-base'\?"),
        ({"layres": 2}, r"unknown option of the model 'layres'; did you mean 'layers'\?"),
        ({"kind": "encoder_decodr"}, r"unknown model 'encoder_decodr'; did you mean 'encoder_decoder'\?"),
        ({"kind": "decoders"}, r"unknown model 'decoders'"),
        ({"encoder": "transfomer"}, r"unknown encoder 'transfomer'; did you mean 'transformer'\?"),
        ({"decoder": {"kind": "rnn", "atention": "none"}}, r"'atention'; did you mean 'attention'\?"),
        ({"decoder": {"kind": "rnn", "attention": "bahdanu"}}, r"'bahdanu'; did you mean 'bahdanau'\?"),
        ({"decoder": {"kind": "rnn", "attention": {"scor": "dot"}}}, r"'scor'; did you mean 'score'\?"),
        ({"encoder": {"layers": 2}, "decoder": {"hiden": 3}}, r"'hiden'; did you mean 'hidden'\?"),
        ({"position": {"distance": 3}}, r"position .*distance.* kind = "),
        ({"position": {"kind": "shaw", "distanc": 3}}, r"'distanc'; did you mean 'distance'\?"),
    ],
)
def test_unknown_names_name_the_nearest(description, message):
    _refused(description, message)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"preset": 3}, r"unknown preset '3'"),
        ({"kind": 3}, r"model is 3, not a name; use one of .*encoder_decoder"),
        ({"encoder": 5}, r"encoder is 5; it must be a name, or a table"),
        ({"encoder": {"kind": 3}}, r"encoder is 3, not a name"),
        ({"layers": 0}, r"layers of encoder transformer is 0; it must be .*at least 1"),
        ({"encoder": "rnn", "decoder": {"kind": "rnn", "layers": -1}}, r"layers of decoder rnn is -1;"),
        ({"hidden": 0}, r"hidden of encoder transformer is 0; it must be .*at least 1"),
        ({"heads": 2.5}, r"heads of encoder transformer is 2.5; it must be a whole number"),
        ({"head_size": [8, -8]}, r"head_size of encoder transformer is \[8, -8\]"),
        ({"window": -1}, r"window of encoder transformer is -1; it must be .*at least 0"),
        ({"position": {"kind": "learned", "length": 0}}, r"length of position learned is 0"),
        ({"position": {"kind": "rotary", "base": 0}}, r"base of position rotary is 0; .*above 0"),
        (
            {"decoder": {"kind": "rnn", "attention": {"position": "learned"}}},
            r"use none, alibi, rotary, shaw",
        ),
        ({"decoder": {"kind": "rnn", "attention": {"mask": 1}}}, r"unknown option .*'mask'"),
    ],
)
def test_values_that_make_no_model(description, message):
    """They neither build another model, nor fail inside of torch."""
    _refused(description, message)


def _refused(description, message):
    with pytest.raises(ConfigError, match=message) as caught:
        build(description)
    assert "\n" not in str(caught.value)


def test_a_pinned_preset_is_written_by_its_name_until_it_changes(monkeypatch):
    given = {"preset": "tiny", "layers": 2, "decoder": {"layers": 1}}
    known = pinned(given)
    assert unpinned(known) == unpinned(given) == given
    preset = PRESETS["tiny"]
    monkeypatch.setitem(PRESETS, "tiny", replace(preset, model={**preset.model, "tie": False}))
    assert "preset" not in unpinned(known)
    assert resolve(unpinned(known)) == resolve(known) != resolve(given)
