"""One browser for all tests of the page, and pages of traces to open in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page

from seqwright.lens.page import render

READY = "document.body.dataset.ready"
Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def look(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """look(*traces, at="#t=4"): open the page of some traces; it must end without errors."""
    pages: list[Page] = []

    def look(
        *traces: dict[str, Any], at: str = "", dark: bool = False, width: int = 1280, **options: Any
    ) -> Page:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(render(list(traces), **options), encoding="utf-8")
        pages.append(browser.page(width=width, dark=dark))
        pages[-1].open(path, at, ready=READY)
        return pages[-1]

    yield look
    for page in pages:
        page.evaluate("0")  # earlier messages have arrived by now
        page.close()
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
