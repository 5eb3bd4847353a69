"""`seqwright predict`: texts in, texts out, line by line."""

from __future__ import annotations

import argparse
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument("input", nargs="?", default="-", help="a file; standard input if none is named")
    parser.add_argument("--beam", type=int, metavar="N", help="width of the beam; 1 is greedy")


def run(options: argparse.Namespace) -> None:
    from itertools import islice

    from seqwright.data.fields import plain
    from seqwright.data.reading import read_lines
    from seqwright.data.tally import Tally
    from seqwright.predictor import BLOCK, load

    model = load(options.folder)
    lines = read_lines(options.input, Tally())
    while block := [plain(line) for line in islice(lines, BLOCK)]:
        for prediction in model.stream(block, beam=options.beam):
            sys.stdout.write(prediction.text + "\n")
    sys.stdout.flush()
