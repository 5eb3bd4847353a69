"""report.html: one page that needs no network and no script, the same bytes for the same folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from seqwright.config import to_toml
from seqwright.errors import SeqwrightError
from seqwright.files import write_text
from seqwright.config.presets import PINNED
from seqwright.models.building import unpinned
from seqwright.runs.report import record as records
from seqwright.runs.report.dataset import choices, data
from seqwright.runs.report.learning import curves, probes, remarks
from seqwright.runs.report.markup import Markup, element, join
from seqwright.runs.report.mistakes import errors, examples
from seqwright.runs.report.record import Record
from seqwright.runs.report.summary import facts, header
from seqwright.runs.report.wording import files_like, shell_word

REPORT = "report.html"
# Nothing is loaded and nothing runs, whatever a text in the data may try.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

Part = Callable[[Record], Markup | str]


def write_report(folder: str | Path) -> Path:
    """Writes report.html into a run folder, from what lies there, and says where it is."""
    path = Path(folder) / REPORT
    write_text(path, page(records.read(folder)))
    return path


def page(record: Record) -> str:
    style = files("seqwright.runs.report").joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),  # or the browser asks for one
        element("title", f"{record.name} · Seqwright"),
        element("style", Markup(style)),
    )
    sections = [_section(name, title, part(record)) for name, (title, part) in PARTS.items()]
    body = element("body", header(record), _contents(), element("main", *sections))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def configuration(record: Record) -> Markup:
    config = dict(record.config)
    if isinstance(record.setting("model", PINNED), dict):
        with suppress(SeqwrightError):  # a model of parts that are not here stays as it was written down
            config["model"] = unpinned(config["model"])
    text = element("pre", to_toml(config), tabindex="0")
    return element("details", element("summary", "The whole configuration as TOML"), text)


def commands(record: Record) -> Markup:
    """What one can do with the model now."""
    run = shlex.quote(record.name)
    stored = record.examples.examples if record.examples else []
    trained = record.setting("data", "train") or []
    text = shell_word(stored[0].source if stored else "a text")
    listed = (
        (f"seqwright predict {run} < input.txt", "outputs, line by line"),
        (f"seqwright evaluate {run} {files_like(trained)}", "scores on other pairs, in the same form"),
        (f"seqwright look {run} {text} -o look.html", "where it looks, as a page"),
        (f"seqwright verify {run}", "is this model still what it was? The stored examples, once more"),
        (f"seqwright report {run}", "this page, anew"),
    )
    rows = (
        element("div", element("dt", element("code", line)), element("dd", said)) for line, said in listed
    )
    where = element("p", "Beside the folder ", element("code", record.name), ":")
    return join([where, element("dl", *rows, class_="commands")])


PARTS: dict[str, tuple[str, Part]] = {  # the sections in the order of the page: id, title, content
    "facts": ("Key facts", facts),
    "learning": ("Learning", curves),
    "probes": ("Probes through time", probes),
    "data": ("Data", data),
    "choices": ("Choices", choices),
    "errors": ("Errors", errors),
    "examples": ("Examples", examples),
    "remarks": ("Remarks of the training", remarks),
    "configuration": ("Configuration", configuration),
    "next": ("Next", commands),
}


def _section(name: str, title: str, content: Markup | str) -> Markup:
    """A part of the page, or one line where there is nothing to show."""
    heading = element("h2", title)
    if not isinstance(content, Markup):
        line = content[:1].upper() + content[1:].rstrip(".") + "."
        return element("section", heading, element("p", line, class_="absent"), id=name)
    return element("section", heading, content, id=name)


def _contents() -> Markup:
    links = (element("a", title, href=f"#{name}") for name, (title, _) in PARTS.items())
    return element("nav", *links, aria_label="parts of this page")
