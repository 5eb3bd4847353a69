"""Screenshots of the look page and of the server page of the small translation model."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.pictures import toy
from examples.pictures.browser import NAMES, Browser, chromium
from examples.pictures.gallery import FOLDER
from examples.pictures.grammar import sentences

LOOK, SERVE = FOLDER / "look-page.png", FOLDER / "serve-page.png"
SIZES = {LOOK: (1120, 920), SERVE: (1120, 560)}  # pixels
STATE = "#view=alignment&layout=matrix&t=2&theme=light"  # the address of the look page holds what it shows
NAME = "toy-en-fr"  # of the run: its languages
WORD = 3  # of the output, under the mouse


def take() -> str:
    """Train the model and photograph its pages. Return a line that says what happened."""
    program = chromium()
    if program is None:
        return f"{LOOK.name} and {SERVE.name} not taken: they need one of {', '.join(NAMES)}"
    with tempfile.TemporaryDirectory() as folder:
        run, page = Path(folder, NAME), Path(folder, "page.html")
        predictor = toy.trained(sentences(toy.PAIRS, seed=1), run)
        page.write_text(predictor.look(toy.ALIGNED).page(), "utf-8")
        with Browser(program, Path(folder, "profile")) as browser, served(run) as address:
            tab = browser.page(*SIZES[LOOK])
            tab.open(page, STATE, ready="document.body.dataset.ready")
            tab.screenshot(LOOK)
            tab = browser.page(*SIZES[SERVE])
            tab.visit(address, ready="document.querySelector('textarea')")
            tab.type("textarea", toy.ALIGNED)
            tab.wait("document.querySelectorAll('.choices button').length > 1")
            tab.point(f".output .word:nth-of-type({WORD})")
            tab.wait("document.querySelector('.mirror mark')")
            tab.screenshot(SERVE)
    return f"{LOOK.name} and {SERVE.name} taken"


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address of a server of a run, which ends with the block."""
    command = [sys.executable, "-m", "seqwright", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"{server.stdout.readline().split()[-1]}/"  # listening on …
        finally:
            server.terminate()


if __name__ == "__main__":
    print(take())
