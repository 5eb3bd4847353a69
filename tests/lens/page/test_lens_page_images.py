"""The pages of image classifiers in a real browser: patches, saliency and positions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image
from reading_pages import go, numbers, state, table
from seen_images import HOSTILE, PIXELS, predictor

from seqwright.lens.trace.document import Trace


def veils(page: Any, figure: int) -> list[float]:
    """The opacities over the cells of a figure."""
    found = page.evaluate(
        f"[...document.querySelectorAll('.three figure')[{figure}].querySelectorAll('rect:not(.frame)')]"
        ".map((cell) => cell.getAttribute('fill-opacity'))"
    )
    return [float(one) for one in found]


def veiled(weights: np.ndarray) -> Any:
    return pytest.approx((0.8 * (1 - weights / weights.max())).tolist(), abs=0.01)


def choose(page: Any, label: str, option: str) -> None:
    page.evaluate(
        f"(() => {{ const list = document.querySelector({json.dumps(f'select[aria-label={label}]')});"
        f"list.selectedIndex = [...list.options].findIndex((one) => one.text === {json.dumps(option)});"
        "list.dispatchEvent(new Event('change')); })()"
    )


def means(trace: Trace) -> np.ndarray:
    """The mean over all heads of both layers (places, places)."""
    return np.mean([trace.attention("enc", layer).mean(0) for layer in range(2)], 0)


def test_another_patch_and_another_head_change_the_picture(look):
    trace = predictor("patches").look(PIXELS)
    page = look(trace.document)
    assert page.evaluate("document.body.dataset.ready") == "patches"
    rolled = trace.attention("rollout", 0)[0]
    assert veils(page, 0) == veiled(means(trace).mean(0))
    assert veils(page, 1) == veiled(rolled.mean(0))

    page.click(".three .pickable", 0.6, 0.3)  # row 1, column 2 of 4 × 4, from 0
    page.wait("new URLSearchParams(location.hash.slice(1)).get('q') === '6'")
    page.wait("document.querySelectorAll('.three .frame').length === 4")
    assert veils(page, 0) == veiled(means(trace)[6])
    assert veils(page, 1) == veiled(rolled[6])
    assert "row 2, column 3" in page.text(".body .facts")

    choose(page, "Layer", "1")
    page.wait("document.querySelector('figcaption').textContent === 'Attention, layer 1, all heads'")
    page.click("[data-key='part 1 1']")  # a small picture chooses its head
    page.wait("document.querySelector('figcaption').textContent === 'Attention, layer 1, head 1'")
    weights = trace.attention("enc", 1)[1]
    assert veils(page, 0) == veiled(weights[6])
    assert veils(page, 1) == veiled(rolled[6])

    page.evaluate("document.querySelector('.three .pickable').focus()")
    page.press("ArrowDown")
    page.wait("new URLSearchParams(location.hash.slice(1)).get('q') === '10'")
    page.wait("document.querySelector('.body .facts').textContent.includes('row 3, column 3')")
    assert veils(page, 0) == veiled(weights[10])
    assert (state(page)["layer"], state(page)["head"]) == ("1", "1")
    rows = np.array([numbers(row) for row in table(page)])
    assert rows[:, 2] == pytest.approx(weights[10], abs=1e-3)
    assert rows[:, 3] == pytest.approx(rolled[10], abs=1e-3)


def test_a_class_token_is_the_first_place_to_look_from(look):
    trace = predictor("class_token", "first").look(PIXELS)
    page = look(trace.document)
    assert veils(page, 0) == veiled(means(trace)[0, 1:])
    assert "From the class token" in page.text(".body .facts")
    assert f"{100 * means(trace)[0, 0]:.0f}\u00a0% is on the class token" in page.text(".body .facts")
    page.click(".three .pickable", 0.1, 0.9)
    page.wait("new URLSearchParams(location.hash.slice(1)).get('q') === '3'")
    page.wait("document.querySelectorAll('.three .frame').length === 4")
    assert veils(page, 0) == veiled(means(trace)[3, 1:])


@pytest.mark.parametrize("encoder", ["resnet", "cnn"])
def test_convolutions_have_saliency_alone(look, encoder):
    trace = predictor(encoder).look(PIXELS)
    page = look(trace.document)
    assert page.evaluate("document.body.dataset.ready") == "saliency"
    names = page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)")
    assert not {"Patches", "Positions", "Regions"} & set(names)
    slopes = trace.saliency()[trace.output].flatten()
    shown = [float(row[2].replace("−", "-")) for row in table(page)]
    assert max(slopes) > 0.01
    assert shown == pytest.approx(slopes.tolist(), abs=1e-4)


def test_another_label_changes_the_saliency(look):
    trace = predictor("patches").look(PIXELS)
    page = look(trace.document)
    go(page, "saliency")
    drawn = "document.querySelectorAll('.three figure')[1].querySelectorAll('image')[1].getAttribute('href')"
    before = page.evaluate(drawn)
    other = next(name for name in trace.saliency() if name != trace.output)
    choose(page, "Label", other)
    page.wait(f"{drawn} !== {json.dumps(before)}")
    assert page.text(".three figcaption .now") == other
    page.click(f"[data-key='label {trace.document['saliency']['labels'][0]}']")
    page.wait(f"{drawn} === {json.dumps(before)}")


def test_markup_in_a_label_and_in_a_file_name_is_text(look, tmp_path):
    photo = tmp_path / "<img src=x onerror=document.body.dataset.hacked=1>.png"
    Image.fromarray(PIXELS).save(photo)
    page = look(predictor("patches").look(photo).document)
    assert page.text(".tokens.source") == photo.name
    go(page, "saliency")
    choose(page, "Label", HOSTILE)
    page.wait(f"document.querySelector('.three figcaption .now').textContent === {json.dumps(HOSTILE)}")
    assert HOSTILE in page.text(".strip")
    assert page.evaluate("document.body.dataset.hacked ?? null") is None


def test_positions_are_tiles_of_cosines(look):
    trace = predictor("class_token").look(PIXELS)
    page = look(trace.document)
    go(page, "positions")
    assert page.count(".three > figure:first-child image") == 4
    page.click(".three > figure:first-child .pickable", 0.75, 0.25)
    page.wait("document.querySelector('.body .now').textContent === 'row 1, column 2'")
    cosines = trace.position_similarity()[1]
    shown = [numbers([row[2]])[0] for row in table(page)]
    assert shown == pytest.approx(cosines.tolist(), abs=1e-3)


def test_positions_that_are_not_learned_say_so(look):
    page = look(predictor("sinusoidal").look(PIXELS).document)
    go(page, "positions")
    assert "does not learn positions" in page.text(".body")


def test_attention_pooling_is_drawn_over_the_image(look):
    trace = predictor("resnet", "attention").look(PIXELS)
    page = look(trace.document)
    assert page.evaluate("document.body.dataset.ready") == "regions"
    weights = trace.attention("pool", 0)[0, 0]
    rows = [float(row[2]) for row in table(page)]
    assert rows == pytest.approx(weights.tolist(), abs=1e-3)


@pytest.mark.parametrize("encoder", ["hybrid", "cnn"])
def test_every_view_of_a_classifier_is_drawn(look, encoder):
    page = look(predictor(encoder).look(PIXELS).document)
    for place in range(page.count("[role=tab]")):
        tab = f"document.querySelectorAll('[role=tab]')[{place}]"
        page.evaluate(f"{tab}.click()")
        page.wait(f"{tab}.ariaSelected === 'true'")
        page.wait("document.querySelector('.body').childElementCount > 0")
        assert "could not be drawn" not in page.text(".body")
