"""Contenders for decoding speed: Seqwright, Hugging Face generate, CTranslate2. Random weights and a
fixed number of forced steps.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.shapes import SHAPES, Shape
from bench.training import our_model
from seqwright.data.batch import BEGIN, END, Tokens, source_tokens
from seqwright.data.store import Ragged
from seqwright.nn.masks import Places

STEPS = 20


def sources(rows: int, vocabulary: int) -> Ragged:
    """Sources of 10 to 18 ids."""
    random = np.random.default_rng(rows)
    lengths = random.integers(10, 19, size=rows)
    return Ragged(random.integers(4, vocabulary, int(lengths.sum())), lengths)


def ours(
    shape: str, rows: int, beam: int, seconds: float, threads: int | None = None, **options: Any
) -> Iterator[Any]:
    """threads: None uses the default of torch. options: those of the model."""
    from seqwright.runtime import freeze_objects, keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(threads or torch.get_num_threads())
    torch.manual_seed(1)
    model = our_model(SHAPES[shape], **options).eval()
    inputs = source_tokens(sources(rows, SHAPES[shape].vocabulary))
    freeze_objects()
    yield from rounds(lambda: our_outputs(model, inputs, beam), rows, seconds)


def our_outputs(model: Any, inputs: Tokens, beam: int) -> list[list[int]]:
    from seqwright.search import BeamOptions, SamplingOptions, Start, beam_search, generate

    start = Start(rows=len(inputs.ids), first=BEGIN, end=END)
    lengths = {"min_length": STEPS, "max_length": STEPS}
    with torch.inference_mode():
        state = model.start(inputs)
        if beam == 1:
            options = SamplingOptions(temperature=0.0, **lengths)
            found = generate(model.step, state, start, options)
        else:
            found = beam_search(model.step, state, start, BeamOptions(size=beam, **lengths))
    return [best[0].tokens if isinstance(best, list) else best.tokens for best in found]


def marian(wanted: Shape, dropout: float = 0.0) -> Any:
    """A Hugging Face Marian model of this shape with random weights."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=wanted.vocabulary,
        d_model=wanted.size,
        encoder_layers=wanted.layers,
        decoder_layers=wanted.layers,
        encoder_attention_heads=wanted.heads,
        decoder_attention_heads=wanted.heads,
        encoder_ffn_dim=wanted.hidden,
        decoder_ffn_dim=wanted.hidden,
        activation_function="relu",
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        scale_embedding=True,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=None,
        bos_token_id=BEGIN,
    )
    torch.manual_seed(1)
    return MarianMTModel(config)


def hugging_face(
    shape: str, rows: int, beam: int, seconds: float, threads: int | None = None
) -> Iterator[Any]:
    torch.set_num_threads(threads or torch.get_num_threads())
    wanted = SHAPES[shape]
    model = marian(wanted).eval()
    inputs = source_tokens(sources(rows, wanted.vocabulary))
    mask = torch.ones_like(inputs.ids) if inputs.real is None else inputs.real.long()

    def run() -> Tensor:
        with torch.inference_mode():
            return model.generate(
                input_ids=inputs.ids,
                attention_mask=mask,
                num_beams=beam,
                do_sample=False,
                min_new_tokens=STEPS,
                max_new_tokens=STEPS,
            )

    yield from rounds(run, rows, seconds)


def ctranslate2(
    shape: str, rows: int, beam: int, seconds: float, kind: str, threads: int, **options: Any
) -> Iterator[Any]:
    """options: those of the model."""
    import ctranslate2 as engine

    torch.manual_seed(1)
    model = our_model(SHAPES[shape], **options).eval()
    with tempfile.TemporaryDirectory() as folder:
        export(model, SHAPES[shape], Path(folder) / "model")
        translator = engine.Translator(str(Path(folder) / "model"), compute_type=kind, intra_threads=threads)
    if kind == "float32":
        _check_same(model, translator, SHAPES[shape].vocabulary)
    given = as_texts(sources(rows, SHAPES[shape].vocabulary))
    yield from rounds(lambda: _translate(translator, given, beam), rows, seconds)


def as_texts(given: Ragged) -> list[list[str]]:
    cuts = np.cumsum(given.lengths)[:-1]
    return [[*map(str, row), "</s>"] for row in np.split(given.flat, cuts)]


def _translate(translator: Any, texts: list[list[str]], beam: int) -> list[list[int]]:
    found = translator.translate_batch(
        texts, beam_size=beam, min_decoding_length=STEPS, max_decoding_length=STEPS, max_batch_size=len(texts)
    )
    return [[int(token) for token in result.hypotheses[0] if token.isdigit()] for result in found]


def _check_same(model: Any, translator: Any, vocabulary: int) -> None:
    """Check that the weights are the same by the outputs; rounding may decide near ties differently."""
    given = sources(16, vocabulary)
    both = zip(
        _translate(translator, as_texts(given), 5), our_outputs(model, source_tokens(given), 5), strict=True
    )
    same = np.mean([theirs == ours for theirs, ours in both])
    if same < 0.8:
        raise AssertionError(
            f"only {same:.0%} of the outputs of CTranslate2 equal ours: the weights are not the same"
        )


def rounds(run: Callable[[], Any], rows: int, seconds: float) -> Iterator[tuple[float, float] | None]:
    """Measure rounds; the work of a round is the number of tokens of its best hypotheses."""
    for _ in range(2):
        run()
    yield None
    while True:
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            run()
            count += 1
        yield count * rows * STEPS, time.perf_counter() - start


def export(model: Any, shape: Shape, folder: Path) -> None:
    """Write a pre-norm Transformer with sinusoidal or rotary positions as a CTranslate2 model."""
    from ctranslate2.specs import transformer_spec

    inside = model.encoder.stack.blocks[0].attention.position
    rotary = {"rotary_dim": 2 * inside.pairs, "rotary_base": inside.base} if inside.inside else {}
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(shape.layers, shape.heads, **rotary),
        transformer_spec.TransformerDecoderSpec(shape.layers, shape.heads, **rotary),
    )
    if rotary:
        del spec.encoder.position_encodings  # the specification of an encoder always has them
    for theirs, part in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        embeddings = theirs.embeddings[0] if isinstance(theirs.embeddings, list) else theirs.embeddings
        embeddings.weight = part.embedding.weight.detach().numpy()
        theirs.scale_embeddings = True
        if not rotary:
            theirs.position_encodings.encodings = part.stack.position.vectors(Places.run(0, 512)).numpy()
        _norm(theirs.layer_norm, part.stack.norm)
        for layer, block in zip(theirs.layer, part.stack.blocks, strict=True):
            _attention(layer.self_attention, block.attention, block.around_attention.norm, joint=True)
            if block.cross is not None:
                _attention(layer.attention, block.cross, block.around_cross.norm, joint=False)
            _norm(layer.ffn.layer_norm, block.around_feed_forward.norm)
            _linear(layer.ffn.linear_0, block.feed_forward.rise.weight, block.feed_forward.rise.bias)
            _linear(layer.ffn.linear_1, block.feed_forward.fall.weight, block.feed_forward.fall.bias)
    spec.decoder.projection.weight = model.output.weight.detach().numpy()
    words = ["<blank>", "<unk>", "<s>", "</s>", *map(str, range(4, shape.vocabulary))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.add_source_bos = spec.config.add_source_eos = False
    folder.mkdir()
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(folder))


def _attention(theirs: Any, attention: Any, norm: Any, *, joint: bool) -> None:
    """CTranslate2 stores all queries, all keys, all values; here key and value of a head are together."""
    _norm(theirs.layer_norm, norm)
    weight = attention.key_value.weight.unflatten(0, (attention.heads, -1))
    bias = attention.key_value.bias.unflatten(0, (attention.heads, -1))
    size = attention.key_size
    keys = [part[:, cut].flatten(0, 1) for part in (weight, bias) for cut in (slice(size), slice(size, None))]
    k_weight, v_weight, k_bias, v_bias = keys
    queries = (attention.query.weight, attention.query.bias)
    if joint:
        _linear(
            theirs.linear[0],
            torch.cat([queries[0], k_weight, v_weight]),
            torch.cat([queries[1], k_bias, v_bias]),
        )
    else:
        _linear(theirs.linear[0], *queries)
        _linear(theirs.linear[1], torch.cat([k_weight, v_weight]), torch.cat([k_bias, v_bias]))
    _linear(theirs.linear[-1], attention.out.weight, attention.out.bias)


def _linear(theirs: Any, weight: Tensor, bias: Tensor) -> None:
    theirs.weight, theirs.bias = weight.detach().numpy(), bias.detach().numpy()


def _norm(theirs: Any, norm: Any) -> None:
    theirs.gamma, theirs.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()
