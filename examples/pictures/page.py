"""The picture of the README: a screenshot of the look page of the small translation model."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from examples.pictures import toy
from examples.pictures.gallery import FOLDER
from examples.pictures.grammar import sentences

FILE = FOLDER / "look-page.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1120, 920  # pixels
STATE = "view=alignment&layout=matrix&t=2&theme=light"  # the address of the page holds what it shows
SECONDS = 120  # for the browser


def take() -> str:
    """Train the model, write its look page and photograph it. Return a line that says what happened."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        return f"{FILE.name} not taken: it needs one of {', '.join(BROWSERS)}"
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "page.html", Path(folder) / "page.png"
        predictor = toy.trained(sentences(toy.PAIRS, seed=1), Path(folder) / "toy")
        page.write_text(predictor.look(toy.ALIGNED).page(), "utf-8")
        photograph(browser, page, shot)
        shutil.copyfile(shot, FILE)
    return f"{FILE.name} taken"


def photograph(browser: str, page: Path, shot: Path) -> None:
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={page.parent / 'profile'}",
        "--virtual-time-budget=3000",  # milliseconds that the page has to draw itself
        f"--window-size={WIDTH},{HEIGHT}",
        f"--screenshot={shot}",
        f"{page.as_uri()}#{STATE}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)


if __name__ == "__main__":
    print(take())
