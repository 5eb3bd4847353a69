"""Roles: heads made by hand are called by their names, and numbers are those of a naive loop."""

from __future__ import annotations

import json
import math

import headed
import numpy as np
import pytest
import torch

from seqwright import build_model, capture
from seqwright.data.batch import END
from seqwright.errors import ConfigError
from seqwright.lens.heads.analysis import HeadTable, analyse, vocabulary
from seqwright.lens.heads.importance import HeadScorer, batches_of
from seqwright.lens.heads.roles import FREQUENT, AttentionBatch, HeadStatistics, ranks, rarest
from seqwright.prediction.predictor import Predictor

SIZE = 8
PAIRS = headed.pairs(20)


def rotation(steps: int) -> torch.Tensor:
    """R with R · PE(pos) = PE(pos + steps): later sinusoids are turned ones (Vaswani et al. 2017, 3.5)."""
    matrix = torch.zeros(SIZE, SIZE)
    for pair in range(SIZE // 2):
        angle = steps * 10000 ** (-2 * pair / SIZE)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = turn
    return matrix


def with_offsets(*offsets: int) -> Predictor:
    """A model whose embeddings are zero, so that its first attentions see positions and nothing else: a query
    asks for the position that is so many steps away, sharply.
    """
    made = headed.model(layers=1, heads=len(offsets), head_size=SIZE, order="post")
    with torch.no_grad():
        for part in (made.encoder, made.decoder):
            part.embedding.weight.zero_()
            attention = part.stack.blocks[0].attention
            attention.query.bias.zero_()
            attention.key_value.bias.zero_()
            attention.query.weight.copy_(torch.cat([100 * rotation(offset) for offset in offsets]))
            attention.key_value.weight.view(len(offsets), 2, SIZE, SIZE)[:, 0] = torch.eye(SIZE)
    return Predictor(made, headed.task())


def test_heads_with_a_fixed_offset_are_positional():
    table = analyse(with_offsets(-1, 1, 0), PAIRS)
    found = {(row.kind, row.head): row for row in table.rows}
    for head, offset in enumerate((-1, 1, 0)):
        row = found["enc", head]
        assert (row.role, row.offset, row.rate) == ("positional", offset, 1.0)
        assert row.confidence > 0.8 or offset == 1  # the last token has no next one
        assert row.described() == f"positional {'−1' if offset < 0 else f'{offset:+d}'}, 100 %"
    assert (found["dec", 0].offset, found["dec", 0].rate) == (-1, 1.0)
    assert found["dec", 2].offset == 0
    assert found["dec", 1].role != "positional"  # a decoder cannot look ahead


def test_a_decoder_that_looks_at_its_begin_and_an_encoder_that_looks_at_the_end():
    predictor = headed.predictor(layers=1, heads=1, position="none", order="post")
    with torch.no_grad():
        for part, symbol in ((predictor.model.encoder, END), (predictor.model.decoder, 2)):
            part.embedding.weight.fill_(0.1)
            part.embedding.weight[symbol] = 3.0
            attention = part.stack.blocks[0].attention
            attention.query.weight.fill_(1.0)
            attention.key_value.weight[:SIZE] = 1.0
            attention.query.bias.zero_()
            attention.key_value.bias.zero_()
    roles = {row.kind: row.role for row in analyse(predictor, PAIRS).rows}
    assert (roles["enc"], roles["dec"]) == ("end", "begin")
    (row, *_) = analyse(predictor, PAIRS).rows
    assert row.confidence < 0.01 < 0.99 < row.behaviour.confidence_with_end


def test_a_head_that_cannot_tell_its_keys_apart_is_diffuse():
    predictor = headed.predictor()
    with torch.no_grad():
        for block in predictor.model.encoder.stack.blocks:
            block.attention.query.weight.zero_()
            block.attention.query.bias.zero_()
    rows = [row for row in analyse(predictor, PAIRS).rows if row.kind == "enc"]
    assert {row.role for row in rows} == {"diffuse"}
    assert all(row.rate == pytest.approx(1.0, abs=1e-6) for row in rows)


def test_confidence_and_entropy_are_means_over_real_queries():
    """By a loop over pairs, one at a time, so that there is no padding."""
    predictor = headed.predictor()
    found = {row.id: row for row in analyse(predictor, PAIRS).rows}
    name, place = "decoder.stack.blocks.1.cross", ("cross", 1)
    most, everywhere, entropies = [], [], []
    for pair in PAIRS:
        (batch,) = batches_of(predictor.task, [pair])
        with torch.no_grad(), capture(predictor.model) as seen:
            predictor.model(batch)
        for weights in seen[name][0][0, 1]:  # (Q, K) of the second head
            most.append(float(weights[:-1].max()))
            everywhere.append(float(weights.max()))
            entropies.append(-sum(float(w) * math.log(float(w)) for w in weights))
    row = found[*place, 1]
    assert row.confidence == pytest.approx(np.mean(most), abs=1e-6)
    assert row.behaviour.confidence_with_end == pytest.approx(np.mean(everywhere), abs=1e-6)
    assert row.entropy == pytest.approx(np.mean(entropies), abs=1e-5)


def view(places: list[list[int]], keys: int, **options) -> AttentionBatch:
    """One head, whose query i of row b looks at places[b][i] alone; the last key is the end."""
    weights = torch.nn.functional.one_hot(torch.tensor(places), keys).float()[:, None]
    queries = torch.ones(len(places), len(places[0]), dtype=torch.bool)
    end = torch.zeros(len(places), keys, dtype=torch.bool)
    end[:, -1] = True
    return AttentionBatch(weights, queries, torch.ones_like(end), end, **options)


def test_rare_tokens_are_outside_the_most_frequent_types():
    size = FREQUENT + 10
    counts = np.arange(size)[::-1].copy()  # the id is the rank
    ids = torch.tensor([[3, FREQUENT + 5, FREQUENT + 2, END], [3, 7, FREQUENT - 1, END]])
    tokens = ids != END
    assert (ranks(counts) == np.arange(size)).all()
    assert rarest(ids, tokens, ranks(counts)).tolist() == [[[1, 2]], [[-1, -1]]]
    looks = HeadStatistics("enc", 1)
    looks.add(view([[1, 1, 2, 0], [2, 2, 2, 2]], 4, rare=rarest(ids, tokens, ranks(counts))))
    (found,) = looks.behaviours()
    assert (found.rare, found.rare_two) == (0.5, 0.75)  # the second sentence has no rare token
    assert found.roles("enc")["rare"] == 0.5


def test_without_rare_tokens_no_head_has_the_role_rare():
    table = analyse(headed.predictor(), PAIRS)
    assert all(row.behaviour.rare is None for row in table.rows)
    assert any("500 most frequent" in note for note in table.notes)


def test_alignment_errors_are_counted_against_known_links():
    looks = HeadStatistics("cross", 1)
    # the targets have three tokens and their end; the sources four tokens and theirs
    looks.add(view([[0, 1, 1, 4], [3, 3, 3, 4]], 5, links=[{(0, 0), (1, 1), (2, 2)}, {(3, 0)}]))
    (found,) = looks.behaviours()
    # A = 3 + 3 links, S = 3 + 1, in common 2 + 1: AER = 1 − 2 · 3 / 10; three of 2 · 3 tokens are looked at
    assert found.alignment_error == pytest.approx(0.4)
    assert found.coverage == pytest.approx(0.5)
    assert found.offset is None
    assert "alignment" not in found.roles("cross")


def alignment_of_copies(model) -> tuple[str | None, float]:
    """The role of the cross head on words that were never seen, and its error."""
    unseen = headed.words(100, seed=-1, longest=8)
    links = [{(place, place) for place in range(len(word))} for word in unseen]
    table = analyse(
        Predictor(model.eval(), headed.task()), [(word, word) for word in unseen], alignments=links
    )
    (row,) = (row for row in table.rows if row.kind == "cross")
    return row.role, row.behaviour.alignment_error


def test_in_a_model_that_has_learned_to_copy_the_cross_head_aligns():
    task, steps = headed.task(), 150
    sizes = {"size": 32, "hidden": 64, "layers": 1, "heads": 1, "dropout": 0.0, "tie": False}
    vocabulary = {"source_vocabulary": task.source.size, "target_vocabulary": task.target.size}
    model = build_model(sizes, **vocabulary)
    assert alignment_of_copies(model)[1] > 0.5
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        (batch,) = batches_of(task, [(word, word) for word in headed.words(64, seed=step, longest=8)])
        model.train().loss(batch).mean.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    role, error = alignment_of_copies(model)
    assert role == "alignment"
    assert error <= 0.05


def test_a_table_reads_as_text_and_as_json():
    predictor = headed.predictor(encoder={"layers": 1}, decoder={"layers": 3})
    table = analyse(predictor, PAIRS, scorer=HeadScorer(predictor, PAIRS))
    assert len(str(table).splitlines()) == 1 + 2 + 6 + 6 + len(table.notes)
    assert "ablation (loss)" in str(table)
    document = json.loads(json.dumps(table.to_json(), allow_nan=False))
    assert (document["format"], document["pairs"], document["metric"]) == (1, 20, "loss")
    assert [(row["kind"], row["layer"], row["head"]) for row in document["heads"]] == [
        row.id for row in table.rows
    ]
    assert table.importance("ablation") == {row.id: row.ablation for row in table.rows}
    total = sum(row.importance**2 for row in table.rows if (row.kind, row.layer) == ("cross", 2))
    assert total == pytest.approx(1)


def test_one_pair_is_enough_also_an_empty_source():
    predictor = headed.predictor()
    assert len(analyse(predictor, [("ab", "ba")]).rows) == 12
    for pair in (("", "a"), ("a", ""), ("", "")):
        rows = analyse(predictor, [pair]).rows
        assert all(math.isfinite(row.entropy) and math.isfinite(row.importance) for row in rows)


def test_a_model_without_heads_or_tokens_has_one_sentence():
    note = "The model has no attention heads."
    assert str(HeadTable((), 20, None, (note,))) == note
    images = torch.nn.Module()
    images.encoder = torch.nn.Linear(2, 2)
    for model in (images, torch.nn.Linear(2, 2)):
        with pytest.raises(ConfigError, match=r"reads no tokens; .* for models that read text"):
            vocabulary(model)


@pytest.mark.parametrize("attention", ["bahdanau", "luong-dot", "multi-head", "hierarchical", "none"])
@pytest.mark.parametrize("feed", ["output", "nothing"])
def test_recurrent_models_have_one_attention_and_say_so(attention, feed):
    readout = "state" if attention == "none" else "tanh"
    decoder = {"kind": "rnn", "attention": attention, "feed": feed, "readout": readout}
    options = {"encoder": "rnn", "decoder": decoder, "layers": 1}
    small = {key: value for key, value in headed.SMALL.items() if key in ("size", "tie", "dropout")}
    size = headed.task().source.size
    model = build_model(small | options, source_vocabulary=size, target_vocabulary=size).eval()
    table = analyse(Predictor(model, headed.task()), PAIRS)
    assert len(table.rows) == {"none": 0, "multi-head": 4}.get(attention, 1)
    if len(table.rows) == 1:
        assert table.rows[0].importance == pytest.approx(1.0)
        assert "one head" in table.notes[0]


def test_the_analysis_leaves_the_model_and_the_random_state_unchanged():
    predictor = headed.predictor()
    predictor.model.train()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    analyse(predictor, PAIRS)
    assert predictor.model.training
    assert torch.equal(torch.get_rng_state(), before)
