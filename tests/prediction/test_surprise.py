"""The command `score`: the surprise of each token, as numbers and as a page."""

from __future__ import annotations

import html
import json
import random
import re
from pathlib import Path

import pytest

from seqwright import cli, load
from seqwright.errors import InputError
from seqwright.prediction import surprise as module
from seqwright.prediction.surprise import surprise

SMALL = ["model.layers=1", "model.size=16", "model.hidden=32", "model.heads=2", "training.accumulate=1"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text and a language model of it."""
    folder, draw = tmp_path_factory.mktemp("surprise"), random.Random(1)
    lines = (" ".join(draw.choices(("tyger", "burning", "bright", "<b>", "night"), k=8)) for _ in range(300))
    (folder / "poem.txt").write_text("".join(f"{number} {line}\n" for number, line in enumerate(lines)))
    options = ["--steps", "3", "--threads", "1", "--quiet", "training.validations=1", *SMALL]
    assert cli.main(["train", str(folder / "poem.txt"), "--out", str(folder / "lm"), *options]) == 0
    return folder


def test_the_numbers_are_those_of_an_evaluation(home: Path) -> None:
    model = load(home / "lm")
    found, judged = surprise(model, str(home / "poem.txt")), model.evaluate(str(home / "poem.txt"))
    assert found.metrics == pytest.approx(judged.metrics, rel=1e-5)
    text = (home / "poem.txt").read_text()
    assert found.scored.text == "".join(found.scored.tokens) == text
    assert found.scored.tokens[-1] == ""  # the end of the document


def test_the_strangest_tokens_come_first_with_their_surroundings(home: Path) -> None:
    found = surprise(load(home / "lm"), "tyger burning bright")
    nats, before, token, after = next(found.places())
    assert nats == -min(found.scored.token_scores)
    assert before + token + after == "tyger burning bright"
    assert [place[0] for place in found.places()] == sorted(
        (place[0] for place in found.places()), reverse=True
    )
    assert f"{nats:5.2f} nats" in str(found)


def test_the_page_shades_every_token_and_runs_nothing(home: Path, tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["score", str(home / "lm"), str(home / "poem.txt"), "-o", str(page)]) == 0
    text = page.read_text()
    assert "<script" not in text
    assert "default-src 'none'" in html.unescape(text)
    section = text[text.index("<h2>Text</h2>") : text.index("<h2>Most surprising</h2>")]
    tokens = re.findall(r'<i(?: class="s[1-9]")? title="[0-9.]+ nats">(.*?)</i>', section, re.S)
    assert "".join(map(html.unescape, tokens)) == (home / "poem.txt").read_text() + "∎"


def test_a_long_text_is_cut_on_the_page_and_refused_beyond_the_limit(home: Path, monkeypatch) -> None:
    model = load(home / "lm")
    monkeypatch.setattr(module, "SHOWN", 5)
    page = surprise(model, "tyger burning").page("lm")
    assert "The page shows the first 5 tokens" in page
    monkeypatch.setattr(module, "LONGEST", 1000)
    with pytest.raises(InputError, match="more than 1,000 characters; score a part of it, or use evaluate"):
        surprise(model, str(home / "poem.txt"))


def test_json_has_every_token(home: Path, capsys) -> None:
    assert cli.main(["score", str(home / "lm"), "tyger ☃", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["text"], len(found["tokens"]), len(found["token_scores"])) == ("tyger ☃", 7, 7)
    assert found["log_prob"] == pytest.approx(sum(found["token_scores"]))
    assert "perplexity" in found["metrics"]
    assert "unknown to the model: '☃'" in printed.err


def test_what_has_no_surprise_is_refused(home: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    for text, message in ((" ", "the text is blank"), (str(tmp_path / "empty.txt"), "has no text")):
        assert cli.main(["score", str(home / "lm"), text]) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "labels.tsv").write_text("".join(f"text {k}\t{'ab'[k % 2]}\n" for k in range(60)))
    train = ["train", str(tmp_path / "labels.tsv"), "--out", str(tmp_path / "run"), "--steps", "1", "--quiet"]
    assert cli.main([*train, "--threads", "1", "training.accumulate=1"]) == 0
    capsys.readouterr()
    assert cli.main(["score", str(tmp_path / "run"), "text"]) == 2
    assert "is not a language model" in capsys.readouterr().err
