"""The toolkits, and a virtual environment for each, with torch first and their own wishes for it ignored."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contest import ROOT

DEFAULT = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "seqwright" / "peers"
MARK = "seqwright-peer.json"  # in an environment that is whole


class InstallError(Exception):
    """A step of an installation failed. The message is its last line."""


@dataclass(frozen=True)
class Toolkit:
    """`needs` is what the toolkit's imports need beside what Seqwright needs, `extra` what is done after the
    installation.
    """

    package: str
    version: str
    needs: tuple[str, ...]
    extra: Callable[[Path], None] = lambda folder: None

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def title(self) -> str:
        return f"{self.package} {self.version}"


def _build_batching(folder: Path) -> None:
    """fairseq cuts batches in a Cython file, which its source archive has and its setup cannot build: files
    of other extensions are missing there. Needs a C++ compiler.
    """
    with tempfile.TemporaryDirectory() as work:
        wanted = ["--no-deps", "--no-build-isolation", "--no-binary=fairseq", TOOLKITS["fairseq"].requirement]
        _pip(folder, "download", "--dest", work, *wanted)
        (archive,) = Path(work).glob("fairseq-*.tar.gz")
        name = f"{archive.name.removesuffix('.tar.gz')}/fairseq/data/data_utils_fast.pyx"
        with tarfile.open(archive) as file:
            source = file.extractfile(name)
            assert source is not None
            code = source.read().decode()
        include = _run([python_of(folder), "-c", "import numpy; print(numpy.get_include())"]).strip()
        header = f"# distutils: language = c++\n# distutils: include_dirs = {include}\n"
        path = Path(work, "data_utils_fast.pyx")
        path.write_text(header + code, encoding="utf-8")
        _run([folder / "bin" / "cythonize", "-i", "-q", path])
        (built,) = Path(work).glob("data_utils_fast.*.so")
        (home,) = folder.glob("lib/python*/site-packages/fairseq/data")
        shutil.copy(built, home)


COMMON = ("pyyaml", "tqdm", "packaging")
TOOLKITS = {
    "fairseq": Toolkit(
        "fairseq",
        "0.12.2",
        (*COMMON, "cython", "setuptools", "omegaconf<2.1", "hydra-core<1.1", "bitarray", "cffi"),
        _build_batching,
    ),
    "joeynmt": Toolkit(
        "JoeyNMT",
        "2.3.0",
        (
            *COMMON,
            *("importlib_metadata", "matplotlib", "tensorboard", "sacremoses", "sentencepiece"),
            *("subword-nmt", "datasets", "pandas"),
        ),
    ),
    "opennmt": Toolkit(
        "OpenNMT-py",
        "3.5.1",
        (*COMMON, "configargparse", "ctranslate2<5", "tensorboard", "pyonmttok", "six"),
    ),
}


def install(names: Iterable[str], envs: Path) -> dict[str, str]:
    """Makes the environments that are not there yet; returns why those that failed did."""
    failures = {}
    for name in names:
        print(f"{TOOLKITS[name].title}: {envs / name}", flush=True)
        try:
            _make(TOOLKITS[name], envs / name)
        except InstallError as error:
            failures[name] = str(error)
    return failures


def missing(name: str, envs: Path) -> str:
    """Why this toolkit cannot be run, or nothing."""
    if _is_whole(TOOLKITS[name], envs / name):
        return ""
    return f"not installed in {envs}; python -m bench.peers install {name}"


def python_of(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _make(toolkit: Toolkit, folder: Path) -> None:
    if _is_whole(toolkit, folder):
        print("  is there")
        return
    recipe = _recipe(toolkit)
    _run([sys.executable, "-m", "venv", "--clear", folder])
    pinned = ["--constraint", ROOT / "constraints.txt"]  # no other torch than the one that Seqwright runs on
    _pip(folder, "install", *pinned, "torch")
    _pip(
        folder, "install", *pinned, "pip<24.1", *recipe["needs"]
    )  # later ones refuse the metadata of omegaconf 2.0
    _pip(folder, "install", "--no-deps", "--no-build-isolation", toolkit.requirement)
    toolkit.extra(folder)
    (folder / MARK).write_text(json.dumps(recipe))


def _is_whole(toolkit: Toolkit, folder: Path) -> bool:
    """Whether the environment is there, with all that is needed today."""
    mark = folder / MARK
    return mark.exists() and json.loads(mark.read_text()) == _recipe(toolkit)


def _recipe(toolkit: Toolkit) -> dict[str, Any]:
    return {"requirement": toolkit.requirement, "needs": [*_ours(), *toolkit.needs]}


def _ours() -> list[str]:
    """What Seqwright needs, for the drivers measure with it; torch is there already."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [each for each in project["dependencies"] if not each.startswith("torch")]


def _pip(folder: Path, *arguments: str | Path) -> None:
    _run([python_of(folder), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def _run(command: list[str | Path]) -> str:
    environment = {**os.environ, "READTHEDOCS": "1"}  # makes the setup of fairseq build no extensions
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise InstallError((done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2])
    return done.stdout
