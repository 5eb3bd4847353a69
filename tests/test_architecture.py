"""Imports point down only, torch waits until it is needed, and nothing is pickled."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqwright

HOME = Path(seqwright.__file__).parent
LEVELS = (  # from top to bottom; a module may import from its own unit and from the levels below
    ("cli", "__main__"),
    ("commands", "serve"),
    ("pipeline",),
    ("tasks", "recipes"),
    ("prediction",),
    ("lens",),
    ("training",),
    ("runs",),
    ("evaluation",),
    ("search",),
    ("models",),
    ("data",),
    ("nn",),
    ("config",),
    ("errors", "files", "runtime"),
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
MODULES = sorted(HOME.rglob("*.py"))


def name_of(path: Path) -> str:
    """The dotted name of a module's file."""
    parts = ["seqwright", *path.relative_to(HOME).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Everything a file imports at run time, wherever in the file, by dotted name."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def part_of(name: str) -> str | None:
    """The file or folder under seqwright that a name lies in; None for the package itself and others."""
    first, _, rest = name.partition(".")
    part = rest.partition(".")[0]
    known = (HOME / part).is_dir() or (HOME / f"{part}.py").exists()
    return part if first == "seqwright" and part and known else None


def level_of(part: str | None) -> int:
    """What is not ours, or has no level yet, counts as the ground."""
    return LEVEL.get(part, len(LEVELS)) if part else len(LEVELS)


def test_every_part_has_its_level():
    parts = {part for path in MODULES if (part := part_of(name_of(path)))}
    assert parts - set(LEVEL) == set(), "say in LEVELS where it stands"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path):
    mine = part_of(name_of(path))
    if mine is None:  # the package itself hands on names from everywhere, when they are asked for
        return
    upward = [name for name in imports(path) if level_of(part_of(name)) < level_of(mine)]
    assert upward == []


def test_there_is_no_cycle_between_units():
    """Whatever the order of the levels: no unit reaches itself through the imports of others."""
    below: dict[str, set[str]] = {}
    for path in MODULES:
        if mine := part_of(name_of(path)):
            below.setdefault(mine, set()).update(other for name in imports(path) if (other := part_of(name)))
    for unit in below:
        reached, waiting = set[str](), below[unit] - {unit}
        while waiting:
            other = waiting.pop()
            reached.add(other)
            waiting |= below.get(other, set()) - reached
        assert unit not in reached, f"{unit} imports {sorted(reached)}, among them one that imports it"


def test_the_search_knows_no_model():
    """It is given a function that steps; whose it is does not matter."""
    found = [
        (name_of(path), name)
        for path in (HOME / "search").rglob("*.py")
        for name in imports(path)
        if part_of(name) in ("models", "presets")
    ]
    assert found == []


def test_nothing_is_pickled():
    """A checkpoint is tensors and text; loading one runs no code."""
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
    found = [
        (name_of(path), name) for path in MODULES for name in imports(path) if name.split(".")[0] in forbidden
    ]
    assert found == []


def test_the_imports_are_seen(tmp_path, monkeypatch):
    """The reader of imports finds every kind of them: the tests above can fail."""
    monkeypatch.setattr(sys.modules[__name__], "HOME", tmp_path)
    for folder in ("nn", "models"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    file = tmp_path / "nn" / "part.py"
    file.write_text(
        "import os, seqwright.models\nfrom seqwright import models\n"
        "from ..models import Model\nfrom . import other\n"
        "def f():\n    from seqwright.models.encoders import rnn\n"
        "if TYPE_CHECKING:\n    from seqwright.models import Encoder\n"
    )
    assert list(imports(file)) == [
        "os",
        "seqwright.models",
        "seqwright.models",
        "seqwright.models.Model",
        "seqwright.nn.other",
        "seqwright.models.encoders.rnn",
    ]
    assert [part_of(name) for name in imports(file)] == [None, "models", "models", "models", "nn", "models"]


@pytest.mark.parametrize(
    "statement",
    ["import seqwright", "import seqwright.errors, seqwright.config.registry, seqwright.config.presets"],
)
def test_torch_waits_until_it_is_needed(statement):
    program = f"{statement}\nimport sys\nprint('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=HOME.parent
    )
    assert done.stdout.split() == ["False", "False"]


def test_names_of_the_package_arrive_when_asked_for():
    assert {name: getattr(seqwright, name).__name__ for name in ("build_model", "capture")} == {
        "build_model": "build_model",
        "capture": "capture",
    }
    with pytest.raises(AttributeError, match="'seqwright' has no attribute 'nothing'"):
        _ = seqwright.nothing
