"""What goes through the gateway comes out the same: any answer, in any dialect, from any other; bodies passed on as they are."""

from __future__ import annotations

from support.packages import need_packages

need_packages("openai")

import asyncio
import json
from types import SimpleNamespace

import msgspec
import pytest
from aiohttp import ClientSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai import AsyncOpenAI
from support.agent_model import DONE
from support.clients import CLIENTS
from support.gateways import PROVIDERS, url_of
from wire.making import FORMATS, replies, streams

from tiebreak.core.message import (
    Finish,
    Message,
    Reply,
    StreamEnd,
    ThinkingPart,
    ToolCall,
    ToolCallDelta,
    Usage,
    assistant,
    user,
)
from tiebreak.core.model import Request, Verbatim
from tiebreak.gateway.gateway import Gateway
from tiebreak.gateway.memory import Memory
from tiebreak.gateway.server import Exchange
from tiebreak.providers.http import with_settings
from tiebreak.wire import chat, gemini, messages, responses
from tiebreak.wire.reading import ReplyBuilder

BY_NAME = {form.name: form for form in FORMATS}
AGENTS = ("chat", "responses", "messages", "gemini")
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}


class Wrote:
    """A transport that keeps what is written."""

    def __init__(self):
        self.data = b""

    def is_closing(self):
        return False

    def write(self, data):
        self.data += data

    @property
    def body(self):
        head, _, rest = self.data.partition(b"\r\n\r\n")
        if b"chunked" not in head:
            return rest
        found = b""
        while rest and (size := int(rest.partition(b"\r\n")[0], 16)):
            start = rest.index(b"\r\n") + 2
            found, rest = found + rest[start : start + size], rest[start + size + 2 :]
        return found


class Says:
    """Answers with what it is told to, as events first where there are any."""

    def __init__(self, reply, events=()):
        self.reply = reply
        self.events = events

    def speaks(self, dialect):
        return False

    def probed(self, what):
        raise AssertionError(what)

    async def answer(self, request, listener):
        for event in self.events:
            listener.hear(event)
        return self.reply


def through(dialect, reply, events=(), *, stream):
    """The reply as a client of the dialect reads it."""
    module = BY_NAME[dialect].module
    body = msgspec.json.encode(
        module.encode(Request(model="m", messages=(user("hi"),), settings={"max_tokens": 9}, stream=stream))
    )
    path, query = PATHS[dialect], ""
    if dialect == "gemini" and stream:
        path, query = path.replace("generate", "streamGenerate"), "alt=sse"
    gateway, wrote = Gateway(model="m"), Wrote()
    gateway.answers = Says(reply, events)

    async def handle():
        await gateway.handle(Exchange("POST", path, query, {"x-api-key": gateway.key}, body, wrote, True))

    asyncio.run(handle())
    if not stream:
        return module.decode(wrote.body)
    reader = module.Reader()
    reader.feed(wrote.body)
    return reader.finish()


def same(heard, reply, dialect, *, stream=False):
    """Words, calls, cost and end; what the dialect has no word for aside."""
    assert heard.text == reply.text
    # Some formats want objects, and spell them anew.
    assert [(c.id, c.name, c.parsed()) for c in heard.tool_calls] == [(c.id, c.name, c.parsed()) for c in reply.tool_calls]
    if reply.usage is not None:
        assert heard.usage == replace(reply.usage, cost_usd=None)
    ends = {reply.finish}
    if reply.finish is Finish.REFUSED:
        ends |= {Finish.FILTERED, Finish.STOP}
    if reply.finish is Finish.FILTERED:
        ends |= {Finish.REFUSED}
    if reply.tool_calls:
        ends |= {Finish.TOOL, Finish.STOP}
    assert heard.finish in ends


def with_objects(reply):
    """Calls as agents' dialects can hold them: ids that differ, arguments that are objects."""
    calls = []
    for number, call in enumerate(reply.tool_calls):
        arguments = call.arguments if call.parsed() else "{}"
        calls.append(replace(call, id=f"id-{number}", name=call.name or "tool", arguments=arguments))
    return replace(reply, tool_calls=tuple(calls), logprobs=())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", BY_NAME)
@pytest.mark.parametrize("dialect", AGENTS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_reply_of_any_provider_is_understood_in_any_dialect(dialect, provider, stream, data):
    reply = with_objects(data.draw(replies(BY_NAME[provider])))
    same(through(dialect, reply, stream=stream), reply, dialect, stream=stream)


@pytest.mark.parametrize("provider", BY_NAME)
@pytest.mark.parametrize("dialect", AGENTS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_stream_is_written_as_it_comes(dialect, provider, data):
    """Event by event comes to the same as all at once."""
    events = data.draw(streams(BY_NAME[provider]))
    events = [
        replace(event, id=f"id-{event.index}" if event.id else "") if isinstance(event, ToolCallDelta) else event
        for event in events
    ]
    gathered = ReplyBuilder()
    for event in events:
        gathered.add(event)
    reply = gathered.reply()
    if any(call.parsed() is None or not call.name or not call.id for call in reply.tool_calls):
        return
    heard = through(dialect, reply, [e for e in events if not isinstance(e, StreamEnd)], stream=True)
    same(heard, reply, dialect, stream=True)


# --- what the agent's dialect cannot carry ---------------------------------------------------------


async def test_google_s_signatures_come_back_with_the_calls_they_belong_to(opened, model):
    """In dialects without a place for them; the server refuses calls that come back without."""
    model.seal = "c2VhbA=="
    for dialect in CLIENTS:
        gateway = await opened("google")
        turns = await CLIENTS[dialect](url_of(gateway), gateway.key, streamed=dialect == "chat").work("Fix it.")
        assert len(turns) == 3, dialect


def test_sealed_reasoning_goes_back_before_the_calls_it_led_to():
    memory = Memory()
    thought = ThinkingPart(text="hm", seal="s", format="messages")
    memory.keep(Reply(text="", parts=(thought,), tool_calls=(ToolCall(id="a", name="t"),), finish=Finish.TOOL))
    turn = Message(role="assistant", tool_calls=(ToolCall(id="a", name="t"),))
    plain = assistant("nothing")

    again = memory.put_back(Request(model="m", messages=(turn, plain)))

    assert again.messages == (replace(turn, parts=(thought,)), plain)
    assert memory.put_back(again) == again


async def test_calls_of_servers_that_count_anew_get_ids_of_their_own(opened, model):
    """Ollama names no call: two turns' calls would be taken for one."""
    gateway = await opened("ollama")
    gateway.answers.provider = SimpleNamespace(generate=_unnamed, dialects=None)
    client = CLIENTS["messages"](url_of(gateway), gateway.key)
    ids = []
    for _ in range(3):
        turn = await client.ask("go on")
        client.answer(turn, "done")
        ids += [call[0] for call in turn.calls]
    assert len(set(ids)) == 3


async def _unnamed(request, listener):
    call = ToolCall(id="unnamed-call-0", name="edit", arguments="{}")
    return Reply(text="", tool_calls=(call,), finish=Finish.TOOL, usage=Usage())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tools_that_take_free_text_work_with_any_model(provider, streamed, opened, model):
    """The official client calls them, gets its calls back as free text, and answers; the model sees functions."""
    gateway = await opened(provider, verbatim=False)
    tools = [{"type": "custom", "name": name, "description": name, "format": {"type": "text"}} for name in ("read_file", "edit")]
    said, history = [], [{"role": "user", "content": "Fix it."}]
    async with AsyncOpenAI(base_url=f"{url_of(gateway)}/v1", api_key=gateway.key, max_retries=0) as client:
        for number in range(3):
            asked = {"model": "x", "input": history, "tools": tools}
            if streamed:
                async with client.responses.stream(**asked) as stream:
                    said += [event async for event in stream if event.type == "response.custom_tool_call_input.delta"]
                    answer = await stream.get_final_response()
            else:
                answer = await client.responses.create(**asked)
            history += [item.model_dump(exclude_none=True) for item in answer.output if item.type != "reasoning"]
            calls = [item for item in answer.output if item.type == "custom_tool_call"]
            history += [{"type": "custom_tool_call_output", "call_id": c.call_id, "output": f"result {number}"} for c in calls]
    assert answer.output_text == DONE
    assert [(item["name"], item["input"]) for item in history if item.get("type") == "custom_tool_call"] == [
        ("read_file", model.patch),
        ("edit", model.patch),
    ]
    assert "".join(event.delta for event in said) == (model.patch * 2 if streamed else "")
    last = model.ledger[-1].request
    assert [call.parsed() for m in last.messages for call in m.tool_calls] == [{"input": model.patch}] * 2
    assert [m.text for m in last.messages if m.role == "tool"] == ["result 0", "result 1"]


# --- bodies passed on ------------------------------------------------------------------------------


async def test_what_only_the_provider_understands_reaches_it(opened, model):
    """Marks for its cache, its own fields, its betas; not tools it would run itself. And the key is the real one."""
    gateway = await opened("anthropic", "noop")
    text = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    body = {
        "model": "claude-whatever",
        "max_tokens": 32000,
        "system": [text],
        "messages": [{"role": "user", "content": [text]}],
        "tools": [{"type": "web_search_20260101", "name": "web_search", "max_uses": 3}],
        "metadata": {"user_id": "x"},
        "context_management": {"edits": [{"type": "clear_thinking"}]},
        "stream": True,
    }
    headers = {"x-api-key": gateway.key, "anthropic-beta": "a-2026,b-2026", "x-stainless-lang": "js"}
    address = f"{url_of(gateway)}/v1/messages?beta=true&key=1"
    async with ClientSession() as session, session.post(address, json=body, headers=headers) as response:
        answer = await response.read()
    seen = model.ledger[0]
    assert seen.body == body | {"model": "noop", "tools": []}
    assert (seen.headers["anthropic-beta"], seen.query) == ("a-2026,b-2026", "beta=true")
    assert gateway.key not in str(seen.headers)
    assert "x-stainless-lang" not in seen.headers
    pieces = [line for line in answer.splitlines() if line.startswith(b"event: ")]
    assert pieces[0] == b"event: message_start"
    assert json.loads(answer.split(b"data: ")[1].split(b"\n")[0])["message"]["id"] == "id-1"


async def test_a_body_we_cannot_read_is_passed_on_where_the_provider_can(opened, model):
    """A kind of content that has no word of ours; before another provider it is refused with the reason."""
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}
    body = {"model": "x", "max_tokens": 9, "messages": [{"role": "user", "content": [document]}]}
    other = await opened("ollama", "noop")
    address, headers = f"{url_of(other)}/v1/messages", {"x-api-key": other.key}
    async with ClientSession() as session, session.post(address, json=body, headers=headers) as response:
        assert response.status == 400
        assert "document" in (await response.json())["error"]["message"]
    assert model.ledger == []


@pytest.mark.parametrize(
    ("wire", "body", "set_by_user", "expected"),
    [
        (
            chat,
            {"max_completion_tokens": 5, "temperature": 1, "x": 1},
            {"max_tokens": 7},
            {"max_tokens": 7, "temperature": 1, "x": 1},
        ),
        (chat, {"temperature": 1}, {"temperature": 0.5}, {"temperature": 0.5}),
        (messages, {"max_tokens": 32000}, {}, {"max_tokens": 32000}),
        (messages, {"max_tokens": 32000}, {"max_tokens": 9}, {"max_tokens": 9}),
        (responses, {"store": True, "max_output_tokens": 3}, {"max_tokens": 4}, {"store": True, "max_output_tokens": 4}),
        (
            gemini,
            {"generationConfig": {"topK": 64, "temperature": 1}},
            {"temperature": 0.0},
            {"generationConfig": {"topK": 64, "temperature": 0.0}},
        ),
    ],
)
def test_only_the_model_and_the_user_s_settings_are_replaced(wire, body, set_by_user, expected):
    own = Verbatim(dialect="any", body=json.dumps(body | {"model": "theirs"}).encode(), settings=set_by_user)
    found = with_settings(own, Request(model="ours", messages=()), wire)
    if wire is gemini:
        assert found.pop("model") == "theirs"  # Stands in the address; a field of that name is none of ours.
        assert found == expected
    else:
        assert found == expected | {"model": "ours"}


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_usage_chunk_is_cut_out_however_the_bytes_come(size, end):
    first, last = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}', b'data: {"choices":[],"usage":{"prompt_tokens":1}}'
    data = end.join((first, last, b"data: [DONE]", b""))
    cut = chat.WithoutUsage()
    out = b"".join(cut.feed(data[at : at + size]) for at in range(0, len(data), size)) + cut.rest()
    assert out == end.join((first, b"data: [DONE]", b""))
