"""The lens depends on contracts alone, and needs neither an encoder nor a decoder in a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from looked import TEXT, predictor
from torch import nn

from seqwright import lens
from seqwright.lens.heads.gates import sides, sites
from seqwright.lens.trace import contributions
from seqwright.lens.trace.build import _model, _reasons
from seqwright.lens.trace.recorders import record_layers
from seqwright.lens.trace.steps import DecodedPath
from seqwright.lens.trace.sublayers import record_blocks
from seqwright.models import Model

ABOVE = ("prediction", "tasks", "recipes", "pipeline", "commands", "cli")
LENGTHS = {"enc": (3, 3), "dec": (2, 2), "cross": (2, 3)}


class OneSide(Model):
    def __init__(self, side: str, part: nn.Module):
        super().__init__()
        self.add_module(side, part)


def one_side(side: str) -> OneSide:
    whole = predictor("transformer-sinusoidal").model
    return OneSide(side, whole.get_submodule(side))


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules that a file imports at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imports(node)


def test_the_lens_imports_no_unit_above_it():
    paths = list(Path(lens.__file__).parent.rglob("*.py"))
    assert len(paths) > 20
    found = {name for path in paths for name in imports(ast.parse(path.read_text(encoding="utf-8")))}
    assert not [name for name in found for unit in ABOVE if f"{name}.".startswith(f"seqwright.{unit}.")]


@pytest.mark.parametrize(
    ("side", "kinds", "missing"),
    [("encoder", {"enc"}, "decoder"), ("decoder", {"dec", "cross"}, "encoder")],
)
def test_a_model_with_one_side_has_a_structure_and_reasons(side, kinds, missing):
    model = one_side(side)
    assert list(sides(model)) == [side]
    assert {site.kind for site in sites(model)} == kinds
    described = _model(model, step=None)
    assert (described[side], described[missing]) == ("transformer", None)
    with (
        record_layers(model, LENGTHS, 1000) as (attentions, recurrent),
        record_blocks(model, {"encoder": 3, "decoder": 2}, 10**6) as blocks,
    ):
        assert {block.side for block in blocks} == {side}
    reasons = dict(_reasons(model, attentions, recurrent, 0, len(blocks)))
    assert reasons["enc" if missing == "encoder" else "dec"] == f"this model has no {missing}"
    if side == "encoder":
        assert reasons["cross"].startswith("this model has no decoder")


def test_a_whole_model_has_both_sides():
    subject = predictor("transformer-sinusoidal")
    assert list(sides(subject.model)) == ["encoder", "decoder"]
    path = DecodedPath.of(subject.task.source.encode(TEXT), [])
    assert contributions.contributions_limit(subject.model, path) is None
