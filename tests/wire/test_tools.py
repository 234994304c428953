"""Tools, their calls and results, images and systems: spelled as each format wants them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support import ollama_wire as ollama
from wire.making import FORMATS, Format, used

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import ImagePart, Message, Reply, TextPart, ThinkingPart, Tool, ToolCall, system, user
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages, responses

each_format = pytest.mark.parametrize("form", FORMATS, ids=str)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool(name="weather", description="Tells the weather.", parameters=SCHEMA)
PARIS = ToolCall(id="c1", name="weather", arguments='{"city":"Paris"}')
ROME = ToolCall(id="c2", name="weather", arguments='{"city":"Rome"}')
TALK = Request(
    model="m",
    messages=(
        system("Be brief."),
        user("Weather in Paris and Rome?"),
        Message(role="assistant", parts=(TextPart("Looking."),), tool_calls=(PARIS, ROME)),
        Message(role="tool", parts=(TextPart("rain"),), tool_call_id="c1"),
        Message(role="tool", parts=(TextPart("no such city"),), tool_call_id="c2", failed=True),
        user("And now?"),
    ),
    tools=(WEATHER,),
    tool_choice="weather",
    settings={"max_tokens": 50},
)


def test_chat_spells_tools() -> None:
    body = chat.encode(TALK)
    assert body["tools"] == [
        {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": SCHEMA}}
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["messages"][2]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
    }
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "rain"}


def test_responses_spell_tools() -> None:
    body = responses.encode(TALK)
    assert body["tools"][0] | {} == {
        "type": "function",
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": SCHEMA,
        "strict": False,
    }
    assert body["tool_choice"] == {"type": "function", "name": "weather"}
    kinds = [item["type"] for item in body["input"]]
    assert kinds == [
        "message",
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert body["store"] is False


def test_messages_spell_tools_and_answer_calls_together() -> None:
    body = messages.encode(TALK)
    assert body["system"] == "Be brief."
    assert body["tools"] == [{"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}]
    assert body["tool_choice"] == {"type": "tool", "name": "weather"}
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user", "user"]
    assert body["messages"][1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}}
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such city", "is_error": True},
    ]


def test_gemini_spells_tools_and_answers_calls_by_name() -> None:
    body = gemini.encode(TALK)
    declared = {"name": "weather", "description": "Tells the weather.", "parametersJsonSchema": SCHEMA}
    assert body["tools"] == [{"functionDeclarations": [declared]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}}
    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "weather", "id": "c1", "response": {"output": "rain"}}},
        {"functionResponse": {"name": "weather", "id": "c2", "response": {"error": "no such city"}}},
    ]


def test_ollama_spells_tools_and_answers_calls_by_name() -> None:
    body = ollama.encode(TALK)
    assert body["tools"][0]["function"]["name"] == "weather"
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Paris"}}
    assert body["messages"][3] == {"role": "tool", "content": "rain", "tool_name": "weather", "tool_call_id": "c1"}
    assert used(TALK) & ollama.UNSUPPORTED == {"tool_choice"}


@each_format
@pytest.mark.parametrize("choice", ["auto", "none", "required", "weather"])
def test_tool_choice_is_understood(form: Format, choice: str) -> None:
    request = Request(model="m", messages=(user("hi"),), tools=(WEATHER,), tool_choice=choice, settings={"max_tokens": 5})
    expected = "" if "tool_choice" in form.module.UNSUPPORTED else choice
    assert form.module.decode_request(form.module.encode(request)).tool_choice == expected


@each_format
def test_broken_arguments_survive(form: Format) -> None:
    """What the model wrote goes through every format and comes out as it was."""
    broken = ToolCall(id="c1", name="f", arguments='{"a": ')
    assert broken.parsed() is None
    reply = form.module.decode(msgspec.json.encode(form.module.encode_reply(Reply(text="", tool_calls=(broken,)))))
    assert reply.tool_calls[0].arguments == '{"a": '
    turn = Message(role="assistant", tool_calls=(broken,))
    request = Request(model="m", messages=(user("hi"), turn), settings={"max_tokens": 5})
    assert form.module.decode_request(form.module.encode(request)).messages[1].tool_calls == (broken,)


def test_arguments_are_parsed_on_demand() -> None:
    assert PARIS.parsed() == {"city": "Paris"}
    assert ToolCall(id="", name="f", arguments=" ").parsed() == {}
    assert ToolCall(id="", name="f", arguments="[1]").parsed() is None
    assert ToolCall(id="", name="f", arguments="[" * 10**5).parsed() is None


def test_gemini_calls_without_ids_are_answered_in_order() -> None:
    call = {"functionCall": {"name": "f", "args": {}}}
    answers = [{"functionResponse": {"name": "f", "response": {"output": text}}} for text in ("one", "two")]
    contents = [{"role": "model", "parts": [call, call]}, {"role": "user", "parts": answers}]
    request = gemini.decode_request({"contents": contents})
    assert [m.tool_call_id for m in request.messages[1:]] == [c.id for c in request.messages[0].tool_calls]
    assert gemini.encode(request)["contents"] == contents


def test_gemini_older_schemas_are_read_as_json_schemas() -> None:
    older = {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING"}}}}
    tools = [{"functionDeclarations": [{"name": "f", "parameters": older}]}, {"googleSearch": {}}]
    (tool,) = gemini.decode_request({"contents": [], "tools": tools}).tools
    assert tool.parameters == {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}


def test_tools_only_the_provider_can_run_are_left_out() -> None:
    body: dict[str, Any] = {
        "model": "m",
        "max_tokens": 5,
        "messages": [],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    assert messages.decode_request(body).tools == ()
    assert responses.decode_request({"model": "m", "input": "hi", "tools": [{"type": "web_search"}]}).tools == ()


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (chat, {"model": "m", "messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
        (chat, {"model": "m", "messages": [{"role": "critic", "content": "x"}]}),
        (chat, {"messages": []}),
        (messages, {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "document"}]}]}),
        (messages, {"model": "m", "messages": []}),
        (responses, {"model": "m", "input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
        (gemini, {"contents": [{"parts": [{"executableCode": {}}]}]}),
        (ollama, {"model": "m", "messages": [{"role": "critic"}]}),
        (ollama, {"model": 7}),
    ],
)
def test_what_cannot_be_passed_on_is_refused_not_dropped(form: Any, body: dict[str, Any]) -> None:
    with pytest.raises(ProviderError) as caught:
        form.decode_request(body)
    assert caught.value.kind is FailureKind.BAD_REQUEST


PICTURE = ImagePart(media_type="image/png", data_base64="iVBORw0KGgo=")


def test_images_in_every_format() -> None:
    request = Request(model="m", messages=(Message(role="user", parts=(TextPart("see"), PICTURE)),))
    address = "data:image/png;base64,iVBORw0KGgo="
    assert chat.encode(request)["messages"][0]["content"][1] == {"type": "image_url", "image_url": {"url": address}}
    assert responses.encode(request)["input"][0]["content"][1]["image_url"] == address
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert messages.encode(request)["messages"][0]["content"][1] == {"type": "image", "source": source}
    inline = {"mimeType": "image/png", "data": "iVBORw0KGgo="}
    assert gemini.encode(request)["contents"][0]["parts"][1] == {"inlineData": inline}
    assert ollama.encode(request)["messages"][0]["images"] == ["iVBORw0KGgo="]


def test_used_names_what_a_format_may_lack() -> None:
    away = ImagePart(media_type="", url="https://example.org/a.png")
    talk = (Message(role="user", parts=(away,)), Message(role="tool", parts=(PICTURE,), tool_call_id="x"))
    request = Request(model="m", messages=talk, settings={"seed": 1}, logprobs=0, stream=True)
    assert used(request) == {"seed", "logprobs", "stream", "image", "image_url", "tool_image"}
    assert used(request) & ollama.UNSUPPORTED == {"image_url"}
    assert used(request) & messages.UNSUPPORTED == {"seed", "logprobs"}


def test_client_habits_are_understood() -> None:
    """Spellings that coding agents send."""
    asked = chat.decode_request({"model": "m", "messages": [{"role": "developer", "content": "x"}], "max_completion_tokens": 9})
    assert (asked.messages[0].role, asked.settings) == ("system", {"max_tokens": 9})
    blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]
    body = {"model": "m", "max_tokens": 5, "system": blocks, "messages": [{"role": "user", "content": blocks}], "metadata": {}}
    assert messages.decode_request(body).messages[0].text == "a\n\nb"
    asked = responses.decode_request({"model": "m", "instructions": "Be brief.", "input": "hi"})
    assert [m.text for m in asked.messages] == ["Be brief.", "hi"]
    assert ollama.decode_request({"model": "m", "messages": []}).stream is True


@pytest.mark.parametrize("origin", ["responses", "messages", "gemini"])
def test_sealed_reasoning_goes_back_only_where_it_came_from(origin: str) -> None:
    turn = Message(role="assistant", parts=(ThinkingPart(text="hmhmhm", seal="sEaL", format=origin), TextPart("x")))
    request = Request(model="m", messages=(user("hi"), turn))
    for form in FORMATS:
        body = msgspec.json.encode(form.module.encode(request))
        assert (b"hmhmhm" in body) == (b"sEaL" in body) == (form.name == origin)
