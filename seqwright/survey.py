"""What is in the files of a training, found in one pass before anything is chosen."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seqwright.config import DataConfig
from seqwright.data.checking import Checker, Report, Side
from seqwright.data.findings import Finding, by_gravity, leak_finding, reading_findings
from seqwright.data.splitting import Overlap, Part, overlap, place_of
from seqwright.data.tally import Pair, Tally
from seqwright.training.preparation import Corpus

FORMAT = 1
SAMPLE = 5000  # pairs that are kept to look at the kind of the sides
SHOWN = 4  # findings in the terminal; the rest is for the doctor


@dataclass(frozen=True)
class Survey:
    """`held_out` counts the pairs of the parts that have files of their own; `places` are the numbers from 0
    to 1 that decide in which part a pair of the training files is, one for each.
    """

    name: str
    form: tuple[str, ...]
    columns: str | None
    report: Report
    sample: tuple[Pair, ...]
    tally: Tally
    held_out: dict[Part, int]
    leaks: Overlap | None
    places: array[float]

    @property
    def findings(self) -> list[Finding]:
        """All that was found, the grave first."""
        leak = leak_finding(self.leaks, "held-out") if self.leaks else None
        found = [*reading_findings(self.tally), *self.report.findings, *([leak] if leak else [])]
        return by_gravity(found)

    def split(self, corpus: Corpus) -> dict[Part, int]:
        """How many pairs each part has, before over-long ones are left out."""
        own = Counter(map(corpus.shares.part, self.places))
        return {part: self.held_out.get(part) or own[part] for part in ("train", "valid", "test")}

    def lines(self) -> list[str]:
        """For a terminal: what was found, in a few lines."""
        report = self.report
        lines = [f"{self.name}: {report.pairs:,} pairs of {report.sources:,} sources"]
        lines.append(f"  {'; '.join(self.form)}")
        lines += [f"  {name}: {_side(side)}" for name, side in _sides(report)]
        found = self.findings
        for finding in found[:SHOWN]:
            at = f" (first at {finding.places[0]})" if finding.places else ""
            lines.append(f"  {finding.severity}: {finding.sentence}{at}; {finding.way_out}")
        if len(found) > SHOWN:
            lines.append(f"  {len(found) - SHOWN} more findings: seqwright doctor {self.name}")
        return lines

    def to_json(self) -> dict[str, Any]:
        report = self.report
        return {
            "format": FORMAT,
            "name": self.name,
            "form": list(self.form),
            "pairs": report.pairs,
            "sources": report.sources,
            **{name: side.to_json() for name, side in _sides(report)},
            "findings": [finding.to_json() for finding in self.findings],
            "dropped": self.tally.summary(),
            "leaks": self.leaks.leaked if self.leaks else 0,
        }


def survey(data: DataConfig, seed: int) -> Survey:
    """Reads the training files once, and the sources of the held-out files before."""
    corpus = Corpus(data, seed)
    files = corpus.files(data.train)
    tally, checker, places = Tally(), Checker(), array("d")
    sample: list[Pair] = []

    def watched(pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            checker.add(pair)
            places.append(place_of(pair.source, seed))
            if len(sample) < SAMPLE:
                sample.append(pair)
            yield pair

    counts: Counter[Part] = Counter()

    def held_out() -> Iterator[Pair]:
        own: tuple[tuple[Part, tuple[str, ...]], ...] = (("valid", data.valid), ("test", data.test))
        for part, given in own:
            for pair in corpus.pairs(part) if given else ():
                counts[part] += 1
                yield pair

    leaks = overlap(watched(files.read(tally)), held_out())
    sniffed = files.sniffed
    return Survey(
        name=files.name,
        form=sniffed.reasons,
        columns=str(sniffed.columns) if sniffed.columns else None,
        report=checker.report(),
        sample=tuple(sample),
        tally=tally,
        held_out=dict(counts),
        leaks=leaks if counts else None,
        places=places,
    )


def _sides(report: Report) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("source", report.source), ("target", report.target)


def _side(side: Side) -> str:
    words = f", {side.words.mean:.0f} words" if side.words.mean >= 1.5 else ""
    scripts = [name.lower() for name, share in side.scripts.items() if share >= 0.05]
    return (
        f"{side.characters.mean:.0f} characters{words} on average, {side.characters.longest:,} at most; "
        f"{len(side.alphabet)} different characters ({', '.join(scripts[:3]) or 'no letters'})"
    )
