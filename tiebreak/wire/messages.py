"""Anthropic messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tiebreak.core.message import (
    FilePart,
    Finish,
    ImagePart,
    MediaPart,
    Message,
    Part,
    Reply,
    StreamEnd,
    StreamEvent,
    TextDelta,
    TextPart,
    ThinkingDelta,
    ThinkingPart,
    ThinkingSeal,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
    system,
)
from tiebreak.core.model import Request
from tiebreak.wire import sse
from tiebreak.wire.errors import reported_error
from tiebreak.wire.reading import StreamReader, bad_request, build_reply, parse, parse_event, read_request, usage_of
from tiebreak.wire.writing import (
    SequentialCalls,
    StreamWriter,
    arguments_of,
    arguments_text,
    as_list,
    encode_line,
    instructions,
    raw_arguments,
    reply_parts,
    text_parts,
    turns,
)

DEFAULT_MAX_TOKENS = 8192
"""The format needs a limit; this one is sent, and shown, when the user gave none."""
UNSUPPORTED = frozenset(
    {"seed", "frequency_penalty", "presence_penalty", "min_p", "repeat_penalty", "num_ctx", "logprobs", "audio"}
)
"""What this format has no word for."""

FORMAT = "messages"
_PLAIN_SETTINGS = ("temperature", "top_p", "top_k")
_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "refusal": Finish.REFUSED,
}
_FINISH_WORDS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL: "tool_use",
    Finish.REFUSED: "refusal",
    Finish.FILTERED: "refusal",
}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Details(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class _CacheWrites(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheWrites | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Reply(msgspec.Struct, gc=False):
    content: list[_Block]
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: str = ""


_DECODER = msgspec.json.Decoder(_Reply)

# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": settings.get("max_tokens", DEFAULT_MAX_TOKENS),
        "messages": [_turn(turn) for turn in turns(request.messages)],
    }
    if system_text := instructions(request.messages):
        body["system"] = system_text
    body |= {name: settings[name] for name in _PLAIN_SETTINGS if name in settings}
    if "stop" in settings:
        body["stop_sequences"] = as_list(settings["stop"])
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if choice := request.tool_choice:
        body["tool_choice"] = {"type": _CHOICES[choice]} if choice in _CHOICES else {"type": "tool", "name": choice}
    if request.stream:
        body["stream"] = True
    return body | _output(request)


def _output(request: Request) -> dict[str, Any]:
    """How hard to think, and the form of the answer."""
    effort = request.settings.get("reasoning_effort")
    config: dict[str, Any] = {}
    body: dict[str, Any] = {}
    if request.schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(request.schema)}
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif isinstance(effort, int):
        # Models before the adaptive ones are given a number of tokens, and the answer needs room beside it.
        body["thinking"] = {"type": "enabled", "budget_tokens": effort}
        body["max_tokens"] = request.settings.get("max_tokens", DEFAULT_MAX_TOKENS + effort)
    elif effort is not None:
        body["thinking"] = {"type": "adaptive"}
        config["effort"] = effort
    return body | ({"output_config": config} if config else {})


def _turn(turn: Sequence[Message]) -> dict[str, Any]:
    if turn[0].role == "tool":
        return {"role": "user", "content": [_result(message) for message in turn]}
    return {"role": turn[0].role, "content": _content(turn[0])}


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.tool_calls and all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [block for part in message.parts for block in _block(part)] + [_tool_use(call) for call in message.tool_calls]


def _block(part: Part) -> list[dict[str, Any]]:
    """A part as a block, or as none: the server refuses empty text, and reasoning that it did not seal."""
    if isinstance(part, TextPart):
        return [{"type": "text", "text": part.text}] if part.text else []
    if isinstance(part, ImagePart):
        return [{"type": "image", "source": _source(part)}]
    if isinstance(part, FilePart):
        return [{"type": "document", "source": _source(part), **({"title": part.name} if part.name else {})}]
    if not isinstance(part, ThinkingPart) or part.format != FORMAT or not part.seal:
        return []
    if part.redacted:
        return [{"type": "redacted_thinking", "data": part.seal}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.seal}]


def _source(part: MediaPart) -> dict[str, Any]:
    if isinstance(part, ImagePart) and part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data_base64}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}


def _result(message: Message) -> dict[str, Any]:
    body = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": _content(message)}
    return body | ({"is_error": True} if message.failed else {})


def _tool(tool: Tool) -> dict[str, Any]:
    body: dict[str, Any] = {"name": tool.name}
    if tool.description:
        body["description"] = tool.description
    body["input_schema"] = dict(tool.parameters) or {"type": "object"}
    return body


# --- a request, read -------------------------------------------------------------------------------


class _InSource(msgspec.Struct):
    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


class _InBlock(msgspec.Struct):
    type: str
    text: str = ""
    source: _InSource | None = None
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[_InBlock] | None = None
    is_error: bool | None = None


class _InMessage(msgspec.Struct):
    role: str
    content: str | list[_InBlock]


class _InTool(msgspec.Struct):
    name: str = ""
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class _InChoice(msgspec.Struct):
    type: str
    name: str = ""


class _InThinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class _InFormat(msgspec.Struct):
    schema: dict[str, Any]


class _InConfig(msgspec.Struct):
    effort: str | None = None
    format: _InFormat | None = None


class _In(msgspec.Struct):
    model: str
    messages: list[_InMessage]
    max_tokens: int
    system: str | list[_InBlock] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[_InTool] | None = None
    tool_choice: _InChoice | None = None
    thinking: _InThinking | None = None
    output_config: _InConfig | None = None
    stream: bool | None = None


_REQUEST_DECODER = msgspec.json.Decoder(_In)


def decode_request(body: bytes | Mapping[str, Any]) -> Request:
    """The request in a client's body. Tools that only Anthropic can run are left out."""
    incoming = read_request(_REQUEST_DECODER, body)
    config = incoming.output_config
    named = {name: getattr(incoming, name) for name in ("max_tokens", *_PLAIN_SETTINGS)}
    named |= {"stop": incoming.stop_sequences or None, "reasoning_effort": _read_effort(incoming)}
    system_text = "\n\n".join(block.text for block in _blocks(incoming.system))
    return Request(
        model=incoming.model,
        messages=(*((system(system_text),) if system_text else ()), *(m for turn in incoming.messages for m in _read_turn(turn))),
        settings={name: value for name, value in named.items() if value is not None},
        tools=tuple(_read_tool(tool) for tool in incoming.tools or () if tool.input_schema is not None),
        tool_choice=_read_choice(incoming.tool_choice),
        schema=config.format.schema if config and config.format else None,
        stream=bool(incoming.stream),
    )


def _read_effort(incoming: _In) -> str | int | None:
    if incoming.output_config and incoming.output_config.effort:
        return incoming.output_config.effort
    if incoming.thinking is None:
        return None
    return "none" if incoming.thinking.type == "disabled" else incoming.thinking.budget_tokens


def _blocks(content: str | list[_InBlock] | None) -> list[_InBlock]:
    return [_InBlock(type="text", text=content)] if isinstance(content, str) else content or []


def _read_turn(turn: _InMessage) -> Iterator[Message]:
    """A turn's messages: the results of tools are messages of their own."""
    if turn.role not in ("user", "assistant", "system"):
        raise bad_request(f"no role {turn.role!r} is known")
    blocks = _blocks(turn.content)
    results = [block for block in blocks if block.type == "tool_result"]
    calls = tuple(
        ToolCall(id=block.id, name=block.name, arguments=arguments_text(block.input or {}))
        for block in blocks
        if block.type == "tool_use"
    )
    parts = tuple(part for block in blocks for part in _read_block(block))
    yield from (_read_result(block) for block in results)
    if parts or calls or not results:
        yield Message(role=turn.role, parts=parts, tool_calls=calls)  # type: ignore[arg-type]


def _read_block(block: _InBlock) -> tuple[Part, ...]:
    if block.type == "text":
        return text_parts(block.text)
    if block.type == "image" and block.source:
        source = block.source
        return (ImagePart(media_type=source.media_type, data_base64=source.data, url=source.url),)
    if block.type == "thinking":
        return (ThinkingPart(text=block.thinking, seal=block.signature or "", format=FORMAT),)
    if block.type == "redacted_thinking":
        return (ThinkingPart(seal=block.data, format=FORMAT, redacted=True),)
    if block.type in ("tool_use", "tool_result"):
        return ()
    raise bad_request(f"content of type {block.type!r} cannot be passed on")


def _read_result(block: _InBlock) -> Message:
    parts = tuple(part for inner in _blocks(block.content) for part in _read_block(inner))
    return Message(role="tool", parts=parts, tool_call_id=block.tool_use_id, failed=bool(block.is_error))


def _read_tool(tool: _InTool) -> Tool:
    return Tool(name=tool.name, description=tool.description or "", parameters=tool.input_schema or {})


def _read_choice(choice: _InChoice | None) -> str:
    if choice is None:
        return ""
    return next((ours for ours, theirs in _CHOICES.items() if theirs == choice.type), choice.name)


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    reply = parse(_DECODER, data, "a message")
    return build_reply(
        _events(reply.content),
        finish=_FINISH.get(reply.stop_reason or "end_turn", Finish.STOP),
        usage=None if reply.usage is None else _usage(reply.usage),
        model=reply.model,
    )


def _events(blocks: list[_Block]) -> Iterator[StreamEvent]:
    calls = 0
    for block in blocks:
        if block.type == "text":
            yield TextDelta(block.text)
        elif block.type == "thinking":
            yield ThinkingDelta(block.thinking)
            if block.signature:
                yield ThinkingSeal(seal=block.signature, format=FORMAT)
        elif block.type == "redacted_thinking":
            yield ThinkingSeal(seal=block.data, format=FORMAT, redacted=True)
        elif block.type == "tool_use":
            yield ToolCallDelta(index=calls, id=block.id, name=block.name, arguments=raw_arguments(block.input))
            calls += 1


def encode_reply(reply: Reply, *, reply_id: str = "msg_0") -> dict[str, Any]:
    """The body of a response."""
    return {
        "id": reply_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": _reply_blocks(reply),
        "stop_reason": _FINISH_WORDS[reply.finish],
        "stop_sequence": None,
        "usage": _encode_usage(reply.usage or Usage()),
    }


def _reply_blocks(reply: Reply) -> list[dict[str, Any]]:
    """Unlike in a request, reasoning without a seal may be shown."""
    blocks: list[dict[str, Any]] = []
    for part in reply_parts(reply, FORMAT):
        bare = isinstance(part, ThinkingPart) and not part.seal
        blocks += [{"type": "thinking", "thinking": part.text, "signature": ""}] if bare else _block(part)  # type: ignore[union-attr]
    return blocks + [_tool_use(call) for call in reply.tool_calls]


def _usage(usage: _Usage) -> Usage | None:
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details, writes = usage.output_tokens_details, usage.cache_creation
    return usage_of(
        # Anthropic counts cached tokens apart from input_tokens; we count everything sent.
        input_tokens=(usage.input_tokens or 0) + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        long_cache_write_tokens=writes.ephemeral_1h_input_tokens if writes else 0,
        output_tokens=usage.output_tokens,
        reasoning_tokens=details.thinking_tokens if details else 0,
    )


def _encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


# --- a stream --------------------------------------------------------------------------------------


class _Delta(msgspec.Struct, gc=False):
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class _Start(msgspec.Struct, gc=False):
    model: str = ""
    usage: _Usage | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Start | None = None
    usage: _Usage | None = None
    error: Any = None


_EVENT_DECODER = msgspec.json.Decoder(_Event)
_KNOWN = frozenset(
    {
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_start", "message_delta", "message_stop", "error"),
    }
)


class Reader(StreamReader):
    """Reads a streamed message. Its stop reason comes after the last block: with it the answer is whole."""

    def __init__(self, **limits: int) -> None:
        super().__init__(**limits)
        self._counts: _Usage | None = None
        self._signature = ""
        self._block: _Block | None = None
        self._with_input = False

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        event = parse_event(_EVENT_DECODER, payload, _KNOWN)
        if event is None:
            return
        if event.type == "content_block_delta":
            if event.delta is not None:
                yield from self._delta_events(event.index, event.delta)
        elif event.type == "content_block_start":
            yield from self._start_events(event.index, event.content_block)
        elif event.type == "content_block_stop":
            yield from self._stop_events(event.index)
        elif event.type == "error" or event.error is not None:
            raise reported_error({"error": event.error})
        else:
            yield from self._frame_events(event)

    def _delta_events(self, index: int, delta: _Delta) -> Iterator[StreamEvent]:
        if delta.text:
            yield TextDelta(delta.text)
        elif delta.partial_json:
            self._with_input = True
            yield ToolCallDelta(index=self._call_index(index), arguments=delta.partial_json)
        elif delta.thinking:
            yield ThinkingDelta(delta.thinking)
        elif delta.signature:
            self._signature += delta.signature

    def _start_events(self, index: int, block: _Block | None) -> Iterator[StreamEvent]:
        self._block, self._with_input = block, False
        if block is None:
            return
        if block.type == "tool_use":
            yield ToolCallDelta(index=self._call_index(index), id=block.id, name=block.name)
            return
        self._signature = block.signature or ""
        # The seal comes when the block ends; anything else a block starts with is its first piece.
        block.signature = None
        yield from _events([block])

    def _stop_events(self, index: int) -> Iterator[StreamEvent]:
        block = self._block
        if block is not None and block.type == "tool_use" and not self._with_input:
            yield ToolCallDelta(index=self._call_index(index), arguments=raw_arguments(block.input))
        if self._signature:
            yield ThinkingSeal(seal=self._signature, format=FORMAT)
        self._block, self._signature = None, ""

    def _frame_events(self, event: _Event) -> Iterator[StreamEvent]:
        if event.type == "message_start" and event.message is not None:
            self._builder.model = event.message.model
            self._count(event.message.usage)
        elif event.type == "message_delta":
            self._count(event.usage)
            if event.delta is not None and event.delta.stop_reason:
                self._finish = _FINISH.get(event.delta.stop_reason, Finish.STOP)
        elif event.type == "message_stop":
            yield from self._end()

    def _count(self, counts: _Usage | None) -> None:
        self._counts = _merged_counts(self._counts, counts)
        self._usage = None if self._counts is None else _usage(self._counts)


def _merged_counts(before: _Usage | None, now: _Usage | None) -> _Usage | None:
    """Counts so far; each report is cumulative and may leave out what it has nothing new about."""
    if before is None or now is None:
        return now or before
    for name in _Usage.__struct_fields__:
        if getattr(now, name) is None:
            setattr(now, name, getattr(before, name))
    return now


def _event(name: str, **fields: Any) -> bytes:
    return sse.event(encode_line({"type": name} | fields), name.encode())


class Writer(StreamWriter):
    """Writes a streamed response: blocks that are opened and closed, one after the other."""

    def __init__(self, *, model: str = "", reply_id: str = "msg_0") -> None:
        super().__init__(SequentialCalls())
        self._start = encode_reply(Reply(text="", model=model), reply_id=reply_id) | {"stop_reason": None}
        self._index = -1
        self._kind = ""

    def begin(self) -> Iterable[bytes]:
        """The message, still empty."""
        return (_event("message_start", message=self._start),)

    def _pieces(self, event: StreamEvent) -> Iterator[bytes]:
        if isinstance(event, StreamEnd):
            yield from self._close()
            stop = {"stop_reason": _FINISH_WORDS[event.finish], "stop_sequence": None}
            yield _event("message_delta", delta=stop, usage=_encode_usage(event.usage or Usage()))
            yield _event("message_stop")
        elif isinstance(event, TextDelta):
            yield from self._open("text", {"type": "text", "text": ""})
            yield self._piece(type="text_delta", text=event.text)
        elif isinstance(event, ThinkingDelta):
            yield from self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._piece(type="thinking_delta", thinking=event.text)
        elif isinstance(event, ToolCallDelta):
            start = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
            yield from self._open(f"tool {event.index}", start)
            if event.arguments:
                yield self._piece(type="input_json_delta", partial_json=event.arguments)
        elif isinstance(event, ThinkingSeal) and event.format == FORMAT:
            yield from self._seal(event)

    def _close(self) -> Iterator[bytes]:
        if self._kind:
            yield _event("content_block_stop", index=self._index)
        self._kind = ""

    def _seal(self, event: ThinkingSeal) -> Iterator[bytes]:
        if event.redacted:
            yield from self._open("redacted", {"type": "redacted_thinking", "data": event.seal})
        else:
            yield from self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._piece(type="signature_delta", signature=event.seal)
        yield from self._close()

    def _open(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        if kind != self._kind:
            yield from self._close()
            self._kind = kind
            self._index += 1
            yield _event("content_block_start", index=self._index, content_block=block)

    def _piece(self, **delta: Any) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)
