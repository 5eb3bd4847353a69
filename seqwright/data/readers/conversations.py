"""Conversations: JSON lines of turns or messages, JSON documents, tables of contexts and replies, plays and
chats as lines.

Every turn but the first is a reply to the turns before it. Messages with roles (OpenAI's format) are replied
to by the assistant alone. Consecutive turns of one speaker are one turn, and turns without text are left out.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

from seqwright.config import DataConfig
from seqwright.data.fields import FIELD, split_parts
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.chat_documents import KEYS, conversations_in
from seqwright.data.readers.files import Input
from seqwright.data.readers.jsonl import MISSING, json_document, parse_object
from seqwright.data.readers.lines import Decoding, cleaned, first_lines
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.pairs import FormatOptions, PairFiles, open_pairs
from seqwright.data.split import folded, text_hash
from seqwright.errors import ConfigError, InputError, brief
from seqwright.files import uncompressed

Layout = Literal["document", "objects", "table", "lines"]

COLUMNS = {"context", "reply"}
TEXTS = ("text", "content", "value")  # keys of the text of a turn
SPEAKERS = ("speaker", "role", "name", "from")
ASSISTANT = "assistant"
ROLES = ("system", "user", ASSISTANT)
SHARED = {"human": "user", "gpt": ASSISTANT}  # the roles of ShareGPT, under the key conversations
CALLS = ("tool_calls", "function_call")  # keys of a message in place of its text
FIX = "fix the line, or skip such lines with data.skip_bad_rows=true"
_ASIDE = r"(?: *\([^()]{1,80}\))?"  # a stage direction
NAMED = re.compile(  # `Romeo: But, soft!`, `ROMEO (aside): Ay me!`, or a line `Romeo:`
    rf"(?P<name>[^\W\d_][\w .'’-]{{0,39}}){_ASIDE}:(?:\s+(?P<text>.*))?$"
)
CLOSE = re.compile(  # `Ann:hi`, but not `https://…`, `std::sort`, `9:15` or `Genesis 1:1`
    rf"(?P<name>(?=[^\W\d_])[\w .'’-]{{0,39}}[\w.]){_ASIDE}:(?!(?<=\d:)\d)(?P<text>\s.*|[\w\"'“„«‘¿¡…].*)?$"
)
_DAY = r"(?P<day>\d{1,4}[./-]\d{1,2}[./-]\d{1,4})"
_TIME = r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:\s?[AaPp]\.?\s?[Mm]\.?)?"
_STAMP = rf"\u200e?(?P<bracket>\[)?{_DAY}, {_TIME}(?(bracket)\]| [-–]) \u200e?"
STAMPED = (
    re.compile(  # `[31.12.23, 21:15:03] Ann: hi`, `12/31/23, 9:15 PM - Ann: hi`; without a name a notice
        rf"{_STAMP}(?:(?P<name>[^\s:][^:]{{0,59}}):(?:\s+(?P<text>.*))?)?"
    )
)
WAYS = (NAMED, STAMPED, CLOSE)
_OMITTED = re.compile(r"<[^<>]+>|\u200e.*")  # `<Media omitted>`, in place of what a chat has besides text
_COLUMNS = re.compile(r"[^:\s]\s*\t")  # a tab that does not follow the name of a speaker
SPOKEN = 0.4  # share of lines that name a speaker, in a play or a chat
RETURNED = 0.1  # share of turns, at least, whose speaker is that of the last turn but one
LEVELS = ("debug", "info", "notice", "note", "warn", "warning", "error", "critical", "fatal", "pass", "fail")
CODE = ("if", "elif", "else", "for", "while", "try", "except", "finally", "with", "case", "default", "class")

log = logging.getLogger(__name__)


class Turn(NamedTuple):
    """One speaker's words; the speaker is "" where the file does not name one."""

    speaker: str
    text: str


class Talk(NamedTuple):
    """A conversation, and the line where it begins. roles: its speakers are those of OpenAI's format."""

    place: Place
    turns: list[Turn]
    roles: bool = False


class Exchange(NamedTuple):
    """The turns so far, the reply (None for an input without one), the key of the conversation that they
    belong to, and the line where it begins.
    """

    context: tuple[str, ...]
    reply: str | None
    conversation: str
    place: Place

    @property
    def text(self) -> str:
        """The context as one text, with a marker between its turns."""
        return FIELD.join(self.context)


def turns_once(exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield each turn of a conversation once, after a marker, however many turns a context has.

    A tokenizer that is trained on them is therefore the same for every `data.context`, and perplexities
    compare.
    """
    known: set[str] = set()
    conversation = None
    for exchange in exchanges:
        if exchange.conversation != conversation:
            known, conversation = set(), exchange.conversation
        for turn in (*exchange.context, exchange.reply or ""):
            if turn not in known:
                known.add(turn)
                yield FIELD + turn


def speaks(lines: Sequence[str]) -> bool:
    """Whether lines are those of a play or a chat: several speakers, each of whom speaks several times."""
    if 2 * sum(_COLUMNS.search(line) is not None for line in lines) > len(lines):
        return False
    return any(_takes_turns(way, lines) for way in WAYS)


def _takes_turns(way: re.Pattern[str], lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line.strip()]
    names = _names(way, filled)
    different = {*names}
    enough = len(names) >= max(SPOKEN * len(filled), 4)
    if not enough or len(different) < 2 or len(names) < 1.5 * len(different):
        return False
    if way is CLOSE and any(name[0].islower() for name in different):
        return False  # `key:value`
    others = sum(name.split()[0].lower() in (*LEVELS, *CODE) for name in names)
    return 2 * others < len(names) and not _are_fields(names)


def _names(way: re.Pattern[str], lines: Iterable[str]) -> list[str]:
    found = (way.match(line) for line in lines)
    return [each["name"].strip() for each in found if each is not None and each["name"]]


def _are_fields(names: Sequence[str]) -> bool:
    """Whether names are those of fields, as in `Title: …`, `Author: …`, `Year: …`: three or more, each of
    which waits for the others. In a conversation people answer each other: a name often comes back at once.
    """
    runs = [name for name, _ in groupby(names)]
    returns = sum(runs[i] == runs[i + 2] for i in range(len(runs) - 2))
    return len({*runs}) > 2 and returns < RETURNED * len(runs)


def way_in(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Return how the speakers are named in a file of conversations; None in one of another layout.

    A few lines are enough, because it is known what they are: the first one names a speaker, and there are
    two of them, unless there is only one line.
    """
    filled = [line for line in lines if line.strip()]
    if speaks(filled):
        return next(way for way in WAYS if _takes_turns(way, filled))
    if not filled or _COLUMNS.search(filled[0]):
        return None
    for way in WAYS:
        names = _names(way, filled)
        enough = len(names) >= SPOKEN * len(filled) and len({*names}) >= min(len(filled), 2)
        if enough and way.match(filled[0]):
            return way
    return None


def open_conversations(paths: Sequence[str], data: DataConfig) -> ConversationFiles:
    """Open conversations of any layout."""
    if not paths:
        raise ConfigError("no file to read; name one")
    return ConversationFiles(tuple(paths), data)


@dataclass(frozen=True)
class ConversationFiles(OpenedFiles):
    """Files of conversations. `data.context` is the number of turns before a reply that are kept."""

    @property
    def columns(self) -> str | None:
        return self.data.columns if self._layout == "table" else None

    @property
    def form(self) -> tuple[str, ...]:
        context = self.data.context
        kept = "all turns" if context == "all" else f"up to {context} turns"
        before = f"a reply is read with {kept} before it"
        if self._layout == "objects":
            return ("JSON objects, one conversation each", before)
        if self._layout == "document":
            return ("a JSON document of conversations; of a chat with dates, each day is one", before)
        if self._layout == "lines" and self._way is STAMPED:
            return ("lines with a time, `Name: text`; a conversation is a day", before)
        if self._layout == "lines":
            return ("lines `Name: text`; a blank line before a named line may begin a conversation", before)
        return (*self._pairs.form, "each row is a conversation of its own")

    @cached_property
    def _layout(self) -> Layout:
        if self.data.format in ("tsv", "csv"):
            return "table"
        first = next((line.lstrip() for line in self._head if line.strip()), "")
        if uncompressed(self.paths[0]).suffix.lower() == ".json" and not _is_object(first):
            return "document"
        if first.startswith("{") or uncompressed(self.paths[0]).suffix.lower() in (".jsonl", ".json"):
            pairs = '"context"' in first and not any(f'"{key}"' in first for key in KEYS)
            return "table" if pairs else "objects"
        return "table" if self._way is None else "lines"

    @cached_property
    def _head(self) -> list[str]:
        return first_lines(Input(self.paths[0]), self.decoding)[1]

    @cached_property
    def _way(self) -> re.Pattern[str] | None:
        return None if self.data.columns else way_in(self._head)

    @cached_property
    def _pairs(self) -> PairFiles:
        return open_pairs(self.paths, self.data)

    def read(self, report: ReadReport) -> Iterator[Exchange]:
        if self._layout == "table":
            yield from self._rows(report)
            return
        ways = {"document": self._document, "objects": self._objects, "lines": self._lines}
        read = ways[self._layout]
        for path in self.paths:
            for talk in read(path, report):
                yield from self._exchanges(talk, report)

    def contexts(self, report: ReadReport) -> list[tuple[str, ...]] | None:
        """Return the turns of each conversation in lines that name their speakers, or in a document; None for
        other layouts.
        """
        if self._layout not in ("document", "lines"):
            return None
        read = self._document if self._layout == "document" else self._lines
        talks = (talk for path in self.paths for talk in read(path, report))
        return [tuple(turn.text for turn in _joined(talk.turns)) for talk in talks]

    def _rows(self, report: ReadReport) -> Iterator[Exchange]:
        """Each field of a source is a turn."""
        for source, reply, place in self._pairs.read(report):
            turns = tuple(part for part in split_parts(source)[::2] if part.strip())
            yield Exchange(self._kept(turns), reply, "\0".join(turns), place)

    def _exchanges(self, talk: Talk, report: ReadReport) -> Iterator[Exchange]:
        """Equal conversations have equal keys, also but for case and spaces."""
        joined, place = _joined(talk.turns), talk.place
        speakers = {turn.speaker for turn in joined}
        roles = ASSISTANT in speakers and (talk.roles or speakers <= set(ROLES))
        key = str(text_hash(folded(" \0 ".join(turn.text for turn in joined))))
        replies = [i for i, turn in enumerate(joined) if i and (not roles or turn.speaker == ASSISTANT)]
        if not replies:
            report.add(Reason.UNANSWERED, place)
        for i in replies:
            context = tuple(turn.text for turn in joined[:i])
            yield Exchange(self._kept(context), joined[i].text, key, place)

    def _kept(self, context: tuple[str, ...]) -> tuple[str, ...]:
        most = self.data.context
        return context if most == "all" else context[-most:]

    def _objects(self, path: str, report: ReadReport) -> Iterator[Talk]:
        for place, line in self.lines(path, report):
            if not line.strip():
                continue
            try:
                value = parse_object(line, place)
            except InputError as error:
                self._skip(error, place, report)
            else:
                yield from self._object(value, place, report)

    def _document(self, path: str, report: ReadReport) -> Iterator[Talk]:
        found = conversations_in(json_document(path))
        if found is None:
            keys = " or ".join(KEYS)
            raise InputError(f"{path} has no conversations: it needs objects with a list under {keys}")
        for number, value in found:
            yield from self._object(value, Place(path, number), report)

    def _skip(self, error: InputError, place: Place, report: ReadReport) -> None:
        """Count a conversation that cannot be read, where that is asked for."""
        if not self.data.skip_bad_rows:
            raise InputError(f"{error}; {FIX}") from error
        report.add(Reason.BAD_ROW, place, str(error))

    def _object(self, value: Any, place: Place, report: ReadReport) -> Iterator[Talk]:
        try:
            turns = _turns(value, str(place))
        except InputError as error:
            self._skip(error, place, report)
            return
        clean, kept = self.decoding.on_bad_bytes, list[Turn]()
        for turn in turns:
            if turn.text.strip():
                kept.append(turn._replace(text=cleaned(turn.text, place, clean, report)))
            else:
                report.add(Reason.BLANK_TURN, place)
        yield Talk(place, kept, _key(value) in ("messages", "conversations"))

    def _lines(self, path: str, report: ReadReport) -> Iterator[Talk]:
        """A blank line between turns ends a conversation if turns follow each other without blank lines. So
        does another day, if the lines have one.
        """
        way = self._way
        assert way is not None
        turns, places, day, blank = list[Turn](), list[Place](), "", False
        for place, line in self.lines(path, report):
            text = line.strip()
            found = way.match(text)
            if not text:
                blank = True
            elif found and found["name"]:
                date = found["day"] if way is STAMPED else ""
                if turns and (date != day if date else blank and self._dense):
                    yield self._talk(turns, places, report)
                    turns, places = [], []
                day, blank = date, False
                said = (found["text"] or "").strip()
                said = "" if way is STAMPED and _OMITTED.fullmatch(said) else said
                turns.append(Turn(found["name"].strip(), said))
                places.append(place)
            elif turns and not found:  # the turn goes on
                turns[-1] = turns[-1]._replace(text=f"{turns[-1].text} {text}".strip())
                blank = False
            else:
                report.add(Reason.NO_SPEAKER, place)
        if turns:
            yield self._talk(turns, places, report)

    def _talk(self, turns: Sequence[Turn], places: Sequence[Place], report: ReadReport) -> Talk:
        for turn, place in zip(turns, places, strict=True):
            if not turn.text.strip():
                report.add(Reason.BLANK_TURN, place)
        return Talk(places[0], [turn for turn in turns if turn.text.strip()])

    @cached_property
    def _dense(self) -> bool:
        """Whether turns usually follow each other without a blank line, so that one has a meaning."""
        assert self._way is not None
        before = [line for line, named in pairwise(self._head) if self._way.match(named.strip())]
        return sum(bool(line.strip()) for line in before) >= 0.5 * max(len(before), 1)


def context_of(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the turns so far of an object: a text or texts under `context`, otherwise as a file has them."""
    context = value.get("context")
    if isinstance(context, str):
        return _between_tabs(context)
    if isinstance(context, list | tuple) and all(isinstance(turn, str) for turn in context):
        return tuple(context)
    return tuple(turn.text for turn in _joined(turns_of(value, where)))


def context_in(line: str) -> tuple[str, ...]:
    """Return the turns so far of a line of input: those of a JSON object, or texts with tabs between them."""
    value: Mapping[str, Any] = {}
    if line.lstrip().startswith("{"):
        with suppress(InputError):  # a text may begin like this, too
            value = parse_object(line, Place("", 0))
    return context_of(value, "the input") if value.keys() & {"context", *KEYS} else _between_tabs(line)


def contexts_in_lines(path: str, decoding: Decoding) -> list[tuple[str, ...]] | None:
    """Return the turns of each conversation in a play or a chat; None for other files."""
    if not os.path.isfile(path):
        return None
    form: dict[str, Any] = {"on_bad_bytes": decoding.on_bad_bytes, "max_line": decoding.max_line}
    files, report = ConversationFiles((path,), DataConfig(encoding=decoding.encoding, **form)), ReadReport()
    found = files.contexts(report)
    for line in report.summary():
        log.warning("%s", line)
    return found


def contexts_in_table(path: str, decoding: Decoding) -> list[tuple[str, ...]] | None:
    """Return the context in each row of a table with the columns context and reply; None for other files."""
    if not os.path.isfile(path):
        return None
    _, lines = first_lines(Input(path), decoding)
    names = [{name.strip(' "').lower() for name in lines[0].split(mark)} for mark in "\t,"] if lines else []
    if not any(each >= COLUMNS for each in names):
        return None
    pairs = PairFiles(path, options=FormatOptions(columns="context:reply"), decoding=decoding)
    rows, place = list[tuple[str, ...]](), pairs.layout.indices[0]
    for _, cells, fault in pairs.rows(ReadReport()):
        if fault is None:
            rows.append(_between_tabs(cells[place]))
        elif fault.reason is Reason.BAD_ROW:
            raise InputError(fault.message)
        elif fault.reason is not None:  # without a context, or without a reply
            rows.append(_between_tabs(cells[place]) if place < len(cells) else ())
    return rows


def _between_tabs(line: str) -> tuple[str, ...]:
    return tuple(turn for turn in line.split("\t") if turn.strip())


def turns_of(value: Mapping[str, Any], where: str) -> list[Turn]:
    """Return the turns of a conversation given as an object; turns without any text are left out."""
    return [turn for turn in _turns(value, where) if turn.text.strip()]


def _is_object(line: str) -> bool:
    """Whether a line is a JSON object by itself."""
    with suppress(InputError):
        parse_object(line, Place("", 0))
        return True
    return False


def _key(value: Mapping[str, Any]) -> str | None:
    return next((key for key in KEYS if key in value), None)


def _turns(value: Any, where: str) -> list[Turn]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {brief(value)} is not a conversation; it needs an object")
    key = _key(value)
    found = None if key is None else value[key]
    if not isinstance(found, list):
        keys = " or ".join(KEYS)
        raise InputError(f"{where}: a conversation needs a list under {keys}, not {brief(found)}")
    turns = [_turn(each, number, where) for number, each in enumerate(found, start=1)]
    if key == "conversations":
        return [turn._replace(speaker=SHARED.get(turn.speaker, turn.speaker)) for turn in turns]
    return turns


def _turn(given: Any, number: int, where: str) -> Turn:
    """Return a turn; the text of a message that is null, as in the call of a tool, is empty."""
    if isinstance(given, str):
        return Turn("", given)
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: turn {number} is {brief(given)}; give a text, or an object with a text")
    called = any(key in given for key in CALLS)
    text = next((given[key] for key in TEXTS if key in given), None if called else MISSING)
    if isinstance(text, list):
        text = "".join(filter(None, map(_text_of_part, text)))
    if not isinstance(text, str | None):
        raise InputError(f"{where}: turn {number} has no text; it needs a string under text or content")
    return Turn(str(next((given[key] for key in SPEAKERS if key in given), "")), text or "")


def _text_of_part(part: Any) -> str | None:
    """Return the text of a part of a message; None for a part of another kind, such as an image."""
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else None


def _joined(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with consecutive ones of a speaker as one."""
    return [Turn(who, " ".join(turn.text for turn in run)) for who, run in _runs(turns)]


def _runs(turns: Sequence[Turn]) -> Iterator[tuple[str, list[Turn]]]:
    """Yield runs of turns of one speaker; turns without a speaker stand alone."""
    numbered = enumerate(turns)
    for _, run in groupby(numbered, lambda each: each[1].speaker or each[0]):
        own = [turn for _, turn in run]
        yield own[0].speaker, own
