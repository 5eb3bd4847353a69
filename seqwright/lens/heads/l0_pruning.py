"""Learn which heads to keep with L0 gates: the hard concrete distribution of Louizos et al. 2018, applied to
heads as in Voita et al. 2019, section 6.

u ~ U(ε, 1 − ε), s = σ((log u − log(1 − u) + log a) / τ), g = min(1, max(0, s (ζ − γ) + γ)). Each head has one
log a, and each batch samples its own g. The loss is that of the model plus λ Σ_h P(g_h ≠ 0) over all heads.

λ grows with every batch until at most the wanted number of heads is open. Then the gates are fixed, at 1 for
the heads with the largest log a and at 0 for the others, and training continues with the weights alone.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from seqwright.config import Config, parse
from seqwright.data.batch import Batch
from seqwright.errors import ConfigError, ModelError, WriteError
from seqwright.files import atomic_folder
from seqwright.lens.heads.gates import Head, sites
from seqwright.lens.heads.pruning import like, one_model, pruned, run_of, write_run
from seqwright.models import Generative, Model
from seqwright.nn.loss import Loss
from seqwright.runs.folder import Run
from seqwright.training.interrupt import Interrupt
from seqwright.training.preparation import Prepared, prepare
from seqwright.training.run import open_or_create
from seqwright.training.trainer import Listener, Trainer

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor

TEMPERATURE, LOW, HIGH, EDGE = 0.33, -0.1, 1.1, 1e-6  # τ, γ, ζ, ε
OPEN = 2.0  # initial log a: P(g = 1) is 0.77, because a trained model needs its heads
FIXED = 20.0  # ± log a of a fixed gate: no u of U(ε, 1 − ε) changes it, and its gradient is 0
SPEED = 10.0  # log a moves so many times faster than a weight, because it has to move several units
PRICE, GROWTH = 1e-3, 1.02  # the initial λ, and its factor per batch


def sample_gates(log_a: Tensor) -> Tensor:
    """Random gates between 0 and 1; those strictly between have a gradient by log a."""
    u = torch.empty_like(log_a).uniform_(EDGE, 1 - EDGE)
    return _stretched(((u.log() - (-u).log1p() + log_a) / TEMPERATURE).sigmoid())


def fixed_gates(log_a: Tensor) -> Tensor:
    """The gates at inference: min(1, max(0, σ(log a) (ζ − γ) + γ))."""
    return _stretched(log_a.sigmoid())


def _stretched(s: Tensor) -> Tensor:
    return (s * (HIGH - LOW) + LOW).clamp(0, 1)


def open_probability(log_a: Tensor) -> Tensor:
    """P(g ≠ 0) = σ(log a − τ log(−γ / ζ)) (Louizos et al. 2018)."""
    return (log_a - TEMPERATURE * math.log(-LOW / HIGH)).sigmoid()


class GatedModel(Generative):
    """A model with a learned gate on every head of its Transformer blocks. It trains like any other model.

    In training, the loss includes the price of the open heads, and the price grows; otherwise the gates are
    deterministic, and the loss is that of the model. Its weights are all that a resumed training needs.
    """

    def __init__(self, model: Model, keep: int, *, growth: float = GROWTH):
        super().__init__()
        for name, part in model.named_children():  # optimizers use these names
            self.add_module(name, part)
        self.plain = (cast(Generative, model),)  # in a tuple, so that its parameters are not registered twice
        self.sites = [site for site in sites(model) if site.stacked and site.attention.heads]
        self.keep, self.growth = keep, growth
        self.openness = nn.ParameterList(one.ones(one.attention.heads) * OPEN / SPEED for one in self.sites)
        self.price: Tensor
        self.register_buffer("price", torch.tensor(PRICE))

    @property
    def log_a(self) -> list[Tensor]:
        """log a of each attention, (H,) each."""
        return [SPEED * part for part in self.openness]

    @property
    def open_heads(self) -> int:
        """Number of heads that are more likely open than closed: P(g = 1) > P(g = 0), that is log a > 0."""
        return sum(int((part > 0).sum()) for part in self.openness)

    def best(self) -> list[Head]:
        """The heads to keep: those with the largest log a."""
        heads = [head for site in self.sites for head in site.heads]
        order = torch.cat(list(self.openness)).argsort(descending=True, stable=True)
        return [heads[number] for number in order[: self.keep].tolist()]

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        if not self.training:
            self._set(fixed_gates)
            return self.plain[0].loss(batch, smoothing=smoothing)
        self._raise_price_or_fix()
        self._set(sample_gates)
        found = self.plain[0].loss(batch, smoothing=smoothing)
        paid = self.price * torch.stack([open_probability(part).sum() for part in self.log_a]).sum()
        return Loss(found.total + paid * found.count, found.count, found.extra)

    def forward(self, batch: Batch) -> Tensor:
        self._set(fixed_gates)
        return self.plain[0](batch)

    def start(self, source: Any) -> Any:
        self._set(fixed_gates)
        return self.plain[0].start(source)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.plain[0].step(tokens, state)

    def prefill(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.plain[0].prefill(tokens, state)

    def hidden(self, batch: Any) -> Tensor:
        """The input of the output layer of a model that decodes."""
        self._set(fixed_gates)
        return cast(Any, self.plain[0]).hidden(batch)

    def predictions(self, source: Any) -> Tensor:
        """The output of the head of an encoder."""
        self._set(fixed_gates)
        return cast(Any, self.plain[0]).predictions(source)

    def _set(self, gate: Callable[[Tensor], Tensor]) -> None:
        for site, part in zip(self.sites, self.log_a, strict=True):
            site.attention.gate = gate(part)[:, None, None]

    @torch.no_grad()
    def _raise_price_or_fix(self) -> None:
        """Raise the price while too many heads are open, else fix the gates."""
        if self.open_heads > self.keep:
            self.price.mul_(self.growth)
            return
        kept = set(self.best())
        for site, part in zip(self.sites, self.openness, strict=True):
            decided = [FIXED if head in kept else -FIXED for head in site.heads]
            part.copy_(part.new_tensor(decided) / SPEED)


@dataclass(frozen=True)
class LearnedGates:
    """The result of `learn_gates`. met: the training closed enough heads before its end."""

    run: Run
    kept: tuple[Head, ...]
    heads: int  # of the original model
    met: bool
    steps: int


def learn_gates(
    predictor: Predictor,
    out: str | Path,
    *,
    keep: int,
    minutes: float | None = None,
    steps: int | None = None,
    growth: float = GROWTH,
    listener: Listener = lambda report: None,
    interrupt: Interrupt | None = None,
) -> LearnedGates:
    """Fine-tune the run of a predictor to `keep` heads for some minutes or steps, and write it without the
    other heads to `out`.

    Data, optimizer and schedule are those of the run. An unfinished training is stored next to `out`; the
    same call resumes it.
    """
    out, interrupt = Path(out), interrupt or Interrupt()
    if Run.exists(out):
        raise WriteError(f"{out} already contains a run; choose another folder")
    run, original = run_of(predictor), one_model(predictor)
    facts = predictor.task.facts()
    model = like(original, parse(run.config).model, facts)  # a copy: that of the predictor stays as it is
    model.take_weights(original.weights())
    gates = GatedModel(model, keep, growth=growth)
    heads = [head for site in gates.sites for head in site.heads]
    if not heads:
        raise ConfigError("the model has no Transformer heads, and only these can have learned gates")
    if not 0 <= keep < len(heads):
        raise ConfigError(f"keep is {keep}; with {len(heads)} heads it must be from 0 to {len(heads) - 1}")
    known = parse(run.config).to_dict()
    # No traces, which set gates, too.
    changes = {"minutes": minutes, "steps": steps, "epochs": None, "patience": None, "traces": 0}
    config = parse({**known, "training": {**known["training"], **changes}})
    unfinished = out.with_name(f"{out.name}.gates-{keep}")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with interrupt.listening():
        work = open_or_create(config, unfinished)
        with work.lock():
            if work.config != config.to_dict():
                work.configure(config.to_dict())
            prepared = _prepared(predictor, config, work, interrupt.check)
            trainer = Trainer(work, config, prepared, gates, listener=listener, interrupt=interrupt)
            progress = trainer.train()
    kept, met = gates.best(), gates.open_heads <= keep
    if trainer.average is not None:
        gates.take_weights(trainer.average.weights)
    smaller, description = pruned(model, config.model, set(heads) - set(kept), facts)
    made = write_run(predictor, out, smaller, description, f"{keep} heads of run {run.id} kept by gates")
    shutil.rmtree(unfinished)
    return LearnedGates(made, tuple(sorted(kept)), len(heads), met, progress.step)


def _prepared(predictor: Predictor, config: Config, work: Run, check: Callable[[], None]) -> Prepared:
    """Prepare the data of the predictor's run in the folder of `work`, without changing that run."""
    run, task = run_of(predictor), predictor.task
    if run.path("data").exists() and not work.path("data").exists():
        with atomic_folder(work.path("data")) as fresh:
            unwanted = shutil.ignore_patterns("budget.json", "*.lock")  # of that training alone
            shutil.copytree(run.path("data"), fresh, ignore=unwanted, dirs_exist_ok=True)
    task.save(work.folder)
    prepared = prepare(config, work.folder, check)
    if prepared.task.fingerprint != task.fingerprint:
        changed = f"the training files of {run.folder} have changed and give other tokenizers"
        raise ModelError(f"{changed}; restore them, or prune by importance, which needs no training")
    return prepared
