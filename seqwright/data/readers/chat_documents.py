"""JSON documents of conversations: what Telegram exports, and lists of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

KEYS = ("turns", "messages", "conversations")  # of the list of turns in the object of a conversation
DAY = len("2024-01-31")  # characters of the date at the beginning of a time


def conversations_in(document: Any) -> Iterator[tuple[int, Any]] | None:
    """Return what a document lists as conversations, as objects with numbers; None if it has none.

    A chat of Telegram is cut into days. Its notices, such as who joined, are left out.
    """
    if isinstance(document, Mapping) and isinstance(document.get("chats"), Mapping):
        document = document["chats"].get("list")  # of a whole account
    every = document if isinstance(document, list) else [document]
    if not any(isinstance(each, Mapping) and not each.keys().isdisjoint(KEYS) for each in every):
        return None
    return enumerate((day for each in every for day in _days(each)), start=1)


def _days(value: Any) -> Iterator[Any]:
    messages = value.get("messages") if isinstance(value, Mapping) else None
    dated = isinstance(messages, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("date"), str) for each in messages
    )
    if not messages or not dated:
        yield value
        return
    said = (each for each in messages if each.get("type", "message") == "message")
    for _, day in groupby(said, lambda each: each["date"][:DAY]):
        yield {"turns": [{"speaker": _speaker(each), "text": each.get("text", "")} for each in day]}


def _speaker(message: Mapping[str, Any]) -> str:
    return str(message.get("from") or message.get("from_id") or "")  # a deleted account has no name
