"""`--member N`: the model of an ensemble that a command looks into."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seqwright.prediction.predictor import Predictor


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--member", type=int, metavar="N", help="Member of an ensemble (default: 1).")


def note_member(folder: str, model: Predictor, number: int) -> None:
    """Print which model of an ensemble is shown."""
    if model.members > 1:
        text = f"{folder} is an ensemble of {model.members} models; this is model {number} alone (--member)"
        print(f"seqwright: {text}", file=sys.stderr)
