"""`seqwright presets`: the named models and their sources."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no arguments."""


def run(options: argparse.Namespace) -> None:
    from seqwright.config.presets import PRESETS

    for name, preset in PRESETS.items():
        print(f"{name:18s} {preset.source}" + (f"\n{'':18s} ({preset.note})" if preset.note else ""))
