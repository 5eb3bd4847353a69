"""Law: every model learns: to reverse strings that it has not seen, or to predict its samples."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from cases import HEAD_CASES, example, with_head
from torch import Tensor

from seqwright.data.batch import BEGIN, END, PAD, Batch, Images, Tokens
from seqwright.models import DECODERS, ENCODERS
from seqwright.models.building import build_model
from seqwright.models.decoders.rnn import RECIPES
from seqwright.nn.dropout import Dropout
from seqwright.nn.positions import POSITIONS

VOCABULARY = 4 + 4  # the specials and four letters
FACTS = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY, "vocabulary": VOCABULARY}
STEPS, PATIENCE = 400, 50
OPTIONS = {
    "transformer": {"heads": 4, "layers": 2},
    "rnn": {"cell": "gru", "layers": 1},
}


def strings(count: int, longest: int, generator: torch.Generator) -> Batch:
    """Random strings of 3 to `longest` letters, and the same reversed as targets."""
    lengths = torch.randint(3, longest + 1, (count, 1), generator=generator)
    letters = torch.randint(4, VOCABULARY, (count, longest + 1), generator=generator)
    places = torch.arange(longest + 1)
    backwards = letters.gather(1, (lengths - 1 - places).clamp(min=0))
    source, expected = (_closed(x, places, lengths) for x in (letters, backwards))
    target = torch.cat([torch.full((count, 1), BEGIN), expected[:, :-1]], 1).where(places <= lengths, PAD)
    counts = lengths[:, 0] + 1
    return Batch(Tokens(source, counts), Tokens(target, counts), expected, np.arange(count))


def _closed(letters: Tensor, places: Tensor, lengths: Tensor) -> Tensor:
    return letters.where(places < lengths, torch.where(places == lengths, END, PAD))


def outputs(model: Any, batch: Batch) -> Tensor:
    """The likeliest token again and again, `PAD` after the end."""
    tokens, found = torch.full((batch.rows, 1), BEGIN), []
    ended = torch.zeros(batch.rows, dtype=torch.bool)
    with torch.inference_mode():
        state = model.start(batch.source)
        for _ in range(batch.expected.shape[1]):
            scores, state = model.step(tokens, state)
            tokens = scores.argmax(-1, keepdim=True)
            found.append(tokens[:, 0].masked_fill(ended, PAD))
            ended |= tokens[:, 0] == END
    return torch.stack(found, 1)


def learn(description: dict[str, Any], longest: int, rate: float) -> float:
    """The share of unseen strings that are reversed correctly, after at most `STEPS` steps."""
    sizes = {"size": 48, "dropout": 0.0, "tie": False}
    model = build_model(sizes | description, **FACTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=STEPS, pct_start=0.1)
    seen, unseen = (torch.Generator().manual_seed(seed) for seed in (1, 2))
    test, right = strings(300, longest, unseen), 0.0
    for step in range(1, STEPS + 1):
        model.train().loss(strings(64, longest, seen)).mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % PATIENCE == 0:
            right = float((outputs(model.eval(), test) == test.expected).all(1).float().mean())
            if right >= 0.99:
                break
    return right


def part(kind: str, **options: Any) -> dict[str, Any]:
    return {"kind": kind, **OPTIONS.get(kind, {}), **options}


def recipe(name: str, feed: str) -> dict[str, Any]:
    return part("rnn", attention=name, feed=feed, readout="state" if name == "none" else "tanh")


ORDERED = [  # an n-gram does not know its place, and an image is no string
    name for name in ENCODERS.names() if name != "ngrams" and ENCODERS.get(name).reads is not Images
]
PAIRS = {(e, d) for e in ORDERED for d in DECODERS.names()} - {("rnn", "rnn")}  # that one: see below


@pytest.mark.parametrize(("encoder", "decoder"), sorted(PAIRS))
def test_every_encoder_with_every_decoder(encoder, decoder):
    chosen = recipe("multi-head", "nothing") if decoder == "rnn" else part(decoder)
    rate = 1e-2 if decoder == "rnn" else 3e-3
    assert learn({"encoder": part(encoder), "decoder": chosen}, 6, rate) >= 0.99


@pytest.mark.parametrize("decoder", DECODERS.names())
def test_every_decoder_without_an_encoder(decoder):
    """The source is a prompt. A recurrent decoder has to keep it in one vector, so it is shorter."""
    chosen = part("rnn", feed="nothing", readout="state") if decoder == "rnn" else part(decoder)
    rate, longest = (1e-2, 4) if decoder == "rnn" else (3e-3, 6)
    assert learn({"kind": "decoder_only", "decoder": chosen}, longest, rate) >= 0.99


MEMORISED = [
    case
    for case, (encoder, head) in HEAD_CASES.items()
    if encoder in ORDERED or head not in ("tags", "tokens")  # random tags depend on more than an n-gram
]


@pytest.mark.parametrize("case", MEMORISED)
def test_every_head_with_every_encoder(case):
    """A few samples are memorised."""
    model = copy.deepcopy(with_head(case)).train()
    for dropout in (module for module in model.modules() if isinstance(module, Dropout)):
        dropout.eval()
    batch = example(model, [1, 2, 3, 4, 5, 2], range(6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    losses = []
    for _ in range(200):
        losses.append(float(model.loss(batch).mean.detach()))
        if losses[-1] < 0.05 * losses[0]:
            return
        model.loss(batch).mean.backward()
        optimizer.step()
        optimizer.zero_grad()
    raise AssertionError(f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")


@pytest.mark.parametrize("attention", ["none", *RECIPES])
def test_every_attention_of_the_rnn(attention):
    """Without attention the whole string must fit into one vector, so it is shorter."""
    description = {"encoder": part("rnn"), "decoder": recipe(attention, "nothing")}
    assert learn(description, 4 if attention == "none" else 6, 1e-2) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["none", *RECIPES])
@pytest.mark.parametrize("feed", ["context", "output"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("encoder", ORDERED)
def test_every_attention_with_every_feed(encoder, cell, feed, attention):
    decoder = {
        **recipe(attention, feed),
        "cell": cell,
        "query": "previous" if feed == "context" else "current",
    }
    description = {"encoder": part(encoder), "decoder": decoder}
    assert learn(description, 4 if attention == "none" else 6, 1e-2) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("position", [name for name in POSITIONS.names() if name != "none"])
def test_every_position(position, order):
    description = {
        "encoder": part("transformer"),
        "decoder": part("transformer"),
        "position": position,
        "order": order,
    }
    assert learn(description, 6, 3e-3) >= 0.99


@pytest.mark.slow
def test_a_bag_of_words_cannot_be_reversed():
    """So that the others are known to have learned the order and not something easier."""
    encoder = part("transformer", position="none")
    assert learn({"encoder": encoder, "decoder": part("transformer")}, 6, 3e-3) < 0.5
