"""`seqwright presets`: the named models and their sources, by task."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no arguments."""


def run(options: argparse.Namespace) -> None:
    from seqwright.commands.describe import listed
    from seqwright.config.presets import BY_TASK

    for number, (task, presets) in enumerate(BY_TASK.items()):
        sources = {
            name: preset.source + (f"\n({preset.note})" if preset.note else "")
            for name, preset in presets.items()
        }
        print("\n" * (number > 0) + "\n".join(listed(task, sources)))
