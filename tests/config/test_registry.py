"""Names become parts: from a module, a package or outside; errors suggest the nearest name."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Gt, Lt

from seqwright.config.registry import (
    Count,
    Registry,
    Whole,
    check_options,
    options_of,
    parse,
    snake_case,
    unknown,
    unknown_each,
)
from seqwright.errors import ConfigError
from seqwright.models import DECODERS, ENCODERS, MODELS
from seqwright.nn.feedforward import FEED_FORWARDS
from seqwright.nn.positions import POSITIONS
from seqwright.nn.scores import SCORES

REGISTRIES = {
    registry.kind: registry for registry in (SCORES, POSITIONS, FEED_FORWARDS, ENCODERS, DECODERS, MODELS)
}


FILES = {
    "__init__.py": """
        class Tool:
            pass
    """,
    "saw.py": """
        from workshop_parts import Tool

        class Saw(Tool):
            def __init__(self, *, teeth: int = 12, size: int):
                self.teeth, self.size = teeth, size

        class _Blade(Tool):
            pass
    """,
    "hammer.py": """
        from workshop_parts import Tool
        from workshop_parts.saw import Saw

        class Hammer(Tool):
            passes_to = Saw

            def __init__(self, *, weight: int = 1, **saw):
                self.weight, self.saw = weight, Saw(**saw)
    """,
    "drawers/__init__.py": "",
}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A package of parts as a user would write it, with a folder that is not a part."""
    for name, text in FILES.items():
        file = tmp_path / "workshop_parts" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("tool", "workshop_parts", "workshop_parts:Tool")
    for name in [name for name in sys.modules if name.startswith("workshop_parts")]:
        del sys.modules[name]


def test_in_a_package_each_file_is_a_part(registry):
    assert registry.names() == ["hammer", "saw"]
    assert registry.get("saw").__name__ == "Saw"
    assert registry.get("hammer").__name__ == "Hammer"  # the imported class is not its own


def test_in_a_module_the_public_classes_are_the_parts():
    assert {"dot", "scaled_dot", "bilinear", "additive"} <= set(SCORES.names())
    assert "none" in POSITIONS.names()
    assert not {"position", "table", "_table", "no_position"} & set(POSITIONS.names())
    assert MODELS.names() == [name for name in MODELS.names() if issubclass(MODELS.get(name), MODELS.base)]


@pytest.mark.parametrize("kind", REGISTRIES)
def test_every_name_is_a_class_of_its_kind(kind):
    registry = REGISTRIES[kind]
    assert registry.names() == sorted(set(registry.names()))
    for name in registry.names():
        part = registry.get(name)
        assert issubclass(part, registry.base)
        assert part.__doc__


@pytest.mark.parametrize("kind", REGISTRIES)
def test_an_unknown_name_is_named_with_the_nearest(kind):
    registry = REGISTRIES[kind]
    name = registry.names()[0]
    with pytest.raises(ConfigError, match=rf"unknown {kind} '{name}x'; did you mean '{name}'\?.*there are: "):
        registry.get(f"{name}x")


def test_a_part_receives_the_facts_that_it_has_arguments_for(registry):
    saw = registry.build({"kind": "saw", "teeth": 3}, size=5, colour="red")
    assert (saw.teeth, saw.size) == (3, 5)
    assert registry.build({"kind": "saw", "size": 7}, size=5).size == 7  # an option replaces a fact


def test_options_are_keyword_only_arguments_and_those_passed_on(registry):
    assert list(registry.options("saw")) == ["teeth", "size"]
    assert set(registry.options("hammer")) == {"teeth", "size", "weight"}
    assert registry.options("saw")["teeth"].default == 12
    assert registry.build({"kind": "hammer", "teeth": 4}, size=2).saw.teeth == 4


def test_an_unknown_option_is_named_with_the_nearest(registry):
    with pytest.raises(ConfigError, match=r"unknown option of tool saw 'teth'; did you mean 'teeth'\?"):
        registry.build({"kind": "saw", "teth": 3}, size=1)


def test_a_colon_names_a_part_outside_of_the_package():
    assert POSITIONS.get("seqwright.nn.positions:Rotary") is POSITIONS.get("rotary")
    for name, message in (
        ("no.such.module:Thing", "cannot be imported"),
        ("seqwright.nn.positions:Nothing", "cannot be imported"),
        ("seqwright.nn.scores:Dot", "is not a Position"),
        (":Rotary", "cannot be imported: write it as my.module:Class"),
        (".positions:Rotary", "cannot be imported: write it as my.module:Class"),
    ):
        with pytest.raises(ConfigError, match=rf"position '{name}' {message}"):
            POSITIONS.get(name)


def test_a_spec_is_a_name_or_a_table():
    assert parse("score", "dot") == ("dot", {})
    table = {"kind": "shaw", "distance": 3}
    assert parse("position", table) == ("shaw", {"distance": 3})
    assert table == {"kind": "shaw", "distance": 3}  # it is the caller's
    with pytest.raises(ConfigError, match=r"position is \{'distance': 3\}; it needs a name: add kind"):
        parse("position", {"distance": 3})


@pytest.mark.parametrize("spec", [5, None, ["shaw"], {"kind": 3}])
def test_other_specs_are_refused(spec):
    with pytest.raises(ConfigError, match=r"position is .*a name, or a table|position is 3, not a name"):
        POSITIONS.build(spec, heads=2, key_size=4, value_size=4)


class Kiln:
    def __init__(
        self,
        *,
        bricks: Count = 9,
        doors: Whole | Sequence[Whole] | None = None,
        heat: Annotated[float, Gt(0), Lt(2)] = 1.0,
        wood: str | Mapping[str, Any] = "oak",
        lined: bool = True,
        noted: Annotated[int, "a word for people"] = 0,
        betas: tuple[float, float] = (0.9, 0.98),
        fuel: Literal["gas", "coal"] = "gas",
        other: Registry | None = None,
    ):
        pass


@pytest.mark.parametrize(
    ("key", "good", "bad", "rule"),
    [
        ("bricks", [1, 10], [0, -1, 2.0, True, None, "3"], "a whole number, at least 1"),
        (
            "doors",
            [0, [], [2, 0], (1,), None],
            [-1, [1, -1], 2.5, "2", [True]],
            "a whole number or a list of whole numbers, at least 0",
        ),
        ("heat", [1, 0.5], [0, 2, math.nan, math.inf, "1", [1.0]], "a number, above 0 and below 2"),
        ("wood", ["fir", {"kind": "fir"}], [5, ["fir"], None], "a name or a table"),
        ("lined", [False], [0, "no"], "true or false"),
        ("noted", [-3], ["x"], "a whole number"),
        ("betas", [(0, 1.0), [0.9, 1]], [0.9, [1], [1, "2"], [1, 2, 3]], "a list of 2 numbers"),
        ("fuel", ["coal"], ["peat", 3], "gas or coal"),
        ("other", [object(), 3], [], ""),  # a type that pydantic does not know
    ],
)
def test_a_value_of_another_type_or_outside_of_its_range(key, good, bad, rule):
    for value in good:
        check_options("kiln", Kiln, {key: value})
    for value in bad:
        with pytest.raises(ConfigError) as caught:
            check_options("kiln", Kiln, {key: value})
        assert str(caught.value).startswith(f"{key} of kiln is {value!r}; it must be ")
        assert str(caught.value).endswith(rule)


def test_all_problems_of_a_part_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        check_options("kiln", Kiln, {"bricks": 0, "brik": 3, "heat": "x", "fuel": "goal"})
    keys = [getattr(problem, "key", None) for problem in caught.value.problems]
    assert keys == [None, "bricks of kiln", "heat of kiln", "fuel of kiln"]
    assert str(caught.value).startswith("unknown option of kiln 'brik'; did you mean 'bricks'?")
    assert str(caught.value).endswith("it must be gas or coal; did you mean 'coal'?")


def test_positional_arguments_are_not_options():
    class Part:
        def __init__(self, size, *, heads=2):
            pass

    assert list(options_of(Part)) == ["heads"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ScaledDot", "scaled_dot"), ("Dot", "dot"), ("GRUCell", "gru_cell"), ("Layer2Norm", "layer2_norm")],
)
def test_snake_case(name, expected):
    assert snake_case(name) == expected


def test_without_a_close_name_there_is_no_suggestion():
    assert unknown("score", "qqqqq", ["dot", "additive"]) == "unknown score 'qqqqq'; there are: dot, additive"


def test_many_unknown_names_are_a_short_error_with_the_known_ones_once():
    known = [f"option_{number}" for number in range(50)]
    lines = unknown_each("option", [f"optoin_{number}" for number in range(20)], known)
    assert lines[0] == "unknown option 'optoin_0'; did you mean 'option_0'?"
    assert lines[-2] == "15 more are unknown"
    assert lines[-1].startswith("unknown option 'optoin_4'; did you mean 'option_4'? there are: option_0, ")
    assert "; ".join(lines).count("option_49") == 1
    assert unknown_each("option", [], known) == []
