"""`seqwright report`: write the report page of a run."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder; report.html is written into it.")


def run(options: argparse.Namespace) -> None:
    from seqwright.runs.report import write_report

    print(write_report(options.folder))
