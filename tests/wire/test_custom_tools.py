"""Tools that take free text, which only responses know: functions with one text to everyone else, and back again."""

from __future__ import annotations

from support.packages import need_packages

need_packages("openai")

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response
from support import ollama_wire as ollama
from support.streams import encode_stream

from tiebreak.core.message import Finish, Reply, StreamEnd, StreamEvent, TextDelta, ToolCall, ToolCallDelta
from tiebreak.wire import chat, gemini, messages, responses

PATCH = '*** Begin Patch\n*** Update File: a.py\n-x = "\\u00e9"\n+x = "\N{ROCKET}"\t\\\n*** End Patch\n'
GRAMMAR = 'start: "*** Begin Patch" hunk+ "*** End Patch"'
BODY = {
    "model": "m",
    "input": [
        {"type": "message", "role": "user", "content": "Fix it."},
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "status": "completed",
            "call_id": "c1",
            "name": "apply_patch",
            "input": PATCH,
        },
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done!"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "parameters": {"type": "object"}},
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
        },
        {"type": "custom", "name": "note", "format": {"type": "text"}},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "custom", "name": "apply_patch"},
}
CUSTOM = frozenset({"apply_patch", "note"})


def as_call(text: str) -> ToolCall:
    return ToolCall(id="c1", name="apply_patch", arguments=json.dumps({"input": text}))


def spoken(events: list[StreamEvent]) -> list[dict[str, Any]]:
    """What a client hears of a stream."""
    stream = b"".join(encode_stream(responses, events, custom=CUSTOM)).decode()
    return [json.loads(line.removeprefix("data: ")) for line in stream.split("\n") if line.startswith("data: ")]


def in_pieces(arguments: str, cuts: list[int], index: int = 0) -> list[StreamEvent]:
    places = [0, *sorted({cut % (len(arguments) + 1) for cut in cuts}), len(arguments)]
    pieces = [arguments[a:b] for a, b in itertools.pairwise(places)]
    named = ToolCallDelta(index=index, id=f"c{index}", name="apply_patch")
    return [named, *(ToolCallDelta(index=index, arguments=piece) for piece in pieces)]


# --- requests ---------------------------------------------------------------------------------------


def test_request_is_read_as_one_of_functions() -> None:
    """The grammar, to which nobody else can be held, is told."""
    request = responses.decode_request(json.dumps(BODY).encode())

    assert [tool.name for tool in request.tools] == ["shell", "apply_patch", "note"]
    patch, note = request.tools[1:]
    assert patch.description.startswith("Edits files.\n")
    assert patch.parameters["required"] == ["input"]
    assert "`input`" in note.description
    assert GRAMMAR in patch.parameters["properties"]["input"]["description"]
    assert "grammar" not in note.parameters["properties"]["input"]["description"]
    assert request.tool_choice == "apply_patch"
    call, result = request.messages[1:]
    assert call.tool_calls[0].parsed() == {"input": PATCH}
    assert (result.role, result.tool_call_id, result.text) == ("tool", "c1", "Done!")
    assert responses.custom_tools(json.dumps(BODY).encode()) == CUSTOM


@pytest.mark.parametrize("wire", [chat, messages, gemini, ollama, responses])
def test_request_can_be_put_in_every_format(wire: Any) -> None:
    said = json.dumps(wire.encode(responses.decode_request(BODY)))
    assert all(word in said for word in ("apply_patch", "Begin Patch", "Done!", "hunk+"))


@pytest.mark.parametrize("body", [b"", b"[]", b'{"tools": 3}', b'{"tools": [{"type": "custom", "name": 3}]}', b"{}"])
def test_body_that_cannot_be_read_has_no_such_tools(body: bytes) -> None:
    assert responses.custom_tools(body) == frozenset()


# --- replies ----------------------------------------------------------------------------------------


def test_reply_has_the_calls_as_the_client_knows_them() -> None:
    other = ToolCall(id="c2", name="shell", arguments='{"input": "ls"}')
    reply = Reply(text="", tool_calls=(as_call(PATCH), other), finish=Finish.TOOL, model="m")
    body = responses.encode_reply(reply, custom=CUSTOM)

    first, second = Response.model_validate(body).output
    assert (first.type, second.type) == ("custom_tool_call", "function_call")
    assert first.input == PATCH
    assert responses.decode(json.dumps(body).encode()).tool_calls[0].parsed() == {"input": PATCH}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "ls"}', "ls"),
        ('{"patch": "ls"}', "ls"),
        ('"ls"', "ls"),
        ('{"input": "a\nb\tc"}', "a\nb\tc"),
        ('{"input": "half \\ud83d of it"}', "half \N{REPLACEMENT CHARACTER} of it"),
        ('{"why": "x", "input": "ls"}', "ls"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"input": 3}', '{"input": 3}'),
        ('{"a": "x", "b": "y"}', '{"a": "x", "b": "y"}'),
        ("[1]", "[1]"),
        ("", ""),
        ("{}", "{}"),
    ],
)
def test_model_that_writes_its_arguments_otherwise_is_understood_as_far_as_can_be(arguments: str, text: str) -> None:
    """Whole or streamed, to the same end."""
    call = ToolCall(id="c1", name="note", arguments=arguments)
    body = responses.encode_reply(Reply(text="", tool_calls=(call,), finish=Finish.TOOL), custom=CUSTOM)
    assert body["output"][0]["input"] == text

    heard = spoken([*in_pieces(arguments, [3, 7, 11]), StreamEnd(finish=Finish.TOOL)])
    (done,) = [event for event in heard if event["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == heard[-1]["response"]["output"][0]["input"] == text


def test_call_cut_short_is_what_was_said_of_it() -> None:
    heard = spoken([*in_pieces('{"input": "*** Begin Pa\\', []), StreamEnd(finish=Finish.LENGTH)])
    assert heard[-1]["response"]["output"][0]["input"] == "*** Begin Pa"


@given(
    text=st.text(st.characters(exclude_categories=("Cs",))),
    cuts=st.lists(st.integers(0, 10_000), max_size=8),
    ascii=st.booleans(),
)
def test_any_text_in_any_pieces_is_heard_whole_and_read_back(text: str, cuts: list[int], ascii: bool) -> None:
    """Nothing is said twice or lost, wherever the model's JSON was cut; between other items, and twice in a row."""
    arguments = json.dumps({"input": text}, ensure_ascii=ascii)
    again = json.dumps({"input": text[::-1]}, ensure_ascii=ascii)
    events = [TextDelta("Look:"), *in_pieces(arguments, cuts), *in_pieces(again, cuts, 1), StreamEnd(finish=Finish.TOOL)]
    heard = spoken(events)

    said = {1: "", 2: ""}
    for event in heard:
        if event["type"] == "response.custom_tool_call_input.delta":
            said[event["output_index"]] += event["delta"]
    assert said == {1: text, 2: text[::-1]}
    assert [item["type"] for item in heard[-1]["response"]["output"]] == ["message", "custom_tool_call", "custom_tool_call"]
    Response.model_validate(heard[-1]["response"])
    reader = responses.Reader()
    reader.feed(b"".join(encode_stream(responses, events, custom=CUSTOM)))
    read = reader.finish()
    assert [call.parsed() for call in read.tool_calls] == [{"input": text}, {"input": text[::-1]}]
    assert (read.finish, read.text) == (Finish.TOOL, "Look:")


def test_pieces_are_said_as_they_come() -> None:
    writer = responses.Writer(custom=CUSTOM)
    list(writer.begin())
    list(writer.write(ToolCallDelta(index=0, id="c", name="note", arguments='{"input": "')))
    assert b'"delta":"one "' in b"".join(writer.write(ToolCallDelta(index=0, arguments="one ")))
    assert b'"delta":"two"' in b"".join(writer.write(ToolCallDelta(index=0, arguments="two\\")))
