"""Times as people write them: the format of a column, found from its cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from seqwright.data.text_display import excerpt

_CLOCKS = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "")
_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%Y", "%m-%d-%Y")
FORMATS = (
    *(day + clock for day in _DAYS for clock in _CLOCKS),
    *("%Y-%m", "%Y/%m", "%b %Y", "%B %Y", "%b-%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y"),
    *("%b %d %Y", "%b %d, %Y", "%B %d %Y", "%B %d, %Y", "%Y-%m-%d %H"),
)
DIGITS = {14: "%Y%m%d%H%M%S", 12: "%Y%m%d%H%M", 8: "%Y%m%d", 6: "%Y%m"}  # times written without separators
YEARS = range(1800, 2200)  # of which numbers are read as times
SINCE_1970 = ((10**17, 10**19, "nanoseconds"), (10**14, 10**16, "microseconds"),
              (10**11, 10**13, "milliseconds"), (10**8, 10**10, "seconds"))  # fmt: skip
QUARTER = re.compile(
    r"(?P<year>\d{4})[ -]?Q(?P<quarter>[1-4])|Q(?P<first>[1-4])[ -]?(?P<last>\d{4})", re.IGNORECASE
)
CACHED = 1 << 16  # times; the series of a long file share them


class TimeFormat(NamedTuple):
    """How the cells of a column become times. parse: microseconds since 1970, or a number of steps with
    `whole`. zoned: they have a time zone and become UTC. remark: what is not obvious about them.
    """

    parse: Callable[[str], int]
    whole: bool = False
    zoned: bool = False
    remark: str = ""


def time_format(cells: Sequence[str], *, integers: bool) -> TimeFormat:
    """Return the format that fits every cell; integers: whether numbers may be times.

    A ValueError names the first cell that fits no format, or a mix of times with and without a zone.
    """
    sample = [cell.strip() for cell in cells if cell.strip()]
    if not sample:
        raise ValueError("no times")
    if all(re.fullmatch(r"[+-]?\d{1,19}", cell) for cell in sample):
        if (found := _of_digits(sample, integers)) is None:
            raise ValueError(f"{sample[0]!r} is a number")
        return found
    zones = {_iso(cell).tzinfo is not None for cell in sample} if _fits(_iso, sample) else None
    if zones == {True, False}:
        first = _iso(sample[0]).tzinfo is None
        odd = next(cell for cell in sample if (_iso(cell).tzinfo is None) is not first)
        rule = "some times have a time zone and some have none; write all of them in one zone"
        raise ValueError(f"{rule} ({excerpt(odd)} is the first that differs)")
    if zones == {True} and len(sample) > 1 and len({_iso(cell).time() for cell in sample}) == 1:
        return TimeFormat(_of_day, remark="days are those of the time zone in the file")
    if zones == {True}:
        return TimeFormat(_zoned, zoned=True, remark="times are converted to UTC")
    if zones == {False}:
        return TimeFormat(_unzoned)
    if _fits(_quarter, sample):
        return TimeFormat(_quarter)
    fitting = [parse for parse in map(_strptime, FORMATS) if _fits(parse, sample)]
    if fitting:
        return TimeFormat(min(fitting, key=lambda parse: _missing_steps(parse, sample)))
    odd = next((cell for cell in sample if not _fits(_iso, [cell])), sample[0])
    raise ValueError(f"{excerpt(odd)} is not a time in the format of the others; write 2024-05-31 13:00")


def _of_digits(sample: Sequence[str], integers: bool) -> TimeFormat | None:
    """Return the format of whole numbers: dates without separators, time since 1970, or numbers of steps."""
    form = DIGITS.get(len(sample[0]))
    if form is not None and _fits(parse := _compact(form), sample):
        return TimeFormat(parse)
    if not integers:
        return None
    numbers = [int(cell) for cell in sample]
    for low, high, unit in SINCE_1970:
        if low <= min(numbers) and max(numbers) < high:
            return TimeFormat(_since_1970(unit), remark=f"times are {unit} since 1970, in UTC")
    return TimeFormat(int, whole=True)


def _missing_steps(parse: Callable[[str], int], sample: Sequence[str]) -> int:
    """Return how many steps are missing if the times are read like this: 03/04/2024 may be in March or April,
    and the wrong reading leaves gaps.
    """
    times = sorted({parse(cell) for cell in sample})
    apart = Counter(after - before for before, after in pairwise(times))
    return round((times[-1] - times[0]) / apart.most_common(1)[0][0]) + 1 - len(times) if apart else 0


def _fits(parse: Callable[[str], Any], cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            parse(cell)
    except (ValueError, OverflowError):
        return False
    return True


def _iso(cell: str) -> datetime:
    if len(cell) < 8:  # 2024 and 2024-05 are read as numbers, and as months
        raise ValueError(cell)
    return datetime.fromisoformat(cell)


def _zoned(cell: str) -> int:
    return _microseconds(_with_zone(_iso(cell), True))


def _of_day(cell: str) -> int:
    """Return the time without its zone: midnight is another moment in UTC in summer than in winter."""
    return _microseconds(_with_zone(_iso(cell), True).replace(tzinfo=None))


def _unzoned(cell: str) -> int:
    return _microseconds(_with_zone(_iso(cell), False))


def _with_zone(moment: datetime, wanted: bool) -> datetime:
    if (moment.tzinfo is not None) is not wanted:
        raise ValueError("mixed time zones")
    return moment


def _quarter(cell: str) -> int:
    found = QUARTER.fullmatch(cell)
    if found is None:
        raise ValueError(cell)
    year, quarter = found["year"] or found["last"], found["quarter"] or found["first"]
    return _microseconds(datetime(int(year), 3 * int(quarter) - 2, 1))


def _strptime(form: str) -> Callable[[str], int]:
    return lru_cache(CACHED)(lambda cell: _microseconds(datetime.strptime(cell, form)))


def _compact(form: str) -> Callable[[str], int]:
    length = next(length for length, each in DIGITS.items() if each == form)

    @lru_cache(CACHED)
    def parse(cell: str) -> int:
        moment = datetime.strptime(cell, form)
        if len(cell) != length or moment.year not in YEARS:
            raise ValueError(cell)
        return _microseconds(moment)

    return parse


def _since_1970(unit: str) -> Callable[[str], int]:
    if unit == "nanoseconds":
        return lambda cell: int(cell) // 1000
    size = timedelta(**{unit: 1}) // timedelta(microseconds=1)
    return lambda cell: int(cell) * size


def _microseconds(moment: datetime) -> int:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
