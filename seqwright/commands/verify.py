"""`seqwright verify`: check that a run folder is complete and its model still gives the recorded outputs."""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder.")
    parser.add_argument("--json", action="store_true", help="Print one JSON document.")


def run(options: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from seqwright.data.text_display import printable
    from seqwright.errors import ModelError
    from seqwright.prediction.verification import Check, verify

    checks: list[Check] = []
    for check in verify(options.folder):
        checks.append(check)
        if not options.json:
            print(printable(str(check)), flush=True)
    passed = all(check.passed for check in checks)
    if options.json:
        found = {"run": options.folder, "passed": passed, "checks": [asdict(check) for check in checks]}
        print(json.dumps(found, ensure_ascii=False))
    return 0 if passed else ModelError.exit_code
