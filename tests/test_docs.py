"""The documentation runs: every Python block of a page, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))
]
LINK = re.compile(r"\]\(([^)#:]+?)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Path) -> None:
    namespace: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, page.name, "exec"), namespace)


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    dead = [
        f"{page.name}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not dead
