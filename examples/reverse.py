"""Train a small Transformer to reverse words and show its attention. Takes about half a minute."""

from __future__ import annotations

import time

import numpy as np
import torch

import seqwright
from seqwright.data.batch import BEGIN, END, Batch, collate, source_tokens
from seqwright.data.store import Ragged
from seqwright.search import BeamOptions, Start, beam_search

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
FIRST = 4  # ids 0 to 3 are padding, unknown, begin and end


def encode(word: str) -> list[int]:
    return [FIRST + ALPHABET.index(letter) for letter in word]


def decode(ids: list[int]) -> str:
    return "".join(ALPHABET[i - FIRST] if i >= FIRST else "·" for i in ids)


def random_words(count: int, random: np.random.Generator) -> list[str]:
    return ["".join(random.choice(list(ALPHABET), random.integers(3, 11))) for _ in range(count)]


def batch_of(words: list[str]) -> Batch:
    sources = [encode(word) for word in words]
    targets = [encode(word[::-1]) for word in words]
    return collate(Ragged.of(sources), Ragged.of(targets), np.arange(len(words)))


def reverse(model: torch.nn.Module, words: list[str]) -> list[str]:
    source = source_tokens(Ragged.of([encode(word) for word in words]))
    start = Start(rows=len(words), first=BEGIN, end=END)
    with torch.inference_mode():
        found = beam_search(model.step, model.start(source), start, BeamOptions(size=4, max_length=16))
    return [decode(hypotheses[0].tokens) for hypotheses in found]


def train(model: torch.nn.Module, random: np.random.Generator, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.2)
    for step in range(1, steps + 1):
        loss = model.loss(batch_of(random_words(64, random)), smoothing=0.05).mean
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"  step {step:4d}  loss {loss.item():.3f}", flush=True)


def show_attention(model: torch.nn.Module, word: str) -> None:
    """Print the weights of the last cross-attention, averaged over its heads, as shades."""
    with seqwright.capture(model) as seen, torch.inference_mode():
        model(batch_of([word]))
    name = max(name for name in seen if name.endswith("cross"))
    weights = seen[name][0][0].mean(0)  # (Q, K)
    print(f"\nattention of {name} (rows: output, columns: source)")
    print("     " + " ".join([*word, "$"]))
    for letter, row in zip([*word[::-1], "$"], weights, strict=True):
        print(f"  {letter}  " + " ".join(" ·:+*#"[min(int(6 * w), 5)] for w in row.tolist()))


def main() -> None:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    size = FIRST + len(ALPHABET)
    model = seqwright.build_model(
        {"preset": "tiny", "layers": 2, "dropout": 0.0}, source_vocabulary=size, target_vocabulary=size
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"a Transformer with {parameters:,} parameters learns to reverse words")
    start = time.perf_counter()
    train(model.train(), random, steps=600)
    print(f"trained in {time.perf_counter() - start:.0f} s")
    model.eval()
    words = random_words(500, np.random.default_rng(2))
    correct = sum(output == word[::-1] for output, word in zip(reverse(model, words), words, strict=True))
    print(f"{correct / len(words):.1%} of 500 new random words are correct\n")
    for word in ("attention", "seqwright", "lecture"):
        print(f"  {word} → {reverse(model, [word])[0]}")
    show_attention(model, "attention")


if __name__ == "__main__":
    main()
