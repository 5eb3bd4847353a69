"""What can be wrong with pairs, in plain words: a name, how grave, how many, where first, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from seqwright.data.splitting import Overlap
from seqwright.data.tally import Place, Tally

Severity = Literal["warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One kind of trouble in a data set."""

    name: str
    severity: Severity
    count: int
    places: tuple[Place, ...]
    sentence: str
    way_out: str

    def __str__(self) -> str:
        where = f" ({', '.join(map(str, self.places))})" if self.places else ""
        return f"{self.severity}: {self.sentence}{where}; {self.way_out}"


class Trouble(NamedTuple):
    """Words for a finding, with `{count}` and `{share}` to fill in; a warning from the share `grave` on."""

    sentence: str
    way_out: str
    grave: float


TROUBLES = {
    "copies": Trouble(
        "{count} pairs ({share}) have a target equal to their source",
        "remove them unless copying is the task",
        0.1,
    ),
    "duplicates": Trouble("{count} pairs ({share}) come more than once", "remove the repetitions", 0.1),
    "conflicts": Trouble(
        "{count} pairs ({share}) have a source that came with another target before",
        "fine if several answers are right; otherwise keep the right one",
        0.5,
    ),
    "misaligned": Trouble(
        "in {count} stretches of 500 pairs the lengths fit better when one side is moved by a few lines",
        "look for a line that is missing or added before the first of them",
        0.0,
    ),
    "swapped": Trouble(
        "about {count} pairs ({share}) read as if source and target were exchanged",
        "exchange or remove them",
        0.0,
    ),
    "length_ratio": Trouble(
        "{count} pairs ({share}) have one side more than 9 times as long as the other",
        "check that they belong together",
        0.01,
    ),
    "quotes": Trouble(
        "{count} pairs ({share}) have a side in double quotes or with an odd number of them",
        "if the file is quoted CSV, ask for quoting; otherwise they are text and nothing is wrong",
        0.2,
    ),
    "control_characters": Trouble(
        "{count} pairs ({share}) have control characters or the line separators U+2028, U+2029, U+0085",
        "they are kept as text; remove them if they mean nothing",
        0.01,
    ),
    "invisible_characters": Trouble(
        "{count} pairs ({share}) have zero-width or direction-changing characters",
        "some scripts need them; remove them elsewhere",
        0.1,
    ),
    "mojibake": Trouble(
        "{count} pairs ({share}) have U+FFFD or sequences such as Ã© that come from a wrong encoding",
        "convert the original file again",
        0.0,
    ),
    "mixed_normalisation": Trouble(
        "{count} pairs ({share}) write accents as separate characters and others do not",
        "bring the text to one form, NFC as a rule",
        0.0,
    ),
    "spacing": Trouble(
        "{count} pairs ({share}) have spaces at an end or several in a row",
        "remove them unless they mean something",
        0.2,
    ),
}


def finding(name: str, count: int, total: int, places: tuple[Place, ...] = ()) -> Finding:
    sentence, way_out, grave = TROUBLES[name]
    share = count / max(1, total)
    severity: Severity = "warning" if share >= grave else "note"
    return Finding(
        name, severity, count, places, sentence.format(count=f"{count:,}", share=f"{share:.1%}"), way_out
    )


def reading_findings(tally: Tally) -> list[Finding]:
    """What reading has skipped or changed."""
    return [
        Finding(
            name=reason.name.lower(),
            severity="warning" if reason.startswith("skipped") else "note",
            count=found.count,
            places=tuple(found.places),
            sentence=f"{found.count:,} lines were {reason.replace(': ', ' (', 1)})",
            way_out="mend the file if that is not what you want",
        )
        for reason, found in tally
    ]


def leak_finding(found: Overlap, held_out: str = "test") -> Finding | None:
    if not found.leaked:
        return None
    return Finding(
        name="leaks",
        severity="warning",
        count=found.leaked,
        places=found.places,
        sentence=f"{found.leaked:,} of {found.held_out:,} {held_out} pairs have a source that is in training",
        way_out="remove them from training, or scores will be too good",
    )
