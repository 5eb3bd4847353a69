"""The browser of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.pictures import browser as driver
from examples.pictures.browser import NAMES, Page

__all__ = ["Browser", "Page"]


class Browser(driver.Browser):
    """Chromium. Without it a test is skipped, and fails where it is promised."""

    def __init__(self, profile: Path):
        program = driver.chromium()
        if program is None and os.environ.get("SEQWRIGHT_BROWSER_REQUIRED") == "1":
            pytest.fail(f"SEQWRIGHT_BROWSER_REQUIRED is 1, but none of {', '.join(NAMES)} is installed")
        if program is None:
            pytest.skip("no chromium")
        super().__init__(program, profile)
