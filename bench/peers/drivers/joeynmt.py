"""JoeyNMT: its TrainManager, its TokenBatchSampler, its search (which has no cache of keys and values)."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.datasets import BaseDataset
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

from bench.decoding import STEPS, sources
from bench.peers.driving import Training, decoding
from bench.peers.pairs import Pairs
from bench.shapes import SHAPES, Shape
from seqwright.data.tokenizer import UNK

SMOOTHING = 0.1


def train(ids: str, shape: str, batches: str, seconds: float) -> Iterator[Any]:
    torch.manual_seed(1)
    logging.disable(logging.INFO)
    pairs, words = Pairs.load(ids), _vocabulary(SHAPES[shape].vocabulary)
    data, model = _Data(pairs, words), _model(SHAPES[shape], words)
    model.loss_function = ("crossentropy", SMOOTHING)
    folder = tempfile.TemporaryDirectory()  # for its log
    manager = _manager(model, SHAPES[shape].tokens, folder.name)
    # its loss is a divergence: the cross-entropy minus the entropy of the smoothed target
    rest = SMOOTHING / (len(words) - 2)
    entropy = -(1 - SMOOTHING) * math.log(1 - SMOOTHING) - SMOOTHING * math.log(rest)

    def order() -> list[np.ndarray]:
        loader = data.make_iter(SHAPES[shape].tokens, batch_type="token", seed=1, shuffle=True)
        return [np.array(numbers) for numbers in loader.batch_sampler]

    def step(batch: Batch) -> float:
        """The update of TrainManager.train_and_validate."""
        model.zero_grad()
        loss, _ = manager._train_step(batch)
        manager.clip_grad_fun(parameters=model.parameters())
        manager.optimizer.step()
        return loss + entropy

    ready = Training(model, order, data.batch, target_tokens=lambda batch: batch.ntokens, step=step)
    yield from ready.rounds(pairs, shape, batches, seconds)


def decode(shape: str, rows: int, beam: int, seconds: float) -> Iterator[Any]:
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    words = _vocabulary(SHAPES[shape].vocabulary)
    model = _model(SHAPES[shape], words).eval()
    given = sources(rows, SHAPES[shape].vocabulary)
    texts = [_pieces(row) for row in np.split(given.flat, np.cumsum(given.lengths)[:-1])]
    source, lengths, _ = words.sentences_to_ids(texts, bos=False, eos=True)
    batch = Batch(
        src=torch.tensor(source),
        src_length=torch.tensor(lengths),
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.arange(rows),
        device=torch.device("cpu"),
        pad_index=words.pad_index,
        eos_index=words.eos_index,
        is_train=False,
    )

    def run() -> list[list[int]]:
        found, _, _ = search(
            model, batch, max_output_length=STEPS, min_output_length=STEPS, beam_size=beam, beam_alpha=1.0
        )
        return found.tolist()

    yield from decoding(run, rows, seconds)


class _Data(BaseDataset):
    """Our ids in the form of its datasets: lists of pieces."""

    def __init__(self, pairs: Pairs, words: Vocabulary):
        super().__init__(
            path="",
            src_lang="source",
            trg_lang="target",
            has_trg=True,
            has_prompt={"source": False, "target": False},
            sequence_encoder={"source": words.sentences_to_ids, "target": words.sentences_to_ids},
        )
        self.pairs, self.words = pairs, words
        self.reset_indices()

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> tuple[int, list[str], list[str]]:
        return number, _pieces(self.pairs.source.row(number)), _pieces(self.pairs.target.row(number))

    def batch(self, numbers: np.ndarray) -> Batch:
        rows = [self[int(number)] for number in numbers]
        return self.collate_fn(rows, self.words.pad_index, self.words.eos_index)


def _pieces(row: np.ndarray) -> list[str]:
    return ["<unk>" if number == UNK else f"piece{number}" for number in row]


def _vocabulary(size: int) -> Vocabulary:
    special = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    options = {f"{name}_token": word for name, word in special.items()}
    options |= {f"{name}_id": number for number, name in enumerate(special)}
    return Vocabulary(
        [f"piece{number}" for number in range(len(special), size)],
        SimpleNamespace(**options, sep_token=None, sep_id=None, lang_tags=[]),
    )


def _model(shape: Shape, words: Vocabulary) -> Model:
    side = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "hidden_size": shape.size,
        "ff_size": shape.hidden,
        "dropout": shape.dropout,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": shape.size, "scale": True, "dropout": shape.dropout},
    }
    options = {"encoder": side, "decoder": side, "tied_embeddings": True, "tied_softmax": True}
    return build_model(options, words, words)


def _manager(model: Model, tokens: int, folder: str) -> TrainManager:
    arguments = {
        "optimizer": "adamw",
        "adam_betas": [0.9, 0.98],
        "learning_rate": 1e-4,
        "scheduling": "exponential",  # moves the rate at the end of an epoch only
        "clip_grad_norm": 1.0,
        "label_smoothing": SMOOTHING,
        "normalization": "tokens",
        "batch_size": tokens,
        "batch_type": "token",
    }
    return TrainManager(
        rank=0,
        model=model,
        model_dir=Path(folder),
        device=torch.device("cpu"),
        autocast={"device_type": "cpu", "enabled": False},
        train_args=parse_train_args(arguments),
    )
