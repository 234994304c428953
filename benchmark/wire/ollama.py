"""Ollama's native chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from benchmark.core.message import (
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
from benchmark.core.model import Request
from benchmark.wire import sse
from benchmark.wire.faults import malformed, reported
from benchmark.wire.reading import LARGEST_STREAM_BYTES, StreamReader, bad_request, gather, parse, plausible, read_request
from benchmark.wire.writing import (
    Logprob,
    StreamWriter,
    WholeCalls,
    arguments_of,
    arguments_text,
    encode_line,
    function,
    openai_logprobs,
    raw_arguments,
    text_parts,
    tool_names,
    written,
)

DEFAULT_CONTEXT_TOKENS = 8192
"""Sent as num_ctx: left to itself Ollama cuts a longer prompt silently, at a size that depends on the machine."""
UNSUPPORTED = frozenset({"tool_choice", "image_url"})
"""What this format has no word for."""

_FORMAT = "ollama"
_OUR_ID = "unnamed-call-"
"""Begins the ids we give to calls that came without one; they do not go back."""
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "max_tokens": "num_predict",
    "num_ctx": "num_ctx",
    "repeat_penalty": "repeat_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_IMAGES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
"""How the base64 of each kind of image begins: the format does not say which it is."""
_NANOSECONDS = 1e-9


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, gc=False):
    content: str = ""
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Reply(msgspec.Struct, gc=False):
    message: _Message
    done: bool
    done_reason: str = "stop"
    model: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    prompt_eval_cached_count: int = 0
    eval_count: int = 0
    logprobs: list[Logprob] | None = None
    error: Any = None


class _Tag(msgspec.Struct):
    name: str
    digest: str = ""
    capabilities: list[str] | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag] = []


_DECODER = msgspec.json.Decoder(_Reply)
_TAGS_DECODER = msgspec.json.Decoder(_Tags)

# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    options: dict[str, Any] = {"num_ctx": DEFAULT_CONTEXT_TOKENS}
    options |= {theirs: settings[ours] for ours, theirs in _OPTIONS.items() if ours in settings}
    names = tool_names(request.messages)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message, names) for message in request.messages],
        "stream": request.stream,
        "options": options,
    }
    if "reasoning_effort" in settings:
        effort = settings["reasoning_effort"]
        body["think"] = False if effort == "none" else effort
    if request.tools:
        body["tools"] = [{"type": "function", "function": function(tool)} for tool in request.tools]
    if request.schema is not None:
        body["format"] = dict(request.schema) or "json"
    if request.logprobs is not None:
        body["logprobs"] = True
        if request.logprobs:
            body["top_logprobs"] = request.logprobs
    return body


def _message(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.text}
    images = [part.data_base64 for part in message.parts if isinstance(part, ImagePart)]
    if images:
        body["images"] = images
    thinking = "".join(p.text for p in message.parts if isinstance(p, ThinkingPart) and p.format == _FORMAT)
    if thinking:
        body["thinking"] = thinking
    if message.tool_calls:
        body["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.role == "tool":
        call_id = message.tool_call_id
        body["tool_name"] = names.get(call_id, call_id)
        if not call_id.startswith(_OUR_ID):
            body["tool_call_id"] = call_id
    return body


def _tool_call(call: ToolCall) -> dict[str, Any]:
    named = {} if call.id.startswith(_OUR_ID) else {"id": call.id}
    return named | {"function": {"name": call.name, "arguments": arguments_of(call)}}


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
    thinking = (ThinkingPart(text=message.thinking, format=_FORMAT),) if message.thinking else ()
    images = [ImagePart(media_type=_media_type(data), data_base64=data) for data in message.images or ()]
    return (*thinking, *text_parts(message.content), *images)


def _media_type(data: str) -> str:
    return next((kind for start, kind in _IMAGES.items() if data.startswith(start)), "image/png")


def _read_tool(found: _InFunction) -> Tool:
    return Tool(name=found.name, description=found.description or "", parameters=found.parameters or {})


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    reply = parse(_DECODER, data, "a chat reply")
    if not reply.done:
        raise malformed("ends before it is done", data)
    return gather(
        _events(reply),
        finish=_finish(reply),
        usage=_usage(reply),
        model=reply.model,
        model_seconds=_seconds(reply),
    )


def _events(reply: _Reply, *, calls: int = 0) -> Iterator[StreamEvent]:
    """What a reply, or a line of one, says; calls that came before it in the stream are counted on."""
    message = reply.message
    if message.thinking:
        yield ThinkingDelta(message.thinking)
    if message.content or reply.logprobs:
        yield TextDelta(message.content, tuple(one.ours() for one in reply.logprobs or ()))
    for index, call in enumerate(message.tool_calls or (), calls):
        arguments = raw_arguments(call.function.arguments)
        yield ToolCallDelta(index=index, id=call.id or f"{_OUR_ID}{index}", name=call.function.name, arguments=arguments)


def _finish(reply: _Reply) -> Finish:
    return Finish.LENGTH if reply.done_reason == "length" else Finish.STOP


def _usage(reply: _Reply) -> Usage | None:
    return plausible(
        Usage(
            input_tokens=reply.prompt_eval_count,
            cached_tokens=reply.prompt_eval_cached_count,
            output_tokens=reply.eval_count,
        )
    )


def _seconds(reply: _Reply) -> float | None:
    seconds = (reply.total_duration - reply.load_duration) * _NANOSECONDS
    return seconds if seconds > 0 else None


def encode_reply(reply: Reply, *, created: str = "1970-01-01T00:00:00Z") -> dict[str, Any]:
    """The body of a response."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.thinking:
        message["thinking"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    body: dict[str, Any] = {"model": reply.model, "created_at": created, "message": message}
    if reply.logprobs:
        body["logprobs"] = openai_logprobs(reply.logprobs)
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


# --- a stream --------------------------------------------------------------------------------------


class Reader(StreamReader):
    """Reads a streamed reply: one JSON object a line."""

    def __init__(self, *, limit_bytes: int = LARGEST_STREAM_BYTES) -> None:
        super().__init__(sse.Lines(), limit_bytes=limit_bytes)
        self._calls = 0

    def _take(self, payload: bytes, events: list[StreamEvent]) -> None:
        if not payload or payload.isspace():
            return
        line = parse(_DECODER, payload, "a line of a chat reply")
        if line.error is not None:
            raise reported({"error": line.error})
        if line.model:
            self._gathered.model = line.model
        for event in _events(line, calls=self._calls):
            self._calls += isinstance(event, ToolCallDelta)
            events.append(event)
        if line.done:
            self._gathered.model_seconds = _seconds(line)
            finish = _finish(line)
            finish = Finish.TOOL if self._calls and finish is Finish.STOP else finish
            events.append(StreamEnd(finish=finish, usage=_usage(line)))

    def _end(self) -> StreamEnd | None:
        """Only the last line says that the answer is whole."""
        return None


def encode_stream(events: Iterable[StreamEvent], *, model: str = "", created: str = "1970-01-01T00:00:00Z") -> Iterator[bytes]:
    """A streamed response."""
    return written(Writer(model=model, created=created), events)


class Writer(StreamWriter):
    """Writes a streamed response. Tool calls go out whole: the format knows no pieces of one."""

    def __init__(self, *, model: str = "", created: str = "1970-01-01T00:00:00Z") -> None:
        self._head = {"model": model, "created_at": created}
        self._whole = WholeCalls()

    def write(self, event: StreamEvent) -> Iterable[bytes]:
        """A line for each event that can be said now."""
        return [encode_line(self._head | line) + b"\n" for one in self._whole.take(event) if (line := _event_line(one))]


def _event_line(event: StreamEvent) -> dict[str, Any]:
    if isinstance(event, StreamEnd):
        return {"message": {"role": "assistant", "content": ""}} | _encode_end(event.finish, event.usage)
    message = _event_message(event)
    if message is None:
        return {}
    line: dict[str, Any] = {"message": {"role": "assistant", "content": ""} | message, "done": False}
    if isinstance(event, TextDelta) and event.logprobs:
        line["logprobs"] = openai_logprobs(event.logprobs)
    return line


def _event_message(event: StreamEvent) -> dict[str, Any] | None:
    if isinstance(event, TextDelta):
        return {"content": event.text}
    if isinstance(event, ThinkingDelta):
        return {"thinking": event.text}
    if isinstance(event, ToolCallDelta):
        return {"tool_calls": [_tool_call(ToolCall(id=event.id, name=event.name, arguments=event.arguments))]}
    return None


# --- the models ------------------------------------------------------------------------------------


def decode_tags(data: bytes) -> dict[str, str]:
    """The installed models that can chat here, with the digests of their weights: no embedding models, nothing in the cloud."""
    tags = parse(_TAGS_DECODER, data, "a list of models")
    return {tag.name: tag.digest for tag in tags.models if _can_chat(tag)}


def _can_chat(tag: _Tag) -> bool:
    if tag.name.endswith((":cloud", "-cloud")):
        return False
    if tag.capabilities is not None:
        return "completion" in tag.capabilities
    return "embed" not in tag.name
