"""What the files of a training contain, found in one pass before anything is chosen."""

from __future__ import annotations

import shlex
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Any

from seqwright.config import Config, DataConfig
from seqwright.data.checks.findings import Finding, by_severity, leak_finding, reading_findings
from seqwright.data.checks.statistics import Statistics, StatisticsBuilder, TextColumn
from seqwright.data.corpus import Corpus
from seqwright.data.fingerprints import Fingerprints, fingerprints, hashes, refuse_changed
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.pairs import PairFiles
from seqwright.data.split import NAMES, HeldOut, Overlap, Part
from seqwright.data.task import Kind
from seqwright.data.text_display import excerpt, pluralize

FORMAT = 1
SAMPLE = 5000  # examples that are kept to look at
LABELS = 1000  # kept in data.json
NAMED = 8  # labels in the terminal
SHOWN = 4  # findings in the terminal; the doctor shows the rest
READING = (
    *("format", "delimiter", "header", "columns", "field", "quoting"),
    *("encoding", "on_bad_bytes", "max_line", "skip_bad_rows"),
)


@dataclass(frozen=True)
class Survey:
    """`options` are the reading options that differ from their defaults, as key=value; `leaks` are those of
    parts with files of their own; `places`, one number from 0 to 1 for each training example, decide its part
    of the split; `files` are the fingerprints of all files; `labels` counts the labels in training files.
    """

    corpus: Corpus
    form: tuple[str, ...]
    columns: str | None
    report: Statistics
    sample: tuple[Any, ...]
    tally: ReadReport
    leaks: dict[Part, Overlap]
    places: array[float]
    files: Fingerprints
    labels: Counter[str]

    @property
    def name(self) -> str:
        return self.corpus.reader(self.corpus.data.train).name

    @property
    def findings(self) -> list[Finding]:
        """All findings, the most severe first."""
        nouns = {"noun": self.corpus.task.nouns.example, "group": self.corpus.task.nouns.group}
        leaks = (leak_finding(found, NAMES[part], **nouns) for part, found in self.leaks.items())
        return by_severity([*reading_findings(self.tally), *self.report.findings, *filter(None, leaks)])

    def split(self, data: DataConfig) -> dict[Part, int]:
        """Return how many examples each part has, before over-long ones are left out."""
        own = Counter(map(Corpus(self.corpus.task, data).fractions.part, self.places))
        held_out = {part: found.held_out for part, found in self.leaks.items()}
        return {part: held_out.get(part) or own[part] for part in ("train", "valid", "test")}

    def lines(self) -> list[str]:
        """Return a short description for a terminal."""
        report, task, data = self.report, self.corpus.task, self.corpus.data
        examples = pluralize(report.examples, task.nouns.example)
        if task.nouns.group != task.nouns.example:
            examples += f" of {pluralize(report.distinct, task.nouns.group)}"
        lines = [
            f"{self.name}: {examples}",
            f"  {'; '.join(self.form)}",
            *(f"  {name}: {_described(column)}" for name, column in report.columns.items()),
            *([f"  label: {_labels(self.labels)}"] if self.labels else []),
        ]
        found = self.findings
        lines += [f"  {finding.line()}" for finding in found[:SHOWN]]
        if found:
            more = pluralize(len(found) - SHOWN, "more finding") if len(found) > SHOWN else "with examples"
            doctor = shlex.join(["seqwright", "doctor", *data.train, *_options(data)])
            repairable = isinstance(self.corpus.reader(data.train), PairFiles)
            fix = " (--fix clean.tsv writes a repaired copy)" if repairable else ""
            lines.append(f"  {more}: {doctor}{fix}")
        return lines

    def to_json(self) -> dict[str, Any]:
        report = self.report
        return {
            "format": FORMAT,
            "name": self.name,
            "form": list(self.form),
            "unit": self.corpus.task.nouns.example,
            "group": self.corpus.task.nouns.group,
            "counted": self.corpus.task.nouns.speed,
            "pairs": report.examples,
            "sources": report.distinct,
            **{name: column.to_json() for name, column in report.columns.items()},
            **({"labels": dict(self.labels.most_common(LABELS))} if self.labels else {}),
            "findings": [finding.to_json() for finding in self.findings],
            "dropped": self.tally.summary(),
            "leaks": sum(found.leaked for found in self.leaks.values()),
            "leaks_by_part": {part: found.leaked for part, found in self.leaks.items()},
            "files": hashes(self.files),
        }


def survey(config: Config) -> Survey:
    """Read the inputs of the held-out files, then the training files once."""
    corpus = Corpus.of(config)
    files = fingerprints(corpus.paths)
    data, reader = corpus.data, corpus.reader(corpus.data.train)
    tally, places, labels = ReadReport(), array("d"), Counter[str]()
    builder = StatisticsBuilder(role.name for role in corpus.task.roles if role.kind is Kind.TEXT)
    sample: list[Any] = []
    parts: list[Part] = [part for part in ("valid", "test") if getattr(data, part)]
    waiting = HeldOut(*(corpus.originals(part, tally) for part in parts), key=corpus.task.group)
    for place, example in corpus.placed(reader, tally):
        builder.add(tuple(corpus.task.texts(example)), example.place, corpus.task.identity(example))
        if parts:
            waiting.meet(corpus.task.group(example))
        places.append(place)
        labels.update(corpus.task.all_labels(example))
        if len(sample) < SAMPLE:
            sample.append(example)
    leaks = dict(zip(parts, waiting.overlaps(), strict=True))
    form, columns, report = reader.form, reader.columns, builder.build()
    refuse_changed(files, "while it was read", "wait until it is complete, then train again")
    return Survey(corpus, form, columns, report, tuple(sample), tally, leaks, places, files, labels)


def _options(data: DataConfig) -> list[str]:
    """Return the reading options that differ from their defaults, as the doctor takes them."""
    values = {name: getattr(data, name) for name in READING}
    return [
        f"data.{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
        if value != getattr(DataConfig(), name)
    ]


def _labels(counts: Counter[str]) -> str:
    common = ", ".join(f"{excerpt(label, 24)[1:-1]} {count:,}" for label, count in counts.most_common(NAMED))
    rest = f", and {len(counts) - NAMED:,} more" if len(counts) > NAMED else ""
    return f"{pluralize(len(counts), 'value')}: {common}{rest}"


def _described(column: TextColumn) -> str:
    mean = column.words.mean
    words = f", {mean:.1f} words" if 1.5 <= mean < 2.5 else f", {mean:.0f} words" if mean >= 1.5 else ""
    scripts = [name.lower() for name, share in column.scripts.items() if share >= 0.05]
    return (
        f"{column.characters.mean:.0f} characters{words} on average, {column.characters.longest:,} at most; "
        f"{pluralize(len(column.alphabet), 'distinct character')} ({', '.join(scripts[:3]) or 'no letters'})"
    )
