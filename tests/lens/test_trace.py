"""A trace agrees with the model wherever its values can be computed in another way."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from looked import FAMILIES, LETTERS, OPTIONS, REFERENCE, TEXT, case, looked, predictor

from seqwright.data.batch import BEGIN, END, Tokens
from seqwright.data.fields import join_fields
from seqwright.errors import InputError
from seqwright.lens.capture import capture
from seqwright.lens.heads.gates import sites, without_heads
from seqwright.lens.trace.build import look
from seqwright.lens.trace.document import Trace
from seqwright.lens.trace.steps import DecodedPath
from seqwright.search import BeamOptions

every_family = pytest.mark.parametrize("family", FAMILIES)


def path_of(trace: Trace) -> DecodedPath:
    source = [piece["id"] for piece in trace.document["source"]["pieces"]]
    return DecodedPath(source, [step["id"] for step in trace.document["steps"]])


@torch.no_grad()
def pass_along(model: torch.nn.Module, path: DecodedPath) -> torch.Tensor:
    """The logits (T, V), computed by the parts themselves."""
    hidden, _ = model.decoder(path.batch.target.ids, model.start(Tokens(torch.tensor([path.source]))))
    return model.output(hidden)[0]


@every_family
def test_attention_is_what_capture_sees(family):
    subject, trace = case(family)
    with capture(subject.model.eval()) as seen:
        pass_along(subject.model, path_of(trace))
    entries = trace.document["attention"]
    assert [entry["name"] for entry in entries] == [site.name for site in sites(subject.model)]
    for entry in entries:
        weights = torch.cat(seen[entry["name"]], 2)[0].numpy()
        found = trace.attention(entry["kind"], entry["layer"])
        assert found.shape == weights.shape == (entry["heads"], entry["queries"], entry["keys"])
        assert np.abs(found - weights).max(initial=0) <= 1 / (2 * 65535) + 1e-7
        assert entry["scales"] == pytest.approx(weights.max(axis=(1, 2), initial=0).tolist())


@every_family
def test_queries_and_keys_make_the_weights(family):
    """softmax(score + bias), with nothing but the numbers of the trace."""
    _, trace = case(family)
    assert "vectors" not in trace.document["absent"]
    for entry in trace.document["attention"]:
        part = trace.vectors(entry["kind"], entry["layer"])
        if entry["vectors"]["score"] == "additive":
            sums = np.tanh(part["q"][:, :, None] + part["k"][:, None])  # (H, Q, K, E)
            scores = (sums * part["weight"][:, None, None]).sum(-1)
        else:
            scores = entry["vectors"]["factor"] * part["q"] @ part["k"].swapaxes(1, 2)
        scores = scores + part.get("bias", 0.0)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
        weights /= weights.sum(-1, keepdims=True)
        assert np.abs(weights - trace.attention(entry["kind"], entry["layer"])).max(initial=0) < 1e-3


@pytest.mark.parametrize("family", ["transformer-shaw", "transformer-rotary", "rnn-bahdanau"])
def test_weights_and_values_make_the_context(family):
    """What a head hands on to the output projection, Shaw's values included."""
    subject, trace = case(family)
    site = sites(subject.model)[-1]
    contexts: list[torch.Tensor] = []
    hook = site.attention.out.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0]))
    pass_along(subject.model.eval(), path_of(trace))
    hook.remove()
    part = trace.vectors(site.kind, site.layer)
    context = trace.attention(site.kind, site.layer) @ part["v"] + part.get("value_bias", 0.0)  # (H, Q, F)
    assert np.abs(np.concatenate(list(context), -1) - torch.cat(contexts, 1)[0].numpy()).max() < 1e-3


def test_shaw_positions_change_scores_and_values():
    names = set(looked("transformer-shaw").vectors("enc", 0))
    assert names == {"q", "k", "v", "bias", "value_bias"}


@every_family
def test_steps_are_those_of_the_teacher(family):
    subject, trace = case(family)
    scores = pass_along(subject.model.eval(), path_of(trace)).log_softmax(-1)
    tokens = path_of(trace).tokens
    assert trace.log_probs == pytest.approx(
        [float(scores[t, token]) for t, token in enumerate(tokens)], abs=1e-4
    )
    best = trace.document["hypotheses"][0]
    assert best["ids"] == [token for token in tokens if token != END]
    assert trace.log_probs == pytest.approx(best["token_scores"], abs=1e-4)
    assert trace.document["reference"]["log_prob"] == pytest.approx(
        subject.score([(TEXT, REFERENCE)])[0], abs=1e-4
    )
    for t, step in enumerate(trace.document["steps"]):
        assert step["entropy"] == pytest.approx(float(-(scores[t].exp() * scores[t]).sum()), abs=1e-4)
        assert step["rank"] == 1 + sum(scores[t] > scores[t, tokens[t]])
        assert [number for number, _ in step["top"]] == scores[t].topk(
            min(20, len(scores[t]))
        ).indices.tolist()


def test_stored_logits_and_the_rest_are_the_whole_distribution(monkeypatch):
    monkeypatch.setattr("seqwright.lens.trace.steps.STORED", 5)
    trace = looked("transformer-sinusoidal")
    ids, logits = trace.logits()
    assert ids.shape == logits.shape == (len(trace.document["steps"]), 5)
    for row, step in zip(logits, trace.document["steps"], strict=True):
        assert np.logaddexp.reduce([*row, step["rest"]]) == pytest.approx(step["total"], abs=1e-4)
        assert [row[k] - step["total"] for k in range(5)] == pytest.approx(
            [p for _, p in step["top"]], abs=1e-4
        )


def test_with_few_symbols_there_is_no_rest():
    assert {step["rest"] for step in looked("rnn-bahdanau").document["steps"]} == {None}


def test_the_lattice_leads_to_the_output():
    trace = looked("transformer-sinusoidal", options=BeamOptions(size=4, n_best=4, max_length=5))
    lattice = trace.document["lattice"]
    assert {len(lattice[name]) for name in ("step", "parent", "token", "score", "fate", "reason")} == {
        len(lattice["log_prob"])
    }
    paths = {}
    for place, parent in enumerate(lattice["parent"]):
        paths[place] = [*paths.get(parent, []), lattice["token"][place]]
        assert lattice["step"][place] == len(paths[place]) - 1
    finished = {
        tuple(paths[place][1:]): lattice["log_prob"][place]
        for place, fate in enumerate(lattice["fate"])
        if lattice["fates"][fate] == "finished"
    }
    for found in trace.document["hypotheses"]:
        tokens = (*found["ids"], *([END] if found["finish_reason"] == "end" else []))
        assert finished[tokens] == pytest.approx(found["log_prob"], abs=1e-4)
    assert paths[0] == [BEGIN]
    assert "rank 5 of 4" in lattice["reasons"]


@pytest.mark.parametrize(
    ("scores", "odd"),
    [
        ([(-1.0, "end"), (-2.0, "end"), (-3.0, "end")], False),
        ([(-2.0, "end"), (-1.0, "end"), (-3.0, "end")], True),
        ([(-2.0, "end"), (-1.0, "length"), (-3.0, "length")], False),  # what ended stands first
        ([(-2.0, "end"), (-1.0, "length"), (-0.5, "length")], True),
    ],
)
def test_alternatives_that_are_more_probable_are_explained(scores, odd):
    document = looked("transformer-sinusoidal").document
    hypotheses = [
        {**found, "log_prob": log_prob, "finish_reason": reason}
        for found, (log_prob, reason) in zip(document["hypotheses"], scores, strict=True)
    ]
    assert ("normalised by length" in str(Trace({**document, "hypotheses": hypotheses}))) is odd


@every_family
def test_an_ablation_is_a_decode_without_the_head(family):
    subject, trace = case(family)
    rows = trace.document["ablations"]
    if family == "rnn-fixed":
        assert rows is None
        assert "no attention head" in trace.why("ablations")
        return
    assert [(row["kind"], row["layer"], row["head"]) for row in rows] == [
        tuple(head) for site in sites(subject.model) for head in site.heads
    ]
    assert all(site.attention.gate is None for site in sites(subject.model))
    for row in (rows[0], rows[-1]):
        with without_heads(subject.model, [(row["kind"], row["layer"], row["head"])]):
            found = subject.search_tokens([LETTERS.encode(TEXT)], [[]], OPTIONS)[0][0]
            scores = pass_along(subject.model.eval(), path_of(trace)).log_softmax(-1)
        assert (row["text"], row["log_prob"]) == (
            LETTERS.decode(found.tokens),
            pytest.approx(found.log_prob, abs=1e-4),
        )
        worth = sum(float(scores[t, token]) for t, token in enumerate(path_of(trace).tokens))
        assert row["output_log_prob"] == pytest.approx(worth, abs=1e-4)
        assert row["changed"] == (row["text"] != trace.output)


def test_ablations_are_skipped_if_slow_or_not_requested(monkeypatch):
    assert "not requested" in looked("transformer-sinusoidal", ablate=False).why("ablations")
    monkeypatch.setattr("seqwright.lens.trace.ablation.TOKENS", 40)
    assert "8 tokens for each of 12 heads would take too long; the limit is 3 tokens" in looked(
        "transformer-sinusoidal", ablate=True
    ).why("ablations")
    monkeypatch.setattr("seqwright.lens.trace.ablation.HEADS", 3)
    assert "each of 12 heads" in looked("transformer-sinusoidal", ablate=True).why("ablations")


@pytest.mark.parametrize(
    "family", ["transformer-sinusoidal", "transformer-rotary", "rnn-bahdanau", "rnn-fixed"]
)
@pytest.mark.parametrize("share", [False, True])
def test_contributions_are_gradients(family, share):
    """Making one embedding ε longer changes log p by ε times its contribution."""
    subject = predictor(family, share=share)
    subject.model.double().eval()
    trace = look(subject, TEXT, options=OPTIONS, ablate=False)
    source, prefix = trace.contributions()
    path, small = path_of(trace), 1e-5
    assert (source.shape, prefix.shape) == (
        (len(path.tokens), len(path.source)),
        (len(path.tokens), len(path.tokens)),
    )
    assert not np.triu(prefix, 1).any()  # the future does not count
    for part, place, found in (("encoder", 2, source[:, 2]), ("decoder", 1, prefix[:, 1])):
        changed = []
        for sign in (1, -1):
            longer = _stretch(subject.model, part, place, 1 + sign * small)
            scores = pass_along(subject.model, path).log_softmax(-1)
            longer.remove()
            changed.append(scores.gather(1, torch.tensor(path.tokens)[:, None])[:, 0])
        assert found == pytest.approx(((changed[0] - changed[1]) / (2 * small)).numpy(), abs=1e-4)


def _stretch(model, part: str, place: int, factor: float):
    """A shared embedding is called for the source first, and then for the prefix."""
    calls: list[int] = []

    def hook(module, inputs, embedded):
        calls.append(1)
        shared = model.encoder.embedding is model.decoder.embedding
        if shared and len(calls) != (1 if part == "encoder" else 2):
            return embedded
        scale = torch.ones(embedded.shape[1], 1, dtype=embedded.dtype)
        scale[place] = factor
        return embedded * scale

    return model.get_submodule(f"{part}.embedding").register_forward_hook(hook)


def test_the_share_of_the_source_is_that_of_its_contributions(monkeypatch):
    subject, trace = case("transformer-sinusoidal")
    source, prefix = (np.abs(part).sum(1) for part in trace.contributions())
    shares = [step["source_share"] for step in trace.document["steps"]]
    assert shares == pytest.approx((source / (source + prefix)).tolist(), abs=1e-5)
    monkeypatch.setattr("seqwright.lens.trace.contributions.TOKENS", 1)  # step by step instead of together
    for one, other in zip(
        trace.contributions(), look(subject, TEXT, options=OPTIONS, ablate=False).contributions(), strict=True
    ):
        assert one == pytest.approx(other, abs=1e-4)


def test_slow_contributions_are_left_out_with_a_reason(monkeypatch):
    monkeypatch.setattr("seqwright.lens.trace.contributions.WORK", 0)
    trace = looked("transformer-sinusoidal")
    assert {step["source_share"] for step in trace.document["steps"]} == {None}
    with pytest.raises(InputError, match=r"steps over .* tokens would take too long"):
        trace.contributions()


@pytest.mark.parametrize("family", ["rnn-bahdanau", "rnn-fixed", "gru-at-once", "mixed"])
def test_gates_lead_from_state_to_state(family):
    subject, trace = case(family)
    path = path_of(trace)
    with torch.no_grad():
        start = subject.model.eval().start(Tokens(torch.tensor([path.source])))
        _, end = subject.model.decoder(path.batch.target.ids, start)
    for layer in range(2):
        cells = trace.cells("decoder", layer)
        for name, before, after in zip(("h", "c"), start.cells, end.cells, strict=False):
            assert cells[name][0] == pytest.approx(before[layer, 0].numpy(), abs=1e-5)
            assert cells[name][-1] == pytest.approx(after[layer, 0].numpy(), abs=1e-4)
        _check_cells(cells)


def _check_cells(cells: dict[str, np.ndarray]) -> None:
    before = cells["h"][:-1]
    if "c" in cells:
        assert cells["c"][1:] == pytest.approx(
            cells["f"] * cells["c"][:-1] + cells["i"] * cells["g"], abs=1e-5
        )
        assert cells["h"][1:] == pytest.approx(cells["o"] * np.tanh(cells["c"][1:]), abs=1e-5)
    else:
        assert cells["h"][1:] == pytest.approx((1 - cells["z"]) * cells["n"] + cells["z"] * before, abs=1e-5)


def test_the_encoder_reads_in_both_directions():
    subject, trace = case("gru-at-once")
    with torch.no_grad():
        hidden = subject.model.eval().encoder(Tokens(torch.tensor([path_of(trace).source]))).hidden[0].numpy()
    forward, backward = (trace.cells("encoder", 1, name)["h"][1:] for name in ("forward", "backward"))
    assert np.concatenate([forward, backward[::-1]], -1) == pytest.approx(hidden, abs=1e-4)
    assert [entry["direction"] for entry in looked("rnn-fixed").document["recurrent"][:2]] == [
        "backward",
        "forward",
    ]


def test_missing_parts_are_explained():
    _, fixed = case("rnn-fixed")
    assert set(fixed.document["absent"]) == {"enc", "dec", "cross", "ablations", "blocks"}
    assert fixed.document["attention"] == []
    reason = "the decoder has no cross-attention; it receives the source as one vector of fixed size"
    assert str(fixed).endswith(f"No alignment: {reason}.")
    with pytest.raises(InputError, match="no cross attention of layer 0: the decoder has no cross-attention"):
        fixed.attention("cross", 0)
    _, plain = case("transformer-sinusoidal")
    assert set(plain.document["absent"]) == {"recurrent"}
    with pytest.raises(InputError, match="no enc attention of layer 2: the layers are 0 to 1"):
        plain.attention("enc", 2)
    with pytest.raises(InputError, match="the model has no recurrent layer"):
        plain.cells("decoder", 0)


@pytest.mark.parametrize("family", ["transformer-sinusoidal", "rnn-bahdanau"])
def test_the_same_input_gives_the_same_bytes(family):
    subject = predictor(family)
    first = look(subject, TEXT, options=OPTIONS, reference=REFERENCE).to_bytes()
    subject.model.train()
    assert look(subject, TEXT, options=OPTIONS, reference=REFERENCE).to_bytes() == first
    assert subject.model.training
    subject.model.output.weight.data[5] += 0.001
    again = json.loads(look(subject, TEXT, options=OPTIONS, reference=REFERENCE).to_bytes())
    assert again["model"]["weights"] != json.loads(first)["model"]["weights"]


@pytest.mark.parametrize("family", ["transformer-shaw", "rnn-bahdanau"])
def test_a_trace_leaves_the_model_unchanged(family):
    subject = predictor(family)
    before = subject.predict(TEXT, beam=3)
    trace = subject.look(TEXT, beam=3, ablate=False)
    assert subject.predict(TEXT, beam=3) == before
    assert trace.output == before[0].text
    assert trace.document["output"]["log_prob"] == pytest.approx(before[0].log_prob, abs=1e-5)
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    assert all(getattr(part, "recorder", None) is None for part in subject.model.modules())


def test_heads_have_their_numbers():
    _, trace = case("transformer-pruned")
    assert [(row["kind"], row["layer"], row["head"]) for row in trace.document["heads"]] == [
        *[("enc", 0, 0), ("enc", 1, 0), ("enc", 1, 1), ("enc", 1, 2)],
        *[("dec", 0, 0), ("dec", 1, 0), ("dec", 1, 1), ("dec", 1, 2)],
        *[("cross", 0, 0), ("cross", 0, 1)],
    ]
    for row in trace.document["heads"]:
        weights = trace.attention(row["kind"], row["layer"])[row["head"]]
        seen = weights if row["kind"] == "dec" else weights[:, :-1]
        assert row["confidence"] == pytest.approx(seen.max(1).mean(), abs=1e-4)
        entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(1).mean()
        assert row["entropy"] == pytest.approx(entropy, abs=1e-3)
        assert 0 <= row["importance"] <= 1


@pytest.mark.parametrize("text", ["l", "q", "\u0000"])
def test_one_token_is_enough(text):
    trace = looked("transformer-alibi", text=text)
    assert trace.attention("enc", 0).shape == (2, 2, 2)
    assert str(trace)
    assert looked("rnn-bahdanau", text=text).attention("cross", 0).shape[2] == 2


def test_a_terminal_shows_fields_as_a_line_of_input_has_them():
    shown = str(looked("transformer-sinusoidal", text=join_fields(["look", ["V", "PST"], "at"])))
    assert shown.startswith("look\\tV;PST\\tat →")
    assert "\\ufdd" not in shown


def test_blank_and_too_long_texts_are_refused():
    for blank in ("", " \n"):
        with pytest.raises(InputError, match="is blank; a trace needs a text"):
            looked("rnn-fixed", text=blank)
    with pytest.raises(InputError, match="has 5,000 tokens, and the model reads at most 4,095"):
        looked("rnn-fixed", text="l" * 5000)


HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u0000\x1b[31m\"'&\\ \U0001f600 \u202eabc"


def test_hostile_text_stays_text(tmp_path):
    trace = looked("transformer-sinusoidal", text=HOSTILE, reference=HOSTILE)
    trace.save(tmp_path / "x.json")
    again = Trace.load(tmp_path / "x.json")
    assert again.document == trace.document
    assert (again.text, again.document["reference"]["text"]) == (HOSTILE, HOSTILE)
    for part in ("source", "reference"):
        assert "".join(piece["text"] for piece in again.document[part]["pieces"]) == HOSTILE
    assert "\x1b" not in str(again)
    assert "\x00" not in str(again)


def test_a_lone_surrogate_survives_the_file(tmp_path):
    trace = looked("transformer-sinusoidal", text="a\ud800b")
    trace.save(tmp_path / "x.json")
    assert Trace.load(tmp_path / "x.json").text == "a\ud800b"


def test_in_a_notebook_it_is_a_frame_with_a_page_in_it():
    trace = looked("rnn-luong-dot", text=HOSTILE)
    assert repr(trace) == str(trace)
    page = trace._repr_html_()
    assert page.startswith('<iframe srcdoc="')
    assert page.count("<") == 2  # its own tags: the page inside is escaped


def test_the_trace_of_a_chosen_output_has_its_probability_and_the_search():
    """One that the search has found is that hypothesis; another one is scored."""
    subject, best = case("transformer-sinusoidal")
    second = best.document["hypotheses"][1]
    trace = looked("transformer-sinusoidal", chosen=second["text"])
    assert trace.output == second["text"]
    assert [step["id"] for step in trace.document["steps"]][: len(second["ids"])] == second["ids"]
    assert trace.document["output"]["log_prob"] == second["log_prob"]
    assert trace.log_probs == pytest.approx(second["token_scores"], abs=1e-4)
    assert trace.document["hypotheses"] == best.document["hypotheses"]
    assert trace.document["lattice"] == best.document["lattice"]
    other = subject.look(TEXT, output=REFERENCE)
    assert other.output == REFERENCE
    (score,) = subject.score([(TEXT, REFERENCE)])
    assert other.document["output"]["log_prob"] == pytest.approx(score, abs=1e-4)
    assert "chosen" in other.why("ablations")
    assert other.document["branches"]
    assert subject.look(TEXT, output="").document["output"]["pieces"][0]["special"] == "end"
