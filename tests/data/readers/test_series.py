"""Series from tables: layouts, frequencies, faults with their line, and what is no series."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from seqwright.config import DataConfig
from seqwright.data.glance import look_at, recognise
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.series import SeriesFiles, open_series
from seqwright.data.split import fractions_of
from seqwright.errors import ConfigError, InputError

HOURS = [f"2024-03-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(96)]


HOUR, UTC = "2024-01-03 01:00:00", "2024-03-31 00:00:00+00:00"


def table(path: Path, rows: list[str], head: str = "date,load,temperature") -> str:
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


def hourly(path: Path, **changes: str) -> str:
    """A wide file; changes: line number (as `l5`) -> the line."""
    rows = [f"{time},{10 + number % 24},{number / 2}" for number, time in enumerate(HOURS)]
    for key, row in changes.items():
        rows[int(key[1:]) - 2] = row
    return table(path, rows)


def read(path: str, **options) -> SeriesFiles:
    return open_series((path,), DataConfig(**options))


def counts(files: SeriesFiles) -> dict[Reason, int]:
    report = ReadReport()
    list(files.read(report))
    return {reason: seen.count for reason, seen in report}


def test_a_wide_file_is_one_series(tmp_path):
    files = read(hourly(tmp_path / "x.csv"))
    (series,) = files.table.series
    assert (series.channels, series.values.shape) == (("load", "temperature"), (96, 2))
    assert series.frequency.name == "hour"
    assert "a step is one hour: 96 steps, 2024-03-01 00:00:00 to 2024-03-04 23:00:00" in files.form
    windows = list(files.read(ReadReport()))
    assert [window.place.line for window in windows] == list(range(2, 98))
    assert windows[5].when == HOURS[5]


def test_a_long_file_has_a_series_for_each_id_and_other_numbers_are_not_used(tmp_path):
    rows = [f"{name},{time},{number},7" for name in "ab" for number, time in enumerate(HOURS[:30])]
    files = read(table(tmp_path / "x.csv", rows, "unique_id,ds,y,price"))
    assert [(series.name, len(series)) for series in files.table.series] == [("a", 30), ("b", 30)]
    assert files.table.series[0].channels == ("y",)
    assert "not used: price" in files.form
    known = read(files.paths[0], known=("price",))
    assert known.table.series[1].known[:, 0].tolist() == [7.0] * 30


def test_compressed_and_parquet_files_are_the_same_series(tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    path = hourly(tmp_path / "x.csv")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(Path(path).read_bytes()))
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), tmp_path / "x.parquet")
    plain = read(path).table.series[0]
    for other in ("x.csv.gz", "x.parquet"):
        assert read(str(tmp_path / other)).table.series[0] == plain
    assert recognise([str(tmp_path / "x.parquet")], DataConfig(), "text_to_text").task == "forecasting"


@pytest.mark.parametrize(
    ("times", "name", "following"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31"], "month", "2024-04-30"),
        (["2024-01-01", "2024-04-01", "2024-07-01"], "quarter", "2024-10-01"),
        (["2024-01-05", "2024-02-05", "2024-03-05"], "month", "2024-04-05"),
        (["2024-02-26", "2024-03-04", "2024-03-11"], "week", "2024-03-18"),
        (["28.02.2024", "29.02.2024", "01.03.2024"], "day", "2024-03-02"),
        (["01/31/2024", "02/01/2024", "02/02/2024"], "day", "2024-02-03"),
        (["2024-03-30T22:00+01:00", "2024-03-30T22:00Z", "2024-03-30T23:00Z"], "hour", UTC),
        (["2024-01-01 00:00", "2024-01-01 00:15", "2024-01-01 00:30"], "15 minutes", "2024-01-01 00:45:00"),
        (["2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00"], "day", "2024-04-02"),
        (["1949", "1950", "1951"], "step", "1952"),
        (["20240130", "20240131", "20240201"], "day", "2024-02-02"),
        (["202411", "202412", "202501"], "month", "2025-02-01"),
        (["2023-Q4", "2024-Q1", "2024-Q2"], "quarter", "2024-07-01"),
        (["Nov 1 2023", "Dec 1 2023", "Jan 1 2024"], "month", "2024-02-01"),
        (["01/02/2024 10:00 PM", "01/02/2024 11:00 PM", "01/03/2024 12:00 AM"], "hour", HOUR),
        (["01/01/2024", "01/02/2024", "01/03/2024"], "day", "2024-01-04"),
        (["01/11/2023", "01/12/2023", "01/01/2024"], "month", "2024-02-01"),
        (["1700000000", "1700003600", "1700007200"], "hour", "2023-11-15 01:13:20"),
        (["1700000000000", "1700000060000", "1700000120000"], "minute", "2023-11-14 22:16:20"),
        (["2024-01-03", "2024-01-04", "2024-01-05"], "day", "2024-01-06"),
    ],
)  # fmt: skip
def test_frequencies(tmp_path, times, name, following):
    files = read(table(tmp_path / "x.csv", [f"{time},1" for time in times], "ds,y"))
    (series,) = files.table.series
    assert series.frequency.name == name
    assert series.frequency.label(series.start + len(series)) == following
    assert len(series) == 3


def test_faults_are_counted_and_treated_by_their_rule(tmp_path):
    path = hourly(
        tmp_path / "x.csv",
        l5="2024-03-01 02:00:00,99,99",  # the time of line 4 again
        l8=f"{HOURS[6]},,inf",
        l10="2024-03-01 08:00:10,18,4",  # ten seconds late
        l20=f"{HOURS[19]},1,1",  # lines 20 and 21 are swapped
        l21=f"{HOURS[18]},2,2",
    )
    files = read(path)
    (series,) = files.table.series
    assert counts(files) == {
        Reason.DUPLICATE_TIME: 1, Reason.MISSING_STEP: 1, Reason.MISSING_VALUE: 1, Reason.OFF_GRID: 1,
        Reason.UNSORTED: 1,
    }  # fmt: skip
    assert series.values[2].tolist() == [99, 99]  # the last line of a time counts
    assert np.isnan(series.values[[3, 6]]).all()  # the missing step, and the missing values
    assert series.values[18:20].tolist() == [[2, 2], [1, 1]]
    assert len(series) == 96


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"l7": f"{HOURS[5]},broken,1"}, r"x.csv:7: “broken” in the column load is not a number; fix it"),
        ({"l7": f"{HOURS[5]},1"}, r"x.csv:7: the line has 2 cells, the header 3; fix it"),
        ({"l7": ",1,2"}, r"x.csv:7: column date is empty"),
        ({"l7": "yesterday,1,2"}, r"x.csv:7: column date: “yesterday” is not a time in the format"),
        ({"l7": f"{HOURS[5]}+02:00,1,2"}, r"x.csv:7: column date: some times have a time zone and"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_can_be_skipped(tmp_path, changes, words):
    path = hourly(tmp_path / "x.csv", **changes)
    with pytest.raises(InputError, match=words):
        _ = read(path).table


def test_bad_lines_can_be_skipped(tmp_path):
    files = read(hourly(tmp_path / "x.csv", l7=f"{HOURS[5]},broken,1"), skip_bad_rows=True)
    assert counts(files) == {Reason.BAD_ROW: 1, Reason.MISSING_STEP: 1}


@pytest.mark.parametrize(
    ("head", "rows", "words"),
    [
        ("date,y", [], "has no rows; expected a header"),
        ("name,y", ["a,1", "b,2"], "has no time column among name, y; name one ds, date or time"),
        ("date,name", [f"{HOURS[0]},a", f"{HOURS[1]},b"], "has no column of numbers among date, name"),
        ("date,y,Y", [f"{HOURS[0]},1,2", f"{HOURS[1]},1,2"], "two columns are named 'y'; rename one"),
        ("date,y", [f"{HOURS[0]},1"], "single time step; a forecast needs a history"),
        ("date,y", [f"2024-01-{d},1" for d in ("01", "02", "05", "11", "19")], "the times are irregular"),
    ],
)  # fmt: skip
def test_what_is_no_series_is_refused_in_one_line(tmp_path, head, rows, words):
    with pytest.raises(InputError, match=words):
        _ = read(table(tmp_path / "x.csv", rows, head)).table


def test_columns_that_do_not_exist_and_rows_that_are_too_many(tmp_path):
    path = hourly(tmp_path / "x.csv")
    with pytest.raises(ConfigError, match="has no column 'price', only date, load"):
        _ = read(path, known=("price",)).table
    with pytest.raises(InputError, match=r"data.rows has 300 steps, but .* has 96"):
        _ = read(path, train=(path,), rows=(100, 100, 100)).cuts


def test_a_column_that_never_varies_is_named(tmp_path):
    files = read(table(tmp_path / "x.csv", [f"{time},5,{n}" for n, time in enumerate(HOURS)]))
    assert "load never varies, so any forecast of it is right" in files.form


AUTUMN = [
    f"2024-10-27 {hour}:00" for hour in ("00", "01", "02", "02", "03", "04", "05", "06", "07", "08", "09")
]


def test_the_repeated_hour_in_autumn_loses_a_value_without_a_zone(tmp_path):
    files = read(table(tmp_path / "x.csv", [f"{time},{n}" for n, time in enumerate(AUTUMN)], "ds,y"))
    report = ReadReport()
    list(files.read(report))
    (found,) = [seen for reason, seen in report if reason is Reason.DUPLICATE_TIME]
    assert [place.line for place in found.places] == [4]
    assert len(files.table.series[0]) == len(AUTUMN) - 1
    times = [f"{time}+0{2 if n < 3 else 1}:00" for n, time in enumerate(AUTUMN)]
    files = read(table(tmp_path / "y.csv", [f"{time},{n}" for n, time in enumerate(times)], "ds,y"))
    assert counts(files) == {}
    assert len(files.table.series[0]) == len(AUTUMN)
    assert "times have mixed offsets (UTC+02:00, UTC+01:00) and are converted to UTC" in files.form


def test_decimal_commas(tmp_path):
    rows = [f"{time};{number},5" for number, time in enumerate(HOURS)]
    files = read(table(tmp_path / "x.csv", rows, "date;y"))
    assert files.table.series[0].values[3].tolist() == [3.5]


def test_parts_by_rows_and_by_share(tmp_path):
    path = hourly(tmp_path / "x.csv")
    assert read(path, train=(path,), rows=(50, 20, 10)).cuts == (50, 70, 80)
    assert read(path, train=(path,), held_out=0.25).cuts == (48, 72, 96)
    assert read(path, rows=(50, 20, 10)).cuts == (96,)  # a file to evaluate is one part
    assert "data.rows leaves the last 16 steps unused" in read(path, train=(path,), rows=(50, 20, 10)).form


REVIEWS = [f"{time},a fine long story with {n} words,{n % 5}" for n, time in enumerate(HOURS)]


@pytest.mark.parametrize(
    ("head", "rows", "task"),
    [
        ("date,load", [f"{time},{n}" for n, time in enumerate(HOURS)], "forecasting"),
        ("unique_id,ds,y", [f"{i},{time},3" for i in "ab" for time in HOURS], "forecasting"),
        ("date,review,rating", REVIEWS, "text_classification"),
        ("label,text", [f"{n % 2},word{n} is here" for n in range(96)], "text_classification"),
        ("a,b", [f"{n}+{n},{2 * n}" for n in range(96)], "text_to_text"),
    ],
)
def test_recognition(tmp_path, head, rows, task):
    path = table(tmp_path / "x.csv", rows, head)
    assert recognise([path], DataConfig(), "text_to_text").task == task
    assert look_at([path], DataConfig()) is not None


def test_json_lines_are_recognised_and_refused_with_a_way_out(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"start": "2024-01-01", "target": [1, 2, 3]}\n' * 20)
    assert recognise([str(path)], DataConfig(), "text_to_text").task == "forecasting"
    with pytest.raises(InputError, match="JSON lines, which only predict reads; write CSV: unique_id,ds,y"):
        _ = read(str(path)).table


STORES = [f"{store},{time},{number % 7}" for store in "abc" for number, time in enumerate(HOURS)]


def test_a_column_of_texts_that_tells_times_apart_names_the_series(tmp_path):
    files = read(table(tmp_path / "x.csv", STORES, "store,date,sales"))
    assert [(series.name, len(series)) for series in files.table.series] == [(s, 96) for s in "abc"]
    assert files.table.ids == ("store",)
    assert counts(files) == {}
    single = read(table(tmp_path / "y.csv", STORES[:96], "store,date,sales"))  # nothing to tell apart
    assert [series.name for series in single.table.series] == [""]
    assert [series.name for series in read(single.paths[0], series_id=("store",)).table.series] == ["a"]


def test_two_columns_may_tell_series_apart(tmp_path):
    rows = [f"{s},{i},{time},{n}" for s in "ab" for i in "xy" for n, time in enumerate(HOURS[:40])]
    files = read(table(tmp_path / "x.csv", rows, "store,item,date,sales"))
    assert [series.name for series in files.table.series] == ["a/x", "a/y", "b/x", "b/y"]


@pytest.mark.parametrize("options", [{"held_out": 0.2}, {"rows": [50, 20, 10]}, {"test": ["y.csv"]}])
def test_the_parts_are_the_windows_whose_place_is_in_them(tmp_path, options):
    """Series that begin later have windows in the last parts only."""
    rows = [f"{name},{time},1" for name, first in (("a", 0), ("b", 70)) for time in HOURS[first:]]
    path = table(tmp_path / "x.csv", rows, "unique_id,ds,y")
    files = read(path, train=(path,), **options)
    fractions = fractions_of(files.data)
    windows = list(files.read(ReadReport()))
    for part in ("train", "valid", "test"):
        wanted = [window for window in windows if fractions.part(files.share(window)) == part]
        assert list(files.read_part(part, ReadReport())) == wanted


def test_lines_that_share_their_times_are_not_thrown_away(tmp_path):
    rows = [f"{number},{time},{number}{hour}" for number in range(3) for hour, time in enumerate(HOURS)]
    path = table(tmp_path / "x.csv", rows, "store,date,sales")
    words = r"x.csv: 67 % of the lines have the time of another line.*data.series_id"
    with pytest.raises(InputError, match=words):
        _ = read(path).table
    assert len(read(path, series_id=("store",)).table.series) == 3
    twice = table(tmp_path / "y.csv", [f"{time},{n}" for n, time in enumerate(HOURS) for _ in "12"], "date,y")
    assert counts(read(twice)) == {Reason.DUPLICATE_TIME: 96}  # equal lines: nothing is lost


def test_a_date_and_a_time_of_day_are_one_time(tmp_path):
    rows = [f"{time.replace(' ', ',')},{n}" for n, time in enumerate(HOURS)]
    (series,) = read(table(tmp_path / "x.csv", rows, "Date,Time,load")).table.series
    assert (series.frequency.name, len(series), series.channels) == ("hour", 96, ("load",))


@pytest.mark.parametrize("head", ["", "Unnamed: 0", "id"])
def test_a_column_of_row_numbers_is_no_series(tmp_path, head):
    rows = [f"{n},{time},{n % 24}" for n, time in enumerate(HOURS)]
    (series,) = read(table(tmp_path / "x.csv", rows, f"{head},date,load")).table.series
    assert (len(series), series.channels) == (96, ("load",))


def test_a_file_without_a_header_is_recognised(tmp_path):
    rows = [f"{time},{n % 24}" for n, time in enumerate(HOURS)]
    path = table(tmp_path / "x.csv", rows[1:], rows[0])
    assert recognise([path], DataConfig(), "text_to_text").task == "forecasting"


def test_weekends_are_no_gaps_of_business_days_and_holidays_are(tmp_path):
    days = np.arange("2023-12-01", "2024-06-01", dtype="datetime64[D]")
    days = [day for day in days[np.is_busday(days)].tolist() if (day.month, day.day) != (12, 25)]
    files = read(table(tmp_path / "x.csv", [f"{day},{n}" for n, day in enumerate(days)], "Date,Close"))
    (series,) = files.table.series
    assert counts(files) == {Reason.MISSING_STEP: 1}
    assert series.frequency.label(series.start + 16) == "2023-12-25"
    assert series.frequency.labels(series.start + len(series) - 1, 2) == ["2024-05-31", "2024-06-03"]
    assert series.frequency.seasons == (5,)


@pytest.mark.parametrize(
    ("mark", "cells", "values"),
    [
        (",", ['"1,234.50"', '"-1,000"', "999", '"1,234,567.8"'], [1234.5, -1000, 999, 1234567.8]),
        (",", ['"$1,200.50"', "$3", '"-$1,000"', '"£2,000"'], [1200.5, 3, -1000, 2000]),
        (",", ["1'234.5", "12'000", "7", "\u22123.5"], [1234.5, 12000, 7, -3.5]),
        (",", ['"1.234,50"', '"12,5"', '"1.000"', '"7,25"'], [1234.5, 12.5, 1000, 7.25]),
        (",", ["12%", "12.5 %", "1%", ".5%"], [12, 12.5, 1, 0.5]),
        (";", ["1.234,50", "12,5", "1.000", "2.000.000"], [1234.5, 12.5, 1000, 2000000]),
        (";", ["1 234,5", "12 000 €", "7", "0,5"], [1234.5, 12000, 7, 0.5]),
        (";", ["1.234", "1.5", "12,25", "1e3"], [1.234, 1.5, 12.25, 1000]),  # decimals of both kinds
    ],
)
def test_numbers_have_groups_units_and_decimals_of_their_column(tmp_path, mark, cells, values):
    """The whole column decides: 1.000 is a thousand next to 1.234,50, and one next to 1.5."""
    rows = [f"2024-01-{1 + n:02d}{mark}{cells[n % 4]}{mark}{n + 0.5}" for n in range(28)]
    path = table(tmp_path / "x.csv", rows, f"date{mark}price{mark}other")
    assert recognise([path], DataConfig(), "text_to_text").task == "forecasting"
    (series,) = read(path).table.series
    assert series.values.tolist() == [[values[n % 4], n + 0.5] for n in range(28)]


def test_the_survey_states_how_unusual_numbers_are_read(tmp_path):
    rows = [f'2024-01-{day:02d},"1,{day}0"' for day in range(10, 28)]
    files = read(table(tmp_path / "x.csv", rows, "date,price"))
    assert files.table.series[0].values[0].tolist() == [1100]
    assert "numbers are written like 1,234.50" in files.form


def test_a_number_that_the_rest_of_its_column_contradicts_is_an_error(tmp_path):
    rows = [f'2024-01-{day:02d},"1,{day}0"' for day in range(10, 28)]
    rows[5] = '2024-01-15,"1,5,0"'
    files = read(table(tmp_path / "x.csv", rows, "date,price"))
    with pytest.raises(InputError, match=r"x.csv:7: “1,5,0” in the column price is not a number; fix it"):
        list(files.read(ReadReport()))
