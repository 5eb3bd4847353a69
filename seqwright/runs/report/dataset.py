"""What the model was trained on, what was left out and found odd, and what was chosen for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqwright.data.checks.statistics import RARE
from seqwright.data.text_display import amount
from seqwright.runs.report.bars import Column, column_chart, length_columns, split_bar
from seqwright.runs.report.heat import glyph
from seqwright.runs.report.markup import Markup, element, figure, join, table
from seqwright.runs.report.record import Data, Finding, Lengths, Record, Side
from seqwright.runs.report.summary import leaked
from seqwright.runs.report.wording import number

TOP = 28  # symbols that are drawn
LISTED = 80  # rare symbols that are listed


def data(record: Record) -> Markup | str:
    found = record.data
    if found is None:
        return record.absent["data.json"]
    form = f" Read as {'; '.join(found.form)}." if found.form else ""
    said = f"{amount(found.pairs, 'pair')} of {amount(found.sources, 'different source')}.{form}"
    charts = [chart for name in ("source", "target") for chart in _side(name, getattr(found, name))]
    return join(
        [
            element("p", said),
            _split(found),
            element("div", *charts, class_="charts"),
            _dropped(found.dropped),
            _findings(found.findings),
        ]
    )


def choices(record: Record) -> Markup | str:
    if record.data is None:
        return record.absent["data.json"]
    if not record.data.choices:
        return "Nothing was chosen for the user: the configuration said it all."
    listed = (
        element("div", element("dt", choice.what), element("dd", choice.reason))
        for choice in record.data.choices
    )
    return element("dl", *listed, class_="choices")


def _split(found: Data) -> Markup | None:
    if not found.split:
        return None
    said = ", ".join(f"{count:,} {name}" for name, count in found.split.items())
    keys = (
        element("li", element("span", class_=f"key {colour}"), f" {name} {count:,}")
        for (name, count), colour in zip(found.split.items(), ("one", "two", "three"), strict=False)
    )
    leaks = {
        None: "Whether held-out sources were trained on was not looked at.",
        0: "No held-out source was trained on.",
    }.get(found.leaks, f"{leaked(found)}.")
    return element(
        "div",
        split_bar(f"Split of the pairs: {said}", found.split),
        element("ul", *keys, class_="keys"),
        element("p", leaks),
        class_="split",
    )


def _side(name: str, side: Side) -> list[Markup]:
    """Charts of one side: lengths, in words where it has several, and the alphabet."""
    words = side.words.mean >= 2
    lengths, unit = (side.words, "words or symbols") if words else (side.characters, "characters")
    charts = [_lengths(f"Length of a {name}", lengths, unit)] if lengths.counts else []
    return [*charts, *([_alphabet(name, side)] if side.alphabet else [])]


def _lengths(title: str, lengths: Lengths, unit: str) -> Markup:
    said = f"In {unit}: {number(lengths.mean)} on average, {lengths.longest:,} at most."
    drawn = column_chart(f"{title}. {said}", length_columns(lengths.counts), below=unit)
    rows = ((f"{length:,}", f"{count:,}") for length, count in sorted(lengths.counts.items()))
    return figure(title, said, drawn, table([unit, "texts"], rows, title))


def rare(side: Side) -> list[str]:
    """The characters that a model can hardly have learnt, so that one can see them."""
    return [glyph(character) for character, count in side.alphabet.items() if count < RARE]


def _alphabet(name: str, side: Side) -> Markup:
    title = f"Characters of the {name}s"
    letters = {character: count for character, count in side.alphabet.items() if character != " "}
    common = sorted(letters.items(), key=lambda item: (-item[1], item[0]))
    seldom = rare(side)
    said = amount(len(letters), "different one") + (" beside the space" if " " in side.alphabet else "")
    said += f", {len(seldom):,} of them fewer than {RARE} times: {_listed(seldom)}." if seldom else "."
    if len(common) > TOP:
        said += f" Drawn are the {TOP} commonest."
    columns = [Column(glyph(c)[:3], count, f"{glyph(c)}: {count:,}") for c, count in common[:TOP]]
    rows = (
        (glyph(c), " ".join(f"U+{ord(each):04X}" for each in c), f"{count:,}") for c, count in common[:1000]
    )
    numbers = table(["character", "code point", "times"], rows, title)
    return figure(title, said, column_chart(f"{title}: {said}", columns), numbers)


def _listed(symbols: Sequence[str]) -> str:
    more = f" and {len(symbols) - LISTED:,} more" if len(symbols) > LISTED else ""
    return " ".join(symbols[:LISTED]) + more


def _dropped(lines: Sequence[str]) -> Markup:
    if not lines:
        return element("p", "No line was left out or changed in reading.")
    listed = element("ul", *(element("li", line) for line in lines))
    return join([element("h3", "Left out or changed"), listed])


def _findings(found: Sequence[Finding]) -> Markup | None:
    if not found:
        return element("p", "The check of the data found nothing odd.")
    return join([element("h3", "Found in the data"), element("ul", *map(_finding, found), class_="findings")])


def _finding(each: Finding) -> Markup:
    grave = each.severity == "warning"
    places = ", ".join(map(_place, each.places))
    return element(
        "li",
        element("strong", each.severity),
        f" {each.sentence}; {each.way_out}" if each.way_out else f" {each.sentence}",
        element("span", f" {places}", class_="places") if places else None,
        class_="warning" if grave else "note",
    )


def _place(place: Any) -> str:
    return ":".join(map(str, place)) if isinstance(place, list) else str(place)
