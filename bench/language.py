"""Language models: training against a model like nanoGPT's, generation against GPT-2 of Hugging Face.

python -m bench.language [--seconds 20]

Both sides have the same shape and take turns. The plain model is written from the description of nanoGPT:
learned positions, pre-norm blocks, one matrix for query, key and value, GELU, tied embeddings. Without the
package `transformers` the plain model generates, too, without a cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqwright.data.batch import Tokens
from seqwright.data.tokenizer import END
from seqwright.models.building import build_model
from seqwright.search import SamplingOptions, Start, generate
from seqwright.tasks.language_modeling import Windows

VOCABULARY, WINDOW, ROWS, LENGTH = 69, 128, 32, 200
SHAPES = ((4, 128, 4), (6, 384, 6))  # layers, size, heads


class PlainBlock(nn.Module):
    def __init__(self, size: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.joint, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

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
        self.norm = nn.LayerNorm(size)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.norm(self.blocks(hidden)) @ self.embedding.weight.T


def ours(layers: int, size: int, heads: int) -> Any:
    sizes = {"layers": layers, "size": size, "hidden": 4 * size, "heads": heads, "dropout": 0.0}
    return build_model({"preset": "tiny-lm", **sizes}, vocabulary=VOCABULARY)


def rate(step: Callable[[], int], seconds: float) -> float:
    """Return tokens per second."""
    step()
    began, tokens = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        tokens += step()
    return tokens / (time.monotonic() - began)


def training(shape: tuple[int, int, int], seconds: float) -> dict[str, float]:
    ids = torch.randint(4, VOCABULARY, (ROWS, WINDOW + 1))
    batch = Windows(Tokens(ids[:, :-1].contiguous()), ids[:, 1:].contiguous(), torch.arange(ROWS).numpy())

    def steps(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], int]:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)

        def step() -> int:
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            return ROWS * WINDOW

        return step

    own, plain = ours(*shape).train(), Plain(*shape)
    return {
        "ours": rate(steps(own, lambda: own.loss(batch).objective / batch.count), seconds),
        "plain": rate(
            steps(plain, lambda: F.cross_entropy(plain(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())),
            seconds,
        ),
    }


def generation(shape: tuple[int, int, int], seconds: float) -> dict[str, float]:
    own, options = ours(*shape).eval(), SamplingOptions(temperature=0, max_length=LENGTH)

    @torch.inference_mode()
    def write() -> int:
        start = Start(rows=1, first=4, end=END, silent=(END,))
        return len(generate(own.step, own.start(1), start, options)[0].tokens)

    found = {"ours": rate(write, seconds)}
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return {**found, "plain, no cache": rate(lambda: write_plain(Plain(*shape)), seconds)}
    layers, size, heads = shape
    sizes = {
        "n_layer": layers,
        "n_embd": size,
        "n_head": heads,
        "vocab_size": VOCABULARY,
        "n_positions": 1024,
    }
    theirs, prompt = GPT2LMHeadModel(GPT2Config(**sizes)).eval(), torch.tensor([[4]])
    options_of_theirs = {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "do_sample": False}

    def write_theirs() -> int:
        theirs.generate(prompt, pad_token_id=0, **options_of_theirs)
        return LENGTH

    return {**found, "GPT-2 of transformers": rate(write_theirs, seconds)}


@torch.inference_mode()
def write_plain(model: Plain) -> int:
    ids = torch.tensor([[4]])
    for _ in range(LENGTH):
        ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return LENGTH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for shape in SHAPES:
        for name, measure in (("training", training), ("generation", generation)):
            found = measure(shape, options.seconds)
            first, second = found.values()
            rates = ", ".join(f"{who} {value:,.0f}" for who, value in found.items())
            print(f"{name}, layers {shape[0]}, size {shape[1]}: tokens/s {rates}; {first / second:.2f} ×")


if __name__ == "__main__":
    main()
