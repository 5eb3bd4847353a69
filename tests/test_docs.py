"""The documentation is correct: Python blocks run and print the output of the page, and commands parse.

The blocks of a page share one namespace, in order. A ```text block that directly follows a ```python block is
the exact output of that block.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch

from seqwright import cli
from seqwright.config import override, parse
from seqwright.config.presets import KIND, PRESETS
from seqwright.models.building import build_model

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^ {4}seqwright (\w+.*?)(?: +#.*)?$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """Code, the number of page lines before it, and its expected output; None accepts any output."""

    code: str
    line: int
    printed: str | None


def blocks(text: str) -> list[Block]:
    found = BLOCK.finditer(text)
    return [Block(match[1], text.count("\n", 0, match.start(1)), match[2]) for match in found]


def run(page: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run a page as a module, so that its classes can be named by module, in its own folder."""
    module = ModuleType("page_" + page.stem.replace("-", "_"))
    patch.setitem(sys.modules, module.__name__, module)
    patch.chdir(folder)
    for code, line, printed in blocks(page.read_text("utf-8")):
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile("\n" * line + code, str(page), "exec"), vars(module))
        if printed is not None:
            assert output.getvalue() == printed, f"{page.name}, line {line}: the output differs from the page"


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


PAGES = sorted(DOCS.rglob("*.md"))
CONCEPTS = sorted(DOCS.glob("concepts/*.md"))
COMMANDS = [
    pytest.param(command, id=f"{page.stem}: {command}")
    for page in CONCEPTS
    for command in COMMAND.findall(page.read_text("utf-8"))
]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text("utf-8"))], ids=name)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    run(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_concepts_parse(command):
    """The verb and its options exist, every key=value is valid, and the described model can be built."""
    words = shlex.split(command)
    assert words[0] in cli.COMMANDS
    cli.parse(words)
    changes = [word for word in words if "=" in word]
    given = dict(word.split("=", 1) for word in changes)
    kind = given.get("model.kind", PRESETS[given.get("model.preset", "tiny")].kind)
    unshared = {"share": False} if kind == KIND else {}
    base = {"model": {"preset": "tiny", "dropout": 0.3, **unshared}, "training": {"steps": 1}}
    config = parse(override(base, changes))
    facts = dict.fromkeys(("source_vocabulary", "target_vocabulary", "vocabulary", "classes"), 50)
    facts |= {"lookback": 96, "horizon": 24}
    facts |= {"channels": 3, "image_size": 32}
    with torch.device("meta"):  # no memory for models of full size
        build_model(config.model, **facts)


@pytest.mark.parametrize("page", CONCEPTS, ids=name)
def test_a_concept_page_has_all_sections(page):
    text = page.read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["The equation", "In the code", "See it", "Switch it", "Break it", "Questions"]
    assert len(text.splitlines()) <= 160


def test_links_have_targets():
    dead = [
        f"{page.name}: {link}"
        for page in [*ROOT.glob("*.md"), *PAGES]
        for link in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not dead


def test_links_have_headings():
    dead = [
        f"{page.name}: {link}#{anchor}"
        for page in [*ROOT.glob("*.md"), *PAGES]
        for link, anchor in ANCHOR.findall(page.read_text("utf-8"))
        if anchor not in anchors(page.parent / link if link else page)
    ]
    assert not dead


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub forms them."""
    headings = HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_contents_name_every_page():
    contents = DOCS / "README.md"
    named = {(DOCS / link).resolve() for link in LINK.findall(contents.read_text("utf-8"))}
    missing = [name(page) for page in PAGES if page != contents and not {page, page.parent} & named]
    assert not missing


WRONG = """
```python
print(1 + 1)
```

```text
3
```
"""


def test_a_wrong_output_is_detected(tmp_path, monkeypatch):
    page = tmp_path / "wrong.md"
    page.write_text(WRONG.replace("3", "2"), "utf-8")
    run(page, tmp_path, monkeypatch)
    page.write_text(WRONG, "utf-8")
    with pytest.raises(AssertionError, match=r"wrong\.md, line 2"):
        run(page, tmp_path, monkeypatch)


def test_only_an_output_directly_after_the_code_is_compared():
    apart = WRONG.replace("```text", "Some words.\n\n```text")
    assert [block.printed for block in blocks(WRONG)] == ["3\n"]
    assert [block.printed for block in blocks(apart)] == [None]
