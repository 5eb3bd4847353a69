"""Limits of options and inputs: no request decides alone how long a worker computes."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import fields

import pytest
from forecasts import forecaster
from serving import client

from seqwright.data.task import TASKS, task_class
from seqwright.search.request import SearchRequest
from seqwright.serve.limits import Limits, Refusal
from seqwright.serve.models import BOUNDS, Served

FREE = {"count", "seed", "top_k"}  # numbers that do not decide how long a prediction takes
HUGE = 10**9


@pytest.mark.parametrize("name", TASKS.names())
def test_every_option_that_is_a_number_has_a_limit(name):
    found = [
        each.name
        for each in inspect.signature(task_class(name).request).parameters.values()
        if each.annotation in ("int", "int | None")
    ]
    assert not {*found} - BOUNDS.keys() - FREE
    searched = {field.name for field in fields(SearchRequest) if field.type in ("int", "int | None")}
    assert not searched - BOUNDS.keys() - FREE


@pytest.fixture(scope="module")
def waves():
    """A forecaster of two columns, without a worker."""
    return Served("waves", forecaster("nlinear"), Limits(numbers=10_000), None)


@pytest.mark.parametrize("options", [{name: HUGE} for name in BOUNDS], ids=repr)
def test_a_huge_option_is_refused(waves, options):
    (name,) = options
    with pytest.raises(Refusal, match=f"{name} is {HUGE}; it must be at most"):
        waves.request(options, 1)


def test_a_forecast_has_a_longest_horizon(waves):
    assert waves.request({"horizon": 4096}, 1).horizon == 4096


def test_numbers_of_a_history_are_not_characters(waves):
    def encode(steps):
        return asyncio.run(waves.encode([{"target": [[0.5, 1.5]] * steps}]))

    assert len(encode(5000)) == 1
    with pytest.raises(Refusal, match="input 1 has 10002 numbers; at most 10000"):
        encode(5001)


def test_the_last_time_of_a_history_is_checked(waves):
    described = waves.describe()
    assert {key: described[key] for key in ("columns", "known", "horizon")} == {
        "columns": ["small", "large"], "known": [], "horizon": 12,
    }  # fmt: skip
    given = {"start": "2024-05-01 00:00", "end": "2024-05-01 04:00", "target": [[1, 2]] * 5}
    (row,) = asyncio.run(waves.encode([given]))
    assert row.example.when == "2024-05-01 05:00:00"
    words = "the history has 4 steps, but from start to end there are 5 of one hour; give each step once"
    with pytest.raises(Refusal, match=words):
        asyncio.run(waves.encode([{**given, "target": [[1, 2]] * 4}]))
    with pytest.raises(Refusal, match="end: “soon” is not a time"):
        asyncio.run(waves.encode([{**given, "end": "soon"}]))


@pytest.mark.parametrize("numbers", [["x", 2], [{}, 2], [10**400, 2]])
def test_a_history_without_numbers_is_an_invalid_request(waves, numbers):
    target = {"small": numbers, "large": [1, 2]}
    with pytest.raises(Refusal, match="a history needs a target of numbers") as refusal:
        asyncio.run(waves.encode([{"target": target}]))
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prefix": "A" * 30_000}, "prefix has 30000 characters; at most 20000"),
        ({"prefix": ["A" * 30_000]}, "prefix has 30000 characters; at most 20000"),
        ({"prefix": ["A"] * 300}, "prefix has 300 values; at most 256"),
    ],
)
def test_texts_of_options_have_limits(run, options, says):
    with client(run) as server:
        answer = server.post("/v1/predict", json={"inputs": ["abc"], "options": options})
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
