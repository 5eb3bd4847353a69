"""Optimizers, with their state as named tensors. One class each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from seqwright.config.registry import Registry
from seqwright.config.validation import Count, Doc, Positive, Share
from seqwright.errors import ModelError

OPTIMIZERS = Registry("optimizer", "seqwright.training.optimizer", "seqwright.training.optimizer:Optimizer")

NotNegative = Annotated[float, Ge(0), Lt(math.inf)]
Rate = Annotated[Positive, Doc("Highest learning rate; the schedule sets the fraction of it at each step.")]
Betas = Annotated[tuple[Share, Share], Doc("Decay of the first and the second moment.")]
Decay = Annotated[NotNegative, Doc("Weight decay of matrices.")]
Factor = Annotated[
    Positive, Doc("Factor of the learning rate of embeddings and the output layer of a decoder.")
]
PartFactors = Annotated[
    dict[str, Positive], Doc("Factors of the learning rate of parts of the model, such as encoder.")
]
VectorFactor = Annotated[Positive, Doc("Factor of the learning rate of biases, norms and other vectors.")]
OUTER = {"embedding", "output"}  # parts of a name whose matrices are tables of symbols
AROUND = {*OUTER, "embed", "position", "positions", "queries", "head"}  # whose matrices are not inside blocks


class Optimizer:
    """Base: one or more torch optimizers over the parameters of a model, with one learning rate."""

    def __init__(self, model: nn.Module, *, rate: float):
        self.rate = rate
        self.names = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.parts = self.make(self.names)
        for part in self.parts:
            for group in part.param_groups:
                group["highest"] = group["lr"]

    def make(self, parameters: Mapping[str, nn.Parameter]) -> list[torch.optim.Optimizer]:
        raise NotImplementedError

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self, factor: float) -> None:
        """One update at `factor` times the highest rate."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["highest"] * factor
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state to save: `parameter.slot` -> tensor."""
        state = {p: slots for part in self.parts for p, slots in part.state.items()}
        slots = {name: state.get(parameter, {}) for name, parameter in self.names.items()}
        return {f"{name}.{slot}": value for name, own in slots.items() for slot, value in own.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a saved state, bit for bit."""
        owners = {p: part for part in self.parts for group in part.param_groups for p in group["params"]}
        for full, value in tensors.items():
            name, _, slot = full.rpartition(".")
            if name not in self.names:
                raise ModelError(f"the saved optimizer has a parameter {name!r} that the model does not have")
            parameter = self.names[name]
            owners[parameter].state[parameter][slot] = value.clone()


class Adamw(Optimizer):
    """AdamW (Loshchilov & Hutter 2019); only matrices have weight decay.

    embedding_rate: a factor of the rate for tables of symbols (see `is_table`).
    vector_rate: a factor of the rate for all that is not a matrix.
    part_rates: factors of the rate for parts of the model, for fine-tuning (Howard & Ruder 2018, 3.2).
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        rate: Rate = 3e-3,
        betas: Betas = (0.9, 0.98),
        epsilon: NotNegative = 1e-9,
        decay: Decay = 0.01,
        embedding_rate: Factor = 1.0,
        vector_rate: VectorFactor = 1.0,
        part_rates: PartFactors | None = None,
    ):
        self.options: dict[str, Any] = {"betas": tuple(betas), "eps": epsilon}
        self.decay, self.embedding_rate, self.vector_rate = decay, embedding_rate, vector_rate
        self.part_rates = part_rates or {}
        super().__init__(model, rate=rate)

    def make(self, parameters: Mapping[str, nn.Parameter]) -> list[torch.optim.Optimizer]:
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}  # by decay and rate
        for name, p in parameters.items():
            decay = self.decay if p.dim() >= 2 else 0.0
            groups.setdefault((decay, self.rate_of(name, p)), []).append(p)
        used = [{"params": own, "weight_decay": decay, "lr": rate} for (decay, rate), own in groups.items()]
        return [torch.optim.AdamW(used, lr=self.rate, fused=True, **self.options)] if used else []

    def rate_of(self, name: str, parameter: nn.Parameter) -> float:
        """Return the highest learning rate of a parameter."""
        kind = self.vector_rate if parameter.dim() < 2 else self.embedding_rate if is_table(name) else 1.0
        return self.rate * kind * self.part_rates.get(name.partition(".")[0], 1.0)


def is_table(name: str) -> bool:
    """Whether a matrix of this name is an embedding of symbols or the output layer of a decoder.

    A tied output layer is the embedding. The layers of heads and the learned positions are not tables.
    """
    return not OUTER.isdisjoint(name.split("."))


class Muon(Adamw):
    """Orthogonalised momentum for the matrices inside the blocks (Jordan et al. 2024); AdamW for the rest:
    embeddings, learned positions, heads, output layers and vectors.

    The update of a matrix has the root mean square of an Adam update (Liu et al. 2025, eq. 4), so one rate
    serves both. The Newton–Schulz iteration uses the precision of the parameters; that of torch uses
    bfloat16, which many CPUs emulate.
    """

    passes_to = Adamw

    def __init__(
        self,
        model: nn.Module,
        *,
        momentum: Annotated[Share, Doc("Decay of the momentum of matrices.")] = 0.95,
        iterations: Annotated[Count, Doc("Newton–Schulz steps that orthogonalise an update.")] = 5,
        **options: Any,
    ):
        self.momentum, self.iterations = momentum, iterations
        super().__init__(model, **options)

    def make(self, parameters: Mapping[str, nn.Parameter]) -> list[torch.optim.Optimizer]:
        matrices = {name: p for name, p in parameters.items() if p.dim() == 2}
        inner = {name: p for name, p in matrices.items() if AROUND.isdisjoint(name.split("."))}
        parts = super().make({name: p for name, p in parameters.items() if name not in inner})
        if inner:
            defaults = {"lr": self.rate, "momentum": self.momentum, "weight_decay": self.decay}
            defaults["iterations"] = self.iterations
            groups: dict[float, list[nn.Parameter]] = {}  # by rate
            for name, p in inner.items():
                groups.setdefault(self.rate_of(name, p), []).append(p)
            used = [{"params": own, "lr": rate} for rate, own in groups.items()]
            parts.append(_Orthogonal(used, defaults))
        return parts


class _Orthogonal(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    by_shape.setdefault(p.shape, []).append(p)
            for shape, same in by_shape.items():
                momenta = torch.stack([self._momentum(p, group["momentum"]) for p in same])
                updates = orthogonalised(momenta, group["iterations"])
                scale = 0.2 * max(shape) ** 0.5
                for p, update in zip(same, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"] * scale)

    def _momentum(self, p: nn.Parameter, momentum: float) -> Tensor:
        """Update the momentum of a parameter; return it with Nesterov's look-ahead."""
        assert p.grad is not None
        if "momentum" not in self.state[p]:
            self.state[p]["momentum"] = torch.zeros_like(p)
        smoothed = self.state[p]["momentum"].lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(smoothed, momentum)


def orthogonalised(matrices: Tensor, steps: int = 5) -> Tensor:
    """Approximate U Vᵀ of each matrix U Σ Vᵀ by steps of X ← aX + (bA + cA²)X, A = XXᵀ. (N, m, n) -> same."""
    a, b, c = 3.4445, -4.7750, 2.0315  # Jordan's coefficients
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + torch.baddbmm(square, square, square, beta=b, alpha=c) @ x
    return x.mT if tall else x
