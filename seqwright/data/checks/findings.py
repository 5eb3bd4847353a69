"""What can be wrong with pairs, in plain words: a name, how grave, how many, where first, and the way out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from seqwright.data.read_report import Count, Pair, Place, Reason, Tally
from seqwright.data.split import ENOUGH, Overlap

Severity = Literal["error", "warning", "note"]  # an error is what training stops at


@dataclass(frozen=True)
class Finding:
    """One kind of trouble in a data set."""

    name: str
    severity: Severity
    count: int
    places: tuple[Place, ...]
    sentence: str
    way_out: str
    examples: tuple[Pair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "severity": self.severity,
            "count": self.count,
            "sentence": self.sentence,
            "way_out": self.way_out,
            "places": [str(place) for place in self.places],
            "examples": [
                {"place": str(place), "source": source, "target": target}
                for source, target, place in self.examples
            ],
        }

    def __str__(self) -> str:
        return self._said(", ".join(map(str, self.places)))

    def line(self) -> str:
        """With the first place only."""
        return self._said(f"first at {self.places[0]}" if self.places else "")

    def _said(self, where: str) -> str:
        return f"{self.severity}: {self.sentence}{f' ({where})' if where else ''}; {self.way_out}"


class Trouble(NamedTuple):
    """Words for a finding, with `{count}` and `{share}` to fill in; a warning from the share `grave` on."""

    sentence: str
    way_out: str
    grave: float


TROUBLES = {
    "copies": Trouble(
        "pairs whose target is their source: {count} ({share})",
        "remove them unless copying is the task",
        0.1,
    ),
    "duplicates": Trouble("repetitions of an earlier pair: {count} ({share})", "remove them", 0.1),
    "conflicts": Trouble(
        "pairs whose source came with another target before: {count} ({share})",
        "fine if several answers are right; otherwise keep the right one",
        0.5,
    ),
    "misaligned": Trouble(
        "stretches of 500 pairs whose lengths fit better with one side moved by a few lines: {count}",
        "look for a line that is missing or added before the first of them",
        0.0,
    ),
    "chained": Trouble(
        "stretches of 500 pairs most of whose targets are sources of their neighbours: {count}",
        "right for dialogue, where a reply is the next turn; otherwise one side is moved by a few lines",
        1.0,
    ),
    "swapped": Trouble(
        "pairs that read as if source and target were exchanged: about {count} ({share})",
        "exchange or remove them",
        0.01,
    ),
    "length_ratio": Trouble(
        "pairs with one side more than 9 times as long for the other as is usual here: {count} ({share})",
        "check that they belong together",
        0.01,
    ),
    "free_lengths": Trouble(
        "pairs with one side more than 9 times as long as the other, as lengths do not depend on each other "
        "here: {count} ({share})",
        "right for dialogue, where replies are as long as they like; otherwise see that they belong together",
        1.0,
    ),
    "quotes": Trouble(
        "pairs with a side in double quotes or with an odd number of them: {count} ({share})",
        "if the file is quoted CSV, give data.quoting=true; otherwise they are text and nothing is wrong",
        0.2,
    ),
    "control_characters": Trouble(
        "pairs with control characters, U+FEFF, or the line ends U+2028, U+2029, U+0085: {count} ({share})",
        "they are kept as text; remove them if they mean nothing",
        0.01,
    ),
    "invisible_characters": Trouble(
        "pairs with zero-width or direction-changing characters: {count} ({share})",
        "some scripts need them; remove them elsewhere",
        0.1,
    ),
    "mojibake": Trouble(
        "pairs with U+FFFD or sequences such as Ã© that come from a wrong encoding: {count} ({share})",
        "convert the original file again",
        0.0,
    ),
    "mixed_scripts": Trouble(
        "pairs with Latin beside Greek or Cyrillic letters in a word, which often only look alike: {count} "
        "({share})",
        "write a word in one script, unless it is meant: to a model they are different letters",
        0.1,
    ),
    "mixed_normalisation": Trouble(
        "pairs that write accents as separate characters, where others do not: {count} ({share})",
        "bring the text to one form, NFC as a rule",
        0.0,
    ),
    "spacing": Trouble(
        "pairs with spaces at an end or several in a row: {count} ({share})",
        "remove them unless they mean something",
        0.2,
    ),
}


STOPS = {
    Reason.BAD_ROW: "training stops there: mend them, or leave them out with data.skip_bad_rows=true",
    Reason.BAD_BYTES: "training stops there: give the right data.encoding, or data.on_bad_bytes=replace",
    Reason.NUL: "training stops there: remove them, or give data.on_bad_bytes=replace",
}
"""What reading stops at unless it is told to go on, and what to tell it."""


_DONE = {
    "skipped": "training goes on without them; mend or remove them",
    "changed": "training reads them so; mend them if that is wrong",
}
_USUAL = {
    Reason.TOO_LONG: (
        "a side has more characters than the tokens of data.max_length can have; training goes on without "
        "them; raise data.max_length, or remove them"
    ),
    Reason.CARRIAGE_RETURN: "lines from Windows, and those of CSV, end so: nothing is wrong",
}
"""What is said of a reason in the place of `_DONE`."""


def finding(name: str, seen: Count, total: int) -> Finding:
    sentence, way_out, grave = TROUBLES[name]
    share = seen.count / max(1, total)
    return Finding(
        name=name,
        severity="warning" if share >= grave else "note",
        count=seen.count,
        places=tuple(seen.places),
        sentence=sentence.format(count=f"{seen.count:,}", share=f"{share:.1%}"),
        way_out=way_out,
        examples=tuple(seen.examples),
    )


def reading_findings(tally: Tally, stops: Collection[Reason] = ()) -> list[Finding]:
    """What reading has skipped or changed; `stops` are the reasons at which training would have stopped."""
    found = []
    for reason, seen in tally:
        done, what = reason.split(": ", 1)
        severity: Severity = "error" if reason in stops else "warning" if done == "skipped" else "note"
        sentence = f"lines {done} ({what}): {seen.count:,}"
        usual = _USUAL.get(reason, _DONE[done])
        way_out = STOPS[reason] if reason in stops else usual
        found.append(
            Finding(reason.name.lower(), severity, seen.count, tuple(seen.places), sentence, way_out)
        )
    return found


def left_out_finding(seen: Count, total: int, longest: int, limit: int, part: str) -> Finding | None:
    """Pairs of a part that are too long once they are cut into tokens; `longest` is the length of the longest
    side.
    """
    if not seen.count:
        return None
    return Finding(
        name="left_out",
        severity="warning",
        count=seen.count,
        places=tuple(seen.places),
        sentence=(
            f"{part} pairs with a side of more than {limit:,} tokens: {seen.count:,} of {total:,}, "
            f"the longest has {longest:,}"
        ),
        way_out="they are left out; raise data.max_length, or cut them",
    )


def leak_finding(found: Overlap, held_out: str = "test") -> Finding | None:
    if not found.leaked:
        return None
    return Finding(
        name="leaks",
        severity="warning",
        count=found.leaked,
        places=found.places,
        sentence=f"{held_out} pairs whose source is in training: {found.leaked:,} of {found.held_out:,}",
        way_out="remove them from training, or scores will be too good",
    )


def near_leak_finding(found: Overlap, held_out: str = "test") -> Finding | None:
    if not found.near:
        return None
    return Finding(
        name="near_leaks",
        severity="note",
        count=found.near,
        places=found.near_places,
        sentence=(
            f"{held_out} pairs whose source is in training but for case or spaces: "
            f"{found.near:,} of {found.held_out:,}"
        ),
        way_out="decide whether such sources are new enough for a test",
    )


def quoted_finding(seen: Count, left: int, *, stops: bool) -> Finding:
    """Rows that fit if quotes enclose cells, but for the `left`; `stops`: training does, otherwise it goes on
    without them.
    """
    fit = f"all but {left:,} fit" if left else "all of them fit"
    way_out = f"give data.quoting=true, with which {fit}"
    unless = "; if the quotes are text, data.skip_bad_rows=true leaves them out"
    return Finding(
        name="quoted",
        severity="error" if stops else "warning",
        count=seen.count,
        places=tuple(seen.places),
        sentence=f"lines that do not fit the columns unless quotes enclose cells: {seen.count:,}",
        way_out=f"training stops there: {way_out}{unless}"
        if stops
        else f"training goes on without them; {way_out}",
    )


def few_finding(sources: int, *, stops: bool) -> Finding:
    """Sources of which some can hardly be held out, or not at all."""
    few, so = ("too few", "training stops: ") if stops else ("few", "")
    return Finding(
        name="few",
        severity="error" if stops else "warning",
        count=sources,
        places=(),
        sentence=f"{few} different sources to hold some out for validation and test: {sources}",
        way_out=f"{so}give {ENOUGH} or more, or pairs of their own to training with --valid and --test",
    )


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first, and the more frequent before the less; that there are few says nothing of how many
    are wrong.
    """

    def gravity(found: Finding) -> tuple[int, bool, int]:
        return get_args(Severity).index(found.severity), found.name == "few", -found.count

    return sorted(findings, key=gravity)
