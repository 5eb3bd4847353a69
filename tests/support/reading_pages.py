"""How tests read a page and turn its knobs."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
from browser import Page


def unpack(packed: dict[str, Any]) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, packed["dtype"]).reshape(packed["shape"])


def weights(trace: dict[str, Any], kind: str, layer: int) -> np.ndarray:
    """(H, Q, K), as in docs/trace.md."""
    entry = next(one for one in trace["attention"] if (one["kind"], one["layer"]) == (kind, layer))
    return unpack(entry["weights"]) / entry["levels"] * np.array(entry["scales"])[:, None, None]


def rows_of(page: Page, table: str) -> list[list[str]]:
    return page.evaluate(
        f"[...document.querySelectorAll('{table} tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )


def table(page: Page) -> list[list[str]]:
    """The values that a view shows as a table, without its head."""
    if not page.count(".panel .table:not(.plain)"):
        page.press("x")
        page.wait("document.querySelector('.panel .table:not(.plain)')")
    return rows_of(page, ".panel .table")


def numbers(row: list[str]) -> list[float]:
    return [float(text.replace("−", "-")) for text in row]


def state(page: Page) -> dict[str, str]:
    """The choices in the address."""
    return dict(page.evaluate("[...new URLSearchParams(location.hash.slice(1))]"))


def go(page: Page, view: str) -> None:
    page.click(f"#tab-{view}")
    page.wait(
        f"document.body.dataset.ready === '{view}' && document.querySelector('.panel .body').firstChild"
    )


def drag(page: Page, label: str, value: float) -> None:
    """Move a slider, as a hand would."""
    page.evaluate(
        f"(() => {{ const range = document.querySelector('input[aria-label={json.dumps(label)}]');"
        f"range.value = {value}; range.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )
