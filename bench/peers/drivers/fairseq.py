"""fairseq: its Trainer.train_step, its batch_by_size, its SequenceGenerator.

fairseq numbers begin, padding, end and unknown 0 to 3; all other ids are ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.decoding import STEPS, sources
from bench.peers.driving import Training, decoding
from bench.peers.pairs import Pairs
from bench.shapes import SHAPES, Shape
from seqwright.data.tokenizer import UNK


def _allow_defaults_that_are_dataclasses() -> None:
    """Give every dataclass a hash. fairseq uses dataclasses as defaults, and Python 3.11 rejects defaults
    without a hash as mutable.
    """
    original = dataclasses.dataclass

    def dataclass(given: type | None = None, **options: Any) -> Any:
        def made(kind: type) -> type:
            kind = original(kind, **options)
            if kind.__hash__ is None:
                kind.__hash__ = object.__hash__  # type: ignore[method-assign]
            return kind

        return made if given is None else made(given)

    dataclasses.dataclass = dataclass  # type: ignore[assignment]


_allow_defaults_that_are_dataclasses()

from fairseq import options  # noqa: E402
from fairseq.data import Dictionary, LanguagePairDataset, data_utils  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq.sequence_generator import SequenceGenerator  # noqa: E402
from fairseq.tasks.translation import TranslationTask  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402


def train(ids: str, shape: str, batches: str, seconds: float) -> Iterator[Any]:
    torch.manual_seed(1)
    pairs, cfg = Pairs.load(ids), _configuration(SHAPES[shape])
    task = _task(cfg, SHAPES[shape].vocabulary)
    data = _dataset(pairs, task.source_dictionary)
    model = task.build_model(cfg.model)
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))

    def order() -> list[np.ndarray]:
        with data_utils.numpy_seed(1):
            sorted_pairs = data.ordered_indices()
        return data.batch_by_size(
            sorted_pairs, max_tokens=SHAPES[shape].tokens, required_batch_size_multiple=8
        )

    def step(sample: dict[str, Any]) -> float:
        return trainer.train_step([sample])["loss"] * math.log(2)  # its log is in bits

    ready = Training(
        model,
        order,
        batch=lambda numbers: data.collater([data[number] for number in numbers]),
        target_tokens=lambda sample: sample["ntokens"],
        step=step,
    )
    yield from ready.rounds(pairs, shape, batches, seconds)


def decode(shape: str, rows: int, beam: int, seconds: float) -> Iterator[Any]:
    torch.manual_seed(1)
    cfg = _configuration(SHAPES[shape])
    task = _task(cfg, SHAPES[shape].vocabulary)
    model = task.build_model(cfg.model).eval()
    words = task.source_dictionary
    given = sources(rows, SHAPES[shape].vocabulary)
    texts = [
        torch.from_numpy(np.append(row, words.eos()))
        for row in np.split(given.flat, np.cumsum(given.lengths)[:-1])
    ]
    sample = LanguagePairDataset(texts, given.lengths + 1, words).collater(
        [{"id": number, "source": text, "target": None} for number, text in enumerate(texts)]
    )
    # the end symbol is one of the steps
    search = SequenceGenerator(
        [model], words, beam_size=beam, max_len_a=0, max_len_b=STEPS - 1, min_len=STEPS - 1
    )

    def run() -> list[list[int]]:
        with torch.no_grad():
            return [found[0]["tokens"].tolist() for found in search.generate([model], sample)]

    yield from decoding(run, rows, seconds)


def _configuration(shape: Shape) -> Any:
    both = {
        "layers": shape.layers,
        "embed-dim": shape.size,
        "ffn-embed-dim": shape.hidden,
        "attention-heads": shape.heads,
    }
    sides = [f"--{side}-{name}={value}" for side in ("encoder", "decoder") for name, value in both.items()]
    arguments = [
        "no-folder",
        "--task=translation",
        "--arch=transformer",
        *sides,
        *("--encoder-normalize-before", "--decoder-normalize-before", "--share-all-embeddings"),
        *(f"--{kind}={shape.dropout}" for kind in ("dropout", "attention-dropout", "activation-dropout")),
        *("--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1"),
        *("--optimizer=adam", "--adam-betas=(0.9, 0.98)", "--lr=1e-4", "--clip-norm=1.0"),
        *("--cpu", f"--max-tokens={shape.tokens}"),
    ]
    return convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), arguments)
    )


def _task(cfg: Any, vocabulary: int) -> TranslationTask:
    words = Dictionary()
    for number in range(len(words), vocabulary):
        words.add_symbol(f"piece{number}")
    return TranslationTask(cfg.task, words, words)


def _dataset(pairs: Pairs, words: Dictionary) -> LanguagePairDataset:
    def rows(side: str) -> list[torch.Tensor]:
        closed = (pairs.closed(side, number, words.eos()) for number in range(len(pairs)))
        return [torch.from_numpy(np.where(row == UNK, words.unk(), row)) for row in closed]

    return LanguagePairDataset(
        rows("source"), pairs.source.lengths() + 1, words, rows("target"), pairs.target.lengths() + 1, words
    )
