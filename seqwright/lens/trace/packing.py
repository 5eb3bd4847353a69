"""Arrays inside a JSON document (little-endian, zlib, base64), and quantized attention weights."""

from __future__ import annotations

import base64
import math
import reprlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqwright.errors import InputError

DTYPES = ("uint8", "uint16", "int32", "float32")
AXES, LARGEST = 4, 1 << 26  # of a packed array: the most axes, and the most bytes
FINE = 65535
LEVELS = (FINE, 255, 128, 64, 32, 16, 8, 4)

Packed = dict[str, Any]


def pack(array: np.ndarray | Tensor) -> Packed:
    """The JSON of an array of one of the DTYPES, or of a tensor as float32 or int32."""
    if isinstance(array, Tensor):
        array = array.detach().to(torch.float32 if array.is_floating_point() else torch.int32).cpu().numpy()
    name = array.dtype.name
    assert name in DTYPES, name
    raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    # Huffman coding alone is smaller for noise, the default strategy for everything with repetitions
    strategies = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY)
    data = base64.b64encode(min((_deflated(raw, strategy) for strategy in strategies), key=len))
    return {"dtype": name, "shape": list(array.shape), "data": data.decode("ascii")}


def _deflated(raw: bytes, strategy: int) -> bytes:
    compressor = zlib.compressobj(6, strategy=strategy)
    return compressor.compress(raw) + compressor.flush()


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """The inverse of `pack`. No more is unpacked than the shape says: the document may come from anywhere."""
    try:
        name, shape = packed["dtype"], tuple(int(size) for size in packed["shape"])
        if name not in DTYPES or len(shape) > AXES or not all(0 <= size <= LARGEST for size in shape):
            found = f"dtype {reprlib.repr(name)} and shape {reprlib.repr(shape)}"
            raise InputError(f"a packed array has {found}; copy it again")
        dtype = np.dtype(name).newbyteorder("<")
        wanted = dtype.itemsize * math.prod(shape)
        if wanted > LARGEST:
            raise InputError(f"a packed array has {wanted:,} bytes; the limit is {LARGEST:,}")
        raw = zlib.decompressobj().decompress(base64.b64decode(packed["data"], validate=True), wanted + 1)
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(f"a packed array is unreadable: {error}; copy it again") from error
    if len(raw) != wanted:
        raise InputError(f"a packed array has {len(raw)} bytes or more instead of {wanted}; copy it again")
    return np.frombuffer(raw, dtype).astype(name).reshape(shape)


class Quantized(NamedTuple):
    """Weights (H, Q, K) as numbers from 0 to `levels`, the largest weight of a head being `levels`."""

    levels: int
    scales: list[float]
    weights: Packed


def quantize(weights: Sequence[np.ndarray], size: int) -> list[Quantized]:
    """Weights (H, Q, K) with the most levels that fit into `size`; error up to scale / (2 · levels)."""
    cells = sum(array.size for array in weights)
    for levels in LEVELS[:-1]:
        if levels == FINE and 2 * cells > size:
            continue  # it hardly ever fits, and trying takes long
        found, left = [], size
        for array in weights:
            found.append(_quantized(array, levels))
            left -= len(found[-1].weights["data"])
            if left < 0:
                break
        else:
            return found
    return [_quantized(array, LEVELS[-1]) for array in weights]  # whatever their size


def _quantized(weights: np.ndarray, levels: int) -> Quantized:
    scales = weights.max(axis=(1, 2), initial=0.0)  # (H,)
    shares = weights / np.maximum(scales, np.finfo(np.float32).tiny)[:, None, None]
    numbers = np.rint(shares * levels)
    return Quantized(levels, scales.tolist(), pack(numbers.astype(np.uint16 if levels > 255 else np.uint8)))


def dequantize(levels: int, scales: Sequence[float], weights: Mapping[str, Any]) -> np.ndarray:
    """(H, Q, K) float32."""
    return unpack(weights) * (np.array(scales, np.float32) / levels)[:, None, None]


def pooled(weights: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """(H, Q, K) -> (H, ⌈Q / block⌉, ⌈K / block⌉): mean over queries, sum over keys, so that row sums stay."""
    if block == (1, 1):
        return weights
    sums = np.add.reduceat(weights, np.arange(0, weights.shape[2], block[1]), axis=2)
    firsts = np.arange(0, weights.shape[1], block[0])
    counts = np.diff(np.append(firsts, weights.shape[1]))
    return np.add.reduceat(sums, firsts, axis=1) / counts[:, None].astype(weights.dtype)
