"""Gates: what is closed gives nothing, what is open changes nothing, and all is as before afterwards."""

from __future__ import annotations

import shutil
import signal

import headed
import pytest
import torch

from seqwright import files
from seqwright.errors import ConfigError, ModelError, WriteError
from seqwright.lens.heads.gates import Head, apply_gates, sites, without_heads
from seqwright.lens.heads.importance import batches_of
from seqwright.lens.heads.l0_pruning import (
    FIXED,
    GatedModel,
    fixed_gates,
    learn_gates,
    open_probability,
    sample_gates,
)
from seqwright.prediction.predictor import load
from seqwright.training.interrupt import Interrupt, Interrupted

PAIRS = headed.pairs(5)


def loss(model) -> float:
    (batch,) = batches_of(headed.task(), PAIRS)
    with torch.no_grad():
        return model.loss(batch).mean.item()


def gates_of(model) -> set[bool]:
    return {site.attention.gate is None for site in sites(model)}


def test_layers_are_counted_by_kind():
    model = headed.model(encoder={"layers": 3}, decoder={"layers": 1, "cross_heads": 4})
    found = [(site.kind, site.layer, site.attention.heads, site.stacked) for site in sites(model)]
    assert found == [
        ("enc", 0, 2, True),
        ("enc", 1, 2, True),
        ("enc", 2, 2, True),
        ("dec", 0, 2, True),
        ("cross", 0, 4, True),
    ]
    assert all(model.get_submodule(site.name) is site.attention for site in sites(model))


def test_the_attention_of_a_recurrent_decoder_is_cross():
    model = headed.model(decoder={"kind": "rnn", "attention": "bahdanau"})
    (site,) = (site for site in sites(model) if site.kind == "cross")
    assert (site.heads, site.stacked) == ([Head("cross", 0, 0)], False)


@pytest.mark.parametrize("kind", ["enc", "dec", "cross"])
def test_a_closed_head_is_one_whose_output_columns_are_zero(kind):
    model = headed.model(encoder={"layers": 3})
    whole = loss(model)
    with without_heads(model, [(kind, 1, 0)]):
        without = loss(model)
    assert loss(model) == whole
    site = next(site for site in sites(model) if site.key == (kind, 1))
    with torch.no_grad():
        site.attention.out.weight[:, : site.attention.value_size] = 0
    assert loss(model) == pytest.approx(without, abs=1e-12)
    assert without != pytest.approx(whole, abs=1e-6)


def test_an_open_gate_changes_no_bit():
    model = headed.model()
    whole = loss(model)
    with apply_gates({site.attention: site.ones(site.attention.heads, 1, 1) for site in sites(model)}):
        assert loss(model) == whole


def test_blocks_inside_blocks_close_both_and_leave_nothing_behind():
    model = headed.model()
    with without_heads(model, [("enc", 0, 0), ("enc", 0, 1)]):
        both = loss(model)
    with without_heads(model, [("enc", 0, 0)]), without_heads(model, [("enc", 0, 1)]):
        assert loss(model) == both
    with pytest.raises(KeyError), without_heads(model, [("dec", 0, 1)]):
        raise KeyError
    assert gates_of(model) == {True}


@pytest.mark.parametrize("head", [("enc", 2, 0), ("cross", 0, 2), ("dec", 0, -1), ("self", 0, 0)])
def test_a_missing_head_is_named_with_the_existing_ones(head):
    with pytest.raises(ConfigError, match=r"no head .* are: enc 0 with 2 heads, enc 1 with 2 heads, dec 0"):
        without_heads(headed.model(), [head]).__enter__()


# The hard concrete distribution -----------------------------------------------------------------------


@pytest.mark.parametrize("log_a", [-3.0, -0.5, 0.0, 0.7, 2.0])
def test_the_probability_of_an_open_gate_is_its_share_of_many(log_a):
    gates = sample_gates(torch.full((100_000,), log_a))
    assert float((gates != 0).float().mean()) == pytest.approx(
        float(open_probability(torch.tensor(log_a))), abs=1e-2
    )
    ones, zeros = float((gates == 1).float().mean()), float((gates == 0).float().mean())
    assert (ones > zeros) == (log_a > 0) or abs(log_a) < 0.1  # what a head is kept by
    assert 0 <= float(gates.min()) <= float(gates.max()) <= 1


def test_a_fixed_gate_is_never_sampled_differently():
    for log_a, value in ((FIXED, 1.0), (-FIXED, 0.0)):
        assert set(sample_gates(torch.full((100_000,), log_a)).tolist()) == {value}
        assert float(fixed_gates(torch.tensor(log_a))) == value


def test_gates_between_have_a_gradient():
    log_a = torch.zeros(1000, requires_grad=True)
    gates = sample_gates(log_a)
    gates.sum().backward()
    inside = (gates > 0) & (gates < 1)
    assert ((log_a.grad > 0) == inside).all()


def test_a_gated_model_pays_for_open_heads_only_in_training():
    model = headed.model(dropout=0.0)
    gates = GatedModel(model, keep=3).eval()
    (batch,) = batches_of(headed.task(), PAIRS)
    with apply_gates(
        {site.attention: site.ones(2, 1, 1) * fixed_gates(torch.tensor(2.0)) for site in sites(model)}
    ):
        expected = float(model.loss(batch).mean.detach())
    assert float(gates.loss(batch).mean.detach()) == pytest.approx(expected, abs=1e-6)
    for part in gates.openness:
        torch.nn.init.constant_(part, FIXED)  # all open, whatever is drawn
    found = gates.train().loss(batch)
    whole = float(model.loss(batch).mean.detach())
    assert float(found.mean.detach()) == pytest.approx(whole + 12 * float(gates.price), abs=1e-5)
    assert {name for name, _ in gates.named_parameters()} - {
        name for name, _ in model.named_parameters()
    } == {f"openness.{number}" for number in range(6)}


def test_the_price_rises_until_few_enough_are_open_and_the_best_stay():
    gates = GatedModel(headed.model(), keep=2).train()
    (batch,) = batches_of(headed.task(), PAIRS)
    prices = []
    for _ in range(2):
        gates.loss(batch)
        prices.append(float(gates.price))
    assert 0 < prices[0] < prices[1]
    with torch.no_grad():
        for number, part in enumerate(gates.openness):
            part.copy_(torch.tensor([-0.1, -0.2 + 0.05 * number]))
    gates.loss(batch)
    assert float(gates.price) == prices[1]
    assert sorted(gates.best()) == [Head("cross", 0, 1), Head("cross", 1, 1)]
    assert gates.open_heads == 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    steep = {"optimizer": {"kind": "adamw", "rate": 0.03}, "schedule": {"kind": "constant", "warmup": 1}}
    return headed.trained(tmp_path_factory.mktemp("gates"), **steep)


def test_learned_gates_leave_a_smaller_run_and_an_interruption_changes_no_bit(run, tmp_path, monkeypatch):
    options = {"keep": 3, "steps": 16, "growth": 3.0}
    found = learn_gates(load(run), tmp_path / "whole", **options)
    assert (len(found.kept), found.heads, found.steps, found.met) == (3, 12, 16, True)
    smaller = load(found.run.folder)
    assert sum(site.attention.heads for site in sites(smaller.model)) == 3
    assert len(smaller.predict(["abc", "h"])) == 2

    interrupt, steps = Interrupt(), []

    def hook(point: str) -> None:
        if point == "train:step":
            steps.append(point)
            interrupt.number = signal.SIGTERM if len(steps) == 7 else None

    monkeypatch.setattr(files, "hook", hook)
    with pytest.raises(Interrupted):
        learn_gates(load(run), tmp_path / "parts", **options, interrupt=interrupt)
    monkeypatch.setattr(files, "hook", None)
    learn_gates(load(run), tmp_path / "parts", **options)
    whole, parts = (tmp_path / name / "model.safetensors" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]
    with pytest.raises(WriteError, match="already contains a run"):
        learn_gates(load(run), tmp_path / "whole", **options)


def contents(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_tuned_run_is_unchanged_even_if_its_data_changed(run, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(run, copied)
    before = contents(copied)
    learn_gates(load(copied), tmp_path / "one", keep=3, steps=1)
    assert contents(copied) == before
    shutil.rmtree(copied / "data")  # as a model is shipped
    shutil.rmtree(copied / "checkpoints")
    before = contents(copied)
    learn_gates(load(copied), tmp_path / "other", keep=3, steps=1)
    weights = [tmp_path / name / "model.safetensors" for name in ("one", "other")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    pairs = run.parent / "pairs.tsv"
    kept = pairs.read_bytes()
    try:
        pairs.write_bytes(kept + "neu\tünen\n".encode())
        with pytest.raises(ModelError, match="have changed and give other tokenizers"):
            learn_gates(load(copied), tmp_path / "third", keep=3, steps=1)
    finally:
        pairs.write_bytes(kept)
    assert contents(copied) == before


@pytest.mark.parametrize("keep", [-1, 12])
def test_a_number_that_cannot_be_kept_is_refused(run, tmp_path, keep):
    with pytest.raises(ConfigError, match=rf"keep is {keep}; with 12 heads it must be from 0 to 11"):
        learn_gates(load(run), tmp_path / "out", keep=keep, steps=2)
    assert not list(tmp_path.iterdir())
