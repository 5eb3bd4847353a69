"""The model of a run folder, whose description is compared with its weights before memory is allocated."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from seqwright.config import Spec
from seqwright.errors import ModelError
from seqwright.models import Model
from seqwright.models.building import build_model
from seqwright.runs.folder import CONFIG, Run


def load_model(run: Run, description: Spec, facts: Mapping[str, Any]) -> Model:
    """Build the model of a run and load its weights.

    The model is first built without memory for its weights, and only as far as the file has tensors: a wrong
    number of layers or a wrong size is an error before it can fill the memory.
    """
    shapes = run.weight_shapes()
    with _refusing_sizes(run):
        with torch.device("meta"), _at_most(len(shapes)):
            outline: Model = build_model(description, **facts)
        run.check_weights({name: tuple(weight.shape) for name, weight in outline.weights().items()})
        model: Model = build_model(description, **facts)
        model.take_weights(run.load_weights())
    return model.eval()


@contextmanager
def _refusing_sizes(run: Run) -> Iterator[None]:
    """Turn what torch raises for sizes that no model has into a ModelError."""
    try:
        yield
    except (RuntimeError, OverflowError, MemoryError, ValueError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelError(f"{run.path(CONFIG)} describes a model that cannot be built: {reason}") from error


@contextmanager
def _at_most(tensors: int) -> Iterator[None]:
    """Stop a thread that builds a model with far more parameters than the weights of the run have tensors.

    Tied weights are created before they are replaced, so the limit is generous.
    """
    limit, created, thread = 100 + 4 * tensors, 0, threading.get_ident()

    def count(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter) -> None:
        nonlocal created
        if threading.get_ident() == thread:
            created += 1
            if created > limit:
                raise ModelError(f"the model is larger than its weights, which have {tensors:,} tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
