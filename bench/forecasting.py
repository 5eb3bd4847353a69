"""Forecasting on the ETT data sets with the protocol of the published tables.

python -m bench.forecasting FOLDER [--sets ETTh1:96,ETTm1:96] [--models tiny-forecaster,dlinear] [--minutes 4]

FOLDER has ETTh1.csv and ETTm1.csv (Zhou et al. 2021, github.com/zhouhaoyi/ETDataset), compressed or not. The
first 12, 4 and 4 months are the parts; every test window counts, where the published tables drop the last
incomplete batch. Published: Zeng et al. 2023 (look-back 336), Nie et al. 2023 (PatchTST/64, look-back 512).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import seqwright

MONTH = 30 * 24  # hours
PUBLISHED = {  # MSE / MAE: repeat last, DLinear, NLinear, PatchTST/64
    "ETTh1:96": "1.295/.713  .375/.399  .374/.394  .370/.400",
    "ETTh1:192": "1.325/.733  .405/.416  .408/.415  .413/.429",
    "ETTh1:336": "1.323/.744  .439/.443  .429/.427  .422/.440",
    "ETTh1:720": "1.339/.756  .472/.490  .440/.453  .447/.468",
    "ETTm1:96": "1.214/.665  .299/.343  .306/.348  .293/.346",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(PUBLISHED))
    parser.add_argument("--models", default="tiny-forecaster,dlinear,nlinear")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--lookback", type=int, default=336)
    options = parser.parse_args()
    for name in options.sets.split(","):
        print(f"{name}, published: repeat last, DLinear, NLinear, PatchTST/64: {PUBLISHED.get(name, '–')}")
        for model in options.models.split(","):
            found = measured(options, name, model)
            print(json.dumps({"set": name, "model": model, **found}), flush=True)


def measured(options: argparse.Namespace, name: str, model: str) -> dict[str, object]:
    """Train a model on a set as `ETTh1:96` and return its scores and those of the baselines."""
    data, horizon = name.split(":")
    path = next(iter(sorted(options.folder.glob(f"{data}.csv*"))))
    months = MONTH * (4 if data.startswith("ETTm") else 1)
    windows = {"horizon": int(horizon), "lookback": options.lookback}
    parts = {"rows": [12 * months, 4 * months, 4 * months]}
    with tempfile.TemporaryDirectory(prefix="seqwright-") as folder:
        began = time.monotonic()
        seqwright.train(
            str(path),
            out=f"{folder}/run",
            minutes=options.minutes,
            quiet=True,
            data={**windows, **parts},
            model={"preset": model},
            seed=1,
        )
        seconds = time.monotonic() - began
        scores = json.loads(Path(folder, "run", "evaluation.json").read_text())
    kept = ("mse", "mae", "mase", "coverage_80")
    baselines = {
        other: [round(each[key], 3) for key in kept[:2]] for other, each in scores["baselines"].items()
    }
    return {key: round(scores["metrics"][key], 3) for key in kept} | {
        "seconds": round(seconds),
        "baselines": baselines,
    }


if __name__ == "__main__":
    main()
