"""Tensor files round-trip, whatever the first bytes look like."""

from __future__ import annotations

import pytest
import torch

from seqwright.runs.tensors import load_metadata, load_tensors, write_tensors


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_header_whose_length_begins_like_a_pickle(tmp_path, protocol):
    """A pickle begins with 0x80 and its protocol, and so does a header of protocol · 256 + 128 bytes."""
    path, wanted = tmp_path / "a.safetensors", 256 * protocol + 0x80
    for filling in range(0, wanted, 8):
        with path.open("wb") as file:
            write_tensors(file, {"weight": torch.arange(3.0)}, {"note": "n" * filling})
        if path.read_bytes()[:2] == bytes([0x80, protocol]):
            break
    assert path.read_bytes()[:9] == wanted.to_bytes(8, "little") + b"{"
    assert load_tensors(path)["weight"].tolist() == [0, 1, 2]
    assert load_metadata(path) == {"note": "n" * filling}


def test_tensors_of_every_form_round_trip(tmp_path):
    square = torch.arange(6.0).view(2, 3)
    given = {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "turned": square.t(),
        "part": square[:, 1:],
        "flags": torch.tensor([True, False, True]),
        "half": torch.ones(3, dtype=torch.bfloat16),
    }
    with (tmp_path / "a.safetensors").open("wb") as file:
        write_tensors(file, given)
    found = load_tensors(tmp_path / "a.safetensors")
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        torch.testing.assert_close(found[name], tensor, atol=0, rtol=0)
