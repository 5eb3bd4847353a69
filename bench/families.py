"""Model families on the same data with the same minutes: one table of scores and costs for each comparison.

python -m bench.families DATA [multi30k] [cifar10]  # trains them and writes bench/results/families.json
python -m bench.families --table                    # writes the tables of docs/benchmarks.md from it

--keep FOLDER keeps the runs, and resumes those that were interrupted. DATA is the folder with multi30k/ and
cifar10/ (the files of the binary version). The sizes of the translators are scaled to that of `tiny`, so that
only the architecture differs; the image classifiers have their own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.quality import HERE, PAGE, printed_by
from bench.tables import markdown, put

RESULTS = HERE / "results" / "families.json"
JUDGED = ("metrics", "intervals", "level", "signatures", "better")
HOME = "multi30k/lc.norm.tok"


@dataclass(frozen=True)
class Comparison:
    """Families and their data. `files`: of each part, in DATA; without a test file, their test split counts.

    metric, title: its key and its name in the table. judged: options of the evaluation. aims: by family.
    """

    families: tuple[str, ...]
    files: dict[str, list[str]]
    metric: str
    title: str
    unit: str
    judged: tuple[str, ...] = ()
    aims: tuple[float, ...] = ()


COMPARISONS = {
    "multi30k": Comparison(
        ("sutskever2014", "bahdanau2015", "luong2015-general", "tiny"),
        {
            part: [f"{HOME}/{name}.{side}" for side in ("en", "de")]
            for part, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr"))
        },
        "bleu",
        "BLEU",
        "target_tokens",
        ("--bleu-tokenize=none",),  # the texts are already tokenised
    ),
    "cifar10": Comparison(
        ("resnet20", "hybrid-tiny", "tiny-vit"),
        {"train": ["cifar10"]},
        "accuracy",
        "accuracy, %",
        "images",
        aims=(75.0, 65.0, 58.0),
    ),
}


def run(comparison: Comparison, data: Path, out: Path, *, minutes: float, seed: int) -> dict[str, Any]:
    """Train into `out` and test each family."""
    paths = {part: [str(data / name) for name in names] for part, names in comparison.files.items()}
    files = [f"--{part}={path}" for part, some in paths.items() for path in some]
    names = ",".join(comparison.families)
    options = [f"--families={names}", f"--minutes={minutes:g}", f"--seed={seed}", f"--out={out}"]
    found = json.loads(printed_by("compare", *files, *options, "--json"))
    del found["figure"]
    for family in found["families"]:
        if "test" in paths:
            tested = [family["folder"], *paths["test"], *comparison.judged, "--json"]
            judged = json.loads(printed_by("evaluate", *tested))
            family |= {key: judged[key] for key in JUDGED}
        del family["folder"]
    return {**found, "file": comparison.files["train"][0], "minutes": minutes, "seed": seed}


def table(comparison: Comparison, found: dict[str, Any]) -> str:
    speed = f"{comparison.unit.replace('_', ' ')}/s"
    head = ["family", comparison.title, "95 %", "parameters", "FLOPs of training", speed, "steps"]
    rows = []
    for family in found["families"]:
        value, (low, high) = (family[key][comparison.metric] for key in ("metrics", "intervals"))
        rows.append(
            [
                f"`{family['family']}`",
                f"**{value:.1f}**",
                f"{low:.1f}–{high:.1f}",
                _size(family["parameters"]),
                f"{family['flops']:.1e}",
                f"{family[f'{comparison.unit}_per_second']:,.0f}",
                f"{family['steps']:,}",
            ]
        )
    for row, family, aim in zip(rows, found["families"], comparison.aims, strict=False):
        reached = "reached" if family["metrics"][comparison.metric] >= aim else "**not reached**"
        row.append(f"≥ {aim:g}, {reached}")
    head += ["aim"] if comparison.aims else []
    signature = found["families"][0]["signatures"][comparison.metric]
    words = f"{found['minutes']:g} minutes each, seed {found['seed']}; `{signature}`; {found['flops_rule']}."
    return f"{markdown(head, rows)}\n\n{words}"


def _size(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e6 else f"{parameters / 1e6:.2f} M"


def results() -> dict[str, Any]:
    """The latest result of each comparison, by name."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the data")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(COMPARISONS)} (default: all)")
    parser.add_argument("--minutes", type=float, help="instead of 15; the result is not saved")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs here")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        found = results()
        for name, comparison in COMPARISONS.items():
            text = table(comparison, found[name]) if name in found else "Not run yet."
            put(PAGE, f"families of {name}", text, bench="families")
        return
    for name in options.names or COMPARISONS:
        minutes = 15.0 if options.minutes is None else options.minutes
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
            out = Path(folder, name)
            found = run(COMPARISONS[name], options.data, out, minutes=minutes, seed=options.seed)
        print(table(COMPARISONS[name], found), flush=True)
        if options.minutes is None:
            merged = {**results(), name: found}
            RESULTS.write_text(json.dumps(merged, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
