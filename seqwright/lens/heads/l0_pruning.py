"""Gates that learn which heads to keep: the hard concrete distribution of Louizos et al. 2018 on the heads of
Voita et al. 2019, section 6.

u ~ U(ε, 1 − ε), s = σ((log u − log(1 − u) + log a) / τ), g = min(1, max(0, s (ζ − γ) + γ)). There is one
log a for each head, and a g is drawn for each batch. The loss is that of the model plus λ Σ_h P(g_h ≠ 0), a
sum over all heads of all kinds.

λ grows with every batch until no more heads are open than wanted. Then the gates are fixed, at 1 for the
heads with the largest log a and at 0 for the others, and the rest of the time is for the weights.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqwright.config import Config, parse
from seqwright.data.batch import Batch
from seqwright.errors import ConfigError, ModelError, WriteError
from seqwright.files import atomic_folder
from seqwright.lens.heads.gates import Head, sites
from seqwright.lens.heads.pruning import one_model, pruned, write_run
from seqwright.models import Model
from seqwright.nn.loss import Loss
from seqwright.runs.folder import Run
from seqwright.tasks.text_to_text import TextToText
from seqwright.training.interrupt import Interrupt
from seqwright.training.preparation import Prepared, prepare
from seqwright.training.run import open_or_create
from seqwright.training.trainer import Listener, Progress, Trainer

TEMPERATURE, LOW, HIGH, EDGE = 0.33, -0.1, 1.1, 1e-6  # τ, γ, ζ, ε
OPEN = 2.0  # log a at first: P(g = 1) is 0.77; ours, as a trained model needs its heads
FIXED = 20.0  # ± log a of a gate that is decided: no u of U(ε, 1 − ε) changes it, and no gradient moves it
SPEED = 10.0  # how many times faster than a weight log a moves, as it has a way of several units to go
PRICE, GROWTH = 1e-3, 1.02  # the first λ, and its factor with every batch


def draw(log_a: Tensor) -> Tensor:
    """Gates between 0 and 1, with gradients in log a where they are inside."""
    u = torch.empty_like(log_a).uniform_(EDGE, 1 - EDGE)
    return _stretched(((u.log() - (-u).log1p() + log_a) / TEMPERATURE).sigmoid())


def settled(log_a: Tensor) -> Tensor:
    """The gates of a model that is used: min(1, max(0, σ(log a) (ζ − γ) + γ))."""
    return _stretched(log_a.sigmoid())


def _stretched(s: Tensor) -> Tensor:
    return (s * (HIGH - LOW) + LOW).clamp(0, 1)


def open_probability(log_a: Tensor) -> Tensor:
    """P(g ≠ 0) = σ(log a − τ log(−γ / ζ)) (Louizos et al. 2018)."""
    return (log_a - TEMPERATURE * math.log(-LOW / HIGH)).sigmoid()


class GatedModel(Model):
    """A model with a learned gate on every head of its Transformers. It trains like any other.

    In training, a loss has the price of the open heads in it, and the price goes up; otherwise the gates are
    settled, and the loss is that of the model. All that it needs to go on later is among its weights.
    """

    def __init__(self, model: Model, keep: int, *, growth: float = GROWTH):
        super().__init__()
        for name, part in model.named_children():  # under their own names: optimizers go by these
            self.add_module(name, part)
        self.plain = (model,)  # in a tuple, so that its parameters are not there twice
        self.sites = [site for site in sites(model) if site.stacked and site.attention.heads]
        self.keep, self.growth = keep, growth
        self.openness = nn.ParameterList(
            nn.Parameter(site.ones(site.attention.heads) * OPEN / SPEED) for site in self.sites
        )
        self.price: Tensor
        self.register_buffer("price", torch.tensor(PRICE))

    @property
    def log_a(self) -> list[Tensor]:
        """(H,) for each attention."""
        return [SPEED * part for part in self.openness]

    @property
    def open_heads(self) -> int:
        """How many heads are rather open than closed: P(g = 1) > P(g = 0), which is log a > 0."""
        return sum(int((part > 0).sum()) for part in self.openness)

    def best(self) -> list[Head]:
        """The heads to keep: those with the largest log a."""
        heads = [head for site in self.sites for head in site.heads]
        order = torch.cat(list(self.openness)).argsort(descending=True, stable=True)
        return [heads[number] for number in order[: self.keep].tolist()]

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Loss:
        if not self.training:
            self._set(settled)
            return self.plain[0].loss(batch, smoothing=smoothing)
        self._decide()
        self._set(draw)
        found = self.plain[0].loss(batch, smoothing=smoothing)
        paid = self.price * torch.stack([open_probability(part).sum() for part in self.log_a]).sum()
        return Loss(found.total + paid * found.count, found.count, found.extra)

    def forward(self, batch: Batch) -> Tensor:
        self._set(settled)
        return self.plain[0](batch)

    def start(self, source: Any) -> Any:
        self._set(settled)
        return self.plain[0].start(source)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.plain[0].step(tokens, state)

    def _set(self, gate: Callable[[Tensor], Tensor]) -> None:
        for site, part in zip(self.sites, self.log_a, strict=True):
            site.attention.gate = gate(part)[:, None, None]

    @torch.no_grad()
    def _decide(self) -> None:
        """A higher price, or, where few enough heads are open, an end to it."""
        if self.open_heads > self.keep:
            self.price.mul_(self.growth)
            return
        kept = set(self.best())
        for site, part in zip(self.sites, self.openness, strict=True):
            decided = [FIXED if head in kept else -FIXED for head in site.heads]
            part.copy_(part.new_tensor(decided) / SPEED)


@dataclass(frozen=True)
class Learned:
    """What came of it. met: so few heads were left in time, and not only chosen at the end."""

    run: Run
    kept: tuple[Head, ...]
    heads: int  # there were
    met: bool
    steps: int


def learn_gates(
    folder: str | Path,
    out: str | Path,
    *,
    keep: int,
    minutes: float | None = None,
    steps: int | None = None,
    growth: float = GROWTH,
    listener: Listener = lambda report: None,
    interrupt: Interrupt | None = None,
) -> Learned:
    """Fine-tunes the run at `folder` to `keep` heads for some minutes or steps, and writes it without the
    others to `out`.

    Data, optimizer and schedule are those of the run. What is unfinished lies beside `out`, and the same call
    goes on with it.
    """
    run, out, interrupt = Run.open(folder), Path(out), interrupt or Interrupt()
    if Run.exists(out):
        raise WriteError(f"{out} holds a run already; choose another folder")
    model = one_model(folder)
    gates = GatedModel(model, keep, growth=growth)
    _check_number(gates)
    known = parse(run.config).to_dict()
    ends = {"minutes": minutes, "steps": steps, "epochs": None, "patience": None}
    asked = {**ends, "traces": 0}  # a lens sets gates, too
    config = parse({**known, "training": {**known["training"], **asked}})
    beside = out.with_name(f"{out.name}.gates-{keep}")
    with interrupt.listening():
        progress, average = _tune(run, config, beside, gates, listener, interrupt)
    kept, met = gates.best(), gates.open_heads <= keep
    gates.take_weights(average)
    heads = [head for site in gates.sites for head in site.heads]
    smaller, description = pruned(model, config.model, set(heads) - set(kept))
    made = write_run(run, out, smaller, description, f"{keep} heads of run {run.id} kept by learned gates")
    shutil.rmtree(beside)
    return Learned(made, tuple(sorted(kept)), len(heads), met, progress.step)


def _tune(
    run: Run, config: Config, folder: Path, gates: GatedModel, listener: Listener, interrupt: Interrupt
) -> tuple[Progress, dict[str, Tensor]]:
    """Trains the gates and the weights into a run of their own; the averaged weights of the last step."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    work = open_or_create(config, folder)
    with work.lock():
        if work.config != config.to_dict():
            work.configure(config.to_dict())
        prepared = _prepared(run, config, work, interrupt.check)
        trainer = Trainer(work, config, prepared, gates, listener=listener, interrupt=interrupt)
        progress = trainer.train()
    return progress, gates.weights() if trainer.average is None else trainer.average.weights


def _prepared(run: Run, config: Config, work: Run, check: Callable[[], None]) -> Prepared:
    """The data of the run, prepared beside it: whatever became of its files, nothing in it changes."""
    if run.path("data").exists() and not work.path("data").exists():
        with atomic_folder(work.path("data")) as fresh:
            unwanted = shutil.ignore_patterns("budget.json", "*.lock")  # what belongs to that training alone
            shutil.copytree(run.path("data"), fresh, ignore=unwanted, dirs_exist_ok=True)
    task = TextToText.load(run.folder)
    task.save(work.folder)
    prepared = prepare(config, work.folder, check)
    if prepared.task.fingerprint != task.fingerprint:
        raise ModelError(
            f"the training files of {run.folder} are not what they were: other tokenizers come of them; "
            "bring the old ones back, or use pruning by importance, which needs none"
        )
    return prepared


def _check_number(gates: GatedModel) -> None:
    heads = gates.open_heads
    if not heads:
        raise ConfigError("the model has no heads of a Transformer, and only these have gates to learn")
    if not 0 <= gates.keep < heads:
        raise ConfigError(f"{gates.keep} heads cannot be kept of {heads}; keep from 0 to {heads - 1}")
