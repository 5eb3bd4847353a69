"""Peak memory of large generated data, with all processes: of a training, or of its preparation alone.

python -m bench.memory [--only NAME ...]  # measures, and writes bench/results/memory.json
python -m bench.memory --table            # writes the table of docs/benchmarks.md from it

The memory is the proportional set size (smaps of Linux): a page that several processes share counts once in
all. It is read ten times a second. A training is all of `seqwright train`: survey, preparation, measurement
of the speed, steps, validation and test. --prepare FOLDER surveys and prepares its files and does no more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.quality import HERE, PAGE
from bench.serve import processes
from bench.tables import markdown, put
from seqwright.files import write_json
from seqwright.runtime import machine

RESULTS = HERE / "results" / "memory.json"
PERIOD = 0.1  # seconds
SERIES, ROWS = 1000, 1000  # series in long format, and rows of each
IMAGES, PIXELS, CLASSES = 30_000, 128, 10


@dataclass(frozen=True)
class Measured:
    name: str
    megabytes: float
    seconds: float
    limit: float


def write_series(folder: Path) -> list[str]:
    """Write random walks of hours in one file: unique_id, ds, y. Return the command of the training."""
    random = np.random.default_rng(1)
    hours = np.datetime64("2024-01-01T00") + np.arange(ROWS)
    times = [str(hour).replace("T", " ") + ":00:00" for hour in hours]
    path = folder / "series.csv"
    with path.open("w", encoding="utf-8") as out:
        out.write("unique_id,ds,y\n")
        for number in range(SERIES):
            values = random.normal(size=ROWS).cumsum()
            out.writelines(f"s{number},{when},{y:.3f}\n" for when, y in zip(times, values, strict=True))
    return [
        "seqwright",
        "train",
        str(path),
        "horizon=24",
        "--minutes=1",
        f"--out={folder / 'run'}",
        "--quiet",
    ]


def write_images(folder: Path) -> list[str]:
    """Write JPEG files of coloured noise, a folder per class. Return the command of the preparation."""
    from PIL import Image

    random = np.random.default_rng(1)
    side = PIXELS // 8
    for number in range(IMAGES):
        place = folder / "photos" / f"class{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8))
        coarse.resize((PIXELS, PIXELS)).save(place / f"{number}.jpg")
    return ["bench.memory", "--prepare", str(folder / "photos")]


# what is generated, and the limit in megabytes
CASES: dict[str, tuple[Callable[[Path], list[str]], str, float]] = {
    "series": (write_series, f"{SERIES:,} series of {ROWS:,} steps, one minute of training", 1024),
    "images": (write_images, f"{IMAGES:,} JPEG files of {PIXELS} × {PIXELS} pixels, preparation", 600),
}


def measure(name: str) -> Measured:
    """Generate the data of a case and run its command, with the default settings."""
    write, title, limit = CASES[name]
    with tempfile.TemporaryDirectory(prefix="seqwright-bench-") as folder:
        command = [sys.executable, "-m", *write(Path(folder))]
        began, peak = time.monotonic(), 0.0
        child = subprocess.Popen(command)
        while child.poll() is None:
            peak = max(peak, proportional(child.pid))
            time.sleep(PERIOD)
        if child.returncode:
            raise SystemExit(f"{name} failed with exit code {child.returncode}")
        return Measured(title, round(peak), round(time.monotonic() - began), limit)


def prepare_files(files: str) -> None:
    """Survey files and prepare them for a training."""
    from seqwright.pipeline import design
    from seqwright.training.preparation import prepare

    designed = design({"data": {"train": [files]}})
    with tempfile.TemporaryDirectory(prefix="seqwright-bench-") as folder:
        prepare(designed.config, Path(folder))


def proportional(pid: int) -> float:
    """Return the megabytes of a process and its children; of shared pages each has its share."""
    total = 0
    try:
        for each in processes(pid):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except OSError:  # it has just ended
        return 0.0
    return total / 1024


def table(found: dict[str, dict[str, float]]) -> str:
    rows = [
        (
            str(each["name"]),
            f"**{each['megabytes']:,.0f} MB**",
            f"≤ {each['limit']:,.0f} MB, {'reached' if each['megabytes'] <= each['limit'] else '**missed**'}",
            f"{each['seconds']:,.0f} s",
        )
        for each in found.values()
    ]
    return markdown(("data", "peak memory", "target", "whole command"), rows) if rows else "Not run yet."


def results() -> dict[str, dict[str, float]]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=[*CASES], metavar="NAME")
    parser.add_argument("--prepare", metavar="FOLDER")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.prepare:
        prepare_files(options.prepare)
        return
    if options.table:
        put(PAGE, "memory", table(results()))
        return
    for name in options.only:
        found = measure(name)
        print(f"{found.name}: {found.megabytes:,.0f} MB, {found.seconds:,.0f} s, {machine()}", flush=True)
        write_json(RESULTS, {**results(), name: asdict(found)})


if __name__ == "__main__":
    main()
