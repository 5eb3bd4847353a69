"""What is in the files of a training, found in one pass before anything is chosen."""

from __future__ import annotations

import shlex
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Any

from seqwright.config import DataConfig
from seqwright.data.checks.findings import Finding, by_gravity, leak_finding, reading_findings
from seqwright.data.checks.statistics import Checker, Report, Side
from seqwright.data.read_report import Pair, Tally
from seqwright.data.split import NAMES, HeldOut, Overlap, Part, place_of
from seqwright.data.text_display import amount
from seqwright.training.preparation import Corpus

FORMAT = 1
SAMPLE = 5000  # pairs that are kept to look at the kind of the sides
SHOWN = 4  # findings in the terminal; the rest is for the doctor
READING = ("format", "delimiter", "header", "columns", "quoting", "encoding", "on_bad_bytes", "skip_bad_rows")


@dataclass(frozen=True)
class Survey:
    """`options` are what was asked of the form of the files, as key=value; `leaks` are those of parts that
    have files of their own; `places` are the numbers from 0 to 1 that decide in which part a pair of the
    training files is, one for each.
    """

    name: str
    paths: tuple[str, ...]
    options: tuple[str, ...]
    form: tuple[str, ...]
    columns: str | None
    report: Report
    sample: tuple[Pair, ...]
    tally: Tally
    leaks: dict[Part, Overlap]
    places: array[float]

    @property
    def findings(self) -> list[Finding]:
        """All that was found, the grave first."""
        leaks = (leak_finding(found, NAMES[part]) for part, found in self.leaks.items())
        return by_gravity([*reading_findings(self.tally), *self.report.findings, *filter(None, leaks)])

    def split(self, corpus: Corpus) -> dict[Part, int]:
        """How many pairs each part has, before over-long ones are left out."""
        own = Counter(map(corpus.shares.part, self.places))
        held_out = {part: found.held_out for part, found in self.leaks.items()}
        return {part: held_out.get(part) or own[part] for part in ("train", "valid", "test")}

    def lines(self) -> list[str]:
        """For a terminal: what was found, in a few lines."""
        report = self.report
        lines = [f"{self.name}: {amount(report.pairs, 'pair')} of {amount(report.sources, 'source')}"]
        lines.append(f"  {'; '.join(self.form)}")
        lines += [f"  {name}: {_side(side)}" for name, side in _sides(report)]
        found = self.findings
        lines += [f"  {finding.line()}" for finding in found[:SHOWN]]
        if found:
            more = amount(len(found) - SHOWN, "more finding") if len(found) > SHOWN else "with examples"
            doctor = shlex.join(["seqwright", "doctor", *self.paths, *self.options])
            lines.append(f"  {more}: {doctor} (--fix clean.tsv writes a mended copy)")
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
            "leaks": sum(found.leaked for found in self.leaks.values()),
            "leaks_by_part": {part: found.leaked for part, found in self.leaks.items()},
        }


def survey(data: DataConfig) -> Survey:
    """Reads the training files once, and the sources of the held-out files before."""
    corpus = Corpus(data)
    files = corpus.files(data.train)
    tally, checker, places = Tally(), Checker(), array("d")
    sample: list[Pair] = []
    own: dict[Part, tuple[str, ...]] = {"valid": data.valid, "test": data.test}
    parts = [part for part, given in own.items() if given]
    waiting = HeldOut(*(corpus.pairs(part, tally) for part in parts))
    for pair in files.read(tally):
        checker.add(pair)
        waiting.meet(pair.source)
        places.append(place_of(pair.source, data.split))
        if len(sample) < SAMPLE:
            sample.append(pair)
    sniffed = files.sniffed
    return Survey(
        name=files.name,
        paths=data.train,
        options=_options(data),
        form=sniffed.reasons,
        columns=str(sniffed.columns) if sniffed.columns else None,
        report=checker.report(),
        sample=tuple(sample),
        tally=tally,
        leaks=dict(zip(parts, waiting.overlaps(), strict=True)),
        places=places,
    )


def _options(data: DataConfig) -> tuple[str, ...]:
    """What is asked of the form of the files, as the doctor takes it."""
    said = {name: (getattr(data, name), getattr(DataConfig(), name)) for name in READING}
    return tuple(
        f"data.{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, (value, default) in said.items()
        if value != default
    )


def _sides(report: Report) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("source", report.source), ("target", report.target)


def _side(side: Side) -> str:
    mean = side.words.mean
    words = f", {mean:.1f} words" if 1.5 <= mean < 2.5 else f", {mean:.0f} words" if mean >= 1.5 else ""
    scripts = [name.lower() for name, share in side.scripts.items() if share >= 0.05]
    return (
        f"{side.characters.mean:.0f} characters{words} on average, {side.characters.longest:,} at most; "
        f"{amount(len(side.alphabet), 'different character')} ({', '.join(scripts[:3]) or 'no letters'})"
    )
