"""Corrections: only those that a training can use, each on a line of its own."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import client

from seqwright.errors import WriteError
from seqwright.serve.corrections import add_correction


@pytest.fixture(scope="module")
def server(run, labels, tags, story, waves, tmp_path_factory):
    home = tmp_path_factory.mktemp("corrected")
    with client(
        *(shutil.copytree(each, home / each.name) for each in (run, labels, tags, story, waves))
    ) as found:
        yield found


def stored(server, name):
    path = server.app.models.all[name].predictor.folder / "corrections.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("model", "given", "expected", "says"),
    [
        (
            "story",
            "alpha",
            "beta",
            "story is a run of language_modeling, which cannot be trained on corrections",
        ),
        (
            "waves",
            {"target": [1, 2]},
            "x",
            "waves is a run of forecasting, which cannot be trained on corrections",
        ),
        ("capitals", {"source": ["a", "b"]}, "AB", "a correction needs 1 source field, not 2"),
        ("capitals", "abc", " \n", "a correction needs text under 'target'"),
        ("labels", {"text": ["abc", "d"]}, "a", "a correction needs one text under 'text', not 2"),
        ("tags", "mr smith", "PER", "2 words and 1 tag; each word needs one tag"),
    ],
)
def test_what_a_training_cannot_use_is_refused(server, model, given, expected, says):
    answer = server.post("/v1/corrections", json={"model": model, "input": given, "expected": expected})
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert stored(server, model) == []


def test_corrections_of_several_clients_at_a_time_are_whole_lines(server):
    texts = [f"{'abc' * 50}{number}" for number in range(24)]

    def correct(text):
        body = {"model": "capitals", "input": text, "expected": text.upper(), "output": "?"}
        return server.post("/v1/corrections", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(correct, texts)) == {200}
    found = stored(server, "capitals")
    assert sorted((each["source"], each["target"]) for each in found) == sorted(
        (text, text.upper()) for text in texts
    )


def test_the_lock_keeps_the_file_within_its_size(tmp_path, monkeypatch):
    """Between the look at the size and the write, no other writer comes."""
    whole = os.fstat

    def slow(descriptor):
        found = whole(descriptor)
        time.sleep(0.02)
        return found

    monkeypatch.setattr(os, "fstat", slow)

    def add(number):
        try:
            add_correction(tmp_path, {"source": "abc", "target": "ABC"}, None, 200)
        except WriteError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        written = sum(pool.map(add, range(8)))
    text = (tmp_path / "corrections.jsonl").read_bytes()
    assert len(text) <= 200
    assert written == text.count(b"\n") >= 2
