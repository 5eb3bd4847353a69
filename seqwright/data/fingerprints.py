"""Fingerprints of data files: whether a file is still the one that a training began with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seqwright.data.readers.files import Input, files_in, open_input
from seqwright.errors import InputError
from seqwright.files import read_json

INPUTS = Path("data", "inputs.json")  # in a run folder: the fingerprints at the beginning of the training
SURVEYED = "data.json"  # in a run folder: the hashes under `files`, also where its prepared data is missing

Fingerprints = dict[str, dict[str, Any]]  # path -> bytes, changed, inode, sha256


def fingerprints(paths: Iterable[str], known: Mapping[str, Any] | None = None) -> Fingerprints:
    """Return the size, the time of change, the inode and the SHA-256 of each file; of a folder, of all files
    in it.

    The hash of a `known` file is reused if everything else is the same.
    """
    return {path: _fingerprint(path, (known or {}).get(path)) for path in files_in(paths)}


def _fingerprint(path: str, known: Any) -> dict[str, Any]:
    if Input(path).single_pass:
        raise InputError(f"{path} is a pipe or a device, but training reads files again; save it to a file")
    with open_input(path, path) as file:
        status = os.fstat(file.fileno())
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        mark = {"bytes": status.st_size, "changed": changed, "inode": status.st_ino}
        if isinstance(known, dict) and "sha256" in known and mark.items() <= known.items():
            return known
        return {**mark, "sha256": _digest(file)}


def _digest(file: Any) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(found: Mapping[str, Any]) -> dict[str, str]:
    """Return path -> SHA-256; what a damaged file has in place of a fingerprint is left out."""
    marks = {path: mark.get("sha256") for path, mark in found.items() if isinstance(mark, dict)}
    return {path: digest for path, digest in marks.items() if isinstance(digest, str)}


def refuse_changed(known: Fingerprints, since: str, way_out: str) -> None:
    """Raise an error if a file is not the known one any more: "FILE changed since …; …"."""
    now = hashes(fingerprints(known, known))
    if changed := [path for path, digest in hashes(known).items() if now[path] != digest]:
        raise InputError(f"{', '.join(changed)} changed {since}; {way_out}")


def check_run_data(folder: Path, paths: Iterable[str]) -> None:
    """Check, before they are read, that the data files of a run are those that it was trained on.

    A run folder from another person could name any file of this machine.
    """
    recorded = _recorded(folder)
    for path in files_in(paths):
        if path not in recorded:
            raise InputError(f"{folder} does not record the content of {path}; name a test file")
        if hashes(fingerprints([path]))[path] != recorded[path]:
            raise InputError(
                f"{path} is not the file that {folder} was trained on: its test split may contain training "
                "data; restore the file, or name a test file"
            )


def _recorded(folder: Path) -> dict[str, Any]:
    """Return path -> SHA-256 of the data files of a run."""
    if (folder / INPUTS).exists():
        return hashes(read_json(folder / INPUTS))
    surveyed = read_json(folder / SURVEYED) if (folder / SURVEYED).exists() else {}
    files = surveyed.get("files")
    return files if isinstance(files, dict) else {}
