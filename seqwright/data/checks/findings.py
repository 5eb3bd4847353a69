"""Findings: faults in a data set, each with a name, severity, count, first places, and a way out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from seqwright.data.read_report import Occurrences, Place, ReadReport, Reason, TextRow
from seqwright.data.split import ENOUGH, Overlap
from seqwright.data.text_display import percent

Severity = Literal["error", "warning", "note"]  # training stops at an error


@dataclass(frozen=True)
class Finding:
    """One kind of fault in a data set. `columns` are the names of the texts of an example."""

    name: str
    severity: Severity
    count: int
    places: tuple[Place, ...]
    sentence: str
    way_out: str
    examples: tuple[TextRow, ...] = ()
    columns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        plain = {key: getattr(self, key) for key in ("name", "severity", "count", "sentence", "way_out")}
        named = ((place, zip(self.columns, texts, strict=True)) for texts, place in self.examples)
        examples = [{"place": str(place), **dict(texts)} for place, texts in named]
        return {**plain, "places": [str(place) for place in self.places], "examples": examples}

    def line(self) -> str:
        """Return one line with the first place only."""
        where = f" (first at {self.places[0]})" if self.places else ""
        return f"{self.severity}: {self.sentence}{where}; {self.way_out}"


# The name of each finding, the share of all examples from which it is a warning (below, it is a note), its
# sentence and its way out. Values fill in the braces.
_TABLE = """
copies 0.1
    pairs whose target equals their source: {count} ({share})
    remove them unless copying is the task
duplicates 0.1
    duplicate {rows}: {count} ({share})
    remove them
conflicts 0.5
    pairs whose source occurs earlier with another target: {count} ({share})
    fine if several targets are correct; otherwise keep the correct one
misaligned 0
    windows of 500 pairs whose lengths match better with one side shifted by a few lines: {count}
    look for a missing or added line before the first window
chained 1
    windows of 500 pairs in which most targets are the sources of neighbouring pairs: {count}
    expected in dialogue, where a reply is the next turn; otherwise one side is shifted by a few lines
swapped 0.01
    pairs that look as if source and target were swapped: about {count} ({share})
    swap or remove them
length_ratio 0.01
    pairs whose length ratio differs from the usual one by a factor of more than 9: {count} ({share})
    check that source and target belong together
free_lengths 1
    pairs with a side over 9 times as long as usual, where lengths hardly correlate: {count} ({share})
    expected in dialogue, where replies have any length; otherwise check that the sides belong together
quotes 0.2
    {rows} with double quotes around a text, or with an odd number of them: {count} ({share})
    if the file is quoted CSV, set data.quoting=true; otherwise the quotes are text and correct
control_characters 0.01
    {rows} with control characters, U+FEFF, or the line ends U+2028, U+2029, U+0085: {count} ({share})
    they are kept as text; remove them if they have no meaning
invisible_characters 0.1
    {rows} with zero-width or direction-changing characters: {count} ({share})
    some scripts need them; remove them elsewhere
mojibake 0
    {rows} with U+FFFD or sequences such as Ã© from a wrong encoding: {count} ({share})
    convert the original file again
mixed_scripts 0.1
    {rows} with Latin and Greek or Cyrillic letters in one word, which look alike: {count} ({share})
    write each word in one script, unless the mix is intended: for a model the letters differ
mixed_normalisation 0
    {rows} with accents as separate characters, while others have composed ones: {count} ({share})
    convert the text to one normalisation form, usually NFC
spacing 0.2
    {rows} with leading, trailing or repeated spaces: {count} ({share})
    remove them unless they have a meaning
single_labels 0
    labels that occur only once: {count} of {total}: {shown}
    add examples, or merge them with other labels: one example is not enough to learn a label
label_conflicts 0
    {group}s that occur earlier with another label: {count} ({share})
    keep the correct label: a model cannot learn both
left_out 0
    {part} pairs with a side of more than {limit:,} tokens: {count} of {total}, the longest has {longest:,}
    they are left out; raise data.max_length, or shorten them
leaks 0
    {part} {noun}s whose {group} is in training: {count} of {total}
    remove them from training, or the scores will be too good
near_leaks inf
    {part} {noun}s whose {group} is in training except for case or spaces: {count} of {total}
    decide whether they are new enough for a test
"""
FINDING_TEXTS = {
    name: (sentence, way_out, float(share))
    for name, share, sentence, way_out in re.findall(r"(\w+) (\S+)\n    (.+)\n    (.+)\n", _TABLE)
}

# the ways out where training stops by default
STOPS = {
    Reason.BAD_ROW: "training stops there: fix them, or skip them with data.skip_bad_rows=true",
    Reason.BAD_BYTES: "training stops there: set the right data.encoding, or data.on_bad_bytes=replace",
    Reason.NUL: "training stops there: remove them, or set data.on_bad_bytes=replace",
}
_WAYS_OUT = {
    "skipped": "training skips them; fix or remove them",
    "changed": "training reads the changed lines; fix it if that is wrong",
    Reason.TOO_LONG: "training skips sides far longer than data.max_length tokens; raise it, or remove them",
    Reason.CARRIAGE_RETURN: "lines from Windows and in CSV end like this; this is normal",
    Reason.BYTE_ORDER_MARK: "files from Windows begin like this; this is normal",
    Reason.SEPARATOR_LINE: "spreadsheets write it; this is normal",
}


def finding(
    name: str, seen: Occurrences, total: int, columns: tuple[str, ...] = (), **values: str | int
) -> Finding | None:
    """Return a finding of FINDING_TEXTS, or None if nothing was seen."""
    if not seen.count:
        return None
    sentence, way_out, warn_from = FINDING_TEXTS[name]
    share = seen.count / max(1, total)
    rows = {1: "texts", 2: "pairs"}.get(len(columns), "examples")
    words = {"rows": rows, "count": f"{seen.count:,}", "share": percent(share, 1), "total": f"{total:,}"}
    severity: Severity = "warning" if share >= warn_from else "note"
    places, sentence = tuple(seen.places), sentence.format(**words, **values)
    return Finding(name, severity, seen.count, places, sentence, way_out, tuple(seen.examples), columns)


def reading_findings(report: ReadReport, stops: Collection[Reason] = ()) -> list[Finding]:
    """Return the lines that reading skips or changes; training would stop at the reasons in `stops`."""
    found = []
    for reason, seen in report:
        action, detail = reason.split(": ", 1)
        severity: Severity = "error" if reason in stops else "warning" if action == "skipped" else "note"
        sentence = f"lines {action} ({detail}): {seen.count:,}"
        way_out = STOPS[reason] if reason in stops else _WAYS_OUT.get(reason, _WAYS_OUT[action])
        name, places = reason.name.lower(), tuple(seen.places)
        found.append(Finding(name, severity, seen.count, places, sentence, way_out))
    return found


def left_out_finding(seen: Occurrences, total: int, longest: int, limit: int, part: str) -> Finding | None:
    """Return the pairs of a split with too many tokens; `longest` is the length of the longest side."""
    return finding("left_out", seen, total, part=part, limit=limit, longest=longest)


def leak_finding(
    found: Overlap, held_out: str = "test", *, noun: str = "pair", group: str = "source"
) -> Finding | None:
    seen = Occurrences(found.leaked, list(found.places))
    return finding("leaks", seen, found.held_out, part=held_out, noun=noun, group=group)


def near_leak_finding(found: Overlap, *, noun: str = "pair", group: str = "source") -> Finding | None:
    seen = Occurrences(found.near, list(found.near_places))
    return finding("near_leaks", seen, found.held_out, part="test", noun=noun, group=group)


def quoted_finding(seen: Occurrences, left: int, *, stops: bool) -> Finding:
    """Return the rows that fit the columns only with quoting; `left` rows do not fit even then."""
    sentence = f"lines that fit the columns only if quotes enclose cells: {seen.count:,}"
    quoting = f"set data.quoting=true, and {f'all but {left:,}' if left else 'all of them'} fit"
    severity: Severity = "error" if stops else "warning"
    way_out = f"training skips them; {quoting}"
    if stops:
        way_out = f"training stops there: {quoting}; if the quotes are text, set data.skip_bad_rows=true"
    return Finding("quoted", severity, seen.count, tuple(seen.places), sentence, way_out)


def few_finding(groups: int, *, stops: bool, group: str = "source") -> Finding:
    """Return the finding for a data set with few groups, such as sources, that are not divided; `stops`: a
    validation split is impossible.
    """
    severity: Severity = "error" if stops else "warning"
    few, stop = ("too few", "training stops: ") if stops else ("few", "")
    sentence = f"{few} distinct {group}s for a validation and a test split: {groups}"
    way_out = f"{stop}add data up to {ENOUGH} {group}s or more, or pass --valid and --test files"
    return Finding("few", severity, groups, (), sentence, way_out)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, then by count; `few` comes last, because its count is not a number of faults."""
    order = get_args(Severity).index
    return sorted(findings, key=lambda each: (order(each.severity), each.name == "few", -each.count))
