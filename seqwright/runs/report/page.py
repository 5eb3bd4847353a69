"""report.html: one page without network access or scripts; the same folder gives the same bytes."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from seqwright.config import to_toml
from seqwright.config.presets import PINNED
from seqwright.errors import SeqwrightError
from seqwright.files import write_text
from seqwright.models.building import unpinned
from seqwright.runs.report.dataset import choices, data
from seqwright.runs.report.learning import curves, probes, remarks
from seqwright.runs.report.markup import Markup, element, join, terms
from seqwright.runs.report.mistakes import errors, examples
from seqwright.runs.report.reader import Record
from seqwright.runs.report.series import forecasts
from seqwright.runs.report.summary import facts, header
from seqwright.runs.report.wording import files_like, is_stored_image, sentence, shell_word

REPORT = "report.html"
# Nothing is loaded and nothing runs, whatever the texts in the data contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

Section = Callable[[Record], Markup | str | None]  # a text: why there is nothing; None: it does not apply


def write_report(folder: str | Path) -> Path:
    """Write report.html into a run folder and return its path."""
    path = Path(folder) / REPORT
    write_text(path, page(Record(folder)))
    return path


def document(title: str, *content: Markup) -> str:
    """Return a complete page in the style of the report."""
    style = files("seqwright.runs.report").joinpath("page.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),  # otherwise browsers request a favicon
        element("title", f"{title} · Seqwright"),
        element("style", Markup(style)),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *content), lang='en')}\n"


def page(record: Record) -> str:
    links, sections = [], []
    for name, (title, section) in SECTIONS.items():
        content = section(record)
        if content is None:
            continue
        if not isinstance(content, Markup):  # the reason why the section is empty
            content = element("p", sentence(content), class_="absent")
        links.append(element("a", title, href=f"#{name}"))
        sections.append(element("section", element("h2", title), content, id=name))
    contents = element("nav", *links, aria_label="sections of this page")
    return document(record.name, header(record), contents, element("main", *sections))


def configuration(record: Record) -> Markup:
    config = dict(record.config)
    if isinstance(record.setting("model", PINNED), dict):
        with suppress(SeqwrightError):  # a model with parts that are not installed stays as stored
            config["model"] = unpinned(config["model"])
    text = element("pre", to_toml(config), tabindex="0")
    return element("details", element("summary", "The complete configuration as TOML"), text)


def commands(record: Record) -> Markup:
    run, test = shlex.quote(record.name), files_like(record.training_files)
    source = record.examples[0].text("source") if record.examples else "a text"
    text, reads = ("photo.jpg", "image") if is_stored_image(source) else (shell_word(source), "input line")
    given = f"{text} folder" if reads == "image" else "< input.txt"
    predict = (f"seqwright predict {run} {given}", f"one output per {reads}")
    look = (f"seqwright look {run} {text} -o look.html", "attention for one input, as a page")
    if record.setting("task") == "forecasting":
        predict = (f"seqwright predict {run} history.csv > forecast.csv", "what follows a history")
        look = (f"seqwright look {run} history.csv -o look.html", "what the forecast attends to, as a page")
    listed = (
        predict,
        (f"seqwright evaluate {run} {test}", "scores on other data in the same format"),
        look,
        (f"seqwright verify {run}", "checks the files and that the model still gives the stored outputs"),
        (f"seqwright report {run}", "writes this page again"),
    )
    where = element("p", "In the folder that contains ", element("code", record.name), ":")
    return join([where, terms(((element("code", each), note) for each, note in listed), "commands")])


SECTIONS: dict[str, tuple[str, Section]] = {  # in the order of the page: id -> title, content
    "facts": ("Key facts", facts),
    "forecasts": ("Forecasts", forecasts),
    "learning": ("Training curves", curves),
    "probes": ("Probes", probes),
    "data": ("Data", data),
    "choices": ("Automatic choices", choices),
    "errors": ("Errors", errors),
    "examples": ("Examples", examples),
    "remarks": ("Training diagnostics", remarks),
    "configuration": ("Configuration", configuration),
    "next": ("Next steps", commands),
}
