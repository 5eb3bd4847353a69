"""An ensemble on its way through the house: trained, loaded, looked into, and refused where it must be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import seqwright
from seqwright.cli import main
from seqwright.errors import ConfigError
from seqwright.lens.heads.analysis import analyse
from seqwright.runs.report.wording import family


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two small Transformers, trained for a few steps."""
    home = tmp_path_factory.mktemp("ensemble")
    draw = random.Random(0)
    words = {"".join(draw.choices("abcdefgh", k=draw.randint(3, 6))) for _ in range(300)}
    (home / "pairs.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in sorted(words)))
    small = ["model.size=16", "model.layers=1", "model.heads=2", "model.hidden=16", "training.tokens=256"]
    several = ["model.preset=tiny-words", "model.kind=ensemble", "model.members=2"]
    out = home / "run"
    train = ["train", str(home / "pairs.tsv"), "--steps", "20", "--out", str(out)]
    assert main([*train, "--threads", "1", *several, *small]) == 0
    return out


def test_what_it_says_is_the_mean_of_its_members(run):
    whole = seqwright.load(run)
    assert whole.members == 2
    pairs = [("abc", ""), ("fgh", "")]  # of which the only token is the end
    alone = torch.tensor([whole.member(number).score(pairs) for number in (1, 2)])
    assert not torch.allclose(*alone)
    torch.testing.assert_close(torch.tensor(whole.score(pairs)).exp(), alone.exp().mean(0))
    first = whole.member(1)
    assert (first.members, first.member()) == (1, first)


def test_the_folder_is_whole_and_says_what_it_is(run, capsys):
    assert main(["verify", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "An ensemble of 2 models, each a Transformer encoder-decoder" in page


@pytest.mark.parametrize("number", ["1", "2"])
def test_looking_is_into_one_member_and_says_so(run, number, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["look", str(run), "abc", "--member", number, "-o", str(page)]) == 0
    assert f"is an ensemble of 2 models; this is model {number} alone" in capsys.readouterr().err
    whole = seqwright.load(run)
    found, alone = whole.look("abc", member=int(number)), whole.member(int(number)).look("abc")
    assert (found.document["model"].pop("member"), alone.document["model"].pop("member")) == (
        [int(number), 2],
        None,
    )
    assert found.to_json() == alone.to_json()


def test_a_member_that_is_not_there_is_named(run, capsys):
    assert main(["look", str(run), "abc", "--member", "3"]) == 2
    assert f"{run} has no member 3, only 2 members" in capsys.readouterr().err
    assert main(["look", str(run), "--learning", "--member", "2"]) == 2
    assert "--member cannot be combined with --learning" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no member 0"):
        seqwright.load(run).member(0)


def test_heads_are_those_of_one_member_and_none_are_removed(run, tmp_path, capsys):
    assert main(["heads", str(run), "--pairs", "5"]) == 0
    assert "this is model 1 alone" in capsys.readouterr().err
    out = str(tmp_path / "small")
    assert main(["heads", str(run), "--pairs", "5", "--prune", "1", "--out", out]) == 2
    told = capsys.readouterr().err
    assert "train one with model.kind=encoder_decoder" in told
    assert "roles" not in told  # before the work begins
    with pytest.raises(ConfigError, match=r"ensemble of 2 models has no heads.*member\(1\)"):
        analyse(seqwright.load(run), [("abc", "cba")])


def test_a_training_keeps_traces_of_its_first_member(run):
    assert list((run / "traces" / "probe_1").glob("step_*.json"))


def test_its_kind_in_words():
    assert family({"preset": "tiny-rnn", "kind": "ensemble", "members": 3}) == (
        "ensemble of 3 models, each an RNN encoder-decoder"
    )
    assert family({"preset": "tiny", "kind": "ensemble"}).startswith("ensemble of several models, each a Tr")
    assert family({"preset": "tiny"}) == "Transformer encoder-decoder"
