"""Tensors in safetensors files (https://github.com/huggingface/safetensors, "Format").

The library reads them. They are written here, so that a file is hashed while it is written, errors keep their
cause, and only tensors that are not contiguous are copied. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seqwright.errors import ModelError, WriteError
from seqwright.files import HashedFile, open_regular, reading

TIED = "tied"  # key in the metadata of a safetensors file: JSON, name -> name of the same tensor
FLOATS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
INTEGERS = {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
CODES = {**FLOATS, **INTEGERS, torch.bool: "BOOL"}
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")


def write_tensors(
    file: BinaryIO | HashedFile, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file: the length of the header (8 bytes), the header (JSON), the data.

    Tied weights are written once. Wider types come first: each starts at a multiple of its item size.
    """
    tied = tied_names(tensors)
    names = sorted(tensors.keys() - tied.keys(), key=lambda name: (-tensors[name].element_size(), name))
    notes = {**(metadata or {}), **({TIED: json.dumps(tied)} if tied else {})}
    header, end = dict[str, Any](__metadata__=notes), 0
    for name in names:
        tensor, start, end = tensors[name], end, end + tensors[name].nbytes
        if tensor.dtype not in CODES:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in CODES)
            raise WriteError(f"{name} has dtype {tensor.dtype}, which cannot be saved; use one of: {known}")
        code, shape = CODES[tensor.dtype], list(tensor.shape)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(memoryview(len(text).to_bytes(8, "little") + text))
    for name in names:
        with allocating(name):
            plain = tensors[name].detach().cpu().contiguous()
        file.write(plain.reshape(-1).view(torch.uint8).numpy().data)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Load the tensors of a safetensors file into memory of their own; tied names share one tensor again."""
    with open_tensors(path) as file:
        # The copy is independent of the file and aligned as in training: the last bits of a product can
        # depend on the alignment (Intel MKL, "Obtaining Numerically Reproducible Results").
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        return tensors | {name: tensors[kept] for name, kept in _tied(file).items()}


def tensor_shapes(path: Path, types: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Return name -> shape from the header of a safetensors file whose tensors have one of these types."""
    with open_tensors(path) as file:
        shapes = {}
        for name in file.keys():  # noqa: SIM118
            entry = file.get_slice(name)
            if entry.get_dtype() not in types:
                raise ModelError(
                    f"{path}: {name} has the type {entry.get_dtype()}; weights are floating-point"
                )
            shapes[name] = tuple(entry.get_shape())
        return shapes | {name: shapes[kept] for name, kept in _tied(file).items()}


def _tied(file: Any) -> dict[str, str]:
    """Return name -> name of the same tensor, from the metadata of an open file."""
    return json.loads((file.metadata() or {}).get(TIED, "{}"))


def load_metadata(path: Path) -> dict[str, str]:
    """Load the metadata in the header of a safetensors file."""
    with open_tensors(path) as file:
        return {key: value for key, value in (file.metadata() or {}).items() if key != TIED}


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file; its damage is a ModelError."""
    _refuse_foreign(path)
    try:
        with reading(path), safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{error}"[:200]  # it may quote the whole header
        raise ModelError(f"{path} is not a safetensors file: {reason}; restore it from a copy") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor with a NaN or an infinity."""
    for name, tensor in tensors.items():
        # The extremes show both in one pass, without the mask that isfinite() would allocate.
        extremes = torch.aminmax(tensor.detach()) if tensor.is_floating_point() and tensor.numel() else ()
        if not all(map(math.isfinite, extremes)):
            return name
    return None


def _refuse_foreign(path: Path) -> None:
    """Raise ModelError for files that are often found in place of a safetensors file."""
    with reading(path), open_regular(path) as file:
        head = file.read(64)
    # the first bytes of a safetensors file, a length, can look like a pickle; its header starts with {
    pickled = head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5") and head[8:9] != b"{"
    if not head:
        raise ModelError(f"{path} is empty; restore it from a copy")
    if head.startswith(b"version https://git-lfs"):
        raise ModelError(f"{path} is a git-lfs pointer, not the file itself; run: git lfs pull")
    if path.suffix in PICKLES or pickled or head.startswith(b"PK\x03\x04"):
        raise ModelError(f"{path} is a pickle, which can run code when loaded; convert it to safetensors")


def check_shapes(
    path: Path, found: Mapping[str, Sequence[int]], expected: Mapping[str, Sequence[int]]
) -> None:
    """Raise ModelError unless the tensors of a file have the expected names and shapes."""
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not in this model" for name in found if name not in expected]
    both = [(name, list(found[name]), list(shape)) for name, shape in expected.items() if name in found]
    problems += [
        f"{name} has the shape {own} instead of {other}" for name, own, other in both if own != other
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ModelError(f"{path} does not fit the model: {'; '.join(problems[:3])}{more}")


def tied_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return name -> earlier name of the same tensor."""
    first: dict[tuple, str] = {}
    names = {}
    for name, t in tensors.items():
        if t.numel():
            names[name] = first.setdefault((t.device, t.data_ptr(), t.shape, t.stride(), t.dtype), name)
    return {name: earlier for name, earlier in names.items() if earlier != name}


@contextmanager
def allocating(name: str) -> Iterator[None]:
    """Turn a failed allocation, which torch raises as RuntimeError, into a WriteError."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise WriteError(f"{name} cannot be written because it cannot be copied: {reason}") from error
