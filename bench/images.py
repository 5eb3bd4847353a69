"""Images per second in training: our loop against plain PyTorch modules with a DataLoader.

python -m bench.images          # measures, and writes bench/results/images.json
python -m bench.images --table  # writes the table of docs/benchmarks.md from it

--rounds, --models and --images change the measurement; its result is then printed only.

The images are random, 32 × 32 pixels in 10 classes, and are written once as a prepared store. Our contender
trains as a run does: batches gathered from the memory-mapped store, augmentation, two processes with half of
each batch, clipping, AdamW, the average of the weights. The other one has the same model written with
torch.nn alone, a Dataset of the decoded images in memory with the same augmentation of one image at a time,
a DataLoader with two workers, and AdamW with as many threads as there are cores. They take turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.contest import Entry, compete
from bench.quality import HERE, PAGE
from bench.tables import markdown, put
from seqwright.runtime import machine

RESULTS = HERE / "results" / "images.json"
BATCH, SIZE, CLASSES, STEPS = 128, 32, 10, 8
IMAGES, ROUNDS = 4096, 5
KINDS = ("crop", "flip", "colour", "erase")
MODELS: dict[str, Any] = {
    "resnet20": {"preset": "resnet20"},
    "vit": {"preset": "tiny-vit", "layers": 6, "size": 192, "hidden": 768, "heads": 3},
}


# Ours ----------------------------------------------------------------------------------------------


def ours(model: str, images: int) -> Iterator[Any]:
    """A contender: a few steps of the trainer's own computation per round."""
    from seqwright.config import parse
    from seqwright.data.images import to_uri
    from seqwright.data.plan import Plan, batching_of
    from seqwright.models.building import build_model
    from seqwright.runtime import keep_freed_memory
    from seqwright.training.averaging import Average
    from seqwright.training.optimizer import OPTIMIZERS
    from seqwright.training.preparation import prepare
    from seqwright.training.run import with_workers
    from seqwright.training.trainer import build_compute
    from seqwright.training.workers import Workers, micro_batches

    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "images.tsv")
        rows = (f"{to_uri(pixels)}\t{label}\n" for pixels, label in zip(*random_images(images), strict=True))
        table.write_text("".join(rows))
        config = parse(
            {
                "task": "image_classification",
                "data": {"train": [str(table)], "image_size": SIZE, "augment": list(KINDS)},
                "model": MODELS[model],
                "training": {"steps": 1, "tokens": BATCH, "accumulate": 2, "average": 0.998},
            }
        )
        prepared = prepare(config, Path(folder))
        torch.manual_seed(1)
        network = build_model(config.model, **prepared.task.facts())
        with with_workers(config) as children:
            workers = Workers(network, build_compute(config, prepared, network), children)
            optimizer: Any = OPTIMIZERS.build(config.training.optimizer, network)
            average = Average(network, config.training.average)
            epoch = Plan(prepared.lengths, batching_of(config.training), 1).epoch(0)
            with workers:
                yield {"parameters": sum(weight.numel() for weight in network.parameters())}
                step = 0
                while True:
                    began, seen = time.perf_counter(), 0
                    for _ in range(STEPS):
                        step += 1
                        numbers = epoch[step % (len(epoch) - 1)]
                        optimizer.zero_grad()
                        workers.mean_gradient(micro_batches(numbers, 2, 0, (1, step)), 1.0)
                        optimizer.step(0.1)
                        average.update(step)
                        seen += len(numbers)
                    yield seen, time.perf_counter() - began


# Plain PyTorch -------------------------------------------------------------------------------------


class Basic(nn.Module):
    """A residual block of two convolutions, with zeros in place of a projection."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.stride, self.missing = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        kept = x[:, :, :: self.stride, :: self.stride]
        return F.relu(y + F.pad(kept, (0, 0, 0, 0, 0, self.missing)))


class PlainResnet(nn.Sequential):
    def __init__(self) -> None:
        blocks: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        inputs = 16
        for outputs in (16, 32, 64):
            for block in range(3):
                blocks.append(Basic(inputs, outputs, 2 if outputs > 16 and not block else 1))
                inputs = outputs
        super().__init__(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class PlainVit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 192, 4, 4)
        self.positions = nn.Parameter(torch.randn(1, 64, 192) * 0.02)
        layer = partial(nn.TransformerEncoderLayer, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(
            layer(192, 3, 768, dropout=0.0), 6, nn.LayerNorm(192), enable_nested_tensor=False
        )
        self.head = nn.Linear(192, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        cells = self.embed(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.encoder(cells).mean(1))


class Dataset(torch.utils.data.Dataset):
    def __init__(self, images: int):
        self.pixels, self.labels = random_images(images)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        from seqwright.data.augmentation import augmented

        pixels = augmented(self.pixels[number : number + 1], KINDS, 1, 0, np.array([number]))[0]
        x = torch.from_numpy(pixels).permute(2, 0, 1).float()
        return (x - 127.5) / 127.5, int(self.labels[number])


def plain(model: str, images: int) -> Iterator[Any]:
    """A contender: the same steps with torch.nn and a DataLoader of two workers."""
    torch.manual_seed(1)
    network: nn.Module = PlainResnet() if model == "resnet20" else PlainVit()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(
        Dataset(images), BATCH, shuffle=True, num_workers=2, drop_last=True, persistent_workers=True
    )
    yield {"parameters": sum(weight.numel() for weight in network.parameters())}

    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    rest = batches()
    next(rest)  # the workers are running
    while True:
        began, seen = time.perf_counter(), 0
        for _ in range(STEPS):
            x, y = next(rest)
            optimizer.zero_grad()
            F.cross_entropy(network(x), y).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            seen += len(y)
        yield seen, time.perf_counter() - began


def random_images(count: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    return draw.integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8), np.arange(count) % CLASSES


def measured(models: list[str], images: int, rounds: int) -> dict[str, Any]:
    """Return the rates of both contenders, images per second, for each model."""
    found: dict[str, Any] = {"machine": machine(), "rounds": rounds, "models": {}}
    for model in models:
        arguments = {"model": model, "images": images}
        entries = [Entry(name, f"bench.images:{name}", arguments) for name in ("ours", "plain")]
        compete(entries, rounds)
        if failures := [f"{entry.name}: {entry.failure}" for entry in entries if entry.failure]:
            raise SystemExit("; ".join(failures))
        rates = {entry.name: entry.rates for entry in entries}
        found["models"][model] = {"parameters": entries[0].facts["parameters"], **rates}
    return found


def table(found: dict[str, Any]) -> str:
    rows = []
    for model, record in found["models"].items():
        one, other = median(record["ours"]), median(record["plain"])
        name = f"{model} ({record['parameters'] / 1e6:.2f} M parameters)"
        rows.append([name, f"{one:,.0f}", f"{other:,.0f}", f"**× {one / other:.2f}**"])
    text = markdown(["model", "Seqwright, images/s", "PyTorch, images/s", "ratio"], rows)
    return f"{text}\n\n{found['machine']}; median of {found['rounds']} rounds in turns."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--models")
    parser.add_argument("--images", type=int)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "images", table(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    names = list(MODELS) if options.models is None else options.models.split(",")
    found = measured(names, options.images or IMAGES, options.rounds or ROUNDS)
    print(table(found))
    if not (options.rounds or options.models or options.images):
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
