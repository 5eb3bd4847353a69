"""One model on examples whose answers are known.

evaluation = seqwright.load("runs/g2p").evaluate("test.tsv")
print(evaluation)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqwright import __version__
from seqwright.config import Config, Spec
from seqwright.data.corpus import Corpus
from seqwright.data.fingerprints import check_run_data
from seqwright.data.plan import evenly
from seqwright.data.read_report import ReadReport
from seqwright.data.readers.images import tables_and_home
from seqwright.data.results import Prediction
from seqwright.data.split import NAMES, Part, parts_in
from seqwright.data.task import Bucket, Item, Judge, Mistake, Table, group_items
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.bootstrap import Interval, Measured
from seqwright.evaluation.metrics import FAMILIES
from seqwright.evaluation.mistakes import Confusion, confusions_of, worst
from seqwright.evaluation.speed import Speed, timed
from seqwright.evaluation.text_outputs import Writing
from seqwright.evaluation.train_overlap import known_from
from seqwright.evaluation.wording import percent
from seqwright.files import read_json, strict

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

FORMAT = 1
FILE = "evaluation.json"
WORST, SAMPLE = 10, 10  # items that are shown
FAMILIAR = 0.1  # share of items seen in training from which on the scores are too optimistic
STRANGE = 0.5  # share of unknown input tokens from which on something must be wrong

Check = Callable[[], None]


@dataclass(frozen=True)
class Judging:
    """How outputs are judged, and how the intervals are computed."""

    metrics: tuple[Spec, ...] = ()  # none: the usual ones of the task
    writing: Writing | None = None  # of the targets; None: as at the end of the training
    tokenize: str = "13a"  # of BLEU; none for texts that are tokenized already
    lowercase: bool = False  # for BLEU and chrF
    samples: int = 1000  # of the bootstrap
    level: float = 0.95
    seed: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Scores of a model with intervals, where it fails, how fast it is.

    `str` is a panel for a terminal, `to_json` the document of evaluation.json in a run folder.
    """

    items: tuple[Item[Any, Any], ...]
    order: tuple[int, ...]  # the number of the item that each example belongs to
    beam: int  # 0: answers are not searched for
    judge: Judge
    judging: Judging
    measured: tuple[Measured, ...]
    intervals: tuple[Interval, ...]
    mistakes: tuple[Mistake, ...]
    buckets: dict[str, tuple[Bucket, ...]]
    findings: tuple[str, ...]
    tables: dict[str, Table]
    speed: Speed
    baseline: dict[str, float]  # the scores of a trivial answer
    baselines: dict[str, dict[str, float]]  # the scores of simpler methods by name
    pictures: Mapping[str, Any]  # data of the pictures in the report
    file: str | None = None

    @property
    def pairs(self) -> int:
        return len(self.order)

    @property
    def outputs(self) -> list[str]:
        """The outputs, one for each example, in order."""
        return [self.items[number].output.value for number in self.order]

    @property
    def metrics(self) -> dict[str, float]:
        """Scores by name, the one to look at first in front."""
        return {each.metric.name: each.value() for each in self.measured}

    def label(self, name: str) -> str:
        """Return the name of a metric for people."""
        return self.judge.labels[name]

    @property
    def writing(self) -> Any:
        return self.judge.settings.get("writing")

    @property
    def item(self) -> Any:
        return self.judge.settings.get("item")

    @cached_property
    def confusions(self) -> tuple[Confusion, ...]:
        return confusions_of(self.mistakes, self.writing)

    @cached_property
    def worst(self) -> list[int]:
        """The numbers of the items that are most wrong for their length."""
        return worst(self.mistakes, WORST)

    @property
    def sample(self) -> list[int]:
        """Items spread over the whole file, always the same ones."""
        return evenly(len(self.items), SAMPLE).tolist()

    def row(self, number: int) -> tuple[str, str, str]:
        """Return an item for people: its input, the closest reference, and the output."""
        item = self.items[number]
        return item.output.shown_source, str(self.mistakes[number].reference), str(item.output.value)

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON, described in docs/evaluation.md."""
        names = list(self.metrics)
        intervals = [[each.low, each.high] for each in self.intervals]
        document = {
            "format": FORMAT,
            "file": self.file,
            "items": len(self.items),
            "pairs": self.pairs,
            "beam": self.beam,
            **self.judge.settings,
            "metrics": self.metrics,
            "baseline": self.baseline,
            "baselines": self.baselines,
            "signatures": {each.metric.name: each.signature for each in self.measured},
            "intervals": dict(zip(names, intervals, strict=True)),
            "level": self.judging.level,
            "better": {each.metric.name: each.metric.better for each in self.measured},
            "buckets": {
                name: [self._bucket_json(bucket) for bucket in found] for name, found in self.buckets.items()
            },
            "pictures": self.pictures,
            "tables": {name: found._asdict() for name, found in self.tables.items()},
            "confusions": [confusion.to_json() for confusion in self.confusions],
            "examples": [
                *(self._example_json("worst", item) for item in self.worst),
                *(self._example_json("sample", item) for item in self.sample),
            ],
            "findings": self.findings,
            "seconds": self.speed.seconds,
            "tokens_per_second": self.speed.tokens_per_second,
            "speed": self.speed.to_json(),
            "version": __version__,
        }
        return strict(document)

    def _bucket_json(self, bucket: Bucket) -> dict[str, Any]:
        metrics = {each.metric.name: each.value(bucket.items) for each in self.measured}
        return {"name": bucket.name, "items": len(bucket.items), "metrics": metrics}

    def _example_json(self, kind: str, number: int) -> dict[str, Any]:
        item = self.items[number]
        return {
            "kind": kind,
            "source": item.output.source,
            "references": item.references,
            "output": item.output.value,
            **item.output.details(),
            "edits": self.mistakes[number].edits,
        }

    def __str__(self) -> str:
        from seqwright.evaluation.panel import evaluation_text

        return evaluation_text(self)

    __repr__ = __str__  # at a prompt it shows itself

    def _repr_html_(self) -> str:
        from seqwright.evaluation.page import evaluation_html

        return evaluation_html(self)


def evaluate(
    predictor: Predictor,
    examples: Iterable[Any],
    *,
    beam: int | None = None,
    judging: Judging | None = None,
    file: str | None = None,
    check: Check = lambda: None,
) -> Evaluation:
    """Predict the inputs and judge the outputs. Examples with the same input are one item with several
    references. `file` is the name to show; `check` is called between batches and may raise.
    """
    judging, task = judging or Judging(), predictor.task
    firsts, references, order = group_items(task, task.labelled(examples))
    if not firsts:
        raise InputError(f"there is nothing to evaluate; give at least one {task.nouns.example}")
    path = None if predictor.folder is None else Path(predictor.folder, FILE)
    judge = task.judge(
        firsts,
        references,
        metrics=[each for spec in judging.metrics for each in _family(spec)],
        writing=judging.writing,
        known=read_json(path) if path is not None and path.exists() else {},
        tokenize=judging.tokenize,
        lowercase=judging.lowercase,
    )
    names = [metric.name for metric in judge.metrics]
    if len(set(names)) < len(names):
        raise ConfigError(f"metrics are {', '.join(names)}; each can be given once")
    outputs, speed = timed(predictor, firsts, beam, check, judge.options)
    measured = tuple(metric.measured([*map(metric.seen, outputs)], references) for metric in judge.metrics)
    items = tuple(
        Item(example, tuple(answers), output)
        for example, answers, output in zip(firsts, references, outputs, strict=True)
    )
    simpler = task.baselines(firsts)
    trivial = simpler.get(task.judging.trivial) or [task.baseline(example) for example in firsts]
    baseline = {}
    if not any(answer is None for answer in trivial):
        simple = (metric for metric in judge.metrics if metric.reads_answers)
        baseline = {each.name: each.measured(trivial, references).value() for each in simple}
    baselines = {
        name: {metric.name: metric.measured(answers, references).value() for metric in judge.metrics}
        for name, answers in simpler.items()
    }
    return Evaluation(
        items=items,
        order=tuple(order),
        beam=_beam(predictor, beam),
        judge=judge,
        judging=judging,
        measured=measured,
        intervals=tuple(
            each.interval(samples=judging.samples, level=judging.level, seed=judging.seed)
            for each in measured
        ),
        mistakes=tuple(task.mistakes(judge, items)),
        buckets=task.buckets(items, predictor.folder),
        tables=task.tables(items),
        findings=(
            *judge.remarks,
            *_outdone(measured[0], baselines),
            *_familiar(predictor, firsts),
            *_findings(outputs),
        ),
        speed=speed,
        baseline=baseline,
        baselines=baselines,
        pictures=task.pictures(predictor.model, items, simpler),
        file=file,
    )


def _beam(predictor: Predictor, requested: int | None) -> int:
    """Return the beam size of an evaluation; 0 if answers are not searched for, but sampled or computed."""
    task = predictor.task
    usual = 0 if task.usage.chat is not None else predictor.search.beam
    return (requested or usual) if task.usage.generates else 0


def _family(spec: Spec) -> Sequence[Spec]:
    """Return the metrics that a name stands for: itself, unless it is the name of a family."""
    return FAMILIES.get(spec, (spec,)) if isinstance(spec, str) else (spec,)


def evaluate_files(
    predictor: Predictor,
    files: Sequence[str | os.PathLike[str]] = (),
    *,
    columns: str | None = None,
    encoding: str | None = None,
    syntax: Sequence[str] = (),
    **how: Any,
) -> Evaluation:
    """Evaluate on files, read as the training of the model reads them; without files, on its test split. Of a
    folder of images and tables that name them, the tables are the data.

    syntax: CoNLL-U files with the dependency trees of the sources.
    """
    config = predictor.config or Config()
    data, paths = config.data, tuple(os.fspath(file) for file in files)
    if paths:
        reading = replace(data, columns=columns or data.columns, images=None)
        if len(paths) > 1 and (named := tables_and_home(paths, reading)):
            paths, data = tuple(named[0]), replace(data, images=named[1])
        data = replace(
            data,
            test=tuple(parts_in(paths[0]).get("test", paths)) if len(paths) == 1 else paths,
            columns=columns or data.columns,
            encoding=encoding or data.encoding,
            syntax=tuple(syntax) or data.syntax,
        )
    elif given := columns or encoding or ", ".join(syntax):
        raise ConfigError(
            f"{given!r} applies only to named files; name one, or leave it out: the test "
            "split is read as the training reads it"
        )
    tally, corpus = ReadReport(), Corpus(type(predictor.task), data, predictor.task)
    if paths and (twice := corpus.reader(paths).named_twice):
        raise ConfigError(f"{twice} is named twice; name each file once")
    if not paths and predictor.folder is not None:
        check_run_data(predictor.folder, data.test or data.train)
    examples = list(corpus.examples("test", tally)) if data.test or data.train else []
    if not examples:
        raise InputError(f"the run has no test split; name a file of {corpus.task.nouns.example}s")
    predictor.task.check_compatible(examples[0], paths)
    evaluation = evaluate(predictor, examples, file=corpus.name("test"), **how)
    left_out = tally.summary() if paths else []  # the training reported what it left out itself
    return replace(evaluation, findings=(*left_out, *evaluation.findings))


def _outdone(first: Measured, baselines: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Name the simpler methods that are better by the first metric, the best first."""
    name, sign = first.metric.name, 1 if first.metric.better == "higher" else -1
    ours = round(first.value(), 3)
    for other in sorted(baselines, key=lambda other: -sign * baselines[other][name]):
        if sign * (theirs := round(baselines[other][name], 3)) > sign * ours:
            figures = f"{first.metric.title} {theirs:.3f} against {ours:.3f}"
            yield f"the baseline {other.replace('_', ' ')} is better: {figures}"


def _familiar(predictor: Predictor, examples: Sequence[Any]) -> Iterator[str]:
    """Whether the scores measure memory, or the choice of the weights, rather than quality."""
    folder, task, total = predictor.folder, predictor.task, len(examples)
    parts: tuple[tuple[Part, str], ...] = (("train", "often"), ("valid", "a little"))
    for part, how in parts:
        known = None if folder is None else known_from(part, folder, task, examples)
        if known is not None and (count := int(known.sum())) >= FAMILIAR * total:
            share = f"{count:,} of {total:,} ({percent(count / total)})"
            split = f"{task.roles[0].name} is in the {NAMES[part]} split"
            yield f"items whose {split}: {share}; such scores are {how} too good"


def _findings(outputs: Sequence[Prediction]) -> Iterator[str]:
    tokens = sum(output.reading.tokens for output in outputs)
    unknown = sum(output.reading.unknown for output in outputs) / max(tokens, 1)
    if unknown >= STRANGE:
        yield f"{percent(unknown)} unknown tokens: wrong language or tokenizer?"
    if long := sum(output.reading.unread > 0 for output in outputs):
        yield f"inputs that were too long and were read in part: {long:,} of {len(outputs):,}"
    if linear := sum(output.reading.unparsed for output in outputs):
        yield f"inputs without a dependency tree, read with linear positions: {linear:,} of {len(outputs):,}"
    if endless := sum(not output.complete for output in outputs):
        yield f"outputs that did not end and were cut: {endless:,} of {len(outputs):,}"
