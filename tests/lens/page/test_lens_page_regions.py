"""The page of a captioner in a real browser: the image lit by the weights of each word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from reading_pages import drag, go, state, table

from seqwright import build_model
from seqwright.data.images import to_uri
from seqwright.data.tokenizer import train_tokenizer
from seqwright.errors import ConfigError
from seqwright.lens.trace.document import Trace
from seqwright.prediction.predictor import Predictor
from seqwright.tasks.image_captioning import ImageCaptioning

HOSTILE = "<script>document.body.dataset.hacked=1</script>"
WORDS = train_tokenizer("symbols", [f"a dog on grass {HOSTILE}"] * 3)
DECODERS: dict[str, Any] = {
    "transformer": {"kind": "transformer", "size": 16, "hidden": 16, "heads": 2, "layers": 2},
    "xu2015": {"kind": "rnn", "size": 16, "query": "previous", "feed": "context", "gate": True},
    "vinyals2015": {"kind": "rnn", "size": 16, "attention": "none", "feed": "nothing"},
}
ENCODERS = {
    "cnn": {"kind": "cnn", "size": 16},
    "patches": {"kind": "patches", "patch": 4, "class_token": True},
}


def looked(decoder: str = "transformer", encoder: str = "cnn", seed: int = 3, **options: Any) -> Trace:
    """An untrained model with large weights, whose output depends on its input."""
    task = ImageCaptioning(WORDS, 16, 3, longest=4, typical="a dog")
    torch.manual_seed(seed)
    description = {"encoder": ENCODERS[encoder], "decoder": DECODERS[decoder], "size": 16}
    model = build_model(description, **task.facts()).eval()
    for name, weight in model.weights().items():
        if weight.dim() > 1 and "embedding" not in name:
            weight.mul_(3.0)
    pixels = np.random.default_rng(1).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    return Predictor(model, task).look(to_uri(pixels), beam=2, **options)


def opacities(page: Any) -> list[float]:
    found = page.evaluate(
        "[...document.querySelectorAll('.regions > div:first-child rect')]"
        ".map((cell) => cell.getAttribute('fill-opacity'))"
    )
    return [float(one) for one in found]


def test_a_chosen_caption_is_looked_into():
    trace = looked(output="a dog on grass")
    assert trace.output == "a dog on grass"
    assert [piece["text"] for piece in trace.document["output"]["pieces"]] == ["a", "dog", "on", "grass", ""]
    assert trace.attention("cross", 0).shape[1] == 5


@pytest.mark.parametrize(("decoder", "encoder"), [("transformer", "patches"), ("xu2015", "cnn")])
def test_the_heat_map_follows_the_scrubber(look, decoder, encoder):
    trace = looked(decoder, encoder)
    page = look(trace.document)
    assert page.evaluate("document.body.dataset.ready") == "regions"
    layers = range(trace.layers("cross"))
    mean = np.mean([trace.attention("cross", layer).mean(0) for layer in layers], 0)[:, -16:]  # (T, cells)
    for t in (0, len(mean) - 1):
        if t:
            drag(page, "Step", t)
            page.wait(f"new URLSearchParams(location.hash.slice(1)).get('t') === '{t}'")
        wanted = 0.8 * (1 - mean[t] / mean[t].max())
        page.wait(f"document.querySelector('.region.now').dataset.key === 'region {t}'")
        assert opacities(page) == pytest.approx(wanted.tolist(), abs=0.01)
    assert page.count(".strip .region") == len(mean)
    page.click("[data-key='region 0']")
    page.wait("document.querySelector('.region.now').dataset.key === 'region 0'")
    assert state(page).get("t", "0") == "0"
    assert [float(row[2]) for row in table(page)] == pytest.approx(mean[0].tolist(), abs=1e-3)


def test_the_image_is_embedded_and_the_other_views_are_drawn(look):
    trace = looked("transformer", "patches")
    page = look(trace.document)
    uri = trace.document["image"]["uri"]
    assert uri.startswith("data:image/png;base64,")
    assert page.evaluate("document.querySelector('.thumbnail').src") == uri
    assert page.evaluate("document.querySelector('.thumbnail').naturalWidth") == 16
    names = page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)")
    of_cells = ["Regions", "Patches", "Alignment", "Heads", "Next token", "Positions"]
    assert names == [*of_cells, "Computation", "Compare", "Training"]
    for place in range(1, len(names) + 1):
        page.press(str(place))
        page.wait(f"document.querySelectorAll('[role=tab]')[{place - 1}].ariaSelected === 'true'")
        page.wait("document.querySelector('.body').childElementCount > 0")
        assert "could not be drawn" not in page.text(".body")


def test_markup_in_a_caption_is_text(look):
    trace = next(found for seed in range(50) if HOSTILE in (found := looked("xu2015", seed=seed)).output)
    page = look(trace.document)
    assert HOSTILE in page.text(".tokens.output").replace(" ", "")
    assert HOSTILE in page.text(".strip")
    assert page.evaluate("document.body.dataset.hacked ?? null") is None


def test_a_model_without_attention_says_so(look):
    page = look(looked("vinyals2015").document)
    go(page, "regions")
    assert "the decoder has no cross-attention" in page.text(".body").lower()


def test_a_reference_is_refused():
    task = ImageCaptioning(WORDS, 16, 3, longest=4, typical="a dog")
    description = {"encoder": ENCODERS["cnn"], "decoder": DECODERS["xu2015"]}
    predictor = Predictor(build_model(description, **task.facts()), task)
    with pytest.raises(ConfigError, match="reference: this task does not score one"):
        predictor.look(np.zeros((16, 16, 3), np.uint8), reference="a dog")
