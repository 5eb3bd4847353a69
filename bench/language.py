"""Language models: training against a model like nanoGPT's, generation against GPT-2 of Hugging Face.

python -m bench.language          # measures, and writes bench/results/language.json
python -m bench.language --table  # writes the table of docs/benchmarks.md from it

--rounds and --seconds change the measurement; its result is then printed only.

Both sides have the same shape, windows and optimizer, each in its own process, and take turns. Our training
is that of a run: two processes with half of each batch, clipping, fused AdamW, the average of the weights.
The plain model is written from the description of nanoGPT: learned positions, pre-norm blocks, one matrix for
query, key and value, GELU, tied embeddings, no biases, F.cross_entropy, clipping, fused AdamW, a thread per
core. Generation is greedy: one text of LENGTH tokens; each side has the better one of one and two threads.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.contest import Entry, best, compete, in_threads
from bench.quality import HERE, PAGE
from bench.tables import markdown, put
from seqwright.data.batch import Tokens
from seqwright.data.tokenizer import END
from seqwright.models.building import build_model
from seqwright.runtime import keep_freed_memory, machine
from seqwright.search import SamplingOptions, Start, generate
from seqwright.tasks.language_modeling import Windows

RESULTS = HERE / "results" / "language.json"
VOCABULARY, WINDOW, ROWS, LENGTH = 69, 128, 32, 200
SHAPES = ((4, 128, 4), (6, 384, 6))  # layers, size, heads
ROUNDS, SECONDS = 5, 6.0


class PlainBlock(nn.Module):
    def __init__(self, size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(size, bias=False) for _ in range(2))
        self.joint, self.out = (nn.Linear(size, n * size, bias=False) for n in (3, 1))
        self.wide = nn.Sequential(
            nn.Linear(size, 4 * size, bias=False), nn.GELU(), nn.Linear(4 * size, size, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        rows, count, size = x.shape
        parts = self.joint(self.first(x)).view(rows, count, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, count, size))
        return x + self.wide(self.second(x))


class Plain(nn.Module):
    def __init__(self, layers: int, size: int, heads: int):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, size), nn.Embedding(1024, size)
        self.blocks = nn.Sequential(*(PlainBlock(size, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.norm(self.blocks(hidden)) @ self.embedding.weight.T


def ours(layers: int, size: int, heads: int) -> Any:
    sizes = {"layers": layers, "size": size, "hidden": 4 * size, "heads": heads, "dropout": 0.0}
    return build_model({"preset": "tiny-lm", **sizes}, vocabulary=VOCABULARY)


def rounds(step: Any, seconds: float, facts: dict[str, Any]) -> Iterator[Any]:
    """The rounds of a contender: `step` returns how many tokens it has handled."""
    step()
    yield facts
    while True:
        began, tokens = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            tokens += step()
        yield tokens, time.perf_counter() - began


def parameters(model: nn.Module) -> dict[str, Any]:
    return {"parameters": sum(weight.numel() for weight in model.parameters())}


def windows() -> Tensor:
    torch.manual_seed(1)
    return torch.randint(4, VOCABULARY, (ROWS, WINDOW + 1))


def our_training(shape: tuple[int, int, int], seconds: float) -> Iterator[Any]:
    from seqwright.training.averaging import Average
    from seqwright.training.optimizer import OPTIMIZERS
    from seqwright.training.workers import LossSum, MicroBatch, Workers, allocate_workers

    keep_freed_memory()
    ids, model = windows(), ours(*shape).train()

    def compute(part: MicroBatch) -> LossSum:
        own = ids[list(part.numbers)]
        batch = Windows(
            Tokens(own[:, :-1].contiguous()), own[:, 1:].contiguous(), torch.arange(len(own)).numpy()
        )
        loss = model.loss(batch)
        loss.objective.backward()
        return LossSum(loss.total.item(), batch.count, batch.tokens)

    halves = [MicroBatch(range(begin, ROWS, 2), 0, (1, begin)) for begin in range(2)]
    children, threads = allocate_workers(len(halves), torch.get_num_threads())
    torch.set_num_threads(threads)
    workers = Workers(model, compute, children)
    optimizer: Any = OPTIMIZERS.build({"kind": "adamw", "rate": 1e-3}, model)
    average = Average(model, 0.998)

    steps = itertools.count(1)

    def step() -> int:
        optimizer.zero_grad()
        workers.mean_gradient(halves, 1.0)
        optimizer.step(1.0)
        average.update(next(steps))
        return ROWS * WINDOW

    with workers:
        yield from rounds(step, seconds, parameters(model))


def plain_training(shape: tuple[int, int, int], seconds: float) -> Iterator[Any]:
    ids, model = windows(), Plain(*shape)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> int:
        optimizer.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return ROWS * WINDOW

    yield from rounds(step, seconds, parameters(model))


def our_generation(shape: tuple[int, int, int], seconds: float, threads: int) -> Iterator[Any]:
    torch.set_num_threads(threads)
    model, options = ours(*shape).eval(), SamplingOptions(temperature=0, max_length=LENGTH)

    @torch.inference_mode()
    def write() -> int:
        start = Start(rows=1, first=4, end=END, silent=(END,))
        return len(generate(model.step, model.start(1), start, options)[0].tokens)

    yield from rounds(write, seconds, parameters(model))


def their_generation(shape: tuple[int, int, int], seconds: float, threads: int) -> Iterator[Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(threads)
    layers, size, heads = shape
    sizes = {"n_layer": layers, "n_embd": size, "n_head": heads, "n_positions": 1024}
    model, prompt = (
        GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=VOCABULARY)).eval(),
        torch.tensor([[4]]),
    )
    lengths = {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH}

    def write() -> int:
        model.generate(prompt, pad_token_id=0, do_sample=False, **lengths)
        return LENGTH

    yield from rounds(write, seconds, parameters(model))


def measured(count: int, seconds: float) -> dict[str, Any]:
    """Return the rates of both contenders, tokens per second, for both kinds of work and each shape."""
    found: dict[str, Any] = {"machine": machine(), "rounds": count, "seconds": seconds, "results": []}
    for shape in SHAPES:
        options = {"shape": shape, "seconds": seconds}
        for work, other in (("training", "plain"), ("generation", "their")):
            names = {"ours": f"our_{work}", "theirs": f"{other}_{work}"}
            groups = {
                who: [Entry(who, f"bench.language:{name}", options)]
                if work == "training"
                else in_threads(who, f"bench.language:{name}", options)
                for who, name in names.items()
            }
            entries = [entry for group in groups.values() for entry in group]
            compete(entries, count)
            if failures := [f"{entry.name}: {entry.failure}" for entry in entries if entry.failure]:
                raise SystemExit("; ".join(failures))
            chosen = {who: best(group) for who, group in groups.items()}
            facts = {f"{who}_parameters": each.facts["parameters"] for who, each in chosen.items()}
            rates = {who: each.rates for who, each in chosen.items()}
            found["results"].append({"work": work, "shape": shape, **facts, **rates})
            print(json.dumps(found["results"][-1]), flush=True)
    return found


def table(found: dict[str, Any]) -> str:
    rows = []
    for record in found["results"]:
        layers, size, _ = record["shape"]
        one, other = median(record["ours"]), median(record["theirs"])
        name = f"{record['work']}, {layers} layers of {size} ({record['ours_parameters'] / 1e6:.1f} M)"
        rows.append([name, f"{one:,.0f}", f"{other:,.0f}", f"**× {one / other:.2f}**"])
    text = markdown(["", "Seqwright, tokens/s", "the other, tokens/s", "ratio"], rows)
    note = f"{found['machine']}; median of {found['rounds']} rounds of {found['seconds']:g} s in turns."
    return f"{text}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of each round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        put(PAGE, "language", table(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    found = measured(options.rounds or ROUNDS, options.seconds or SECONDS)
    print(table(found))
    if not (options.rounds or options.seconds):
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
