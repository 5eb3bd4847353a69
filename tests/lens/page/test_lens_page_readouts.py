"""The page of a classifier and of a language model in a real browser: their own views, and no others."""

from __future__ import annotations

import math

import pytest
from read_off import BLANKS, SENTENCES, TEXT, case, classifier, hierarchical, masked_model, tagger
from read_off import TRANSFORMER as SMALL
from reading_pages import go, state, table, unpack

HOSTILE = "<script>document.body.dataset.hacked = 1</script> & <img src=x onerror=alert(1)>"


def tabs(page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)")


def test_a_classifier_has_the_views_that_apply(look):
    _, trace = case("attention")
    page = look(trace.document)
    names = ["Decision", "Attention", "Heads", "Prediction", "Computation"]
    assert tabs(page) == [*names, "Compare", "Training"]
    assert page.evaluate("document.body.dataset.ready") == "decision"
    assert page.text(".tokens.output").strip() == trace.output
    assert page.count("#step") == 0  # there is one step


def test_a_language_model_has_the_views_that_apply(look):
    _, trace = case("language")
    page = look(trace.document)
    names = ["Surprise", "Attention", "Heads", "Next token", "Contributions", "Computation"]
    assert tabs(page) == [*names, "Compare", "Training"]
    assert page.evaluate("document.querySelector('.tokens.given').innerText").startswith(TEXT)
    assert page.text(".prose") == TEXT


@pytest.mark.parametrize("name", ["attention", "mean", "rnn", "language", "lstm"])
def test_every_view_is_drawn_or_explains_itself(look, name):
    _, trace = case(name)
    page = look(trace.document)
    for place in range(1, len(tabs(page)) + 1):
        page.press(str(place))
        page.wait(f"document.querySelectorAll('[role=tab]')[{place - 1}].ariaSelected === 'true'")
        page.wait("document.querySelector('.body').childElementCount > 0")
        assert "could not be drawn" not in page.text(".body")


def test_the_decision_shows_weights_and_contributions(look):
    _, trace = case("attention")
    page = look(trace.document)
    labels = page.evaluate("[...document.querySelectorAll('.carried h3')].map((one) => one.textContent)")
    assert labels == ["Attention pooling", "Gradient × input"]
    assert "attention alone does not prove a cause" in page.text(".body")
    weights, effects = trace.attention("pool", 0)[0, 0], trace.contributions()[0][0]
    rows = table(page)
    assert [float(row[1]) for row in rows] == pytest.approx(weights.tolist(), abs=1e-4)
    assert [float(row[2].replace("−", "-").replace("e−", "e-")) for row in rows] == pytest.approx(
        effects.tolist(), abs=1e-3
    )


def test_words_sum_their_tokens(look):
    _, trace = case("attention")
    page = look(trace.document, at="#unit=words")
    rows = table(page)
    assert [row[0] for row in rows] == ["look", "at", "the", "↵", "glass", "⟨end⟩"]
    assert sum(float(row[1]) for row in rows) == pytest.approx(1, abs=1e-3)


def test_words_of_sentences_have_the_weight_of_both_levels(look):
    trace = hierarchical().look(SENTENCES)
    page = look(trace.document)
    product = trace.attention("sentences", 0)[0, 0] @ trace.attention("words", 0)[0]
    assert [float(row[1]) for row in table(page)] == pytest.approx(product.tolist(), abs=1e-3)
    go(page, "alignment")
    assert "Attention to sentences" in page.text(".controls")


def test_sentences_have_the_numbers_of_both_levels(look):
    trace = hierarchical().look(SENTENCES)
    page = look(trace.document, at="#view=sentences&unit=words")
    assert tabs(page)[:2] == ["Decision", "Sentences"]
    outer, inner = trace.attention("sentences", 0)[0, 0], trace.attention("words", 0)[0]
    shown = page.evaluate("[...document.querySelectorAll('.levels .number')].map((one) => one.innerText)")
    assert shown == [f"{weight:.3f}" for weight in outer]
    rows = table(page)
    lines = [[row[2] for row in rows if row[0] == str(number)] for number in (1, 2, 3)]
    assert [" ".join(line) for line in lines] == SENTENCES.splitlines()
    for number, weights in enumerate(inner):
        own = [row for row in rows if row[0] == str(number + 1)]
        assert sum(float(row[3]) for row in own) == pytest.approx(float(weights.sum()), abs=1e-3)
        for row in own:
            assert float(row[1]) == pytest.approx(float(outer[number]), abs=1e-3)
            assert float(row[4]) == pytest.approx(float(outer[number]) ** 0.5 * float(row[3]), abs=1e-3)


def test_a_word_ends_with_its_sentence(look):
    """A line break of HTML separates no words in the text, but sentences."""
    page = look(hierarchical().look("look at<br />the glass").document, at="#view=sentences&unit=words")
    assert [row[2] for row in table(page)] == ["look", "at", "the", "glass"]


def test_sentences_of_a_hostile_text_are_text(look):
    page = look(
        hierarchical().look("look <img src=x onerror=alert(1)>\nthe glass").document, at="#view=sentences"
    )
    chips = page.evaluate("[...document.querySelectorAll('.levels .chip')].map((one) => one.title[0])")
    assert "<img" in "".join(chips)
    assert page.count(".levels img") == 0


def test_the_summary_shades_no_tokens_by_the_weights_of_sentences(look):
    page = look(hierarchical().look(SENTENCES).document)
    shaded = "[...document.querySelectorAll('.tokens.source .chip')].filter((one) => one.style.background)"
    assert page.evaluate(f"{shaded}.length") == 0


def test_without_attention_pooling_the_page_says_so(look):
    _, trace = case("mean")
    page = look(trace.document)
    assert "The head reads the mean of all tokens: each has the same weight." in page.text(".body")
    assert page.text(".carried h3") == "Gradient × input"


def test_the_alignment_explains_why_it_shows_self_attention(look):
    for name, part in (("attention", "decoder"), ("language", "encoder")):
        page = look(case(name)[1].document, at="#view=alignment")
        assert f"This model has no {part}, so no output is aligned with a source." in page.text(".body")
        assert "self-attention" in page.text(".body")


@pytest.mark.parametrize("name", ["lstm"])
def test_a_model_without_attention_says_why(look, name):
    page = look(case(name)[1].document, at="#view=alignment")
    assert "keeps its output in its state" in page.text(".notice")


def test_labels_have_their_probabilities_and_no_sliders(look):
    subject, trace = case("attention")
    page = look(trace.document, at="#view=next")
    assert page.count(".slider") == 0
    shown = {row[0]: float(row[1]) for row in table(page)}
    assert shown == pytest.approx(dict(subject.predict(TEXT)[0].probabilities), abs=1e-3)


def test_surprise_is_the_score_of_each_token(look):
    subject, trace = case("language")
    page = look(trace.document)
    scored = subject.score(TEXT)
    assert [float(row[3]) for row in table(page)] == pytest.approx(
        [-score for score in scored.token_scores], abs=1e-3
    )
    page.press("x")
    page.wait("document.querySelector('.prose')")
    assert f"perplexity {scored.perplexity:.1f}" in page.text(".body")
    page.point(".prose .token:nth-of-type(3)")
    page.wait("document.querySelector('.readout').textContent.startsWith('o:')")
    assert f"{-scored.token_scores[2]:.2f} nats" in page.text(".readout")
    page.click(".prose .token:nth-of-type(3)")
    page.wait("location.hash.includes('t=2')")


def test_the_sliders_reshape_the_stored_candidates(look):
    _, trace = case("language")
    page = look(trace.document, at="#view=next&t=3&temperature=0.5&topk=4")
    (values,) = [unpack(trace.document["logits"]["values"])[3]]
    powers = [math.exp(2 * value) for value in values[:4]]
    shown = [float(row[2]) for row in table(page)]
    assert shown[:4] == pytest.approx([power / sum(powers) for power in powers], abs=1e-3)
    assert set(shown[4:]) == {0}
    page.press("x")
    page.wait("document.querySelector('.facts')")
    assert f"The sliders act on the {len(values)} most probable tokens" in page.text(".facts")


def test_keys_move_through_a_text(look):
    page = look(case("language")[1].document)
    assert "most probable" in page.text(".readout")  # a text begins with what comes after it
    page.press("Home")
    page.wait("location.hash.includes('t=0')")
    page.press("ArrowRight")
    page.wait("location.hash.includes('t=1')")
    page.press("4")
    page.wait("document.body.dataset.ready === 'next'")
    assert state(page)["t"] == "1"


def test_a_head_can_be_switched_off(look):
    _, trace = case("attention")
    row = trace.document["ablations"][0]
    page = look(trace.document, at=f"#view=heads&off=enc.{row['layer']}.{row['head']}")
    assert row["text"] in page.text("#without")
    assert page.count(".walls section") == 1  # there is no decoder to show
    page = look(case("language")[1].document, at="#view=heads&off=dec.0.0")
    assert "Log p of the text" in page.text("#without")


@pytest.mark.parametrize("view", ["decision", "alignment", "next", "heads"])
def test_markup_in_a_text_and_in_a_label_is_text(look, view):
    subject = classifier(SMALL, "attention")
    page = look(subject.look(HOSTILE).document, at=f"#view={view}")
    assert page.evaluate("document.body.dataset.hacked === undefined")
    assert page.count("main img[src=x]") + page.count("main script") + page.count("main b b") == 0
    go(page, "next")
    assert "<b>mild</b>" in page.text(".body")


def test_a_page_fits_a_phone(look):
    for name in ("attention", "language"):
        page = look(case(name)[1].document, width=390)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_two_language_models_can_be_compared(look):
    page = look(case("language")[1].document, case("lstm")[1].document, at="#view=compare")
    assert len(table(page)) == len(TEXT) + 1


def test_the_blanks_of_a_text_are_its_steps(look):
    trace = masked_model().look(BLANKS)
    page = look(trace.document)
    assert tabs(page)[0] == "Decision"
    assert page.text(".panel .big").startswith("Blank 1")
    page.press("ArrowRight")
    page.wait("document.querySelector('.panel .big').textContent.startsWith('Blank 2, [MASK]: ')")
    effects = trace.contributions()[0][1]
    assert [float(row[1].replace("−", "-")) for row in table(page)] == pytest.approx(
        effects.tolist(), abs=1e-3
    )
    go(page, "next")
    assert "The probability of each token" in page.text(".lead")


def test_the_words_of_a_tagger_are_its_steps(look):
    trace = tagger(spelled=True).look(("look", "at", "glass"))
    page = look(trace.document)
    assert page.text(".panel .big").startswith("Word 1")
    assert page.text(".tokens.output").split() == trace.output.split()
    page.press("End")
    page.wait("document.querySelector('.panel .big').textContent.startsWith('Word 3, glass: ')")
    assert page.text(".tokens.source .now") == "glass"
    go(page, "next")
    assert "The probability of each tag" in page.text(".lead")
