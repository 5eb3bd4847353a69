"""The data section of the report (split, lengths, characters, findings) and the list of choices."""

from __future__ import annotations

from seqwright.data.checks.statistics import RARE
from seqwright.data.text_display import pluralize
from seqwright.evaluation.wording import glyph
from seqwright.runs.report.bars import Bar, column_chart, length_columns, split_bar
from seqwright.runs.report.markup import Markup, element, figure, join, table, terms
from seqwright.runs.report.reader import Data, Document, Record
from seqwright.runs.report.summary import described, leaked
from seqwright.runs.report.wording import number

TOP = 28  # characters that are drawn
LISTED = 80  # rare characters that are listed


def data(record: Record) -> Markup | str:
    found = record.data
    if found is None:
        return record.absent["data.json"]
    read_as = f" Read as {'; '.join(form)}." if (form := found.texts("form")) else ""
    charts = [chart for name, column in found.columns.items() for chart in _column(name, column)]
    dropped = [element("li", line) for line in found.texts("dropped")]
    findings = [*map(_finding, found.documents("findings"))]
    parts = [
        element("p", f"{described(found)}.{read_as}"),
        _split(found),
        element("div", *charts, class_="charts"),
        _list("Dropped or changed", dropped, "No line was dropped or changed while reading."),
        _list("Findings", findings, "The data check found no problems.", class_="findings"),
    ]
    return join(parts)


def choices(record: Record) -> Markup | str:
    if record.data is None:
        return record.absent["data.json"]
    chosen = record.data.documents("choices")
    if not chosen:
        return "Nothing was chosen automatically: the configuration is complete."
    return terms(((each.text("what"), each.text("reason")) for each in chosen), "choices")


def _split(found: Data) -> Markup | None:
    split = found.counts("split")
    if not split:
        return None
    text = ", ".join(f"{count:,} {name}" for name, count in split.items())
    colours = (element("span", class_=f"key {colour}") for colour in ("one", "two", "three"))
    named = zip(colours, split.items(), strict=False)
    keys = (element("li", colour, f" {name} {count:,}") for colour, (name, count) in named)
    leaks = "Overlap of held-out data with the training data was not checked."
    if found.number("leaks") is not None:
        leaks = f"{leaked(found) or f'No held-out {found.unit} shares its input with the training data'}."
    return element(
        "div",
        split_bar(f"Split of the {found.unit}s: {text}", split),
        element("ul", *keys, class_="keys"),
        element("p", leaks),
        class_="split",
    )


def _column(name: str, column: Document) -> list[Markup]:
    """Draw the lengths, in words where texts have several, and the characters of a text column."""
    words, charts = (column.document("words").number("mean") or 0) >= 2, []
    kind, unit = ("words", "words or symbols") if words else ("characters", "characters")
    lengths, title = column.document(kind), f"Length of a {name}"
    known = lengths.counts("counts").items()
    if counts := {int(length): count for length, count in known if length.isdecimal() and len(length) < 16}:
        mean, longest = number(lengths.number("mean")), lengths.count("longest")
        text = f"In {unit}: {mean} on average, {longest:,} at most."
        drawn = column_chart(f"{title}. {text}", length_columns(counts), below=unit)
        rows = ((f"{length:,}", f"{count:,}") for length, count in sorted(counts.items()))
        charts.append(figure(title, text, drawn, table([unit, "texts"], rows, title)))
    if alphabet := column.counts("alphabet"):
        charts.append(_alphabet(f"Characters of the {name}s", alphabet, rare(column)))
    return charts


def rare(column: Document) -> list[str]:
    """Return the characters that occur too rarely to be learned, in visible form."""
    return [glyph(character) for character, count in column.counts("alphabet").items() if count < RARE]


def _alphabet(title: str, alphabet: dict[str, int], scarce: list[str]) -> Markup:
    letters = {character: count for character, count in alphabet.items() if character != " "}
    common = sorted(letters.items(), key=lambda item: (-item[1], item[0]))
    text = pluralize(len(letters), "distinct character") + (" and the space" if " " in alphabet else "")
    if scarce:
        more = f" and {len(scarce) - LISTED:,} more" if len(scarce) > LISTED else ""
        text += f"; {len(scarce):,} of them occur fewer than {RARE} times: {' '.join(scarce[:LISTED])}{more}"
    text += f". The {TOP} most common are drawn." if len(common) > TOP else "."
    columns = [Bar(glyph(c)[:3], count, f"{glyph(c)}: {count:,}") for c, count in common[:TOP]]
    points = (" ".join(f"U+{ord(each):04X}" for each in c) for c, _ in common)
    rows = ((glyph(c), point, f"{n:,}") for (c, n), point in zip(common[:1000], points, strict=False))
    numbers = table(["character", "code point", "count"], rows, title)
    return figure(title, text, column_chart(f"{title}: {text}", columns), numbers)


def _list(title: str, items: list[Markup], otherwise: str, **attributes: str) -> Markup:
    if not items:
        return element("p", otherwise)
    return join([element("h3", title), element("ul", *items, **attributes)])


def _finding(each: Document) -> Markup:
    severity, way_out = each.text("severity", "note"), each.text("way_out")
    listed = [place if isinstance(place, list) else [place] for place in each.entries("places")]
    places = ", ".join(":".join(map(str, place)) for place in listed)
    return element(
        "li",
        element("strong", severity),
        f" {each.text('sentence')}" + (f"; {way_out}" if way_out else ""),
        element("span", f" {places}", class_="places") if places else None,
        class_="warning" if severity == "warning" else "note",
    )
