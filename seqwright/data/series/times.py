"""Times as people write them: the format of a column, found from its cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from seqwright.data.text_display import excerpt, shorten_list

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
UTC_TIMES, DAYS = "iso, in UTC", "iso, days of the zone"  # the names of formats
EPOCH, STEPS = "since 1970:", "steps"
CACHED = 1 << 16  # times; the series of a long file share them


class TimeFormat(NamedTuple):
    """How the cells of a column become times. parse: microseconds since 1970, or a number of steps with
    `whole`. name: identifies the format in a run. zoned: they have a time zone and become UTC. remark: what
    is not obvious about them.
    """

    parse: Callable[[str], int]
    name: str
    whole: bool = False
    zoned: bool = False
    remark: str = ""


def time_format(cells: Sequence[str], *, integers: bool, known: str = "", days: bool = False) -> TimeFormat:
    """Return the format that fits every cell; integers: whether numbers may be times.

    known: the name of the format of the training data; where several formats fit, it decides, also by its
    order of day and month. days: whether times with a zone are days of that zone in doubt. A ValueError
    names the first cell that fits no format, a mix of times with and without a zone, or a cell that can be
    read both ways.
    """
    sample = [cell.strip() for cell in cells if cell.strip()]
    if not sample:
        raise ValueError("no times")
    if all(re.fullmatch(r"[+-]?\d{1,19}", cell) for cell in sample):
        if (found := _of_digits(sample, integers)) is None:
            raise ValueError(f"{sample[0]!r} is a number")
        return found
    fitting = _fitting(sample)
    if not fitting:
        odd = next((cell for cell in sample if not _fits(_iso, [cell])), sample[0])
        raise ValueError(f"{excerpt(odd)} is not a time in the format of the others; write 2024-05-31 13:00")
    for name in (known, DAYS) if days else (known,):
        if same := [each for each in fitting if each.name == name]:
            return same[0]
    return _in_order(fitting, sample, known) if known else fitting[0]


def _fitting(sample: Sequence[str]) -> list[TimeFormat]:
    """Return the formats that fit every cell, the most probable one first."""
    zones = {_iso(cell).tzinfo is not None for cell in sample} if _fits(_iso, sample) else None
    if zones == {True, False}:
        first = _iso(sample[0]).tzinfo is None
        odd = next(cell for cell in sample if (_iso(cell).tzinfo is None) is not first)
        rule = "some times have a time zone and some have none; write all of them in one zone"
        raise ValueError(f"{rule} ({excerpt(odd)} is the first that differs)")
    if zones == {True}:
        times = TimeFormat(_zoned, UTC_TIMES, zoned=True, remark=_conversion(sample))
        if len({_iso(cell).time() for cell in sample}) > 1:
            return [times]
        days = TimeFormat(_of_day, DAYS, remark="days are those of the time zone in the file")
        return [days, times] if len(sample) > 1 else [times, days]
    if zones == {False}:
        return [TimeFormat(_unzoned, "iso")]
    if _fits(_quarter, sample):
        return [TimeFormat(_quarter, "quarter")]
    fitting = [TimeFormat(_strptime(form), form) for form in FORMATS if _fits(_strptime(form), sample)]
    return sorted(fitting, key=lambda each: _missing_steps(each.parse, sample))


def _conversion(sample: Sequence[str]) -> str:
    """Describe the offsets of times with a zone, in the order of the times."""
    offsets = dict.fromkeys(str(_iso(cell).tzinfo) for cell in sample)
    if len(offsets) == 1:
        return "times are converted to UTC"
    return f"times have mixed offsets ({shorten_list(offsets)}) and are converted to UTC"


def _in_order(fitting: Sequence[TimeFormat], sample: Sequence[str], known: str) -> TimeFormat:
    """Return the first format with the order of day and month of the training data. Without an order there,
    a ValueError names a cell that can be read both ways.
    """
    if order := _order(known):
        same = [each for each in fitting if _order(each.name) in ("", order)]
        if not same:
            names = ("day", "month") if order == "%m" else ("month", "day")
            rule = f"has the {names[0]} first, but the training data have the {names[1]} first"
            raise ValueError(f"{excerpt(sample[0])} {rule}; write 2024-05-31")
        return same[0]
    first, *others = fitting
    for other in others:
        odd = next((cell for cell in sample if other.parse(cell) != first.parse(cell)), None)
        as_probable = _missing_steps(other.parse, sample) == _missing_steps(first.parse, sample)
        if odd is not None and _order(other.name) and as_probable:
            raise ValueError(f"{excerpt(odd)} may have the day or the month first; write 2024-05-31")
    return first


def _order(name: str) -> str:
    """Return what a format has first, %d or %m, if both orders are usual."""
    return name[:2] if name.startswith(("%d/%m", "%d-%m", "%m/%d", "%m-%d")) else ""


def check_zone(known: str, own: str) -> None:
    """Raise a ValueError if times without a zone would be laid on the moments of times with one, or the other
    way round; `known` and `own` are the names of formats. Times since 1970 are in UTC, and so are times
    without a zone next to them.
    """
    if STEPS in (known, own) or known.startswith(EPOCH):
        return
    zoned, own_zoned = (name in (UTC_TIMES, DAYS) for name in (known, own))
    if zoned and not own_zoned and not own.startswith(EPOCH):
        rule = "the times have no time zone, but those of the training data have one"
        raise ValueError(f"{rule}; add it, as in 2024-05-31 13:00+02:00")
    if not zoned and (own_zoned or own.startswith(EPOCH)):
        have = "have a time zone" if own_zoned else "are counted from 1970, in UTC"
        rule = f"the times {have}, but those of the training data have no time zone"
        raise ValueError(f"{rule}; write them in the local time of the training data, without a zone")


def _of_digits(sample: Sequence[str], integers: bool) -> TimeFormat | None:
    """Return the format of whole numbers: dates without separators, time since 1970, or numbers of steps."""
    form = DIGITS.get(len(sample[0]))
    if form is not None and _fits(parse := _compact(form), sample):
        return TimeFormat(parse, form)
    if not integers:
        return None
    numbers = [int(cell) for cell in sample]
    for low, high, unit in SINCE_1970:
        if low <= min(numbers) and max(numbers) < high:
            remark = f"times are {unit} since 1970, in UTC"
            return TimeFormat(_since_1970(unit), f"{EPOCH} {unit}", remark=remark)
    return TimeFormat(int, STEPS, whole=True)


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
