"""How much a model needs each of its heads: by the slope of the loss in its gate, and by what happens without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import Batch, collate
from seqwright.data.plan import Batching, Plan, RowLengths
from seqwright.data.store import Ragged
from seqwright.errors import InputError
from seqwright.evaluation.metrics import Better
from seqwright.evaluation.text_outputs import as_written, build_metric, group_references, writing_of
from seqwright.lens.heads.gates import Head, Place, Site, closed, gated, sites
from seqwright.models import Model, evaluating
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.text_to_text import TextToText

TOKENS = 2048  # of a batch, padding included: the weights of all attentions are kept at once
LONGER = 2  # outputs are cut at so many times the longest target: without some heads a model may know no end

Tell = Callable[[str], None]
"""Is told what is being done, where it may take long."""


class Slopes(NamedTuple):
    """E |∂L/∂ξ_h| of the heads of one attention, (H,) each: with |·| of each token or of each example."""

    by_token: Tensor
    by_example: Tensor

    def normalised(self) -> Slopes:
        """I_h ← I_h / ‖I‖₂ over the heads of the attention (Michel et al. 2019, 4.1, after Molchanov et al.
        2017).
        """
        return Slopes(*(part / part.norm().clamp(min=torch.finfo(part.dtype).tiny) for part in self))


def batches_of(task: TextToText, pairs: Sequence[tuple[str, str]]) -> list[Batch]:
    """Pairs as batches, from short to long; `batch.index` are the numbers of the pairs."""
    if not pairs:
        raise InputError("there are no pairs to look at heads with; give at least one")
    sources = task.source.encode_batch([source for source, _ in pairs])
    targets = task.target.encode_batch([target for _, target in pairs])
    lengths = RowLengths(*(np.array([len(row) for row in rows]) for rows in (sources, targets)))
    plan = Plan(lengths, Batching(tokens=TOKENS, source_tokens=TOKENS, shuffle=False), seed=0)
    return [
        collate(Ragged.of([sources[i] for i in numbers]), Ragged.of([targets[i] for i in numbers]), numbers)
        for numbers in plan.epoch(0)
    ]


def slopes(model: Model, batches: Iterable[Batch], *, smoothing: float = 0.0) -> dict[Place, Slopes]:
    """I_h = E |∂L/∂ξ_h| = E |Att_hᵀ ∂L/∂Att_h| (Michel et al. 2019, 4.1), not normalised, without dropout.

    A gate for each query of each example has the gradient Σ_e context_e · ∂L/∂context_e at that place. Its
    magnitude averaged over tokens is what the authors' program computes; the magnitude of its sum over the
    queries, averaged over examples, is what the paper says. L is the sum over the tokens of an example. The
    attention of a recurrent decoder has one gate for all queries of an example: there, both are by example.
    """
    places = [site for site in sites(model) if site.attention.heads]
    if not places:
        return {}
    totals = [torch.zeros(2, site.attention.heads, dtype=torch.float64) for site in places]
    counts = torch.zeros(len(places), 2, 1, dtype=torch.float64)  # tokens, examples
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            for total, slope in zip(totals, _slopes(model, places, batch, smoothing), strict=True):
                total += torch.stack([slope.abs().sum((0, 2)), slope.sum(2).abs().sum(0)]).double().cpu()
            counts += torch.tensor([(_queries(site, batch), batch.rows) for site in places])[..., None]
    finally:
        model.train(was_training)
    means = [total / count for total, count in zip(totals, counts, strict=True)]
    return {site.place: Slopes(*mean) for site, mean in zip(places, means, strict=True)}


def _slopes(model: Model, places: list[Site], batch: Batch, smoothing: float) -> list[Tensor]:
    """∂L/∂ξ of each attention (B, H, Q or 1)."""
    lengths = {"enc": batch.source.ids.shape[1], "dec": batch.target.ids.shape[1]}
    lengths["cross"] = lengths["dec"]
    with torch.inference_mode(False), torch.enable_grad():
        gates = [
            site.ones(batch.rows, site.attention.heads, lengths[site.kind] if site.stacked else 1, 1)
            for site in places
        ]
        for gate in gates:
            gate.requires_grad_()
        with gated(dict(zip((site.attention for site in places), gates, strict=True))):
            loss = model.loss(batch, smoothing=smoothing)
        found = torch.autograd.grad(loss.total, gates)
    return [slope.squeeze(-1) for slope in found]


def _queries(site: Site, batch: Batch) -> int:
    """How many tokens ask, without padding."""
    if not site.stacked:
        return batch.rows
    if site.kind != "enc":
        return batch.count
    lengths = batch.source.lengths
    return batch.source.ids.numel() if lengths is None else int(lengths.sum())


class Yardstick:
    """What a model is judged by on fixed pairs: "loss" (nats per token), or a metric of what it says."""

    def __init__(
        self, predictor: Predictor, pairs: Sequence[tuple[str, str]], metric: str = "loss", *, beam: int = 1
    ):
        self.predictor, self.metric, self.beam = predictor, metric, beam
        writing = writing_of(predictor.task.target.kind, (target for _, target in pairs))
        self._metric = None if metric == "loss" else build_metric(metric, writing)
        self.better: Better = "lower" if self._metric is None else self._metric.better
        self._batches = batches_of(predictor.task, pairs)
        self._sources, self._references = group_references(
            (source, as_written(target, writing)) for source, target in pairs
        )
        longest = LONGER * max(batch.target.ids.shape[1] for batch in self._batches)
        self._max_length = min(longest, predictor.search.max_length)

    def __call__(self) -> float:
        """The value of the model as it is now, with the gates that it has now."""
        if self._metric is None:
            return self._loss()
        outputs = self.predictor.predict(self._sources, beam=self.beam, max_length=self._max_length)
        return self._metric.score([output.text for output in outputs], self._references).value

    def worse(self, value: float, than: float) -> float:
        """By how much a value is worse than another; below 0: it is better."""
        return value - than if self.better == "lower" else than - value

    def _loss(self) -> float:
        with evaluating(self.predictor.model):
            losses = [self.predictor.model.loss(batch) for batch in self._batches]
        return sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)


def ablations(
    yardstick: Yardstick, *, alone: bool = False, tell: Tell = lambda text: None
) -> dict[Head, float]:
    """How much worse the model is without each head (Michel et al. 2019, 3.2); with `alone`, without all the
    other heads of its attention (3.3).
    """
    model = yardstick.predictor.model
    whole, found = yardstick(), {}
    every = [(site, head) for site in sites(model) for head in site.heads]
    for number, (site, head) in enumerate(every, start=1):
        tell(f"without head {head} ({number} of {len(every)})")
        gone = [other for other in site.heads if other != head] if alone else [head]
        with closed(model, gone):
            found[head] = yardstick.worse(yardstick(), whole)
    return found


def ascending(importance: Mapping[Head, float], *, keep_best: bool = False) -> list[Head]:
    """Heads from the least to the most important; with `keep_best` the best one of each attention comes after
    all the others.
    """
    best: dict[tuple[str, int], Head] = {}
    for head, value in importance.items():
        if head[:2] not in best or value > importance[best[head[:2]]]:
            best[head[:2]] = head
    last = set(best.values()) if keep_best else set()
    return sorted(importance, key=lambda head: (head in last, importance[head], head))
