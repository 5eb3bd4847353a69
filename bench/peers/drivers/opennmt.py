"""OpenNMT-py: its Trainer, its DynamicDatasetIter, its Translator.

The bias of its output layer is removed, so that all models have the same parameters.
"""

from __future__ import annotations

import sys
import types
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.decoding import STEPS, sources
from bench.peers.driving import Training, decoding
from bench.peers.pairs import Pairs
from bench.shapes import SHAPES, Shape
from seqwright.data.tokenizer import BEGIN, END

for unused in ("spacy", "ahocorasick", "fasttext"):  # imported by text transforms that are not used here
    sys.modules.setdefault(unused, types.ModuleType(unused))

import onmt.opts  # noqa: E402
from onmt.constants import CorpusTask, ModelTask  # noqa: E402
from onmt.inputters.dynamic_iterator import DynamicDatasetIter  # noqa: E402
from onmt.inputters.inputter import dict_to_vocabs  # noqa: E402
from onmt.inputters.text_utils import tensorify, text_sort_key  # noqa: E402
from onmt.model_builder import build_model  # noqa: E402
from onmt.trainer import build_trainer  # noqa: E402
from onmt.translate import GNMTGlobalScorer, Translator  # noqa: E402
from onmt.utils import Statistics  # noqa: E402
from onmt.utils.optimizers import Optimizer  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

CPU = torch.device("cpu")


def train(ids: str, shape: str, batches: str, seconds: float) -> Iterator[Any]:
    torch.manual_seed(1)
    pairs, words, options = Pairs.load(ids), _vocabularies(SHAPES[shape]), _options(SHAPES[shape])
    model = _model(options, words)
    trainer = build_trainer(options, -1, model, words, Optimizer.from_opt(model, options))

    def order() -> list[np.ndarray]:
        """One bucket with every pair once."""
        bucket = sorted(
            ((_example(pairs, number), number) for number in range(len(pairs))),
            key=lambda row: text_sort_key(row[0]),
        )
        reader = DynamicDatasetIter(
            {}, {}, {}, words, CorpusTask.TRAIN, options.batch_type, options.batch_size, 1
        )
        cut = reader.batch_iter(bucket, options.batch_size, options.batch_type)
        return [np.array([number for _, number in batch]) for batch in cut]

    def batch(numbers: np.ndarray) -> dict[str, Any]:
        return tensorify(words, [(_example(pairs, int(number)), int(number)) for number in numbers], CPU)

    def step(given: dict[str, Any]) -> float:
        statistics = Statistics()
        for parts, normalization in trainer._accum_batches([(given, 0)]):
            trainer._gradient_accumulation(parts, normalization, statistics, Statistics())
        return statistics.xent()

    ready = Training(model, order, batch, lambda given: int((given["tgtlen"] - 1).sum()), step)
    yield from ready.rounds(pairs, shape, batches, seconds)


def decode(shape: str, rows: int, beam: int, seconds: float) -> Iterator[Any]:
    torch.manual_seed(1)
    words = _vocabularies(SHAPES[shape])
    given = sources(rows, SHAPES[shape].vocabulary)
    texts = np.split(given.flat, np.cumsum(given.lengths)[:-1])
    examples = [
        ({"src": {"src_ids": [*row, END]}, "tgt": None, "cid": "", "cid_line_number": number}, number)
        for number, row in enumerate(texts)
    ]
    batch = tensorify(words, examples, CPU)
    translator = Translator(
        _model(_options(SHAPES[shape], dropout=0.0), words).eval(),
        words,
        min_length=STEPS,
        max_length=STEPS,
        max_length_ratio=0,
        beam_size=beam,
        random_sampling_topk=1 if beam == 1 else 0,  # 1: its greedy search
        dump_beam="",
        global_scorer=GNMTGlobalScorer(0.0, 0.0, "avg", "none"),
    )

    def run() -> list[list[int]]:
        found = translator.translate_batch(batch, attn_debug=False)["predictions"]
        return [best[0].tolist() for best in found]

    yield from decoding(run, rows, seconds)


def _example(pairs: Pairs, number: int) -> dict[str, Any]:
    """An example as its reader makes it, with an end symbol after the source, too."""
    target = [BEGIN, *pairs.closed("target", number, END)]
    return {
        "src": {"src": str(number), "src_ids": pairs.closed("source", number, END)},
        "tgt": {"tgt": str(number), "tgt_ids": target},
        "cid": "train",
        "cid_line_number": number,
    }


def _vocabularies(shape: Shape) -> dict[str, Any]:
    special = ["<blank>", "<unk>", "<s>", "</s>"]  # in our order
    words = special + [f"piece{number}" for number in range(len(special), shape.vocabulary)]
    return dict_to_vocabs(
        {"src": words, "tgt": words, "data_task": ModelTask.SEQ2SEQ, "decoder_start_token": "<s>"}
    )


def _options(shape: Shape, dropout: float | None = None) -> Namespace:
    rate = shape.dropout if dropout is None else dropout
    values = {
        "data": "none",
        "src_vocab": "none",
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "layers": shape.layers,
        "hidden_size": shape.size,
        "word_vec_size": shape.size,
        "transformer_ff": shape.hidden,
        "heads": shape.heads,
        "dropout": rate,
        "attention_dropout": rate,
        "param_init": 0,
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": 1e-4,
        "max_grad_norm": 1.0,
        "label_smoothing": 0.1,
        "normalization": "tokens",
        "batch_type": "tokens",
        "batch_size": shape.tokens,
    }
    flags = (
        "position_encoding",
        "share_embeddings",
        "share_decoder_embeddings",
        "add_qkvbias",
        "add_ffnbias",
    )
    parser = ArgumentParser()
    onmt.opts.train_opts(parser)
    switches = [f"--{name}" for name in (*flags, "param_init_glorot", "share_vocab")]
    options = parser.parse_args([f"--{name}={value}" for name, value in values.items()] + switches)
    options.data = {}
    ArgumentParser.update_model_opts(options)
    ArgumentParser.validate_model_opts(options)
    return options


def _model(options: Namespace, words: dict[str, Any]) -> torch.nn.Module:
    model = build_model(options, options, words, None, -1)
    model.generator.bias = None
    return model
