"""Conversations in files: objects, tables, plays; who replies to what, and what is refused."""

from __future__ import annotations

import json

import pytest

from seqwright import cli
from seqwright.config import DataConfig, parse
from seqwright.data.glance import recognise
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.conversations import (
    context_of,
    contexts_in_lines,
    contexts_in_table,
    open_conversations,
    speaks,
)
from seqwright.data.readers.lines import Decoding
from seqwright.data.survey import survey
from seqwright.errors import InputError

TURNS = [{"speaker": 0, "text": "hi"}, {"speaker": 1, "text": "hello"}, {"speaker": 0, "text": "bye"}]
PLAY = "Ann: Where is it?\nBob: Over there,\nbehind you.\nAnn: Thanks.\nBob: Sure.\n\nCid: Hello?\nAnn: Hi!\n"


def read(tmp_path, text: str, name: str = "chat.jsonl", **options):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    report = ReadReport()
    return list(open_conversations([str(file)], DataConfig(**options)).read(report)), report


def lines(*objects) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in objects)


def test_every_turn_but_the_first_is_a_reply(tmp_path):
    found, _ = read(tmp_path, lines({"turns": TURNS}, {"turns": TURNS[:2]}))
    assert [(each.context, each.reply) for each in found] == [
        (("hi",), "hello"),
        (("hi", "hello"), "bye"),
        (("hi",), "hello"),
    ]
    assert len({each.conversation for each in found}) == 2


@pytest.mark.parametrize(
    ("context", "kept"), [(1, ("hello",)), (2, ("hi", "hello")), ("all", ("hi", "hello"))]
)
def test_the_context_is_as_long_as_wanted(tmp_path, context, kept):
    found, _ = read(tmp_path, lines({"turns": TURNS}), context=context)
    assert found[-1].context == kept


def test_only_the_assistant_replies_to_messages(tmp_path):
    roles = [
        ("system", "Be kind."),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "bye"),
        ("assistant", "so long"),
    ]
    found, _ = read(tmp_path, lines({"messages": [{"role": r, "content": c} for r, c in roles]}))
    assert [each.reply for each in found] == ["hello", "so long"]
    assert found[0].context == ("Be kind.", "hi")


@pytest.mark.parametrize("role", ["developer", "tool", "function", "critic"])
def test_only_the_assistant_replies_whatever_the_other_roles_are(tmp_path, role):
    roles = [(role, "Be kind."), ("user", "hi"), ("assistant", "hello"), (role, "42"), ("assistant", "Yes.")]
    found, _ = read(tmp_path, lines({"messages": [{"role": r, "content": c} for r, c in roles]}))
    assert [each.reply for each in found] == ["hello", "Yes."]
    assert found[-1].context == ("Be kind.", "hi", "hello", "42")
    turns, _ = read(tmp_path, lines({"turns": [{"speaker": r, "text": c} for r, c in roles]}))
    assert len(turns) == 4  # names of speakers are not roles


def test_calls_of_tools_are_left_out_and_the_parts_of_a_text_are_joined(tmp_path):
    parts = [{"type": "text", "text": "What is "}, {"type": "image_url", "image_url": {}}, {"text": "it?"}]
    messages = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "assistant", "tool_calls": [{"id": "2"}]},
        {"role": "tool", "content": "a cat"},
        {"role": "assistant", "content": "A cat."},
    ]
    found, report = read(tmp_path, lines({"messages": messages}))
    assert [(each.context, each.reply) for each in found] == [(("What is it?", "a cat"), "A cat.")]
    assert report[Reason.BLANK_TURN] == 2
    assert context_of({"messages": messages[:4]}, "the input") == ("What is it?", "a cat")


def test_bad_objects_are_skipped_and_counted_if_that_is_wanted(tmp_path):
    text = lines({"turns": TURNS}, {"turns": 5}) + "{\n" + lines({"turns": TURNS})
    with pytest.raises(InputError, match=r"chat\.jsonl:2: .*data\.skip_bad_rows=true"):
        read(tmp_path, text)
    found, report = read(tmp_path, text, skip_bad_rows=True)
    assert len(found) == 4
    assert [place.line for place in report.counts[Reason.BAD_ROW].places] == [2, 3]


def test_consecutive_turns_of_a_speaker_are_one(tmp_path):
    turns = [TURNS[0], TURNS[1], {"speaker": 1, "text": "there"}]
    found, _ = read(tmp_path, lines({"turns": turns}))
    assert [each.reply for each in found] == ["hello there"]


def test_turns_without_speakers_alternate(tmp_path):
    found, _ = read(tmp_path, lines({"turns": ["a", "b", "c"]}))
    assert [each.reply for each in found] == ["b", "c"]


def test_a_monologue_is_counted(tmp_path):
    found, report = read(tmp_path, lines({"turns": TURNS[:1]}, {"turns": TURNS}))
    assert len(found) == 2
    assert report[Reason.UNANSWERED] == 1


def test_a_play_has_names_before_its_turns(tmp_path):
    found, _ = read(tmp_path, PLAY, "play.txt")
    assert [(each.context[-1], each.reply) for each in found] == [
        ("Where is it?", "Over there, behind you."),
        ("Over there, behind you.", "Thanks."),
        ("Thanks.", "Sure."),
        ("Hello?", "Hi!"),
    ]
    assert found[-1].context == ("Hello?",)  # the blank line begins another conversation


def test_a_play_with_blank_lines_between_turns_is_one_conversation(tmp_path):
    found, _ = read(
        tmp_path, "ROMEO:\nSpeak!\n\nJULIET:\nAy me!\n\nROMEO:\nShe speaks.\n\nJULIET:\nO Romeo!\n", "p.txt"
    )
    assert [each.context for each in found] == [
        ("Speak!",),
        ("Speak!", "Ay me!"),
        ("Speak!", "Ay me!", "She speaks."),
    ]


def test_running_text_with_a_few_colons_is_not_a_play():
    assert not speaks(["He said: no.", "Then he left.", "It rained all day.", "Nobody came."] * 5)
    assert speaks(PLAY.splitlines())


@pytest.mark.parametrize(
    ("lines", "contexts"),
    [
        (["ROMEO (aside): Speak!", "JULIET: Ay me!", "ROMEO: She speaks."], [("Speak!", "Ay me!")]),
        (["Ann:hi", "Bob: (yawns)", "Ann:at 9:15", "see https://x.org"], [("hi", "(yawns)")]),
        (["Ann:\thi", "Bob:\thello", "Ann:\tbye"], [("hi", "hello")]),
        (
            [
                "12/31/23, 9:14\u202fPM - Messages are encrypted.",
                "12/31/23, 9:15\u202fPM - Ann: hi",
                "there",
                "",
                "12/31/23, 9:16\u202fPM - Bob: hello",
                "12/31/23, 9:17\u202fPM - Bob left the group",
                "1/1/24, 1:15\u202fPM - +49 170 12: Happy new year",
                "1/1/24, 1:16\u202fPM - Bob: Thanks",
            ],
            [("hi there",), ("Happy new year",)],
        ),
        (["[31.12.23, 21:15:03] Ann: a: b", "[31.12.23, 21:15:09] ~ Bob: c"], [("a: b",)]),
        (["Ann: hi", "Bob:", "Ann: you", "Bob: yes"], [("hi you",)]),
    ],
)
def test_speakers_are_named_in_several_ways(tmp_path, lines, contexts):
    """The longest context of each conversation; what names no speaker or has no text is counted."""
    found, report = read(tmp_path, "\n".join(lines), "talk.txt")
    talks = {each.conversation: each.context for each in found}
    assert list(talks.values()) == contexts
    assert report[Reason.NO_SPEAKER] == 2 * ("encrypted" in lines[0])
    assert report[Reason.BLANK_TURN] == ("Bob:" in lines)


def test_what_an_export_puts_in_place_of_an_image_is_no_turn(tmp_path):
    written = (
        "Ann: hi",
        "Bob: <Medien ausgeschlossen>",
        "Bob: a <b> c",
        "Ann: \u200eimage omitted",
        "Ann: ok",
    )
    chat = "\n".join(f"31.12.23, 21:15 - {line}" for line in written)
    found, report = read(tmp_path, chat, "chat.txt")
    assert [(each.context, each.reply) for each in found] == [(("hi",), "a <b> c"), (("hi", "a <b> c"), "ok")]
    assert report[Reason.BLANK_TURN] == 2
    play = read(tmp_path, "Ann: hi\nBob: <laughs>\nAnn: ok\n", "play.txt")
    assert [each.reply for each in play[0]] == ["<laughs>", "ok"]


def telegram(*said):
    """An export: (date, from, text), and a notice without a text of anybody."""
    messages = [{"id": 0, "type": "service", "date": "2024-01-01T08:00:00", "actor": "Ann", "text": ""}]
    for number, (date, who, text) in enumerate(said, start=1):
        fields = {"from": who, "from_id": f"user{number}", "text": text}
        messages.append({"id": number, "type": "message", "date": f"{date}T09:00:00", **fields})
    return {"name": "Bob", "type": "personal_chat", "id": 1, "messages": messages}


LINK = ["see ", {"type": "link", "text": "https://a.b"}, " please"]
CHAT = telegram(
    ("2024-01-01", "Ann", "hi"),
    ("2024-01-01", "Bob", LINK),
    ("2024-01-01", "Ann", ""),  # an image
    ("2024-01-02", "Ann", "and now?"),
    ("2024-01-02", None, "never"),  # a deleted account
)


@pytest.mark.parametrize("account", [CHAT, {"about": "…", "chats": {"about": "…", "list": [CHAT]}}])
def test_a_chat_of_telegram_is_a_conversation_each_day(tmp_path, account):
    text = json.dumps(account, indent=1)
    found, report = read(tmp_path, text, "result.json")
    assert [(each.context, each.reply) for each in found] == [
        (("hi",), "see https://a.b please"),
        (("and now?",), "never"),
    ]
    assert len({each.conversation for each in found}) == 2
    assert report.counts[Reason.BLANK_TURN].count == 1
    assert recognise([str(tmp_path / "result.json")], DataConfig(), "text_to_text").task == "conversation"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_document_is_a_list_of_conversations(tmp_path, indent):
    shared = [{"from": "system", "value": "Be kind."}, {"from": "human", "value": "hi"}]
    shared += [{"from": "gpt", "value": "hello"}, {"from": "human", "value": "bye"}]
    text = json.dumps([{"conversations": shared}, {"turns": TURNS}], indent=indent)
    found, _ = read(tmp_path, text, "all.json")
    assert [(each.context, each.reply) for each in found] == [
        (("Be kind.", "hi"), "hello"),  # only the assistant is learned
        (("hi",), "hello"),
        (("hi", "hello"), "bye"),
    ]
    assert recognise([str(tmp_path / "all.json")], DataConfig(), "text_to_text").task == "conversation"


@pytest.mark.parametrize("document", ["[]", "[1]", '[\n{"a": 1}]', "{\n}", "[", '{"messages": \n 1}'])
def test_a_document_without_conversations_is_refused(tmp_path, document):
    with pytest.raises(InputError, match=r"no conversations|not a JSON document|needs a list under turns"):
        read(tmp_path, document, "x.json")


def test_what_is_no_conversation_in_a_list_is_counted_and_a_document_has_contexts(tmp_path):
    text = json.dumps([{"turns": TURNS}, 3, {"a": 1}])
    with pytest.raises(InputError, match=r"3 is not a conversation; it needs an object; fix the line"):
        read(tmp_path, text, "x.json")
    found, report = read(tmp_path, text, "x.json", skip_bad_rows=True)
    assert len(found) == 2
    assert report.counts[Reason.BAD_ROW].count == 2
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT, indent=1))
    contexts = contexts_in_lines(str(path), Decoding())
    assert contexts == [("hi", "see https://a.b please"), ("and now?", "never")]


def test_a_table_has_a_context_and_a_reply(tmp_path):
    found, _ = read(tmp_path, "context\treply\nhi\thello\nbye\tso long\n", "t.tsv")
    assert [(each.context, each.reply) for each in found] == [(("hi",), "hello"), (("bye",), "so long")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"turns": "hi"}, "needs a list under turns or messages"),
        ({"text": "hi"}, "needs a list under turns or messages"),
        ({"turns": [{"speaker": 1}]}, "turn 1 has no text"),
        ({"turns": ["a", 3]}, "turn 2 is 3"),
    ],
)
def test_what_is_not_a_conversation_is_refused_with_its_line(tmp_path, value, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, lines({"turns": TURNS}, value))
    assert "chat.jsonl:2" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat.jsonl", lines(*[{"id": i, "turns": TURNS} for i in range(30)])),
        ("chat.jsonl", lines(*[{"messages": [{"role": "user", "content": "a"}]}] * 30)),
        ("play.txt", PLAY * 5),
        ("t.tsv", "context\treply\n" + "hi\thello\n" * 30),
    ],
)
def test_conversations_are_recognised(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert recognise([str(tmp_path / name)], DataConfig(), "text_to_text").task == "conversation"


def test_equal_conversations_have_one_key_in_any_file(tmp_path):
    first, _ = read(tmp_path, lines({"turns": TURNS}, {"turns": TURNS[:2]}), "train.jsonl")
    other = [
        {"speaker": "x", "text": " Hi"},
        {"speaker": "y", "text": "HELLO"},
        {"speaker": "x", "text": "bye"},
    ]
    again, _ = read(tmp_path, lines({"turns": other}), "test.jsonl")
    assert {each.conversation for each in again} == {first[0].conversation}


def test_a_survey_names_test_conversations_that_are_in_training(tmp_path):
    talks = [{"turns": [f"I am {i}.", f"Hello, {i}.", "Bye."]} for i in range(40)]
    (tmp_path / "train.jsonl").write_text(lines(*talks, *talks[:2]))
    (tmp_path / "test.jsonl").write_text(lines(*talks[:3], {"turns": ["Who is it?", "Me."]}))
    data = {"train": [str(tmp_path / "train.jsonl")], "test": [str(tmp_path / "test.jsonl")]}
    found = survey(parse({"task": "conversation", "data": data, "training": {"steps": 1}}))
    assert found.report.distinct == 40
    said = {finding.name: finding.sentence for finding in found.findings}
    assert said == {
        "duplicates": "duplicate pairs: 4 (4.8 %)",
        "leaks": "test exchanges whose conversation is in training: 6 of 7",
    }


def test_the_doctor_offers_no_repair_of_conversations(tmp_path, capsys):
    file = tmp_path / "chat.jsonl"
    file.write_text(lines(*[{"turns": TURNS}] * 30))
    cli.main(["doctor", str(file)])
    out, err = capsys.readouterr()
    assert "duplicate pairs" in out + err
    assert "--fix" not in out + err


@pytest.mark.parametrize(
    ("text", "contexts"),
    [
        (PLAY, [("Where is it?", "Over there, behind you.", "Thanks.", "Sure."), ("Hello?", "Hi!")]),
        ("Ann: Hi!\n", [("Hi!",)]),  # a few lines are enough
        ("Ann: Hi!\nAnn: You!\nBob:\n\tYes?\n", [("Hi! You!", "Yes?")]),
        ("Well, hello.\nAnn: Hi!\n", None),  # one context on each line
        ("Ann: Hi!\nAnn: You!\n", None),
        ("Ann: Hi!\tBob: Yes?\n", None),
        (lines({"turns": TURNS}), None),
    ],
)
def test_the_turns_of_each_conversation_in_a_play_are_an_input(tmp_path, text, contexts):
    file = tmp_path / "talk.txt"
    file.write_text(text)
    assert contexts_in_lines(str(file), Decoding()) == contexts
    if text is PLAY:  # they are those that training reads
        found, _ = read(tmp_path, text, "talk.txt")
        talks = {each.conversation: (*each.context, each.reply) for each in found}
        assert list(talks.values()) == contexts


def test_the_contexts_of_a_table_are_inputs(tmp_path):
    """One for each row, also of one without a reply; a file of another form is read by lines."""
    table, lines = tmp_path / "talk.tsv", tmp_path / "lines.txt"
    table.write_text("context\treply\nhi\thello\nbye\t\n")
    assert contexts_in_table(str(table), Decoding()) == [("hi",), ("bye",)]
    commas = tmp_path / "talk.csv"
    commas.write_text('context,reply\n"hi, you",hello\n')
    assert contexts_in_table(str(commas), Decoding()) == [("hi, you",)]
    lines.write_text("hi\tthere\n")
    assert contexts_in_table(str(lines), Decoding()) is None
    assert contexts_in_table(str(tmp_path / "none"), Decoding()) is None
