"""Seeded damage to files: to their bytes, and to the structure of JSON, safetensors, tables and TOML."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Mutation = Callable[[bytes, random.Random], tuple[bytes, str]]  # content -> damaged content, what was done

DEEP = 100_000  # levels; the parser of Python gives up at 1,000
HUGE = "1" + "0" * 400  # an integer that no float holds
VALUES = (  # JSON, and what Python's parser takes for JSON
    *("null", "true", "false", "0", "1", "-1", "-7", "3", "0.5", "-0.0", "1e308", "1e-320", "1e400"),
    *("NaN", "Infinity", "-Infinity", "2147483648", "9223372036854775808", HUGE, f"-{HUGE}", "9" * 5000),
    *('""', '"x"', '"1"', '"nan"', '"../x"', '"\\ud800"', '"a\\udfffb"', '"\\u0000"', '"\\u202e"'),
    '"\\u001b[2J\\r\\n\\t\\u0085\\u2028"',
    *("[]", "{}", "[[]]", "[null]", '[""]', "[1, -1]", '{"": 1}', '{"kind": "x"}', '{"x": {"x": []}}'),
    *("[" * depth + "]" * depth for depth in (300, 900, DEEP)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (300, 900, DEEP)),
    '"' + "a" * 1_000_000 + '"',
    "[" + "0," * 300_000 + "0]",
)
WORDS = (  # in tables and TOML
    *("", "\t", "\n", "\r", "\r\n", " ", '"', "'", '"""', "\\", ",", ";", "=", "[", "]", "{", "}", "#", "."),
    *("\0", "\x1a", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffd", "e\u0301", "\U0001f600"),
    *("0", "-1", "0.5", "1e400", "nan", "inf", HUGE, "true", "null", "1979-05-27", "[1]", "[[x]]", "{a=1}"),
    *("[" * 900, "[" * DEEP, "a" * 300_000, "a b " * 3_000, "\t" * 3_000, "\n" * 3_000),
)
SEQUENCES = (b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\xff\xfe", b"{", b'"', b"\n", b"\r")
NUMBERS = (  # types of little-endian numbers, each with extremes
    *((code, (math.nan, math.inf, -math.inf, 1e38, -1e-38)) for code in ("<f", "<d")),
    *((code, (-1, 0, 1, most, -most - 1)) for code, most in (("<h", 2**15 - 1), ("<i", 2**31 - 1))),
    ("<q", (-1, 0, 1, 2**40, 2**63 - 1, -(2**63))),
)
MARK = "@@mark@@"  # is replaced in the text of a JSON document, which the library could not write


def damaged(name: str, content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Return a damaged file, and what was done to it. Its name tells which structure it has."""
    structured = MUTATIONS.get(Path(name).suffix, (in_numbers,))
    notes = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        mutation = draw.choice((*structured, in_bytes)) if content else insert
        try:
            content, note = mutation(content, draw)
        except (ValueError, KeyError, IndexError, RecursionError):  # the structure is gone
            content, note = in_bytes(content, draw)
        notes.append(note)
    return content, "; ".join(notes)


# Bytes ---------------------------------------------------------------------------------------------


def in_bytes(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    return draw.choice((flip, insert, delete, repeat, truncate, empty, zero, splice))(content, draw)


def flip(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    changed, places = bytearray(content), _places(content, draw)
    for place in places:
        changed[place] ^= 1 << draw.randrange(8)
    return bytes(changed), f"bits flipped at {places}"


def insert(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    place = draw.randint(0, len(content))
    new = draw.choice((*SEQUENCES, draw.randbytes(draw.randint(1, 9))))
    return content[:place] + new + content[place:], f"{new!r} inserted at {place}"


def delete(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    start, end = _span(content, draw)
    return content[:start] + content[end:], f"bytes {start} to {end} deleted"


def repeat(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    (start, end), times = _span(content, draw), draw.choice((1, 1, 5))
    return content[:end] + content[start:end] * times + content[end:], f"bytes {start} to {end} repeated"


def truncate(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    end = draw.randint(0, len(content))
    return content[:end], f"cut after {end} bytes"


def empty(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    return b"", "emptied"


def zero(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    start, end = draw.choice(((0, len(content)), _span(content, draw)))
    return content[:start] + bytes(end - start) + content[end:], f"zeros from {start} to {end}"


def splice(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """A piece of the file in another place of it."""
    (start, end), place = _span(content, draw), draw.randint(0, len(content))
    return content[:place] + content[start:end] + content[place:], f"bytes {start} to {end} moved to {place}"


def _places(content: bytes, draw: random.Random) -> list[int]:
    return [draw.randrange(len(content)) for _ in range(draw.choice((1, 1, 2, 8)))]


def _span(content: bytes, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice((1, 2, 4, 8, 64, 1024)))


def in_numbers(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Replace a number of a binary file by an extreme of its type."""
    code, extremes = draw.choice(NUMBERS)
    size, value = struct.calcsize(code), draw.choice(extremes)
    place = draw.randrange(max(len(content) // size, 1)) * size
    return content[:place] + struct.pack(code, value) + content[place + size :], f"{code} {value} at {place}"


# Structure -----------------------------------------------------------------------------------------


def in_json(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Change one node of a document."""
    text, note = _changed(json.loads(content), draw)
    return text.encode("utf-8", "surrogatepass"), note


def in_lines(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Change one line of JSON, or the order of the lines."""
    lines = content.splitlines(keepends=True)
    number = draw.randrange(len(lines))
    if draw.random() < 0.2:
        draw.shuffle(lines)
        return b"".join(lines), "lines shuffled"
    new, note = in_json(lines[number], draw)
    return b"".join([*lines[:number], new + b"\n", *lines[number + 1 :]]), f"line {number + 1}: {note}"


def in_tensors(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Change the header of a safetensors file, the length of the header, or the numbers."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    part = draw.choice(("header", "header", "header", "length", "numbers"))
    if part == "length":
        length = draw.choice((0, 1, size - 1, size + 1, 8 * size, 2**31, 2**63, 2**64 - 1))
        return (length % 2**64).to_bytes(8, "little") + content[8:], f"header length {length}"
    if part == "numbers":
        data, note = in_numbers(data, draw)
        return content[: 8 + size] + data, note
    header, note = in_json(header, draw)
    return len(header).to_bytes(8, "little") + header + data, note


def in_words(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Replace a word, a number or a separator of a text."""
    text = content.decode("utf-8", "surrogateescape")
    found = draw.choice([match.span() for match in re.finditer(r"\w+|[^\w ]", text)])
    word = draw.choice(WORDS)
    changed = text[: found[0]] + word + text[found[1] :]
    return changed.encode("utf-8", "surrogateescape"), f"{text[slice(*found)]!r} -> {_short(word)}"


MUTATIONS: dict[str, Sequence[Mutation]] = {
    ".json": (in_json, in_json, in_json),
    ".jsonl": (in_lines, in_lines, in_lines),
    ".safetensors": (in_tensors, in_tensors, in_tensors),
    **dict.fromkeys((".tsv", ".csv", ".txt", ".toml", ".conllu"), (in_words, in_words)),
    **dict.fromkeys((".gz", ".xz", ".zst"), ()),
}


def _changed(document: Any, draw: random.Random) -> tuple[str, str]:
    """Return the text of a document with one node changed, and the path of that node."""
    root = [document]
    inside: Any = root
    key: Any = 0
    path = "$"
    while isinstance(inside[key], dict | list) and inside[key] and draw.random() < 0.85:
        inside = inside[key]
        key = draw.choice(list(inside)) if isinstance(inside, dict) else draw.randrange(len(inside))
        path += f".{_short(str(key))}"
    action = draw.choice(("replace",) * 6 + ("remove", "rename", "twice", "wrap", "grow"))
    value = draw.choice(VALUES)
    marked = json.dumps(MARK)
    if action == "remove":
        del inside[key]
        return (json.dumps(root[0]) if root else ""), f"{path} removed"
    if action == "rename" and isinstance(inside, dict):
        inside[draw.choice(("", "x", "\0", "\ud800", str(key).upper(), f"{key} "))] = inside.pop(key)
        return json.dumps(root[0]), f"{path} renamed"
    if action == "twice" and isinstance(inside, dict):
        inside[MARK] = inside[key]
        return json.dumps(root[0]).replace(marked, json.dumps(key)), f"{path} twice"
    if action == "wrap":
        inside[key] = draw.choice(([inside[key]], {"x": inside[key]}, str(inside[key])))
        return json.dumps(root[0]), f"{path} wrapped"
    if action == "grow" and isinstance(inside[key], list | str):
        inside[key] = inside[key] * draw.choice((2, 1000 // max(len(inside[key]), 1)))
        return json.dumps(root[0]), f"{path} repeated"
    inside[key] = MARK
    return json.dumps(root[0]).replace(marked, value), f"{path} = {_short(value)}"


def _short(text: str) -> str:
    return ascii(text) if len(text) <= 30 else f"{text[:20]!a}… ({len(text):,} characters)"
