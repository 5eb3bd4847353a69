"""The toolkits, and a virtual environment for each with the torch version of Seqwright."""

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
MARK = "seqwright-peer.json"  # written when an environment is complete


class InstallError(Exception):
    """A step of an installation failed; the message is the last line of its output."""


@dataclass(frozen=True)
class Toolkit:
    """`needs` are requirements of the toolkit in addition to those of Seqwright; `extra` runs after the
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
    """Build the Cython file in which fairseq makes batches. Its setup cannot: the source archive lacks files
    of other extensions. Needs a C++ compiler.
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
    """Make the missing environments; return the reasons of failures by name."""
    failures = {}
    for name in names:
        print(f"{TOOLKITS[name].title}: {envs / name}", flush=True)
        try:
            _make(TOOLKITS[name], envs / name)
        except InstallError as error:
            failures[name] = str(error)
    return failures


def missing(name: str, envs: Path) -> str:
    """The reason why this toolkit cannot run, or an empty string."""
    if _is_complete(TOOLKITS[name], envs / name):
        return ""
    return f"not installed in {envs}; python -m bench.peers install {name}"


def python_of(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _make(toolkit: Toolkit, folder: Path) -> None:
    if _is_complete(toolkit, folder):
        print("  already installed")
        return
    recipe = _recipe(toolkit)
    _run([sys.executable, "-m", "venv", "--clear", folder])
    pinned = ["--constraint", ROOT / "constraints.txt"]  # the torch version of Seqwright
    _pip(folder, "install", *pinned, "torch")
    _pip(
        folder, "install", *pinned, "pip<24.1", *recipe["needs"]
    )  # later versions refuse the metadata of omegaconf 2.0
    _pip(folder, "install", "--no-deps", "--no-build-isolation", toolkit.requirement)
    toolkit.extra(folder)
    (folder / MARK).write_text(json.dumps(recipe))


def _is_complete(toolkit: Toolkit, folder: Path) -> bool:
    """Whether the environment exists with the current requirements."""
    mark = folder / MARK
    return mark.exists() and json.loads(mark.read_text()) == _recipe(toolkit)


def _recipe(toolkit: Toolkit) -> dict[str, Any]:
    return {"requirement": toolkit.requirement, "needs": [*_own_requirements(), *toolkit.needs]}


def _own_requirements() -> list[str]:
    """The requirements of Seqwright, which the drivers import; torch is already installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [each for each in project["dependencies"] if not each.startswith("torch")]


def _pip(folder: Path, *arguments: str | Path) -> None:
    _run([python_of(folder), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def _run(command: list[str | Path]) -> str:
    environment = {**os.environ, "READTHEDOCS": "1"}  # the setup of fairseq then builds no extensions
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise InstallError((done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2])
    return done.stdout
