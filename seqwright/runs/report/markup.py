"""HTML that no text can break: what is not `Markup` is escaped, and characters that work unseen are named."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

from seqwright.data.fields import as_line

# Controls, what changes the direction of a line (Unicode 15, UAX #9), line separators, zero-width spaces,
# halves of surrogate pairs and noncharacters. Joiners stay: emoji and several scripts are written with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)
VOID = ("meta", "link")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def seen(text: str) -> str:
    """The text with ⟨U+202E⟩ in the place of a character that is not seen but moves or hides others."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def escape(content: object) -> str:
    return str(content) if isinstance(content, Markup) else html.escape(seen(str(content)))


def element(name: str, /, *children: object, **attributes: Any) -> Markup:
    """`<name attributes>children</name>`. Children that are None are left out, attributes that are None or
    False as well. `class_` is class, `stroke_width` is stroke-width; numbers lose needless digits.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Markup:
    """The parts that are not None, one after the other."""
    return Markup(between.join(escape(part) for part in parts if part is not None))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{_compact(value) if isinstance(value, float) else escape(value)}"'


def _compact(value: float) -> str:
    """A length in a drawing: to the hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def quoted(text: str) -> Markup:
    """A text of the user in a line of ours: its direction stays inside, and between its fields stands what a
    string of Python has there for a tab.
    """
    tab = element("span", "\\t", class_="field")
    return element("bdi", join(as_line(text).split("\t"), tab), class_="text")


def table(headings: Iterable[object], rows: Iterable[Iterable[object]], caption: str) -> Markup:
    """A table whose first column names the rows, in a frame that scrolls, also by keyboard."""
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in headings)))
    body = element("tbody", *(_row(list(cells)) for cells in rows))
    inner = element("table", element("caption", caption), head, body)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _row(cells: list[object]) -> Markup:
    return element("tr", element("th", cells[0], scope="row"), *(element("td", cell) for cell in cells[1:]))


def figure(title: str, said: object, drawn: Markup, numbers: Markup) -> Markup:
    """A drawing with its title, a line about it, and the same in numbers."""
    return element(
        "figure",
        element("figcaption", element("h3", title), element("p", said)),
        drawn,
        element("details", element("summary", f"Numbers: {title}"), numbers),
    )


def drawing(width: float, height: float, described: str, *parts: object) -> Markup:
    """An SVG that is as wide as its place, and read aloud as `described`."""
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=described)


def tip(name: str, text: str, /, **attributes: Any) -> Markup:
    """A shape that says `text` when one points at it."""
    return element(name, element("title", text), **attributes)
