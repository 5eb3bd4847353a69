"""Settings of all tests: one thread, a fixed seed, few but repeatable generated examples, no disk syncs."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.fsync = lambda descriptor: None  # only a power cut loses written data; tests/runs simulates it

settings.register_profile("quick", deadline=None, max_examples=8, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=50)  # make test-all
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
