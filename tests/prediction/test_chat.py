"""Talking to a model: in Python, through a pipe and in a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import tiny
from lm_runs import toy_run
from talking import talker

from seqwright import cli, pipeline
from seqwright.commands import chat as chat_command
from seqwright.errors import ConfigError, InputError
from seqwright.prediction.chat import Chat
from seqwright.prediction.predictor import load

OPTIONS = {"steps": 60, "quiet": True, "threads": 1, "training": {"validations": 1, "tokens": 256}}
SMALL = {"preset": "tiny", "layers": 1, "size": 32, "hidden": 32, "heads": 2, "dropout": 0.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    names = ["ann", "bob", "cid", "dan", "eve", "fay"]
    rows = [f"i am {name}\thi {name}" for name in names] * 20
    (folder / "talk.tsv").write_text("context\treply\n" + "".join(f"{row}\n" for row in rows))
    pipeline.train(
        folder / "talk.tsv", out=folder / "run", model=SMALL, tokenizer={"source": "words"}, **OPTIONS
    )
    return folder / "run"


def said(growing) -> str:
    return list(growing)[-1]


def test_replies_become_the_context_of_the_next_one(run):
    chat = Chat(load(run), temperature=0)
    first = said(chat.reply("i am ann"))
    said(chat.reply("i am bob"))
    assert chat.turns[:3] == ["i am ann", first, "i am bob"]
    assert len(chat.turns) == 4
    chat.reset()
    assert chat.turns == []


def test_a_second_attempt_replaces_the_reply(run):
    chat = Chat(load(run), temperature=3.0, top_p=1.0)
    first = said(chat.reply("i am ann"))
    others = {said(chat.retry()) for _ in range(6)}
    assert len(chat.turns) == 2
    assert others - {first}


def test_the_same_seed_gives_the_same_conversation(run):
    talks = []
    for _ in range(2):
        chat = Chat(load(run), seed=5, temperature=2.0)
        talks.append([said(chat.reply(text)) for text in ("i am ann", "i am bob")])
    assert talks[0] == talks[1]


def test_an_unfinished_reply_stays(run):
    chat = Chat(load(run), temperature=0)
    growing = chat.reply("i am ann")
    part = next(growing)
    growing.close()
    assert chat.turns == ["i am ann", part]


def test_a_reply_that_is_stopped_before_its_first_word_is_no_turn():
    chat = Chat(talker("flat"), temperature=0)
    chat.turns = ["hi", ""]
    with pytest.raises(ConfigError, match="no reply yet"):
        chat.look()
    reply = said(chat.reply("bye"))
    assert reply == chat.predictor(("hi", "bye"), temperature=0)
    assert chat.predictor.task.last_reply(chat.turns).context == ("hi", "bye")


def test_a_retry_needs_a_reply_and_options_are_checked_at_once(run):
    with pytest.raises(ConfigError, match="no reply yet"):
        next(Chat(load(run)).retry())
    with pytest.raises(ConfigError, match="temperature is -1"):
        Chat(load(run), temperature=-1)


def test_a_turn_that_cannot_be_read_leaves_the_conversation_as_it_was():
    chat = Chat(talker("flat", tokenizer="bytes"), temperature=0)
    said(chat.reply("i am ann"))
    before = chat.turns
    with pytest.raises(InputError, match="unpaired surrogate"):
        said(chat.reply("i am \udcff"))
    assert chat.turns == before
    assert said(chat.reply("i am bob"))
    assert len(chat.turns) == 4


def test_each_conversation_of_a_play_has_one_reply(run, tmp_path, capsys):
    """That of the same turns in JSON lines; the names of the speakers are not read."""
    talks = {"lines.txt": "Speaks to no one.\nAnn: i am\nann\nBob: hi ann\n\nCid: i am cid\n"}
    talks["play.txt"] = talks["lines.txt"].partition("\n")[2]
    turns = [["i am ann", "hi ann"], ["i am cid"]]
    talks["talk.jsonl"] = "".join(f"{json.dumps({'turns': each})}\n" for each in turns)
    found, messages = {}, {}
    for name, text in talks.items():
        (tmp_path / name).write_text(text)
        assert cli.main(["predict", str(run), str(tmp_path / name), "--json"]) == 0
        out, messages[name] = capsys.readouterr()
        found[name] = out
    assert [json.loads(line)["source"] for line in found["play.txt"].splitlines()] == [*map("\t".join, turns)]
    assert found["play.txt"] == found["talk.jsonl"]
    assert "play.txt has 2 conversations, each with a line of output" in messages["play.txt"]
    assert "conversations" not in messages["lines.txt"] + messages["talk.jsonl"]


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # that of C.UTF-8 is the second one
def test_a_bad_byte_does_not_end_a_chat(run, monkeypatch, capsys, errors):
    typed = io.BytesIO(b"i am \xff ann\ni am bob\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed, encoding="utf-8", errors=errors))
    assert cli.main(["chat", str(run), "--temperature", "0"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.strip() == "seqwright: bytes that are not utf-8 were replaced"


def test_a_chat_needs_standard_input(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["chat", str(run)]) == 2
    assert "standard input is closed" in capsys.readouterr().err


def test_a_model_of_pairs_does_not_converse(tmp_path):
    file = tiny.reversals(tmp_path / "pairs.tsv")
    tiny.train(tiny.configuration(file, "training.steps=2"), tmp_path / "run")
    with pytest.raises(ConfigError, match="chat needs a conversation"):
        Chat(load(tmp_path / "run"))


def test_lines_of_a_pipe_are_answered(run, monkeypatch, capsys):
    hostile = "\x1b[2J\u202e i am ann"
    talk = ["i am ann", "", "   ", hostile, "i am bob " * 20_000, "/retry"]
    lines = [*talk, "/what", "/reset it", "/reset", "/retry", "i am cid", "/quit", "unread"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    assert cli.main(["chat", str(run), "--temperature", "0"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 5
    assert "\x1b" not in out + err
    assert "unknown command '/what'" in err
    assert "unknown command '/reset it'" in err
    assert "no reply yet" in err


def test_the_page_of_the_last_reply_is_written(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("/why\ni am ann\n/why\n"))
    assert cli.main(["chat", str(run), "--temperature", "0"]) == 0
    out, err = capsys.readouterr()
    assert "no reply yet" in err
    assert "chat.html shows the last reply" in err
    page = (tmp_path / "chat.html").read_text(encoding="utf-8")
    assert out.strip() in page


def test_a_language_model_continues_a_chat_as_text(tmp_path, monkeypatch, capsys):
    """The turns are lines of one text. The oracle continues this text with the seeds of the chat."""
    folder = toy_run(tmp_path / "run", "language_modeling", "decoder_only", steps=10)
    lines = ["/why", "ab", "/retry", "cd", "/what", "/why", "/reset", "/retry", "ab", "/quit", "unread"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    options = ["--seed", "3", "--max-length", "5", "--temperature", "1.5"]
    assert cli.main(["chat", str(folder), *options]) == 0
    out, err = capsys.readouterr()
    model = load(folder)

    def continued(*turns: str, seed: int) -> str:
        prompt = "".join(f"{turn}\n" for turn in turns)
        whole = model(prompt, seed=seed, max_length=5, temperature=1.5, stop="\n\n")
        return whole.removeprefix(prompt)

    first, second = (continued("ab", seed=seed) for seed in (4, 5))
    third = continued("ab", second, "cd", seed=6)
    assert first != second
    assert out == "".join(f"{reply}\n" for reply in (first, second, third, continued("ab", seed=7)))
    assert err.count("no reply yet") == 2  # /why before the first reply, /retry after /reset
    assert "unknown command '/what'" in err
    assert "the conversation is forgotten" in err
    assert "chat.html shows the last reply" in err
    chat = Chat(model)
    chat.turns = ["ab", second, "cd", third]
    assert chat.look().page() == (tmp_path / "chat.html").read_text(encoding="utf-8")
    assert chat.look().text == f"ab\n{second}\ncd\n"


@contextmanager
def interruptible():
    """Programs that start inside the block receive SIGINT, even if these tests ignore it (`make test &`)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# The first reply stops after its first word and waits for the interrupt, longer than the test does.
WAITING = """
import sys, time
from seqwright import cli
from seqwright.prediction.predictor import Predictor

def waits(self, *given, typed=Predictor.typed, **options):
    for text in typed(self, *given, **options):
        first = not waited
        waited.append(text)  # before the interrupt, which can come as soon as the word is on the screen
        yield text
        if first:
            time.sleep(600)

waited = []
Predictor.typed = waits
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_terminal_streams_and_survives_an_interrupt(run):
    """Ctrl-C at the prompt or in the middle of a reply does not end the chat; Ctrl-D does."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", WAITING, "chat", str(run), "--temperature", "0"]
    with interruptible():
        child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    seen = b""

    def until(words: bytes, times: int = 1, seconds: float = 60) -> None:
        nonlocal seen
        end = time.monotonic() + seconds
        while seen.count(words) < times:
            assert time.monotonic() < end, seen
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 4096)

    try:
        until(b"> ")
        for _ in range(60):  # readline loses a signal that comes before it waits for a key
            if seen.count(b"> ") >= 2:
                break
            child.send_signal(signal.SIGINT)
            with suppress(AssertionError):
                until(b"> ", times=2, seconds=1)
        assert seen.count(b"> ") >= 2, seen
        seen = b""
        os.write(master, b"i am ann\n")
        until(b"hi")  # the first word of the reply, whose rest does not come
        assert b"hi ann" not in seen
        child.send_signal(signal.SIGINT)
        until("hi …".encode())
        seen = seen.partition("hi …".encode())[2]  # the prompt may have come with it
        until(b"> ")
        os.write(master, b"i am bob\n")
        until(b"hi ")
        seen = seen.rpartition(b"hi ")[2]
        until(b"> ")  # Ctrl-D counts at the prompt only
        os.write(master, b"\x04")
        assert child.wait(60) == 0
    finally:
        child.kill()
        os.close(master)


def test_a_retrieval_model_marks_what_does_not_fit_and_retries_with_the_next_nearest(
    tmp_path, monkeypatch, capsys
):
    rows = [f"i am {name}\thi {name}" for name in ("ann", "bob", "cid", "dan", "eve", "fay")] * 20
    (tmp_path / "talk.tsv").write_text("context\treply\n" + "".join(f"{row}\n" for row in rows))
    found = pipeline.train(
        tmp_path / "talk.tsv",
        out=tmp_path / "run",
        model={"kind": "dual_encoder", **SMALL},
        tokenizer={"source": "words"},
        **OPTIONS,
    )
    nearest = [reply.text for reply in found.predict(["i am ann"], n_best=2)[0].all]
    chat = Chat(found)
    assert [said(chat.reply("i am ann")), said(chat.retry())] == nearest
    found.task = replace(found.task, index=replace(found.task.index, least=1.1))
    monkeypatch.setattr("seqwright.prediction.predictor.load", lambda *args, **options: found)
    monkeypatch.setattr(sys, "stdin", io.StringIO("i am ann\n"))
    assert cli.main(["chat", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == f"(nothing fits) {nearest[0]}\n"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("growing", "printed"),
    [
        (["one", "one\ntwo"], "one\ntwo\n"),  # a language model writes several lines
        (["caf\ufffd", "café ☕"], "café ☕\n"),  # the bytes of a character come one by one
        (["a\x1b[2J"], "a\\x1b[2J\n"),
    ],
)
def test_a_reply_is_printed_once_and_whole(growing, printed, terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    chat_command._type(SimpleNamespace(fits=True), iter(growing))
    assert capsys.readouterr().out == printed


def test_a_reply_whose_beginning_changes_is_printed_again(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    chat_command._type(SimpleNamespace(fits=True), iter(["don", "do n't"]))
    assert capsys.readouterr().out == "don\ndo n't\n"
