"""`--member N`: one of several models that speak together, to look into."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--member",
        type=int,
        metavar="N",
        help="which model to look into, where several speak together (default: 1)",
    )


def say(folder: str, model: Predictor, number: int) -> None:
    """That there are others: nobody should take one of several models for all of them."""
    if model.members > 1:
        told = f"{folder} is {model.members} models that speak together; this is number {number}, alone"
        print(f"seqwright: {told} (--member)", file=sys.stderr)
