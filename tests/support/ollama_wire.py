"""Ollama's side of its own format: reads what a client sends, and answers as the server does.

Nothing of ours has to do that; the fake servers of the tests do. With what a client of the format needs beside it, the
module is one of the formats, as `tiebreak.wire.chat` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tiebreak.core.message import (
    Finish,
    ImagePart,
    Message,
    Part,
    Reply,
    Role,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingPart,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.core.model import Request
from tiebreak.wire.ollama import (
    _NANOSECONDS,
    _OPTIONS,
    _OUR_ID,
    DEFAULT_CONTEXT_TOKENS,
    FORMAT,
    UNSUPPORTED,
    Reader,
    _tool_call,
    decode,
    decode_tags,
    encode,
)
from tiebreak.wire.openai_common import encode_logprobs
from tiebreak.wire.reading import bad_request, read_request
from tiebreak.wire.writing import StreamWriter, WholeCalls, arguments_text, encode_line, text_parts

__all__ = [
    "DEFAULT_CONTEXT_TOKENS",
    "FORMAT",
    "UNSUPPORTED",
    "Reader",
    "Writer",
    "decode",
    "decode_request",
    "decode_tags",
    "encode",
    "encode_reply",
]

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_IMAGES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
"""How the base64 of each kind of image begins: the format does not say which it is."""

# --- a request, read -------------------------------------------------------------------------------


class _InFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    arguments: dict[str, Any] | None = None


class _InCall(msgspec.Struct):
    function: _InFunction
    id: str | None = None


class _InMessage(msgspec.Struct):
    role: str
    content: str = ""
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[_InCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class _InTool(msgspec.Struct):
    function: _InFunction


class _In(msgspec.Struct):
    model: str
    messages: list[_InMessage]
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    tools: list[_InTool] | None = None
    format: str | dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stream: bool | None = None


_REQUEST_DECODER = msgspec.json.Decoder(_In)


def decode_request(body: bytes | Mapping[str, Any]) -> Request:
    """The request in a client's body; one that does not say so wants a stream."""
    found = read_request(_REQUEST_DECODER, body)
    options = found.options or {}
    settings = {ours: options[theirs] for ours, theirs in _OPTIONS.items() if options.get(theirs) is not None}
    if found.think is not None and found.think is not True:
        settings["reasoning_effort"] = found.think or "none"
    schema = {} if found.format == "json" else found.format
    return Request(
        model=found.model,
        messages=tuple(_read_messages(found.messages)),
        settings=settings,
        tools=tuple(_read_tool(tool.function) for tool in found.tools or ()),
        schema=schema if isinstance(schema, dict) else None,
        logprobs=(found.top_logprobs or 0) if found.logprobs else None,
        stream=found.stream is not False,
    )


def _read_messages(messages: list[_InMessage]) -> Iterator[Message]:
    """The conversation; calls without an id are given one, and their results find it again by name."""
    waiting: dict[str, list[str]] = {}
    count = 0
    for message in messages:
        if message.role not in _ROLES:
            raise bad_request(f"no role {message.role!r} is known")
        calls = []
        for call in message.tool_calls or ():
            calls.append(_read_call(call, count))
            waiting.setdefault(call.function.name, []).append(calls[-1].id)
            count += 1
        call_id = _read_call_id(message, waiting) if message.role == "tool" else ""
        yield Message(role=_ROLES[message.role], parts=_read_parts(message), tool_calls=tuple(calls), tool_call_id=call_id)


def _read_call(call: _InCall, number: int) -> ToolCall:
    arguments = arguments_text(call.function.arguments or {})
    return ToolCall(id=call.id or f"{_OUR_ID}{number}", name=call.function.name, arguments=arguments)


def _read_call_id(message: _InMessage, waiting: dict[str, list[str]]) -> str:
    name = message.tool_name or ""
    ids = waiting.get(name) or []
    call_id = message.tool_call_id or (ids[0] if ids else name)
    if call_id in ids:
        ids.remove(call_id)
    return call_id


def _read_parts(message: _InMessage) -> tuple[Part, ...]:
    thinking = (ThinkingPart(text=message.thinking, format=FORMAT),) if message.thinking else ()
    images = [ImagePart(media_type=_media_type(data), data_base64=data) for data in message.images or ()]
    return (*thinking, *text_parts(message.content), *images)


def _media_type(data: str) -> str:
    return next((kind for start, kind in _IMAGES.items() if data.startswith(start)), "image/png")


def _read_tool(found: _InFunction) -> Tool:
    return Tool(name=found.name, description=found.description or "", parameters=found.parameters or {})


def encode_reply(reply: Reply, *, created: str = "1970-01-01T00:00:00Z") -> dict[str, Any]:
    """The body of a response."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.thinking:
        message["thinking"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    body: dict[str, Any] = {"model": reply.model, "created_at": created, "message": message}
    if reply.logprobs:
        body["logprobs"] = encode_logprobs(reply.logprobs)
    return body | _encode_end(reply.finish, reply.usage, reply.model_seconds)


def _encode_end(finish: Finish, usage: Usage | None, seconds: float | None = None) -> dict[str, Any]:
    usage = usage or Usage()
    return {
        "done": True,
        "done_reason": "length" if finish is Finish.LENGTH else "stop",
        "total_duration": round((seconds or 0) / _NANOSECONDS),
        "prompt_eval_count": usage.input_tokens,
        "prompt_eval_cached_count": usage.cached_tokens,
        "eval_count": usage.output_tokens,
    }


class Writer(StreamWriter):
    """Writes a streamed response. Tool calls go out whole: the format knows no pieces of one."""

    def __init__(self, *, model: str = "", created: str = "1970-01-01T00:00:00Z") -> None:
        self._head = {"model": model, "created_at": created}
        super().__init__(WholeCalls())

    def _pieces(self, event: StreamEvent) -> Iterable[bytes]:
        line = _event_line(event)
        return (encode_line(self._head | line) + b"\n",) if line else ()


def _event_line(event: StreamEvent) -> dict[str, Any]:
    if isinstance(event, StreamEnd):
        return {"message": {"role": "assistant", "content": ""}} | _encode_end(event.finish, event.usage)
    message = _event_message(event)
    if message is None:
        return {}
    line: dict[str, Any] = {"message": {"role": "assistant", "content": ""} | message, "done": False}
    if isinstance(event, TextDelta) and event.logprobs:
        line["logprobs"] = encode_logprobs(event.logprobs)
    return line


def _event_message(event: StreamEvent) -> dict[str, Any] | None:
    if isinstance(event, TextDelta):
        return {"content": event.text}
    if isinstance(event, ThinkingDelta):
        return {"thinking": event.text}
    if isinstance(event, ToolCallDelta):
        return {"tool_calls": [_tool_call(ToolCall(id=event.id, name=event.name, arguments=event.arguments))]}
    return None
