"""The importance of each head: the gradient of the loss by its gate, and the loss of quality without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqwright.data.batch import Batch, Tokens, collate
from seqwright.data.plan import Batching, Plan, RowLengths
from seqwright.data.store import Ragged
from seqwright.data.task import group_items
from seqwright.errors import InputError
from seqwright.evaluation.metrics import Better
from seqwright.lens.heads.gates import Head, LayerKey, Site, apply_gates, sites, without_heads
from seqwright.lens.trace.contract import TextTask, text_task
from seqwright.models import Model, eval_mode, evaluating
from seqwright.nn.attention import Attention

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

TOKENS = 2048  # per batch with padding: the weights of all attentions are in memory at once
LONGER = 2  # outputs are limited to so many times the longest target: a model without heads may never end

Progress = Callable[[str], None]  # receives a line about the current work


class GateGradients(NamedTuple):
    """E |∂L/∂ξ_h| of the heads of one attention, (H,) each: with |·| per token or per example."""

    by_token: Tensor
    by_example: Tensor

    def normalised(self) -> GateGradients:
        """I_h / ‖I‖₂ over the heads of the attention (Michel et al. 2019, 4.1; Molchanov et al. 2017)."""
        return GateGradients(*(part / part.norm().clamp(min=torch.finfo(part.dtype).tiny) for part in self))


def batches_of(task: TextTask, pairs: Sequence[Any]) -> list[Batch]:
    """Batches of pairs, from short to long; `batch.index` holds the numbers of the pairs."""
    if not pairs:
        raise InputError("the analysis of heads needs at least one pair; there are none")
    sources = task.source.encode_batch([pair[0] for pair in pairs])
    targets = task.target.encode_batch([pair[1] for pair in pairs])
    lengths = RowLengths(*(np.array([len(row) for row in rows]) for rows in (sources, targets)))
    plan = Plan(lengths, Batching(tokens=TOKENS, source_tokens=TOKENS, shuffle=False), seed=0)
    return [
        collate(Ragged.of([sources[i] for i in numbers]), Ragged.of([targets[i] for i in numbers]), numbers)
        for numbers in plan.epoch(0)
    ]


def gate_gradients(
    model: Model, batches: Iterable[Batch], *, smoothing: float = 0.0
) -> dict[LayerKey, GateGradients]:
    """I_h = E |∂L/∂ξ_h| = E |Att_hᵀ ∂L/∂Att_h| (Michel et al. 2019, 4.1), not normalised, without dropout.

    A gate per query of each example has the gradient Σ_e context_e · ∂L/∂context_e. The authors' program
    averages its magnitude over tokens; the paper averages the magnitude of its sum over the queries over
    examples. L is the sum over the tokens of an example. The attention of a recurrent decoder has one gate
    per example, so both are per example there.
    """
    places = [site for site in sites(model) if site.attention.heads]
    if not places:
        return {}
    totals = [torch.zeros(2, site.attention.heads, dtype=torch.float64) for site in places]
    counts = torch.zeros(len(places), 2, 1, dtype=torch.float64)  # tokens, examples
    with eval_mode(model):
        for batch in batches:
            for total, slope in zip(totals, _gradients(model, places, batch, smoothing), strict=True):
                total += torch.stack([slope.abs().sum((0, 2)), slope.sum(2).abs().sum(0)]).double().cpu()
            queries = [_queries(batch, site).count if site.stacked else batch.rows for site in places]
            counts += torch.tensor([(count, batch.rows) for count in queries])[..., None]
    means = [total / count for total, count in zip(totals, counts, strict=True)]
    return {site.key: GateGradients(*mean) for site, mean in zip(places, means, strict=True)}


def _gradients(model: Model, places: list[Site], batch: Batch, smoothing: float) -> list[Tensor]:
    """∂L/∂ξ of each attention (B, H, Q or 1)."""
    gates: dict[Attention, Tensor] = {}
    with torch.inference_mode(False), torch.enable_grad():
        for site in places:
            queries = _queries(batch, site).ids.shape[1] if site.stacked else 1
            gates[site.attention] = site.ones(batch.rows, site.attention.heads, queries, 1).requires_grad_()
        with apply_gates(gates):
            loss = model.loss(batch, smoothing=smoothing)
        found = torch.autograd.grad(loss.total, list(gates.values()))
    return [slope.squeeze(-1) for slope in found]


def _queries(batch: Any, site: Site) -> Tokens:
    """The tokens that are the queries of an attention."""
    return batch.source if site.kind == "enc" else batch.target


class HeadScorer:
    """Scores a model on fixed pairs: by its loss (nats per token), or by a metric of its outputs."""

    def __init__(self, predictor: Predictor, pairs: Sequence[Any], metric: str = "loss", *, beam: int = 1):
        self.predictor, self.metric, self.beam = predictor, metric, beam
        task = predictor.task
        self._inputs, self._references, _ = group_items(task, task.labelled(pairs))
        judge = None if metric == "loss" else task.judge(self._inputs, self._references, metrics=[metric])
        self._metric = None if judge is None else judge.metrics[0]
        self.better: Better = "lower" if self._metric is None else self._metric.better
        self._batches = batches_of(text_task(task), pairs)
        longest = LONGER * max(batch.target.ids.shape[1] for batch in self._batches)
        self._max_length = min(longest, predictor.search.max_length)

    def __call__(self) -> float:
        """The score of the model with its current gates."""
        if self._metric is None:
            with evaluating(self.predictor.model):
                losses = [self.predictor.model.loss(batch) for batch in self._batches]
            return sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)
        outputs = self.predictor.predict(self._inputs, beam=self.beam, max_length=self._max_length)
        return self._metric.score([output.value for output in outputs], self._references).value

    def worse(self, value: float, than: float) -> float:
        """How much worse a value is than another; negative if it is better."""
        return value - than if self.better == "lower" else than - value


def ablations(
    scorer: HeadScorer, *, alone: bool = False, progress: Progress = lambda text: None
) -> dict[Head, float]:
    """How much worse the model is without each head, or with it alone (Michel et al. 2019, 3.2 and 3.3)."""
    model = scorer.predictor.model
    whole, worse = scorer(), {}
    every = [(site, head) for site in sites(model) for head in site.heads]
    for number, (site, head) in enumerate(every, start=1):
        progress(f"without head {head} ({number} of {len(every)})")
        removed = [other for other in site.heads if other != head] if alone else [head]
        with without_heads(model, removed):
            worse[head] = scorer.worse(scorer(), whole)
    return worse


def ascending(importance: Mapping[Head, float], *, keep_best: bool = False) -> list[Head]:
    """Heads from the least to the most important; with `keep_best`, the best of each attention come last."""
    falling = sorted(importance, key=importance.__getitem__, reverse=True)
    best = {head[:2]: head for head in reversed(falling)}  # of equal heads, the first
    last = set(best.values()) if keep_best else set()
    return sorted(importance, key=lambda head: (head in last, importance[head], head))
