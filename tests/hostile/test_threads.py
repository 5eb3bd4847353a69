"""One predictor in many threads: every output is that of a single thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import pytest
from tiny_runs import make_run, words

from seqwright import load
from seqwright.prediction.predictor import BLOCK


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("threads") / "run", model={"dropout": 0.5})


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_eight_threads_predict_and_look(folder, training):
    """`look` records inside the model, and a model in training mode is switched to evaluation and back."""
    model = load(folder)
    model.model.train(training)
    inputs = words(24, seed=3)
    expected = {text: (model(text), model.predict(text)[0].log_prob) for text in inputs}

    def work(number: int) -> list[tuple[str, float]]:
        text = inputs[number % len(inputs)]
        if number % 3 == 0:
            trace = model.look(text, ablate=number % 2 == 0)
            return [(trace.output, expected[text][1])]
        outputs = model.predict([text, *inputs[:2]])
        return [(outputs[0].text, outputs[0].log_prob)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(96)))
    for number, outputs in enumerate(found):
        text, log_prob = expected[inputs[number % len(inputs)]]
        assert outputs[0][0] == text
        assert outputs[0][1] == pytest.approx(log_prob, abs=1e-5)
    assert model.model.training is training


def test_look_leaves_no_trace_in_the_model(folder):
    model = load(folder)
    before = {
        name: (type(part), dict(vars(part)).get("recorder")) for name, part in model.model.named_modules()
    }
    model.look("abc")
    after = {
        name: (type(part), dict(vars(part)).get("recorder")) for name, part in model.model.named_modules()
    }
    assert after == before


def test_a_stream_reads_its_inputs_in_blocks(folder):
    read = []

    def endless():
        for number in count():
            read.append(number)
            yield "ab"

    outputs = list(islice(load(folder).stream(endless()), 3))
    assert len(outputs) == 3
    assert len(read) == BLOCK
