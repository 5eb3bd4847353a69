"""`seqwright chat`: talk to a model in a terminal, or line by line through a pipe."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from seqwright.commands.growing import UNFINISHED, print_growing
from seqwright.commands.predict import ranking_arguments

if TYPE_CHECKING:
    from seqwright.prediction.chat import Chat

PAGE = "chat.html"
HELP = "/reset forgets the conversation, /retry replies again, /why writes a page about the last reply, /quit"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder of a conversation or a language model.")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="Higher is more surprising; 0 is greedy."
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="Sample from the K most probable tokens.")
    parser.add_argument("--top-p", type=float, metavar="P", help="Sample from the nucleus of mass P.")
    parser.add_argument("--max-length", type=int, metavar="N", help="Maximum number of tokens of a reply.")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="Seed of the sampling.")
    ranking_arguments(parser)
    parser.add_argument("--threads", type=int, metavar="N", help="Number of CPU threads.")


def run(options: argparse.Namespace) -> None:
    from seqwright.errors import InputError
    from seqwright.prediction.chat import Chat
    from seqwright.prediction.predictor import load
    from seqwright.prediction.ranking import with_ranking

    names = ("temperature", "top_k", "top_p", "max_length")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    predictor = with_ranking(load(options.folder, threads=options.threads), options)
    chat = Chat(predictor, seed=options.seed, **given)
    if sys.stdin is None:  # the parent process has closed it
        raise InputError("standard input is closed; chat reads what you say from it")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # one bad byte does not end a chat
    if sys.stdin.isatty():
        print(f"{HELP}; Ctrl-C stops a reply, Ctrl-D ends", file=sys.stderr)
    for line in _lines():
        try:
            if not _obey(line.strip(), chat):
                return
        except KeyboardInterrupt:
            print(" …")  # the part so far is the reply
    if sys.stdin.isatty():
        print()


def _lines() -> Iterator[str]:
    """Yield the lines that a person types, with line editing, or those of a pipe."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(ImportError):
        import readline  # noqa: F401 - input() then edits lines and remembers them
    while True:
        try:
            yield input("> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            print()


def _obey(line: str, chat: Chat) -> bool:
    """Reply to a line, or carry out a command; return whether the chat goes on."""
    from seqwright.errors import SeqwrightError

    commands: dict[str, Callable[[], object]] = {
        "/reset": lambda: _reset(chat),
        "/retry": lambda: _type(chat, chat.retry()),
        "/why": lambda: _explain(chat),
        "/help": lambda: print(HELP, file=sys.stderr),
    }
    if line == "/quit":
        return False
    try:
        if line in commands:
            commands[line]()
        elif line.startswith("/"):
            print(f"seqwright: unknown command {line[:40]!r}; {HELP}", file=sys.stderr)
        elif line:
            if UNFINISHED in line:
                print(f"seqwright: bytes that are not {sys.stdin.encoding} were replaced", file=sys.stderr)
            _type(chat, chat.reply(line))
    except SeqwrightError as error:
        print(f"seqwright: {error}", file=sys.stderr)
    return True


def _type(chat: Chat, growing: Iterator[str]) -> None:
    """Print a reply as it grows. A retrieved reply that does not fit is marked."""

    def marked() -> Iterator[str]:
        for text in growing:
            if not chat.fits:
                print("(nothing fits) ", end="")
            yield text

    print_growing(marked())


def _reset(chat: Chat) -> None:
    chat.reset()
    print("seqwright: the conversation is forgotten", file=sys.stderr)


def _explain(chat: Chat) -> None:
    from pathlib import Path

    from seqwright.files import write_text

    write_text(Path(PAGE), chat.look().page())
    print(f"seqwright: {PAGE} shows the last reply", file=sys.stderr)
