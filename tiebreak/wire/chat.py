"""OpenAI chat completions, also spoken by most other servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.media import AUDIO_FORMATS
from tiebreak.core.message import (
    AudioPart,
    FilePart,
    Finish,
    MediaPart,
    Message,
    Part,
    Reply,
    Role,
    StreamEnd,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.core.model import Request
from tiebreak.wire import sse
from tiebreak.wire.errors import malformed_answer, reported_error
from tiebreak.wire.openai_common import (
    SCHEMA_NAME,
    Logprob,
    TokenDetails,
    content,
    decode_logprobs,
    detailed_usage,
    encode_logprobs,
    function,
    is_strict,
)
from tiebreak.wire.reading import UNREADABLE, StreamReader, bad_request, parse, read_request
from tiebreak.wire.writing import StreamWriter, data_url, encode_line, image_of, text_parts

FORMAT = "chat"
UNSUPPORTED = frozenset({"top_k", "min_p", "repeat_penalty", "num_ctx", "tool_image"})
"""What OpenAI's own servers cannot be asked."""
EXTENSIONS = frozenset({"top_k", "min_p", "repeat_penalty"})
"""Of those, what other servers of this format commonly understand: sent when asked for."""

_PLAIN_SETTINGS = (
    *("max_tokens", "temperature", "top_p", "seed", "stop", "reasoning_effort", "frequency_penalty", "presence_penalty"),
    *("top_k", "min_p", "repeat_penalty"),
)
_FINISH = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL,
    "function_call": Finish.TOOL,
    "content_filter": Finish.FILTERED,
}
_FINISH_WORDS = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL: "tool_calls",
    Finish.FILTERED: "content_filter",
    Finish.REFUSED: "stop",
}
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None
    # What a server means by these only OpenRouter says; others put other things under the same names.
    cost: Any = None
    is_byok: Any = None
    cost_details: Any = None


class _Part(msgspec.Struct, gc=False):
    text: str = ""


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    id: str | None = None
    function: _Function | None = None
    index: int | None = None


class _Logprobs(msgspec.Struct, gc=False):
    content: list[Logprob] | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Reply(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = ""


class _ChunkChoice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Message | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_ChunkChoice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Reply)
_CHUNK_DECODER = msgspec.json.Decoder(_Chunk)

# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    body: dict[str, Any] = {"model": request.model, "messages": [_message(m) for m in request.messages]}
    settings = request.settings
    body |= {name: settings[name] for name in settings if name in _PLAIN_SETTINGS}
    if request.tools:
        body["tools"] = [{"type": "function", "function": function(tool)} for tool in request.tools]
    if request.tool_choice:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.schema is not None:
        body["response_format"] = _response_format(request.schema)
    if request.logprobs is not None:
        body["logprobs"] = True
        if request.logprobs:
            body["top_logprobs"] = request.logprobs
    if request.stream:
        # Without the option a stream says nothing about what it cost.
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _message(message: Message) -> dict[str, Any]:
    if message.role == "assistant":
        return _assistant(message)
    body = {"role": message.role, "content": content(message, _part)}
    return body | {"tool_call_id": message.tool_call_id} if message.role == "tool" else body


def _part(part: TextPart | MediaPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, AudioPart):
        return {"type": "input_audio", "input_audio": {"data": part.data_base64, "format": AUDIO_FORMATS[part.media_type]}}
    if isinstance(part, FilePart):
        return {"type": "file", "file": {"filename": part.name, "file_data": data_url(part)}}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _assistant(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text}
    # Only reasoning that came in this format goes back: OpenAI itself refuses the field.
    thinking = "".join(p.text for p in message.parts if isinstance(p, ThinkingPart) and p.format == FORMAT)
    if thinking:
        body["reasoning_content"] = thinking
    if message.tool_calls:
        body["content"] = body["content"] or None
        body["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return body


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not schema:
        return {"type": "json_object"}
    form = {"name": SCHEMA_NAME, "schema": dict(schema), "strict": is_strict(schema)}
    return {"type": "json_schema", "json_schema": form}


# --- a request, read -------------------------------------------------------------------------------


class _ImageUrl(msgspec.Struct):
    url: str


class _InPart(msgspec.Struct):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: _ImageUrl | None = None


class _InMessage(msgspec.Struct):
    role: str
    content: str | list[_InPart] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _InFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _InTool(msgspec.Struct):
    function: _InFunction | None = None


class _InChoice(msgspec.Struct):
    function: _InFunction


class _InSchema(msgspec.Struct):
    schema: dict[str, Any] | None = None


class _InFormat(msgspec.Struct):
    type: str
    json_schema: _InSchema | None = None


class _In(msgspec.Struct):
    model: str
    messages: list[_InMessage]
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | int | None = None
    tools: list[_InTool] | None = None
    tool_choice: str | _InChoice | None = None
    response_format: _InFormat | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stream: bool | None = None


_REQUEST_DECODER = msgspec.json.Decoder(_In)


def decode_request(body: bytes | Mapping[str, Any]) -> Request:
    """The request in a client's body. Tools that only OpenAI can run are left out."""
    incoming = read_request(_REQUEST_DECODER, body)
    settings = {name: value for name in _PLAIN_SETTINGS if (value := getattr(incoming, name)) is not None}
    if incoming.max_tokens is None and incoming.max_completion_tokens is not None:
        settings["max_tokens"] = incoming.max_completion_tokens
    choice = incoming.tool_choice
    return Request(
        model=incoming.model,
        messages=tuple(map(_read_message, incoming.messages)),
        settings=settings,
        tools=tuple(_read_tool(tool.function) for tool in incoming.tools or () if tool.function),
        tool_choice=choice.function.name if isinstance(choice, _InChoice) else choice or "",
        schema=_read_schema(incoming.response_format),
        logprobs=(incoming.top_logprobs or 0) if incoming.logprobs else None,
        stream=bool(incoming.stream),
    )


def _read_message(message: _InMessage) -> Message:
    if message.role not in _ROLES:
        raise bad_request(f"no role {message.role!r} is known")
    said = message.content
    parts: tuple[Part, ...] = tuple(map(_read_part, said)) if isinstance(said, list) else text_parts(said)
    if message.reasoning_content:
        parts = (ThinkingPart(text=message.reasoning_content, format=FORMAT), *parts)
    return Message(
        role=_ROLES[message.role],
        parts=parts,
        tool_calls=tuple(map(_whole_call, message.tool_calls or ())),
        tool_call_id=message.tool_call_id or "",
    )


def _read_part(part: _InPart) -> Part:
    if part.type == "image_url" and part.image_url:
        return image_of(part.image_url.url)
    if part.type in ("text", "refusal"):
        return TextPart(part.text or part.refusal)
    raise bad_request(f"content of type {part.type!r} cannot be passed on")


def _read_tool(tool: _InFunction) -> Tool:
    return Tool(name=tool.name, description=tool.description or "", parameters=tool.parameters or {})


def _read_schema(form: _InFormat | None) -> Mapping[str, Any] | None:
    if form is None or form.type == "text":
        return None
    return (form.json_schema.schema if form.json_schema else None) or {}


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes, *, tells_cost: bool = False) -> Reply:
    """The reply in a response's body; `tells_cost`: from a server whose `usage.cost` is in dollars."""
    reply = parse(_DECODER, data, "a chat completion")
    usage = None if reply.usage is None else _usage(reply.usage, tells_cost=tells_cost)
    if not reply.choices:
        raise malformed_answer("has no choices", data)
    choice = reply.choices[0]
    _refuse_failed(choice.finish_reason)
    message = choice.message
    calls = tuple(map(_whole_call, message.tool_calls)) if message.tool_calls else ()
    finish = Finish.REFUSED if message.refusal else _FINISH.get(choice.finish_reason or "stop", Finish.STOP)
    return Reply(
        text=_text(message.content) or message.refusal or "",
        finish=Finish.TOOL if calls and finish is Finish.STOP else finish,
        thinking=message.reasoning_content or message.reasoning or "",
        tool_calls=calls,
        usage=usage,
        model=reply.model or "",
        logprobs=decode_logprobs(choice.logprobs.content) if choice.logprobs else (),
    )


def _refuse_failed(reason: str | None) -> None:
    """Servers that pass requests on to others say so where the other one broke down over its answer."""
    if reason == "error":
        raise ProviderError("the server's answer ended with an error", kind=FailureKind.TRANSIENT)


def encode_reply(reply: Reply, *, reply_id: str = "chatcmpl-0", created: int = 0) -> dict[str, Any]:
    """The body of a response."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.finish is Finish.REFUSED:
        message |= {"content": None, "refusal": reply.text}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.tool_calls:
        message |= {"content": reply.text or None, "tool_calls": [_tool_call(call) for call in reply.tool_calls]}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _FINISH_WORDS[reply.finish]}
    choice["logprobs"] = {"content": encode_logprobs(reply.logprobs)} if reply.logprobs else None
    body = {"id": reply_id, "object": "chat.completion", "created": created, "model": reply.model, "choices": [choice]}
    return body | ({"usage": _encode_usage(reply.usage)} if reply.usage else {})


def _text(content: str | list[_Part] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""


def _whole_call(call: _Call) -> ToolCall:
    function = call.function or _Function()
    return ToolCall(id=call.id or "", name=function.name or "", arguments=function.arguments or "")


def _usage(usage: _Usage, *, tells_cost: bool = False) -> Usage | None:
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    details = usage.prompt_tokens_details, usage.completion_tokens_details
    counted = detailed_usage(usage.prompt_tokens, usage.completion_tokens, *details)
    return replace(counted, cost_usd=_cost(usage)) if tells_cost and counted is not None else counted


def _cost(usage: _Usage) -> float | None:
    """What was charged. With a key of one's own for the maker, `cost` is the fee alone and the maker charges apart."""
    charged = [usage.cost]
    if usage.is_byok:
        details = usage.cost_details
        charged.append(details.get("upstream_inference_cost") if isinstance(details, dict) else None)
    known = [float(amount) for amount in charged if type(amount) in (int, float) and amount >= 0]
    return sum(known) if len(known) == len(charged) else None


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


# --- a stream --------------------------------------------------------------------------------------


class Reader(StreamReader):
    """Reads a streamed chat completion. The finish reason tells that it is whole: not every server sends [DONE]."""

    tells_cost: ClassVar[bool] = False

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        if payload == b"[DONE]":
            yield from self._end()
            return
        chunk = parse(_CHUNK_DECODER, payload, "a chat completion's chunk")
        if chunk.error is not None:
            raise reported_error({"error": chunk.error})
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage, tells_cost=self.tells_cost)
        if chunk.model:
            self._builder.model = chunk.model
        for choice in chunk.choices or ():
            if choice.index == 0:
                yield from self._choice_events(choice)

    def _choice_events(self, choice: _ChunkChoice) -> Iterator[StreamEvent]:
        delta = choice.delta
        if delta is not None:
            if thinking := delta.reasoning_content or delta.reasoning:
                yield ThinkingDelta(thinking)
            self._refused = self._refused or bool(delta.refusal)
            text = _text(delta.content) or delta.refusal or ""
            if text or choice.logprobs:
                yield TextDelta(text, decode_logprobs(choice.logprobs.content) if choice.logprobs else ())
            yield from map(self._piece, delta.tool_calls or ())
        if choice.finish_reason:
            _refuse_failed(choice.finish_reason)
            self._finish = _FINISH.get(choice.finish_reason, Finish.STOP)

    def _piece(self, call: _Call) -> ToolCallDelta:
        whole = _whole_call(call)
        # Some servers send each call whole and without its place.
        index = self._call_index(whole.id) if call.index is None else call.index
        return ToolCallDelta(index=index, id=whole.id, name=whole.name, arguments=whole.arguments)


class Writer(StreamWriter):
    """Writes a streamed response. A refusal ends as filtered: the words are out before it is known for one."""

    def __init__(self, *, model: str = "", reply_id: str = "chatcmpl-0", created: int = 0, with_usage: bool = True) -> None:
        super().__init__()
        self._head = {"id": reply_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._role: dict[str, Any] = {"role": "assistant"}
        self._with_usage = with_usage

    def _pieces(self, event: StreamEvent) -> Iterable[bytes]:
        if isinstance(event, StreamEnd):
            return _encode_end(event, self._head, with_usage=self._with_usage)
        delta = _delta(event)
        if delta is None:
            return ()
        logprobs = event.logprobs if isinstance(event, TextDelta) else ()
        choice: dict[str, Any] = {"index": 0, "delta": self._role | delta, "finish_reason": None}
        choice["logprobs"] = {"content": encode_logprobs(logprobs)} if logprobs else None
        self._role = {}
        return (sse.event(encode_line(self._head | {"choices": [choice]})),)


def _delta(event: StreamEvent) -> dict[str, Any] | None:
    if isinstance(event, TextDelta):
        return {"content": event.text}
    if isinstance(event, ThinkingDelta):
        return {"reasoning_content": event.text}
    if isinstance(event, ToolCallDelta):
        call: dict[str, Any] = {"index": event.index}
        if event.id:
            call |= {"id": event.id, "type": "function"}
        call["function"] = ({"name": event.name} if event.name else {}) | {"arguments": event.arguments}
        return {"tool_calls": [call]}
    return None


def _encode_end(end: StreamEnd, head: dict[str, Any], *, with_usage: bool) -> Iterator[bytes]:
    word = "content_filter" if end.finish is Finish.REFUSED else _FINISH_WORDS[end.finish]
    yield sse.event(encode_line(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": word}]}))
    if with_usage and end.usage is not None:
        yield sse.event(encode_line(head | {"choices": [], "usage": _encode_usage(end.usage)}))
    yield sse.event(b"[DONE]")


_EVENT_ENDS = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")


class WithoutUsage:
    """Takes the chunk that only tells the usage out of a stream's bytes: some clients cannot read one without choices."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The whole events so far, but that one."""
        *events, self._held = _EVENT_ENDS.split(self._held + data)
        pairs = zip(events[::2], events[1::2], strict=True)
        return b"".join(event + end for event, end in pairs if not _tells_only_usage(event))

    def rest(self) -> bytes:
        """What came after the last whole event."""
        held, self._held = self._held, b""
        return b"" if _tells_only_usage(held) else held


def _tells_only_usage(event: bytes) -> bool:
    if b'"usage"' not in event or b'"choices"' not in event:
        return False
    try:
        chunk = _CHUNK_DECODER.decode(event.strip().removeprefix(b"data:"))
    except UNREADABLE:
        return False
    return chunk.choices == [] and chunk.usage is not None
