"""The importance of each head: the gradient of the loss by its gate, and the loss of quality without it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from seqwright.data.batch import Tokens
from seqwright.data.plan import Batching, Plan
from seqwright.data.store import Store, StoredRow
from seqwright.data.task import Task, group_items
from seqwright.errors import ConfigError, InputError
from seqwright.evaluation.metrics import Better
from seqwright.lens.heads.gates import (
    Head,
    LayerKey,
    Side,
    Site,
    apply_gates,
    sides,
    sites,
    without_heads,
)
from seqwright.models import Model, eval_mode, evaluating
from seqwright.models.decoder_only import joined
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


def batches_of(task: Task[Any, Any], examples: Sequence[Any]) -> list[Any]:
    """Batches of examples, as a validation reads them; `batch.index` holds their numbers."""
    if not examples:
        raise InputError(f"the analysis of heads needs at least one {task.nouns.example}; there are none")
    columns = task.columns(readable=False)
    encoded = task.encode(list(task.labelled(examples)))
    rows = (StoredRow({spec.name: row.columns[spec.name] for spec in columns}) for row in encoded)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open_or_build(Path(folder, "examples"), rows, columns, key="heads")
        batching = Batching(tokens=TOKENS, source_tokens=TOKENS, shuffle=False)
        plan = Plan(task.lengths(store), batching, seed=0)
        return [task.batch(store, numbers) for numbers in plan.epoch(0)]


def gate_gradients(
    model: Model, batches: Iterable[Any], *, smoothing: float = 0.0
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
            queries = [_queries(model, batch, site).count if site.stacked else batch.rows for site in places]
            counts += torch.tensor([(count, batch.rows) for count in queries])[..., None]
    means = [total / count for total, count in zip(totals, counts, strict=True)]
    return {site.key: GateGradients(*mean) for site, mean in zip(places, means, strict=True)}


def _gradients(model: Model, places: list[Site], batch: Any, smoothing: float) -> list[Tensor]:
    """∂L/∂ξ of each attention (B, H, Q or 1)."""
    gates: dict[Attention, Tensor] = {}
    with torch.inference_mode(False), torch.enable_grad():
        for site in places:
            queries = _queries(model, batch, site).ids.shape[1] if site.stacked else 1
            gates[site.attention] = site.ones(batch.rows, site.attention.heads, queries, 1).requires_grad_()
        with apply_gates(gates):
            loss = model.loss(batch, smoothing=smoothing)
        found = torch.autograd.grad(loss.total, list(gates.values()))
    return [slope.squeeze(-1) for slope in found]


def tokens_of(model: Model, batch: Any, side: Side) -> Tokens:
    """The tokens that the encoder or the decoder reads, with the prompt of the latter."""
    read = batch.source if side == "encoder" else batch.target
    if "encoder" not in sides(model) and batch.source is not None:
        read, _ = joined(batch)
    if not isinstance(read, Tokens):
        raise ConfigError("this encoder reads its input in parts; its heads cannot be analysed yet")
    return read


def check_read(model: Model, batch: Any) -> None:
    """Refuse a model whose attention has other queries or keys than the tokens of a side."""
    if not all(site.by_token for site in sites(model)):
        raise ConfigError("this model attends to compressed keys; its heads cannot be analysed yet")
    for side in sides(model):
        tokens_of(model, batch, side)


def _queries(model: Model, batch: Any, site: Site) -> Tokens:
    """The tokens that are the queries of an attention."""
    return tokens_of(model, batch, "encoder" if site.kind == "enc" else "decoder")


class HeadScorer:
    """Scores a model on fixed examples: by its loss (nats per prediction), or by a metric of its outputs."""

    def __init__(self, predictor: Predictor, examples: Sequence[Any], metric: str = "loss", *, beam: int = 1):
        self.predictor, self.metric, self.beam = predictor, metric, beam
        task = predictor.task
        self._inputs, self._references, _ = group_items(task, task.labelled(examples))
        judge = None if metric == "loss" else task.judge(self._inputs, self._references, metrics=[metric])
        self._metric = None if judge is None else judge.metrics[0]
        self.better: Better = "lower" if self._metric is None else self._metric.better
        self._batches = batches_of(task, examples)
        self._options = dict(task.judging.options)
        if task.usage.generates:
            longest = LONGER * max(batch.target.ids.shape[1] for batch in self._batches)
            self._options |= {"beam": beam, "max_length": min(longest, predictor.search.max_length)}

    def __call__(self) -> float:
        """The score of the model with its current gates."""
        if self._metric is None:
            with evaluating(self.predictor.model):
                losses = [self.predictor.model.loss(batch) for batch in self._batches]
            return sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)
        outputs = list(self.predictor.stream(self._inputs, **self._options))
        return self._metric.score([*map(self._metric.seen, outputs)], self._references).value

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
