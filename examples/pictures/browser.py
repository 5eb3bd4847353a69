"""A real browser, driven over the DevTools protocol with the standard library alone.

Chromium speaks JSON messages, each ended by a zero byte, on its file descriptors 3 (in) and 4 (out) when it
is started with --remote-debugging-pipe (https://chromedevtools.github.io/devtools-protocol).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 30.0  # seconds for one answer
KEYS = {  # name -> (code, number of the key, text that it types)
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Tab": ("Tab", 9, ""),
    "Escape": ("Escape", 27, ""),
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
}


def chromium() -> str | None:
    """The program; None if it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One process of a program; a context manager that ends it with all its children."""

    def __init__(self, program: str, profile: Path):
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, 3),
            (os.POSIX_SPAWN_DUP2, theirs_out, 4),
            *((os.POSIX_SPAWN_DUP2, null, standard) for standard in (0, 1, 2)),
        ]
        self.process = os.posix_spawn(command[0], command, os.environ, file_actions=actions, setpgroup=0)
        for descriptor in (theirs_in, theirs_out, null):
            os.close(descriptor)
        self._buffer = bytearray()
        self._number = 0
        self._listeners: dict[str | None, Callable[[str, dict[str, Any]], None]] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command and its answer. Events that arrive meanwhile go to the page they belong to."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self._number:
                break
            if "method" in answer and (listener := self._listeners.get(answer.get("sessionId"))):
                listener(answer["method"], answer["params"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read(self, deadline: float, method: str) -> dict[str, Any]:
        while (end := self._buffer.find(0)) < 0:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no answer to {method} within {PATIENCE:g} s")
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise RuntimeError(f"the browser ended during {method}")
            self._buffer += chunk
        message = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return json.loads(message)

    def page(self, width: int = 1280, height: int = 800, *, dark: bool = False) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        self._listeners[session] = page.hear
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.prefer(dark=dark)
        return page


class Page:
    """A tab: what it asked the network for (`requests`) and complained about (`complaints`) is kept."""

    def __init__(self, browser: Browser, target: str, session: str):
        self._browser, self._target, self._session = browser, target, session
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, *, dark: bool) -> None:
        """What the reader of the page chose as colour scheme in the settings of the machine."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, fragment: str = "", *, ready: str = "true") -> None:
        """Open a file and wait until `ready`, an expression of JavaScript, holds."""
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        self.wait(f"document.readyState === 'complete' && location.protocol === 'file:' && ({ready})")

    def visit(self, url: str, *, ready: str = "true") -> None:
        """Open an address and wait until `ready` holds."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && ({ready})")

    def type(self, selector: str, text: str) -> None:
        """Put text into a field, as an input method does."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, condition: str, patience: float = 10.0) -> None:
        """Return as soon as an expression holds."""
        deadline = time.monotonic() + patience
        while True:
            try:
                if self.evaluate(f"Boolean({condition})"):
                    return
            except RuntimeError:  # the old page is leaving, or what is asked for is not there yet
                if time.monotonic() > deadline:
                    raise
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition} did not come true within {patience:g} s")
            time.sleep(0.02)

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, down and up, at whatever has the focus."""
        code, number, text = KEYS.get(key, ("", ord(key.upper()[0]), key))
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def point(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """Move the mouse to a share (x, y) of an element's box, scrolled into view; where that is."""
        left, top, width, height = self.evaluate(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = found.getBoundingClientRect();"
            "return [box.left, box.top, box.width, box.height]; })()"
        )
        at = (left + width * x, top + height * y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
        return at

    def click(self, selector: str, x: float = 0.5, y: float = 0.5, *, shift: bool = False) -> None:
        """A real click: what covers the element gets it instead."""
        at = self.point(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=at[0],
                y=at[1],
                button="left",
                clickCount=1,
                modifiers=8 if shift else 0,
            )

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def count(self, selector: str) -> int:
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """The window, or the whole page, as a PNG."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))
