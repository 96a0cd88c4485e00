"""Reading prompts: what is accepted, and what each refusal says."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.attribution.snapshots import Snapshot, Span, read_snapshots
from quorum.errors import InputError
from quorum.records import Message


def line(content: object = "hi", **more: object) -> str:
    return json.dumps({"messages": [{"role": "user", "content": content}], **more})


def refusal(text: bytes | str, name: str = "p.jsonl") -> str:
    with pytest.raises(InputError) as caught:
        read_snapshots(text, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_line_becomes_a_snapshot_with_all_its_fields():
    text = json.dumps(
        {
            "id": "a",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Is it raining?"},
            ],
            "spans": [
                {"message": 1, "start": 6, "end": 13},
                {"message": 1, "start": 0, "end": 2},
            ],
            "target": "No.",
            "partition": "spans",
        }
    )
    assert read_snapshots(text, "p.jsonl") == [
        Snapshot(
            "a",
            (Message("system", "Be brief."), Message("user", "Is it raining?")),
            (Span(1, 0, 2), Span(1, 6, 13)),
            "No.",
            {"name": "spans"},
        )
    ]


def test_byte_order_mark_crlf_and_blank_lines_are_accepted():
    text = "\ufeff" + line("one", id="1") + "\r\n\r\n" + line("two", id="2") + "\r\n"
    assert [s.id for s in read_snapshots(text.encode(), "p.jsonl")] == ["1", "2"]
    assert read_snapshots(text, "p.jsonl") == read_snapshots(text.encode(), "p.jsonl")


def test_only_a_line_feed_ends_a_json_line():
    text = json.dumps(
        {"messages": [{"role": "user", "content": "a\u2028b\x85c\r\nd"}]}, ensure_ascii=False
    )
    assert read_snapshots(text, "p.jsonl")[0].messages[0].content == "a\u2028b\x85c\r\nd"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])).filter(str.strip))
def test_a_text_is_taken_literally(text):
    assert read_snapshots(line(text), "p.jsonl")[0].messages[0].content == text


def test_ids_that_are_not_given_come_from_content_so_that_order_does_not_matter():
    lines = [line(f"prompt {i}") for i in range(9)]
    before = {s.messages: s.id for s in read_snapshots("\n".join(lines), "p.jsonl")}
    random.Random(1).shuffle(lines)
    after = {s.messages: s.id for s in read_snapshots("\n".join(lines), "p.jsonl")}
    assert before == after
    assert len(set(before.values())) == 9
    assert all(i.startswith("s-") and len(i) == 14 for i in before.values())


def test_digest_is_over_roles_and_texts_alone():
    (a,) = read_snapshots(line("x", id="a"), "p.jsonl")
    (b,) = read_snapshots(line("x", id="b", target="t"), "p.jsonl")
    (c,) = read_snapshots(line("y", id="a"), "p.jsonl")
    system = Snapshot("a", (Message("system", "x"),))
    assert a.digest == b.digest
    assert len({a.digest, c.digest, system.digest}) == 3


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{", ["p.jsonl:1", "not JSON", "column 2"]),
        (line(id="a") + "\n[1]", ["p.jsonl:2", "wrong type", "an object"]),
        ("[" * 100_000, ["p.jsonl:1", "not usable JSON"]),
        ('{"id": "a", "id": "b"}', ["p.jsonl:1", "'id' stands twice"]),
        ('{"messages": NaN}', ["p.jsonl:1", "NaN is no JSON number"]),
        ('{"id": "a"}', ["p.jsonl:1", "'messages' is missing"]),
        (line(mesages=1), ["p.jsonl:1", "unknown key, got 'mesages'", "Did you mean 'messages'?"]),
        ('{"messages": []}', ["messages is empty"]),
        ('{"messages": "hi"}', ["messages is of the wrong type", "a list"]),
        ('{"messages": ["hi"]}', ["messages[0]", "object with role and content"]),
        ('{"messages": [{"role": "user"}]}', ["'content' of messages[0] is missing"]),
        (
            '{"messages": [{"role": "User", "content": "x"}]}',
            ["unknown role of messages[0], got 'User'", "system, user, assistant"],
        ),
        (
            '{"messages": [{"role": "user", "contents": "x"}]}',
            ["unknown key in messages[0]", "Did you mean 'content'?"],
        ),
        (line(" \t "), ["messages[0].content is blank"]),
        (line(None), ["messages[0].content is of the wrong type, got null"]),
        (line(7), ["messages[0].content is of the wrong type, got 7"]),
        (line(id=7), ["id is of the wrong type, got 7"]),
        (line(id=" "), ["id is blank"]),
        (line("a\ud83db"), ["lone surrogate", "at character 1"]),
        (line("ab", spans=[]), ["spans is empty"]),
        (line("ab", spans=[{"message": 1, "start": 0, "end": 1}]), ["not there, got 1"]),
        (line("ab", spans=[{"message": 0, "start": 0, "end": 3}]), ["outside", "0–3", "0–2"]),
        (line("ab", spans=[{"message": 0, "start": -1, "end": 1}]), ["outside"]),
        (line("ab", spans=[{"message": 0, "start": 1, "end": 1}]), ["spans[0] holds no text"]),
        (line("a b", spans=[{"message": 0, "start": 1, "end": 2}]), ["spans[0] holds no text"]),
        (line("ab", spans=[{"message": 0, "start": 1}]), ["spans[0].end is no whole number"]),
        (line("ab", spans=[{"message": 0, "start": True, "end": 2}]), ["start is no whole"]),
        (
            line("abc", spans=[
                {"message": 0, "start": 1, "end": 3}, {"message": 0, "start": 0, "end": 2},
            ]),
            ["overlap: 0–2 and 1–3"],
        ),
        (line(partition={"pattern": "x"}), ["'name' of partition is missing"]),
        (line(partition={"name": "words", "roles": ["human"]}), ["partition.roles"]),
        (line(id="x") + "\n\n" + line("other", id="x"), ["p.jsonl:3", "on line 1 already", "'x'"]),
        (line("same") + "\n" + line("same"), ["p.jsonl:2", "on line 1 already"]),
        ("", ["p.jsonl: no snapshot in it"]),
        (" \n\n", ["no snapshot in it"]),
    ],
)  # fmt: skip
def test_a_refusal_names_file_line_and_what_is_wrong(text, parts):
    message = refusal(text)
    for part in parts:
        assert part in message


def test_bytes_that_are_not_utf8_are_refused_with_offset_and_line():
    message = refusal(line(id="a").encode() + b"\n" + "Don’t know".encode("cp1252"))
    offset = len(line(id="a")) + 1 + len("Don")
    assert message.startswith("p.jsonl:2: not UTF-8: byte 0x92 at byte offset " + str(offset))
    assert "Windows-1252" in message


def test_utf16_is_named():
    assert "UTF-16" in refusal(line().encode("utf-16"))


def test_other_kinds_of_file_are_refused():
    assert "allowed .jsonl, .ndjson, .csv" in refusal("[]", "p.json")


def test_csv_has_a_prompt_column_and_optional_others():
    text = '\ufeffid,system,prompt,target\r\n007,Be brief.,"Hi, you\r\n""there""",\r\n,,NA,None\r\n'
    first, second = read_snapshots(text.encode(), "p.csv")
    assert first == Snapshot(
        "007", (Message("system", "Be brief."), Message("user", 'Hi, you\r\n"there"'))
    )
    assert second.messages == (Message("user", "NA"),)
    assert second.target == "None"
    assert second.id.startswith("s-")


@pytest.mark.parametrize("text", ["NA", "None", "null", "N/A", "nan", "0", "1.0", "=2+3", " x "])
def test_a_csv_cell_stays_the_text_it_is(text):
    (snapshot,) = read_snapshots(f"prompt\n{text}\n", "p.csv")
    assert snapshot.messages[0].content == text


def test_csv_and_jsonl_of_the_same_prompt_get_the_same_id():
    (a,) = read_snapshots("prompt\nhi\n", "p.csv")
    (b,) = read_snapshots(line("hi"), "p.jsonl")
    assert a == b


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("id;prompt\n1;x\n", ["p.csv:1", "parted by semicolons", "a comma"]),
        ("id\tprompt\n1\tx\n", ["p.csv:1", "parted by tabs"]),
        ("id,promt\n1,x\n", ["unknown column in the header, got 'promt'", "'prompt'?"]),
        ("id,system\n1,x\n", ["the column 'prompt' is missing"]),
        ("prompt,prompt\n1,x\n", ["twice in the header"]),
        ("id,prompt\n1,a\n2,Yes, often\n", ["p.csv:3", "3 cells under 2 columns"]),
        ("id,prompt\n1\n", ["p.csv:2", "1 cells under 2 columns"]),
        ('id,prompt\n1,"a\nb"\n2,"open\n', ["p.csv:4", "not CSV"]),
        ('prompt\n"a"b\n', ["p.csv:2", "not CSV"]),
        ("id,prompt\n1,\n", ["p.csv:2", "prompt is blank"]),
        ('id,prompt\n1,"a\nb"\n1,c\n', ["p.csv:4", "on line 2 already"]),
        ("prompt\n", ["no snapshot in it"]),
        ("prompt\n" + "x" * 200_000 + "\n", ["p.csv:2", "field limit", "JSONL"]),
    ],
)
def test_a_csv_refusal_names_the_line(text, parts):
    message = refusal(text, "p.csv")
    for part in parts:
        assert part in message
