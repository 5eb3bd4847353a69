"""The classic model families on Multi30k En→De with the same data, batches and minutes.

python -m bench.families DATA     # trains them and writes bench/results/families.json
python -m bench.families --table  # writes the table of docs/benchmarks.md from it

--keep FOLDER keeps the runs, and resumes those that were interrupted. DATA is the folder with multi30k/. The
sizes are scaled to that of `tiny`, so that only the architecture differs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.quality import HERE, PAGE, printed_by
from bench.tables import markdown, put

RESULTS = HERE / "results" / "families.json"
FAMILIES = "sutskever2014", "bahdanau2015", "luong2015-general", "tiny"
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}


JUDGED = ("metrics", "intervals", "level", "signatures", "better")


def run(data: Path, out: Path, *, minutes: float, seed: int) -> dict[str, Any]:
    """Train into `out`. The texts are already tokenised, so BLEU uses their tokens."""
    home = data / "multi30k" / "lc.norm.tok"
    sides = {part: [str(home / f"{name}.{side}") for side in ("en", "de")] for part, name in FILES.items()}
    files = [f"--{part}={path}" for part, paths in sides.items() for path in paths]
    options = [f"--families={','.join(FAMILIES)}", f"--minutes={minutes:g}", f"--seed={seed}", f"--out={out}"]
    found = json.loads(printed_by("compare", *files, *options, "--json"))
    for family in found["families"]:
        tested = [family["folder"], *sides["test"], "--bleu-tokenize=none", "--json"]
        judged = json.loads(printed_by("evaluate", *tested))
        family |= {key: judged[key] for key in JUDGED}
        del family["folder"]
    return {**found, "file": str(home.relative_to(data) / FILES["train"]), "minutes": minutes, "seed": seed}


def table(found: dict[str, Any]) -> str:
    head = ["family", "BLEU", "95 %", "parameters", "FLOPs of training", "target tokens/s", "steps"]
    rows = []
    for family in found["families"]:
        low, high = family["intervals"]["bleu"]
        rows.append(
            [
                f"`{family['family']}`",
                f"**{family['metrics']['bleu']:.1f}**",
                f"{low:.1f}–{high:.1f}",
                f"{family['parameters'] / 1e6:.1f} M",
                f"{family['flops']:.1e}",
                f"{family['target_tokens_per_second']:,.0f}",
                f"{family['steps']:,}",
            ]
        )
    signature = found["families"][0]["signatures"]["bleu"]
    words = f"{found['minutes']:g} minutes each, seed {found['seed']}; `{signature}`; {found['flops_rule']}."
    return f"{markdown(head, rows)}\n\n{words}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs here")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "families", table(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as out:
        found = run(options.data, Path(out), minutes=options.minutes, seed=options.seed)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
