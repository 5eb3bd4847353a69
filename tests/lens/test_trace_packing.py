"""Packed arrays come back; weights come back within half a level, and take the room that they are given."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from seqwright.errors import InputError
from seqwright.lens.trace.document import FORMAT, WHAT, Trace
from seqwright.lens.trace.entries import WEIGHTS_SIZE
from seqwright.lens.trace.packing import DTYPES, dequantize, pack, pooled, quantize, unpack

whole = array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
weights = arrays(
    np.float32,
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 6)),
    elements=st.floats(0, 1, width=32),
)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_arrays_come_back(dtype, data):
    array = data.draw(arrays(dtype, whole))
    found = unpack(pack(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


@given(given=st.lists(weights, max_size=3), room=st.sampled_from([0, 60, 10_000]))
def test_weights_come_back_within_half_a_level(given, room):
    for array, found in zip(given, quantize(given, room), strict=True):
        back = dequantize(found.levels, found.scales, found.weights)
        scales = array.max(axis=(1, 2), initial=0)[:, None, None]
        assert (np.abs(back - array) <= scales / (2 * found.levels) + 1e-6).all()
        assert ((back > 0) <= (array > 0)).all()  # what may not be seen stays exactly zero


def test_weights_of_the_mandated_size_have_room():
    """256 × 256 places, 6 layers of 8 heads of 3 kinds; random scores, which compress badly."""
    draw = np.random.default_rng(0)
    layers = []
    for number in range(18):
        scores = draw.standard_normal((8, 256, 256), dtype=np.float32)
        powers = np.exp(scores) * (np.tri(256, dtype=np.float32) if number % 3 == 1 else 1)
        layers.append(powers / powers.sum(-1, keepdims=True))
    found = quantize(layers, WEIGHTS_SIZE)
    assert sum(len(one.weights["data"]) for one in found) <= WEIGHTS_SIZE
    for array, one in zip(layers, found, strict=True):
        back = dequantize(one.levels, one.scales, one.weights)
        assert (np.abs(back - array) <= array.max(axis=(1, 2), keepdims=True) / 255).all()


@given(array=weights, block=st.tuples(st.integers(1, 7), st.integers(1, 7)))
def test_blocks_are_means_of_queries_and_sums_of_keys(array, block):
    found = pooled(array, block)
    queries, keys = (range(0, size, step) for size, step in zip(array.shape[1:], block, strict=True))
    assert found.shape == (len(array), len(queries), len(keys))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            part = array[:, query : query + block[0], key : key + block[1]]
            assert found[:, i, j] == pytest.approx(part.mean(1).sum(1), abs=1e-4)


def damaged() -> dict[str, dict]:
    packed = pack(np.arange(6, dtype=np.int32).reshape(2, 3))
    bomb = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()
    return {
        "cut": {**packed, "data": packed["data"][:8]},
        "no base64": {**packed, "data": "ä" + packed["data"]},
        "other shape": {**packed, "shape": [2, 4]},
        "negative shape": {**packed, "shape": [-2, -3]},
        "no shape": {"dtype": "int32", "data": packed["data"]},
        "objects": {**packed, "dtype": "object"},
        "bomb": {**packed, "data": bomb},
        "text": {**packed, "shape": "two"},
    }


@pytest.mark.parametrize("fault", damaged())
def test_damaged_arrays_are_refused(fault):
    with pytest.raises(InputError, match="packed array"):
        unpack(damaged()[fault])


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is not JSON"),
        (b"[1]", "holds a list, not an object"),
        (b'{"format": 1}', "not a Seqwright trace"),
        (b'{"what": "seqwright trace", "format": 99}', "format 99, newer than 2"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_files_that_are_not_traces_are_refused(tmp_path, content, part):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=part):
        Trace.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        Trace.load(tmp_path / "nowhere.json")


def test_unknown_keys_are_ignored():
    assert Trace.load({"what": WHAT, "format": FORMAT, "text": "a", "new": 1}).text == "a"
