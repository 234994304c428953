"""Tools that share a namespace, as Codex offers those of its servers: one whole name for the model, two parts for the client."""

from __future__ import annotations

import json

from tiebreak.core.message import Finish, Reply, StreamEnd, ToolCall, ToolCallDelta
from tiebreak.wire import responses

BODY = {
    "model": "m",
    "input": [
        {"type": "function_call", "call_id": "1", "name": "level", "namespace": "mcp__stock", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "3"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "parameters": {}},
        {"type": "namespace", "name": "mcp__stock", "tools": [{"type": "function", "name": "level", "parameters": {}}]},
        {"type": "web_search"},
    ],
}
WHOLE = "mcp__stock__level"
CALL = ToolCall(id="2", name=WHOLE, arguments="{}")


def test_a_model_is_offered_whole_names_and_sees_its_calls_by_them() -> None:
    request = responses.decode_request(BODY)

    assert [tool.name for tool in request.tools] == ["shell", WHOLE]
    assert request.messages[0].tool_calls[0].name == WHOLE


def test_the_client_is_answered_in_its_own_names() -> None:
    namespaces = responses.tool_namespaces(BODY)
    reply = Reply(text="", tool_calls=(CALL, ToolCall(id="3", name="shell", arguments="{}")), finish=Finish.TOOL)

    first, second = responses.encode_reply(reply, namespaces=namespaces)["output"]

    assert (first["namespace"], first["name"]) == ("mcp__stock", "level")
    assert second["name"] == "shell" and "namespace" not in second


def test_a_stream_too() -> None:
    writer = responses.Writer(namespaces=responses.tool_namespaces(BODY))
    events = (ToolCallDelta(index=0, id="2", name=WHOLE, arguments="{}"), StreamEnd(finish=Finish.TOOL))
    pieces = b"".join([*writer.begin(), *(piece for event in events for piece in writer.write(event))])

    data = [json.loads(line[6:]) for line in pieces.decode().splitlines() if line.startswith("data: {")]

    done = data[-1]["response"]["output"][0]
    assert (done["namespace"], done["name"], done["arguments"]) == ("mcp__stock", "level", "{}")


def test_a_body_that_is_none_has_no_namespaces() -> None:
    assert responses.tool_namespaces(b"{") == {}
