"""The file itself: one document, no requests, text that stays text, the same bytes for the same traces."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from synthetic_traces import make_trace, older

from seqwright.errors import InputError
from seqwright.lens.page import HOME, in_script, render
from seqwright.lens.page.bundle import bundle
from seqwright.lens.trace.document import Trace

HOSTILE = "</script><img src=x onerror=alert(1)><!-- \u2028 \ud800 &amp; {{script}}"


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_page_holds_its_traces_unchanged():
    traces = [make_trace(), make_trace(seed=1)]
    learning = [{"step": 10, "loss": 2.5}]
    assert data_of(render(traces, title="t", learning=learning)) == {
        "title": "t",
        "traces": traces,
        "learning": learning,
    }


def test_the_same_traces_give_the_same_bytes():
    assert render([make_trace()]) == render([make_trace()])


def test_hostile_text_cannot_leave_its_script():
    trace = make_trace(text=HOSTILE, output=HOSTILE)
    page = render([trace], title=HOSTILE)
    assert data_of(page)["traces"] == [trace]
    assert page.encode("utf-8")
    assert page.count("</script>") == 2  # the data and the program
    assert "<img" not in page
    assert "<!--" not in page


@pytest.mark.parametrize("value", ["</script>", "<!--<script>", "a&b", "\u2028", "\ud800", "<\\u003c"])
def test_json_in_a_script_means_the_same(value):
    text = in_script(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&")
    assert text.isascii()


def test_nothing_on_the_page_is_fetched_or_parsed():
    """Markup is never made from text, and no address leads outside."""
    page = render([make_trace()])
    program = bundle(HOME, "main") + bundle(HOME, "forecast_main")
    assert (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
        in page
    )
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "import(",
    ):
        assert forbidden not in program
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a vocabulary, never requested


def test_a_page_needs_a_trace():
    with pytest.raises(InputError, match="at least one trace"):
        render([])


def test_a_trace_of_a_newer_format_is_refused():
    with pytest.raises(InputError, match="format 3, newer than 2"):
        render([make_trace(), make_trace() | {"format": 3}])


def test_a_trace_of_format_1_is_upgraded(tmp_path: Path):
    file = tmp_path / "older.json"
    file.write_text(json.dumps(older(make_trace())), encoding="utf-8")
    (held,) = data_of(render([older(make_trace())]))["traces"]
    assert Trace.load(file).document == held
    assert held["format"] == 2
    assert {"names", "axes", "kinds"} <= held.keys()


def test_modules_are_ordered_by_their_imports(tmp_path: Path):
    (tmp_path / "main.js").write_text('import { b as renamed } from "./two.js";\nrenamed();\n')
    (tmp_path / "two.js").write_text('import { a } from "./one.js";\nexport const b = () => a();\n')
    (tmp_path / "one.js").write_text("export async function a() {}\nfunction hidden() {}\n")
    text = bundle(tmp_path, "main")
    places = [text.index(f"const module_{name} ") for name in ("one", "two", "main")]
    assert places == sorted(places)
    assert "const { b: renamed } = module_two;" in text
    assert "return { a };" in text
    assert "export" not in text


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"main": 'import { a } from "./a.js";\n', "a": 'import { b } from "./main.js";\n'},
            "main → a → main",
        ),
        ({"main": "export default 3;\n"}, "export default 3"),
        ({"main": 'import * as all from "./a.js";\n'}, "import"),
        ({"main": 'const text = "</SCRIPT>";\n'}, "</SCRIPT"),
    ],
)
def test_unsupported_modules_are_refused(tmp_path: Path, files: dict[str, str], problem: str):
    for name, text in files.items():
        (tmp_path / f"{name}.js").write_text(text)
    with pytest.raises(ValueError, match=re.escape(problem)):
        bundle(tmp_path, "main")


def test_every_module_is_used():
    program = bundle(HOME, "main") + bundle(HOME, "forecast_main")
    unused = [path.stem for path in HOME.glob("*.js") if f"const module_{path.stem} " not in program]
    assert unused == []


def test_the_lines_of_the_page_can_be_read():
    """As those of the rest of the project."""
    long = [
        f"{path.name}:{number}"
        for path in (*HOME.glob("*.js"), *HOME.glob("*.css"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 110
    ]
    assert long == []
