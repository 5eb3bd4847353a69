"""The page of the server: plain modules and styles, served as they are. A panel is one file for one task."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from seqwright.lens import page as lens
from seqwright.serve.limits import Refusal
from seqwright.serve.operations import Operation

HOME, LENS = Path(__file__).parent, Path(lens.__file__).parent
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
GENERAL, IMAGES = "general", "image_classification"  # the panels of tasks that have none of their own
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def panel_of(task: str, images: bool) -> str:
    """Return the name of the panel of a task."""
    if (HOME / "panels" / f"{task}.js").exists():
        return task
    return IMAGES if images else GENERAL


def operations() -> list[Operation]:
    """The files of the page, and those of the look page that it shares, as they are on disk now."""
    own = {path.relative_to(HOME).as_posix(): path for path in HOME.rglob("*") if path.suffix in TYPES}
    shared = {f"lens/{path.name}": path for path in LENS.iterdir() if path.suffix in (".js", ".css")}
    files = {name: (path.read_bytes(), TYPES[path.suffix]) for name, path in {**own, **shared}.items()}

    def response(name: str) -> Response:
        if name not in files:
            raise Refusal(404, "there is no such file")
        content, kind = files[name]
        headers = {
            "Content-Security-Policy": POLICY,
            "Cache-Control": "no-cache",
            "Referrer-Policy": "same-origin",  # without a referrer, the form of a look has no origin
        }
        return Response(content, media_type=kind, headers=headers)

    async def index(request: Request) -> Response:
        return response("index.html")

    async def file(request: Request) -> Response:
        return response(request.path_params["name"])

    return [
        Operation("GET", "/", index, "The page.", open=True, hidden=True),
        Operation("GET", "/page/{name:path}", file, "A file of the page.", open=True, hidden=True),
    ]
