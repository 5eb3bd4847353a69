"""Numbers as people and spreadsheets write them: groups of thousands, decimal commas, units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

_SPACES = " \u00a0\u202f'’"  # that stand between groups of digits, in Switzerland apostrophes
_UNITS = re.compile(r"(?P<sign>[-+\u2212]?)\s*[$€£¥₹]?\s*(?P<number>[\d.,\s'’]+?)\s*[$€£¥₹%]?")


class NumberFormat(NamedTuple):
    """How the numbers of a column are written; `parse` raises a ValueError for other texts."""

    parse: Callable[[str], float]
    remark: str = ""


def _with_commas(text: str) -> float:
    return float(text.replace(",", "."))


def _written(text: str, groups: str, decimal: str) -> float:
    """Return a number with groups of three digits between `groups`, and perhaps a unit."""
    found = _UNITS.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    number, group, mark = found["number"], f"[{groups}]", re.escape(decimal)
    if not re.fullmatch(rf"(\d+|\d{{1,3}}({group}\d{{3}})+)({mark}\d*)?|{mark}\d+", number):
        raise ValueError(text)
    value = float(re.sub(group, "", number).replace(decimal, "."))
    return -value if found["sign"] in ("-", "\u2212") else value


def _grouped(groups: str, decimal: str, example: str) -> NumberFormat:
    parse = partial(_written, groups=groups, decimal=decimal)
    return NumberFormat(parse, f"numbers are written like {example}")


PLAIN, COMMAS = NumberFormat(float), NumberFormat(_with_commas)
ENGLISH, GERMAN = _grouped(",", ".", "1,234.50"), _grouped(".", ",", "1.234,50")
SPACED = _grouped(_SPACES, ".", "1 234.50"), _grouped(_SPACES, ",", "1 234,50")


def number_format(cells: Iterable[str], *, commas: bool) -> NumberFormat:
    """Return the format that fits most cells, of several the usual one. commas: decimal commas are usual, as
    in a file whose cells are separated by semicolons.
    """
    usual = (COMMAS, GERMAN, *SPACED[::-1], ENGLISH) if commas else (PLAIN, ENGLISH, *SPACED, GERMAN)
    given = list(cells)
    if fitting(usual[0], given) == len(given):
        return usual[0]
    return max(usual, key=lambda each: fitting(each, given))  # the first one of equals


def fitting(written: NumberFormat, cells: Iterable[str]) -> int:
    """Return how many cells are numbers in a format."""
    return sum(_is_number(written, cell) for cell in cells)


def _is_number(written: NumberFormat, cell: str) -> bool:
    try:
        written.parse(cell)
    except ValueError:
        return False
    return True
