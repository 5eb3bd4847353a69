"""Everything that can be said about files of pairs before anything is trained.

    print(*examine(["pairs.tsv"], DataConfig()).lines(), sep="\\n")

Reading goes on where training would stop, so that all that is wrong is found at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqwright.config import DataConfig
from seqwright.data.checks.findings import (
    STOPS,
    Finding,
    by_gravity,
    few_finding,
    leak_finding,
    near_leak_finding,
    quoted_finding,
    reading_findings,
)
from seqwright.data.checks.repair import DROPS, MENDED
from seqwright.data.checks.statistics import RARE, Checker, Lengths, Report, Side
from seqwright.data.read_report import Reason, Tally
from seqwright.data.readers.lines import Decoding, guess_encoding, is_wide, read_blocks
from seqwright.data.readers.opening import open_pairs
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.split import ENOUGH, HeldOut, divisible, place_of
from seqwright.data.text_display import amount, shown
from seqwright.errors import SeqwrightError

FORMAT = 1
RARE_SHOWN = 12
GUESSED_FROM = 1000  # lines


@dataclass(frozen=True)
class Examination:
    """What was found in the training files, and between them and those that are held out."""

    files: PairFiles
    held_out: PairFiles | None
    report: Report
    findings: tuple[Finding, ...]  # the gravest first
    options: tuple[str, ...]  # of reading, that seem to be missing

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.files.name,
            "form": list(self.files.sniffed.reasons),
            "columns": str(self.files.sniffed.columns or "") or None,
            "pairs": self.report.pairs,
            "sources": self.report.sources,
            "source": self.report.source.to_json(),
            "target": self.report.target.to_json(),
            "findings": [found.to_json() for found in self.findings],
            "verdict": self.verdict,
        }

    def lines(self) -> Iterator[str]:
        report = self.report
        yield f"{self.files.name}: {amount(report.pairs, 'pair')} of {amount(report.sources, 'source')}"
        yield f"  {'; '.join(self.files.sniffed.reasons)}"
        for name, side in (("source", report.source), ("target", report.target)):
            yield from _side_lines(name, side)
        for found in self.findings:
            yield ""
            yield from _finding_lines(found)
        yield ""
        yield self.verdict

    @property
    def verdict(self) -> str:
        names = [found.severity for found in self.findings]
        errors, warnings, notes = (names.count(severity) for severity in ("error", "warning", "note"))
        counted = ", ".join(
            amount(count, name)
            for count, name in ((errors, "error"), (warnings, "warning"), (notes, "note"))
            if count
        )
        if errors:
            return f"{counted}: training would stop at what the errors name"
        if warnings:
            return f"{counted}: it can be trained on, but look at the warnings first"
        return f"{counted or 'no findings'}: nothing stands against training"


def examine(paths: Sequence[str], data: DataConfig, held_out: Sequence[str] = ()) -> Examination:
    """One pass over the files of `held_out`, then one over `paths`, in bounded memory but for the former.

    Rows that do not fit are tried once more with quotes that enclose cells.
    """
    lenient = replace(data, on_bad_bytes="replace", skip_bad_rows=True)
    files, tally, checker = open_pairs(paths, lenient), Tally(), Checker()
    columns = files.sniffed.columns
    if columns is not None and len(columns.source) > 1:
        lenient = replace(lenient, columns=str(columns))  # the same roles there as here
    others = open_pairs(held_out, lenient) if held_out else None
    waiting = HeldOut(others.read(Tally())) if others else None
    first: set[float] = set()  # places of sources, as many as are enough
    for pair in files.read(tally):
        checker.add(pair)
        if waiting is not None:
            waiting.meet(pair.source)
        if len(first) < ENOUGH:
            first.add(place_of(pair.source, data.split))
    report = checker.report()
    guess = _guessed_encoding(files, tally, data)
    left = _bad_if_quoted(paths, files, tally, data)
    found = [*_reading(tally, data, guess, left), *report.findings]
    if len(first) < ENOUGH and not data.valid:
        tested = bool(held_out or data.test)
        found.append(few_finding(len(first), stops=not divisible(first, tested=tested)))
    if waiting is not None:
        (overlap,) = waiting.overlaps()
        found += filter(None, (leak_finding(overlap), near_leak_finding(overlap)))
    options = [f"data.encoding={guess}"] if guess is not None else []
    options += ["data.quoting=true"] if left is not None and not data.skip_bad_rows else []
    return Examination(files, others, report, tuple(by_gravity(found)), tuple(options))


def _reading(tally: Tally, data: DataConfig, guess: str | None, left: int | None) -> list[Finding]:
    """What reading did; an error where it would have stopped without our leniency."""
    strict = data.on_bad_bytes == "error"
    stops = {Reason.BAD_ROW: not data.skip_bad_rows, Reason.BAD_BYTES: strict, Reason.NUL: strict}
    found = {each.name: each for each in reading_findings(tally, [why for why in STOPS if stops[why]])}
    if guess is not None:
        way_out = f"training stops there: it may be {guess}, then give data.encoding={guess}"
        found["bad_bytes"] = replace(found["bad_bytes"], way_out=way_out)
    if left is not None:
        bad = tally.counts[Reason.BAD_ROW]
        found["bad_row"] = quoted_finding(bad, left, stops=stops[Reason.BAD_ROW])
    return list(found.values())


def _bad_if_quoted(paths: Sequence[str], files: PairFiles, tally: Tally, data: DataConfig) -> int | None:
    """How many rows still do not fit if quotes enclose cells; None if no fewer, or it cannot be tried."""
    before, again = tally[Reason.BAD_ROW], Tally()
    form = files.sniffed.format
    if not before or files.sniffed.quoting or form == "jsonl" or any(file.once for file in files.inputs):
        return None
    lenient = replace(data, on_bad_bytes="replace", skip_bad_rows=True, quoting=True)
    try:
        for _ in open_pairs(paths, lenient).read(again):
            if again[Reason.BAD_ROW] >= before:
                return None
    except SeqwrightError:
        return None
    return again[Reason.BAD_ROW] if again[Reason.BAD_ROW] < before else None


def _guessed_encoding(files: PairFiles, tally: Tally, data: DataConfig) -> str | None:
    """Of the lines from the first on that are no text; None if there are none, or it cannot be read again, or
    its bytes are no lines.
    """
    if data.on_bad_bytes == "replace" or not tally[Reason.BAD_BYTES] or is_wide(data.encoding):
        return None
    place = tally.counts[Reason.BAD_BYTES].places[0]
    file = next(file for file in (*files.inputs, *files.targets) if file.name == place.file)
    if file.once:
        return None
    lines: list[str] = []
    for number, block in read_blocks(file, Decoding("latin-1", "replace"), Tally()):  # the bytes as they are
        lines = block[max(0, place.line - number) :]
        if lines:
            break
    return guess_encoding("\n".join(lines[:GUESSED_FROM]).encode("latin-1", "replace"))


def _side_lines(name: str, side: Side) -> Iterator[str]:
    scripts = ", ".join(f"{script.lower()} {share:.0%}" for script, share in list(side.scripts.items())[:3])
    yield f"  {name}: {_range(side.characters, 'character')}; {_range(side.words, 'word')}"
    yield f"    {amount(len(side.alphabet), 'different character')}: {scripts or 'no letters'}"
    if rare := side.rare:
        some = " ".join(shown(character)[1:-1] for character in rare[:RARE_SHOWN])
        more = f" and {len(rare) - RARE_SHOWN:,} more" if len(rare) > RARE_SHOWN else ""
        come = "comes" if len(rare) == 1 else "come"
        yield f"    {len(rare):,} of them {come} fewer than {RARE} times: {some}{more}"


def _range(lengths: Lengths, unit: str) -> str:
    shortest = min(lengths.counts, default=0)
    if shortest == lengths.longest:
        return f"{amount(shortest, unit)} each"
    return (
        f"{shortest:,} to {amount(lengths.longest, unit)}, {lengths.mean:.1f} on average, "
        f"99% up to {lengths.quantile(0.99):,}"
    )


def _finding_lines(found: Finding) -> Iterator[str]:
    more = ", …" if found.count > len(found.places) else ""
    where = f", at {', '.join(map(str, found.places))}{more}" if found.places else ""
    yield f"{found.severity}: {found.sentence}{where}"
    for source, target, place in found.examples:
        yield f"  {place}: {shown(source)} → {shown(target)}"
    yield f"  {found.way_out}{_by_fix(found.name)}"


def _by_fix(name: str) -> str:
    """Whether a mended copy is without it; line ends are none of the trouble."""
    if name in DROPS:
        return f" (--fix OUT --drop {name} does)"
    return " (--fix does)" if name in MENDED and name != Reason.CARRIAGE_RETURN.name.lower() else ""
