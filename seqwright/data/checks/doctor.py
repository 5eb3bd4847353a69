"""The doctor: every check of a task's files that is possible before training.

    print(*diagnose("pairs.tsv").lines(), sep="\\n")

It continues where training would stop, so that one run reports all faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from seqwright.config import DataConfig
from seqwright.data.checks.findings import (
    STOPS,
    Finding,
    Severity,
    by_severity,
    few_finding,
    leak_finding,
    near_leak_finding,
    quoted_finding,
    reading_findings,
)
from seqwright.data.checks.labels import LabelBuilder
from seqwright.data.checks.length_ratio import quantile
from seqwright.data.checks.repair import DROPS, REPAIRED
from seqwright.data.checks.statistics import RARE, LengthHistogram, Statistics, StatisticsBuilder, TextColumn
from seqwright.data.corpus import task_class
from seqwright.data.glance import recognise
from seqwright.data.read_report import ReadReport, Reason, TextRow
from seqwright.data.readers.files import Input
from seqwright.data.readers.lines import Decoding, guess_encoding, is_wide, read_blocks
from seqwright.data.readers.pairs import PairFiles, open_pairs
from seqwright.data.split import ENOUGH, HeldOut, divisible, place_of
from seqwright.data.task import Kind, Reader, Task
from seqwright.data.text_display import excerpt, percent, pluralize
from seqwright.errors import SeqwrightError

FORMAT = 1
RARE_SHOWN = 12
GUESSED_FROM = 1000  # lines

TaskClass = type[Task[Any, Any]]


@dataclass(frozen=True)
class DoctorReport:
    """The statistics and findings of the training files, and their overlap with the test files."""

    task: TaskClass
    files: Reader[Any]
    held_out: Reader[Any] | None
    statistics: Statistics
    findings: tuple[Finding, ...]  # the most severe first
    options: tuple[str, ...]  # reading options that seem to be missing

    def to_json(self) -> dict[str, Any]:
        columns = self.files.sniffed.columns if isinstance(self.files, PairFiles) else self.files.columns
        return {
            "format": FORMAT,
            "name": self.files.name,
            "form": list(self.files.form),
            "columns": str(columns or "") or None,
            "pairs": self.statistics.examples,
            "sources": self.statistics.distinct,
            **{name: column.to_json() for name, column in self.statistics.columns.items()},
            "findings": [found.to_json() for found in self.findings],
            "verdict": self.verdict,
        }

    def lines(self) -> Iterator[str]:
        examples = pluralize(self.statistics.examples, self.task.nouns.example)
        groups = pluralize(self.statistics.distinct, f"distinct {self.task.nouns.group}")
        yield f"{self.files.name}: {examples}, {groups}"
        yield f"  {'; '.join(self.files.form)}"
        for name, column in self.statistics.columns.items():
            yield from _column_lines(name, column)
        for found in self.findings:
            yield ""
            yield from _finding_lines(found, repairable=self.repairable)
        yield ""
        yield self.verdict

    @property
    def repairable(self) -> bool:
        """Whether a repaired copy can be written."""
        return isinstance(self.files, PairFiles)

    @property
    def verdict(self) -> str:
        severities = [found.severity for found in self.findings]
        counts = {name: severities.count(name) for name in get_args(Severity)}
        counted = ", ".join(pluralize(count, name) for name, count in counts.items() if count)
        if counts["error"]:
            return f"{counted}: training would stop at the errors"
        if counts["warning"]:
            return f"{counted}: training is possible, but check the warnings first"
        return f"{counted or 'no findings'}: ready for training"


def diagnose(
    paths: str | Sequence[str],
    data: DataConfig | None = None,
    held_out: Sequence[str] = (),
    task: TaskClass | None = None,
) -> DoctorReport:
    """Read `held_out`, then `paths`, once each. Without a task, it is recognised.

    Only the groups of `held_out` are kept in memory. If rows do not fit the columns, the files are read once
    more with quoting.
    """
    paths, data = [paths] if isinstance(paths, str) else paths, data or DataConfig()
    task = task or task_class(recognise(paths, data, "text_to_text").task)
    lenient = replace(data, on_bad_bytes="replace", skip_bad_rows=True)
    files, report = task.reader(paths, lenient), ReadReport()
    if files.columns is not None:
        lenient = replace(lenient, columns=files.columns)  # the held-out files get the same kinds of fields
    others = task.reader(held_out, lenient) if held_out else None
    waiting = HeldOut(others.read(ReadReport()) if others else (), key=task.group)
    names = [role.name for role in task.roles if role.kind is Kind.TEXT]
    builder, labels = StatisticsBuilder(names), LabelBuilder(names)
    first: set[float] = set()  # split positions of the first distinct groups, until there are enough
    for example in files.read(report):
        group = task.group(example)
        row = TextRow(tuple(task.texts(example)), example.place)
        builder.add(*row, task.identity(example))
        labels.add(group, tuple(task.all_labels(example)), row)
        if others is not None:
            waiting.meet(group)
        if len(first) < ENOUGH:
            first.add(place_of(group, data.split))
    statistics = builder.build()
    encoding = _guessed_encoding(paths, report, data)
    unquotable = _bad_rows_if_quoted(paths, files, report, data)
    found = [*_reading_findings(report, data, encoding, unquotable), *statistics.findings]
    found += labels.findings(task.nouns.group, takes_field=task.learning.takes_field)
    if len(first) < ENOUGH and not data.valid:
        tested = bool(held_out or data.test)
        stops = not divisible(first, tested=tested)
        found.append(few_finding(len(first), stops=stops, group=task.nouns.group))
    (overlap,) = waiting.overlaps()
    nouns = {"noun": task.nouns.example, "group": task.nouns.group}
    found += filter(None, (leak_finding(overlap, **nouns), near_leak_finding(overlap, **nouns)))
    options = [f"data.encoding={encoding}"] if encoding is not None else []
    options += ["data.quoting=true"] if unquotable is not None and not data.skip_bad_rows else []
    return DoctorReport(task, files, others, statistics, tuple(by_severity(found)), tuple(options))


def _reading_findings(
    report: ReadReport, data: DataConfig, encoding: str | None, unquotable: int | None
) -> list[Finding]:
    """Return the findings of reading; those at which training would stop are errors."""
    strict = data.on_bad_bytes == "error"
    stops = {Reason.BAD_ROW: not data.skip_bad_rows, Reason.BAD_BYTES: strict, Reason.NUL: strict}
    found = {each.name: each for each in reading_findings(report, [why for why in STOPS if stops[why]])}
    if encoding is not None:
        way_out = f"training stops there: the encoding may be {encoding}; set data.encoding={encoding}"
        found["bad_bytes"] = replace(found["bad_bytes"], way_out=way_out)
    if unquotable is not None:
        bad = report.counts[Reason.BAD_ROW]
        found["bad_row"] = quoted_finding(bad, unquotable, stops=stops[Reason.BAD_ROW])
    return list(found.values())


def _bad_rows_if_quoted(
    paths: Sequence[str], files: Reader[Any], report: ReadReport, data: DataConfig
) -> int | None:
    """Return the number of rows that do not fit even with quoting; None if quoting does not help."""
    before, again = report[Reason.BAD_ROW], ReadReport()
    if not before or not isinstance(files, PairFiles) or files.single_pass:
        return None
    if files.sniffed.quoting or files.sniffed.format == "jsonl":
        return None
    lenient = replace(data, on_bad_bytes="replace", skip_bad_rows=True, quoting=True)
    try:
        for _ in open_pairs(paths, lenient).read(again):
            if again[Reason.BAD_ROW] >= before:
                return None
    except SeqwrightError:
        return None
    return again[Reason.BAD_ROW] if again[Reason.BAD_ROW] < before else None


def _guessed_encoding(paths: Sequence[str], report: ReadReport, data: DataConfig) -> str | None:
    """Return the likely encoding of the first lines that cannot be decoded, if they can be read again."""
    if data.on_bad_bytes == "replace" or not report[Reason.BAD_BYTES] or is_wide(data.encoding):
        return None
    place = report.counts[Reason.BAD_BYTES].places[0]
    file = next(file for file in map(Input, paths) if file.name == place.file)
    if file.single_pass:
        return None
    lines: list[str] = []
    bytewise = Decoding("latin-1", "replace", data.max_line)  # keeps all bytes
    for number, block in read_blocks(file, bytewise, ReadReport()):
        lines = block[max(0, place.line - number) :]
        if lines:
            break
    return guess_encoding("\n".join(lines[:GUESSED_FROM]).encode("latin-1", "replace"))


def _column_lines(name: str, column: TextColumn) -> Iterator[str]:
    shares = list(column.scripts.items())[:3]
    scripts = ", ".join(f"{script.lower()} {percent(share)}" for script, share in shares)
    yield f"  {name}: {_range(column.characters, 'character')}; {_range(column.words, 'word')}"
    yield f"    {pluralize(len(column.alphabet), 'distinct character')}: {scripts or 'no letters'}"
    if rare := column.rare:
        some = " ".join(excerpt(character)[1:-1] for character in rare[:RARE_SHOWN])
        more = f" and {len(rare) - RARE_SHOWN:,} more" if len(rare) > RARE_SHOWN else ""
        occur = "occurs" if len(rare) == 1 else "occur"
        yield f"    {len(rare):,} of them {occur} fewer than {RARE} times: {some}{more}"


def _range(lengths: LengthHistogram, unit: str) -> str:
    shortest, longest = min(lengths, default=0), pluralize(lengths.longest, unit)
    if shortest == lengths.longest:
        return f"{longest} each"
    most = f"99 % up to {quantile(lengths, 0.99):,}"
    return f"{shortest:,} to {longest}, {lengths.mean:.1f} on average, {most}"


def _finding_lines(found: Finding, *, repairable: bool) -> Iterator[str]:
    more = ", …" if found.count > len(found.places) else ""
    where = f", at {', '.join(map(str, found.places))}{more}" if found.places else ""
    yield f"{found.severity}: {found.sentence}{where}"
    for texts, place in found.examples:
        yield f"  {place}: {' → '.join(map(excerpt, texts))}"
    hint = ""
    if repairable and found.name in DROPS:
        hint = f" (--fix OUT --drop {found.name} does this)"
    elif repairable and found.name in REPAIRED - {"carriage_return"}:  # normal at the end of a line
        hint = " (--fix does this)"
    yield f"  {found.way_out}{hint}"
