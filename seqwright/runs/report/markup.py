"""HTML that no text can break: everything but `Markup` is escaped, invisible characters are named."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

from seqwright.data.fields import as_line

# Controls, direction marks (Unicode 15, UAX #9), line separators, zero-width spaces, lone surrogates and
# noncharacters. Joiners stay: emoji and several scripts need them.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)
VOID = ("meta", "link", "img")


class Markup(str):
    """A string that is HTML already."""

    __slots__ = ()


def show_invisible(text: str) -> str:
    """Return the text with invisible characters as code points, such as ⟨U+202E⟩."""
    return _INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def escape(content: object) -> str:
    return str(content) if isinstance(content, Markup) else html.escape(show_invisible(str(content)))


def element(name: str, /, *children: object, **attributes: Any) -> Markup:
    """Return `<name attributes>children</name>`. Children that are None and attributes that are None or False
    are omitted. `class_` is class, `stroke_width` is stroke-width; floats are rounded to 0.01 pixels.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}>" + ("" if name in VOID else f"{join(children)}</{name}>"))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Join the parts that are not None."""
    return Markup(between.join(escape(part) for part in parts if part is not None))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(value)
    return f' {name}="{text}"'


def quoted(text: str) -> Markup:
    """Return a text from the data, with its own direction; its fields are separated by a visible \\t."""
    tab = element("span", "\\t", class_="field")
    return element("bdi", join(as_line(text).split("\t"), tab), class_="text")


def table(headings: Iterable[object], rows: Iterable[Iterable[object]], caption: str) -> Markup:
    """Return a table whose first column has row headers, in a frame that scrolls, also by keyboard."""
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in headings)))
    body = []
    for name, *cells in rows:
        body.append(element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells)))
    inner = element("table", element("caption", caption), head, element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def terms(entries: Iterable[tuple[object, object]], kind: str) -> Markup:
    """Return a list of terms and their descriptions."""
    rows = (element("div", element("dt", term), element("dd", text)) for term, text in entries)
    return element("dl", *rows, class_=kind)


def figure(title: str, caption: object, drawn: Markup, numbers: Markup) -> Markup:
    """Return a drawing with a title, a caption, and the same data as a table."""
    return element(
        "figure",
        element("figcaption", element("h3", title), element("p", caption)),
        drawn,
        element("details", element("summary", f"Numbers: {title}"), numbers),
    )


def drawing(width: float, height: float, description: str, *parts: object) -> Markup:
    """Return an SVG that fills its container; screen readers read `description`."""
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=description)


def tip(name: str, text: str, /, **attributes: Any) -> Markup:
    """Return a shape with a tooltip."""
    return element(name, element("title", text), **attributes)
