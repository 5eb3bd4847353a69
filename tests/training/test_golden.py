"""Trainings that must stay bit-identical: changes of the code around a step change no weight.

The hashes were recorded on one machine, with one thread. Another processor rounds differently, which a probe
of the same products detects; there the validation loss must be near the recorded one instead.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

from seqwright import cli
from seqwright.runs.folder import Run

PROBE = "525ca54bf8b90a0f"
COMMON = [
    "--quiet",
    "seed=1",
    "threads=1",
    "training.tokens=128",
    "training.validations=2",
    "training.decode=50",
]
PLAIN = ["model.preset=tiny", "model.position=sinusoidal", "model.zero_start=false"]
# name: options, SHA-256 of the weights, SHA-256 of the outputs, validation loss at the end
GOLDEN = {
    "tiny": (
        PLAIN,
        "e7b69189d7478aa60b3fc695b6c9259836d87f50ade0c953a935f45af2e52092",
        "786009442117cd978dd46a21233c2d099bfb805a0488428a9141d8068934e13d",
        0.4304,
    ),
    "tiny-rnn": (
        ["model.preset=tiny-rnn"],
        "ab68bb57df53b663b10596dc779aeccb78b5906ddb313799a75b4784046abebd",
        "8b6f8f9880fa5580b98668a5252173fe88cd12089a0fc55005746c6b8e8ff250",
        0.0947,
    ),
    "tiny-words": (
        ["model.preset=tiny-words"],
        "f7a335f745cb20c1d6a4ff472aaa42c225513391403e30e85fb2fb1164a51af1",
        "660aa6f563c51db537374d3ee704b699b81fe3b718ea19167e7a3e520c839e69",
        0.1754,
    ),
    "ensemble": (
        ["model.preset=tiny-rnn", "model.kind=ensemble", "model.members=2"],
        "5fa527f365881bdd1fb6a6b4ec279d6b4ef60856036d366c915ef27d5a324472",
        "52156dcef974e5418a09ca46ced5ecbd5b600b3f1a227d0303b3538fdb49421c",
        0.0917,
    ),
    "resumed": (
        PLAIN,
        "43a8cc39ba06f3a577c2c3149570499381c19da97dc1fd24ce14eddede8ed9bd",
        "6c5bd4e404f301c618c9113b90f96a691e9704a37fb47065655b8fb455293ad3",
        0.4107,
    ),
}


def probe() -> str:
    """Hash the results of products and functions as a training uses them."""
    torch.manual_seed(0)
    x, weight = torch.randn(37, 128), torch.randn(256, 128)
    hidden = torch.nn.functional.linear(x, weight).softmax(-1)
    mixed = torch.layer_norm(hidden @ torch.randn(256, 96), (96,)).tanh().exp().log1p()
    state, _ = torch.nn.GRU(96, 64)(mixed[:, None])
    return hashlib.sha256((mixed.sum() + state.sum()).detach().numpy().tobytes()).hexdigest()[:16]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder, draw = tmp_path_factory.mktemp("golden"), random.Random(7)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 8))) for _ in range(600)]
    rows = [f"{word}\t{' '.join(letter.upper() for letter in reversed(word))}\n" for word in words]
    (folder / "pairs.tsv").write_text("".join(rows))
    (folder / "inputs.txt").write_text("".join(f"{word}\n" for word in [*words[:20], "abcj", "jjjj"]))
    return folder


def weights(run: Path) -> str:
    total = hashlib.sha256()
    for name, weight in sorted(load_file(run / "model.safetensors").items()):
        total.update(name.encode())
        total.update(weight.tobytes())
    return total.hexdigest()


@pytest.mark.parametrize("name", GOLDEN)
def test_weights_and_outputs_stay_bit_identical(name, files, monkeypatch):
    monkeypatch.chdir(files)
    options, known_weights, known_outputs, known_loss = GOLDEN[name]
    for steps in (150, 300) if name == "resumed" else (300,):
        command = ["train", "pairs.tsv", "--out", name, "--steps", str(steps), *options, *COMMON]
        assert cli.main(command) == 0
    losses = [record["valid_loss"] for record in Run.open(name).records() if "valid_loss" in record]
    assert losses[-1] == pytest.approx(known_loss, rel=0.3)
    if probe() != PROBE:  # this processor rounds differently
        return
    assert weights(files / name) == known_weights
    assert cli.main(["predict", name, "inputs.txt", "--output", f"{name}.txt"]) == 0
    assert hashlib.sha256(Path(f"{name}.txt").read_bytes()).hexdigest() == known_outputs
