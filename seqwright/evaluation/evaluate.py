"""One model on items whose answers are known.

evaluation = seqwright.load("runs/g2p").evaluate("test.tsv")
print(evaluation)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from seqwright import __version__
from seqwright.config import Config, Spec, parse
from seqwright.data.fields import has_fields
from seqwright.data.inputs import ONE_TEXT, Source, pairs_of, source_of
from seqwright.data.read_report import Pair, Tally
from seqwright.data.results import Text
from seqwright.data.split import Part
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.bootstrap import Interval, Measured
from seqwright.evaluation.buckets import (
    ENDING,
    LENGTHS,
    Bucket,
    by_ending,
    by_length,
    by_rarity,
    rarity_of_run,
)
from seqwright.evaluation.mistakes import Confusion, Mistake, confusions_of, mistakes_of, worst
from seqwright.evaluation.speed import Speed, timed
from seqwright.evaluation.text_outputs import (
    METRICS_FOR,
    ItemKind,
    Writing,
    as_written,
    build_metric,
    group_references,
    item_of,
    metric_label,
    writing_of,
)
from seqwright.evaluation.train_overlap import known_from
from seqwright.evaluation.wording import percent
from seqwright.files import read_json, strict
from seqwright.prediction.predictor import Predictor
from seqwright.runs.folder import Run
from seqwright.training.preparation import Corpus
from seqwright.training.validation import Item, evenly

FORMAT = 1
FILE = "evaluation.json"
WORST, SAMPLE = 10, 10  # items that are shown
FAMILIAR = 0.1  # the share of items with a source of the training from which on the scores say too much
STRANGE = 0.5  # the share of unknown source tokens from which on something must be wrong

Check = Callable[[], None]


@dataclass(frozen=True)
class Judging:
    """How outputs are judged, and how sure that is."""

    metrics: tuple[Spec, ...] = ()  # none: those of METRICS_FOR
    writing: Writing | None = None  # of the targets; None: as at the end of the training
    tokenize: str = "13a"  # of BLEU; none for texts whose words stand between spaces already
    lowercase: bool = False  # for BLEU and chrF
    samples: int = 1000  # of the bootstrap
    level: float = 0.95
    seed: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What a model does with items: scores with intervals, where it fails, how fast it is.

    `str` is a panel for a terminal, `to_json` what evaluation.json of a run folder holds.
    """

    items: tuple[Item, ...]
    order: tuple[int, ...]  # the number of the item that each pair belongs to
    beam: int
    writing: Writing
    item: ItemKind
    judging: Judging
    measured: tuple[Measured, ...]
    intervals: tuple[Interval, ...]
    mistakes: tuple[Mistake, ...]
    buckets: dict[str, tuple[Bucket, ...]]
    findings: tuple[str, ...]
    speed: Speed
    file: str | None = None

    @property
    def pairs(self) -> int:
        return len(self.order)

    @property
    def outputs(self) -> list[str]:
        """One for each pair, in their order."""
        return [self.items[number].output.text for number in self.order]

    @property
    def metrics(self) -> dict[str, float]:
        """Name -> score, the one to look at first in front."""
        return {each.metric.name: each.value() for each in self.measured}

    def label(self, name: str) -> str:
        """What a metric is called for people."""
        return metric_label(name, self.item)

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
        """An item for people: its source, the closest reference, and what was said."""
        item = self.items[number]
        return item.output.source, self.mistakes[number].reference, item.output.text

    def to_json(self) -> dict[str, Any]:
        """Strict JSON; the format is described in docs/evaluation.md."""
        names = list(self.metrics)
        intervals = [[each.low, each.high] for each in self.intervals]
        document = {
            "format": FORMAT,
            "file": self.file,
            "items": len(self.items),
            "pairs": self.pairs,
            "beam": self.beam,
            "writing": self.writing,
            "item": self.item,
            "metrics": self.metrics,
            "signatures": {each.metric.name: each.signature for each in self.measured},
            "intervals": dict(zip(names, intervals, strict=True)),
            "level": self.judging.level,
            "better": {each.metric.name: each.metric.better for each in self.measured},
            "buckets": {
                name: [self._bucket_json(bucket) for bucket in found] for name, found in self.buckets.items()
            },
            "confusions": [asdict(confusion) for confusion in self.confusions],
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
            "output": item.output.text,
            "log_prob": item.output.log_prob,
            "finish_reason": item.output.finish_reason,
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
    pairs: Iterable[tuple[Source, str] | Pair],
    *,
    beam: int | None = None,
    judging: Judging | None = None,
    file: str | None = None,
    check: Check = lambda: None,
) -> Evaluation:
    """Decodes the sources and judges the outputs. Pairs with the same source are one item with several
    references. `file` is the name to show; `check` is called between batches and may raise.
    """
    judging, task = judging or Judging(), predictor.task
    texts = [(source_of(source, predictor.fields), target) for source, target in pairs_of(pairs)]
    if not texts:
        raise InputError("there is nothing to evaluate; give at least one pair")
    known = _as_trained(predictor)
    writing: Writing = (
        judging.writing
        or known.get("writing")
        or writing_of(task.target.kind, [target for _, target in texts])
    )
    sources, references = group_references((source, as_written(target, writing)) for source, target in texts)
    outputs, speed = timed(predictor, sources, beam, check)
    said = [output.text for output in outputs]
    measured = _measured(said, references, writing, judging)
    items = zip(sources, map(tuple, references), outputs, strict=True)
    numbers = {source: number for number, source in enumerate(sources)}
    return Evaluation(
        items=tuple(Item(*item) for item in items),
        order=tuple(numbers[source] for source, _ in texts),
        beam=beam or predictor.search.beam,
        writing=writing,
        item=known["item"] if writing == known.get("writing") else item_of(sources, references, writing),
        judging=judging,
        measured=measured,
        intervals=tuple(
            each.interval(samples=judging.samples, level=judging.level, seed=judging.seed)
            for each in measured
        ),
        mistakes=tuple(mistakes_of(said, references, writing)),
        buckets=_buckets(predictor, sources, outputs),
        findings=(*_familiar(predictor, sources), *_findings(outputs)),
        speed=speed,
        file=file,
    )


def _as_trained(predictor: Predictor) -> dict[str, Any]:
    """What the training of a model judged it by in the end: another file may have other lengths by chance,
    and its scores are to be compared.
    """
    file = None if predictor.folder is None else predictor.folder / FILE
    return read_json(file) if file is not None and file.exists() else {}


def evaluate_files(
    predictor: Predictor,
    files: Sequence[str | os.PathLike[str]] = (),
    *,
    columns: str | None = None,
    encoding: str | None = None,
    **how: Any,
) -> Evaluation:
    """`evaluate` on files of pairs, or of two sides, read as the training of the model reads them; without
    files, on what that training has put aside for a test.
    """
    config = Config() if predictor.folder is None else parse(Run.open(predictor.folder).config)
    data, paths = config.data, tuple(os.fspath(file) for file in files)
    if paths:
        data = replace(
            data,
            test=paths,
            columns=columns or data.columns,
            encoding=encoding or data.encoding,
        )
    elif said := columns or encoding:
        raise ConfigError(
            f"{said!r} says how to read files, and none is named; name one, or leave it out: what the "
            "training put aside is read as the training reads it"
        )
    tally, corpus = Tally(), Corpus(data)
    _check_named_once(corpus, paths)
    pairs = list(corpus.pairs("test", tally)) if data.test or data.train else []
    if not pairs:
        raise InputError("the model has no pairs put aside for a test; name a file of pairs")
    if predictor.fields == ONE_TEXT and has_fields(pairs[0].source):
        raise InputError(
            f"{', '.join(paths)} has sources of several fields, and the model takes one text; name the "
            "columns, as in --columns 1:2"
        )
    evaluation = evaluate(predictor, pairs, file=corpus.name("test"), **how)
    left_out = tally.summary() if paths else []  # what a training left out was said by the training
    return replace(evaluation, findings=(*left_out, *evaluation.findings))


def _check_named_once(corpus: Corpus, paths: tuple[str, ...]) -> None:
    """No file is to be read twice; but one may be both sides, of a model that copies."""
    if len(set(map(os.path.realpath, paths))) == len(paths):
        return
    files = corpus.files(paths)
    for side in (files.inputs, files.targets):
        places = [os.path.realpath(file.path) for file in side]
        for number, file in enumerate(side):
            if places[number] in places[:number]:
                raise ConfigError(f"{file.name} is named twice; name each file once")


def _measured(
    said: Sequence[str], references: Sequence[Sequence[str]], writing: Writing, judging: Judging
) -> tuple[Measured, ...]:
    given = {"tokenize": judging.tokenize, "lowercase": judging.lowercase}
    metrics = [build_metric(spec, writing, **given) for spec in judging.metrics or METRICS_FOR[writing]]
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ConfigError(f"metrics are {', '.join(names)}; each can be asked for once")
    return tuple(metric.measured(said, references) for metric in metrics)


def _buckets(
    predictor: Predictor, sources: Sequence[str], outputs: Sequence[Text]
) -> dict[str, tuple[Bucket, ...]]:
    """What is not known, or the same for all, is left out."""
    task, folder = predictor.task, predictor.folder
    rarity = None if folder is None else rarity_of_run(folder, task)
    writing = writing_of(task.source.kind, sources)
    found = {
        LENGTHS[writing]: by_length(sources, writing),
        **({} if rarity is None else {rarity.name: by_rarity(sources, rarity)}),
        ENDING: by_ending([output.finish_reason for output in outputs]),
    }
    return {respect: buckets for respect, buckets in found.items() if buckets}


def _familiar(predictor: Predictor, sources: Sequence[str]) -> Iterator[str]:
    """Whether the scores tell how well it learned by heart, or was chosen, rather than how good it is."""
    if share := _known(predictor, "train", sources):
        yield f"items whose source was trained on: {share}; such scores are often too good"
    if share := _known(predictor, "valid", sources):
        yield f"items whose source chose the weights: {share}; such scores are a little too good"


def _known(predictor: Predictor, part: Part, sources: Sequence[str]) -> str:
    """How many sources were in this part of its data; nothing where they are few, or it cannot be told."""
    folder, task = predictor.folder, predictor.task
    known = None if folder is None else known_from(part, folder, task, sources)
    if known is None or (count := int(known.sum())) < FAMILIAR * len(sources):
        return ""
    return f"{count:,} of {len(sources):,} ({percent(count / len(sources))})"


def _findings(outputs: Sequence[Text]) -> Iterator[str]:
    tokens = sum(output.reading.tokens for output in outputs)
    unknown = sum(output.reading.unknown for output in outputs) / max(tokens, 1)
    if unknown >= STRANGE:
        yield f"{percent(unknown)} unknown tokens: wrong language or tokenizer?"
    if long := sum(output.reading.unread > 0 for output in outputs):
        yield f"sources that were too long and were read in part: {long:,} of {len(outputs):,}"
    if endless := sum(output.finish_reason != "end" for output in outputs):
        yield f"outputs that did not end and were cut: {endless:,} of {len(outputs):,}"
