"""Importance is the slope of the loss in a gate, and what is lost without a head."""

from __future__ import annotations

import headed
import pytest
import torch
from torch.testing import assert_close

from seqwright.data.results import Predictions, Text
from seqwright.data.tokenizer import train_tokenizer
from seqwright.lens.heads.gates import Head, apply_gates, sites, without_heads
from seqwright.lens.heads.importance import HeadScorer, ablations, ascending, batches_of, gate_gradients
from seqwright.tasks.text_to_text import TextToText

PAIRS = headed.pairs(6)
MODELS = {
    "deep encoder": {"encoder": {"layers": 3}, "decoder": {"layers": 1}},
    "deep decoder": {"encoder": {"layers": 1}, "decoder": {"layers": 2}, "position": "alibi"},
    "recurrent decoder": {
        "encoder": {"layers": 1},
        "decoder": {"kind": "rnn", "layers": 1, "attention": "multi-head", "feed": "output"},
    },
}


def losses(model, gates) -> torch.Tensor:
    """The loss of each pair by itself."""
    with apply_gates(gates), torch.no_grad():
        batches = [batch for pair in PAIRS for batch in batches_of(headed.task(), [pair])]
        return torch.stack([model.loss(batch, smoothing=0.1).total for batch in batches])


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_per_example_is_a_finite_difference(name):
    """E |∂L/∂ξ|, and nothing of it is lost where encoder and decoder differ in depth."""
    model = headed.model(**MODELS[name])
    found = gate_gradients(model, batches_of(headed.task(), PAIRS), smoothing=0.1)
    assert set(found) == {site.key for site in sites(model)}
    for site in sites(model):
        for number in range(site.attention.heads):
            step = torch.zeros(site.attention.heads, 1, 1, dtype=torch.float64)
            step[number] = 1e-5
            ahead, behind = (losses(model, {site.attention: 1 + sign * step}) for sign in (1, -1))
            wanted = ((ahead - behind) / 2e-5).abs().mean()
            assert_close(found[site.key].by_example[number], wanted, atol=1e-4, rtol=1e-4)


def test_the_gradient_per_token_is_a_finite_difference():
    model = headed.model(layers=1)
    (batch,) = batches_of(headed.task(), PAIRS)
    found = gate_gradients(model, [batch])
    tokens = {"enc": int(batch.source.lengths.sum()), "dec": batch.count, "cross": batch.count}
    for site in sites(model):
        length = (batch.source if site.kind == "enc" else batch.target).ids.shape[1]
        total = torch.zeros(site.attention.heads, dtype=torch.float64)
        for place in range(length):
            for number in range(site.attention.heads):
                for row in range(batch.rows):
                    step = torch.zeros(batch.rows, site.attention.heads, length, 1, dtype=torch.float64)
                    step[row, number, place] = 1e-5
                    ends = []
                    for sign in (1, -1):
                        with apply_gates({site.attention: 1 + sign * step}), torch.no_grad():
                            ends.append(model.loss(batch).total)
                    total[number] += ((ends[0] - ends[1]) / 2e-5).abs()
        assert_close(found[site.key].by_token, total / tokens[site.kind], atol=1e-4, rtol=1e-4)


def test_gradients_do_not_depend_on_the_batches():
    model = headed.model()
    together = gate_gradients(model, batches_of(headed.task(), PAIRS))
    alone = gate_gradients(model, [batch for pair in PAIRS for batch in batches_of(headed.task(), [pair])])
    assert_close(together, alone)


def test_gate_gradients_leave_the_model_unchanged():
    model = headed.model().train()
    gate_gradients(model, batches_of(headed.task(), PAIRS))
    assert model.training
    assert all(site.attention.gate is None for site in sites(model))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_normalised_gradients_have_norm_one_per_attention():
    found = gate_gradients(headed.model(decoder={"heads": [1, 4]}), batches_of(headed.task(), PAIRS))
    for each in found.values():
        assert_close(each.normalised().by_token.norm(), torch.ones((), dtype=torch.float64))
        assert_close(each.normalised().by_example.norm(), torch.ones((), dtype=torch.float64))


def test_a_head_whose_values_are_zero_does_not_matter():
    predictor = headed.predictor()
    site = next(site for site in sites(predictor.model) if site.key == ("cross", 1))
    with torch.no_grad():  # of each head, the key and then the value
        for part in (site.attention.key_value.weight, site.attention.key_value.bias):
            part.view(2, 2, 4, -1)[1, 1] = 0
    found = gate_gradients(predictor.model, batches_of(headed.task(), PAIRS))
    assert found["cross", 1].normalised().by_token.tolist() == pytest.approx([1, 0])
    lost = ablations(HeadScorer(predictor, PAIRS))
    assert lost[Head("cross", 1, 1)] == pytest.approx(0, abs=1e-12)
    assert abs(lost[Head("cross", 1, 0)]) > 1e-6


@pytest.mark.parametrize("metric", ["loss", "exact_match", "symbol_error_rate"])
def test_an_ablation_is_the_score_without_the_head(metric):
    predictor = headed.predictor(layers=1)
    scorer = HeadScorer(predictor, PAIRS, metric)
    lines: list[str] = []
    lost, alone = ablations(scorer, progress=lines.append), ablations(scorer, alone=True)
    assert len(lost) == len(lines) == 6
    whole, sign = scorer(), {"lower": 1, "higher": -1}[scorer.better]
    for head in lost:
        with without_heads(predictor.model, [head]):
            assert lost[head] == pytest.approx(sign * (scorer() - whole))
        other = head._replace(head=1 - head.head)
        assert alone[head] == pytest.approx(lost[other])  # of two heads, one alone is without the other


def test_heads_are_ordered_and_the_best_of_each_attention_may_come_last():
    values = {
        Head("enc", 0, 0): 0.9,
        Head("enc", 0, 1): 0.1,
        Head("cross", 0, 0): 0.3,
        Head("cross", 0, 1): 0.2,
    }
    assert [values[head] for head in ascending(values)] == [0.1, 0.2, 0.3, 0.9]
    assert [values[head] for head in ascending(values, keep_best=True)] == [0.1, 0.2, 0.3, 0.9]
    values[Head("enc", 0, 1)] = 0.5
    assert [values[head] for head in ascending(values, keep_best=True)] == [0.2, 0.5, 0.3, 0.9]


def test_outputs_are_limited_to_twice_the_longest_target(monkeypatch):
    predictor, pairs, outputs = headed.predictor(), headed.pairs(5), []
    plain = predictor.stream

    def stream(texts, **options):
        outputs.extend(plain(texts, **options))
        return outputs

    monkeypatch.setattr(predictor, "stream", stream)
    HeadScorer(predictor, pairs, "exact_match")()
    longest = max(len(target) for _, target in pairs) + 1  # with its end
    assert max(len(output.token_scores) for output in outputs) == 2 * longest < predictor.search.max_length


def test_spaces_between_symbols_are_no_error(monkeypatch):
    """As in an evaluation, what a tokenizer reads alike is alike."""
    predictor = headed.predictor()
    symbols = train_tokenizer("symbols", ["a b", "c d"])
    predictor.task = TextToText(predictor.task.source, symbols)
    outputs = Predictions(Text(text, 0.0, 0.0, (), (), "end") for text in ("a b", "c d"))
    monkeypatch.setattr(predictor, "stream", lambda texts, **options: outputs)
    assert HeadScorer(predictor, [("ab", "a  b"), ("cd", "c d ")], "exact_match")() == 100
