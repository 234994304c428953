"""OpenAI responses. Nothing is kept at the server: each request carries the whole conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import (
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
from tiebreak.wire.reading import ReplyBuilder, StreamReader, bad_request, build_reply, parse, parse_event, read_request
from tiebreak.wire.writing import SequentialCalls, StreamWriter, data_url, encode_line, image_of, reply_parts, text_parts

UNSUPPORTED = frozenset(
    {"top_k", "min_p", "repeat_penalty", "num_ctx", "seed", "stop", "frequency_penalty", "presence_penalty", "audio"}
)
"""What this format has no word for."""

FORMAT = "responses"
_PLAIN_SETTINGS = ("temperature", "top_p")
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_WITH_LOGPROBS = "message.output_text.logprobs"
_WITH_SEALS = "reasoning.encrypted_content"
_PARAGRAPH = "\n\n"


class _Content(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    refusal: str = ""
    logprobs: list[Logprob] | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    content: list[_Content] | None = None
    summary: list[_Content] | None = None
    encrypted_content: str | None = None

    @property
    def call_arguments(self) -> str:
        """A call's arguments as JSON, free text among them."""
        return self.arguments if self.type == "function_call" else _as_arguments(self.input)


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Reply(msgspec.Struct, gc=False):
    output: list[_Item]
    status: str | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None
    model: str = ""


_DECODER = msgspec.json.Decoder(_Reply)

# --- tools that take free text ----------------------------------------------------------------------
#
# To everyone else they are functions with one text for a parameter.

Namespaces = Mapping[str, tuple[str, str]]
_NO_NAMESPACES: Namespaces = MappingProxyType({})
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_FREE_TEXT = "input"
_FREE_TEXT_GOES = f"What it takes goes, unchanged, into its one parameter `{_FREE_TEXT}`."
_FREE_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_WHOLE_PIECES = re.compile(
    r"""(?: [^"\\] | \\[^u]
    | \\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}
    | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2} )*""",
    re.VERBOSE,
)
"""What of a JSON text can be read already: no escape is cut in two, and no letter that takes two of them."""


def _as_arguments(text: str) -> str:
    return msgspec.json.encode({_FREE_TEXT: text}).decode()


def _free_text_in(arguments: str) -> str | None:
    """The text in a call's arguments, by whatever name a model put it there; None when it wrote something else."""
    try:
        # Not strict: models write lines and tabs into JSON as they are.
        found = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        found = found.get(_FREE_TEXT, next(iter(found.values())) if len(found) == 1 else None)
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if isinstance(found, str) else None


class _FreeText:
    """Takes the text out of arguments that come in pieces."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._rest = ""
        self._begun = False

    @property
    def arguments(self) -> str:
        """All that came."""
        return "".join(self._all)

    def feed(self, piece: str) -> str:
        """What of the text has become known."""
        self._all.append(piece)
        self._rest += piece
        if not self._begun:
            begun = _FREE_BEGIN.match(self._rest)
            if begun is None:
                return ""
            self._begun, self._rest = True, self._rest[begun.end() :]
        known = _WHOLE_PIECES.match(self._rest)
        assert known is not None
        self._rest = self._rest[known.end() :]
        try:
            return str(json.loads(f'"{known[0]}"', strict=False))
        except ValueError:
            return ""


def custom_tools(body: bytes | Mapping[str, Any]) -> frozenset[str]:
    """The tools of a client's request that take free text."""
    try:
        found = read_request(_TOOLS_DECODER, body)
    except ProviderError:
        return frozenset()
    return frozenset(tool.name for tool in found.tools or () if tool.type == "custom")


# --- tools of a server, which share a namespace -----------------------------------------------------
#
# To everyone else their names begin with that of the namespace.


def tool_namespaces(body: bytes | Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The namespace and the name there, by the whole name, of the tools of a client's request that have one."""
    try:
        found = read_request(_TOOLS_DECODER, body)
    except ProviderError:
        return {}
    spaces = [tool for tool in found.tools or () if tool.type == "namespace"]
    return {_whole_name(space.name, tool.name): (space.name, tool.name) for space in spaces for tool in space.tools or ()}


def _whole_name(namespace: str, name: str) -> str:
    return name if not namespace else f"{namespace.rstrip('_')}__{name}"


def _flat(tools: Iterable[_InTool]) -> Iterator[_InTool]:
    """The tools that a model can be offered; those that only OpenAI can run are left out."""
    for tool in tools:
        if tool.type in ("function", "custom"):
            yield tool
        elif tool.type == "namespace":
            functions = (inner for inner in tool.tools or () if inner.type == "function")
            yield from (msgspec.structs.replace(inner, name=_whole_name(tool.name, inner.name)) for inner in functions)


# --- a request -------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, Any]:
    """The body of a request."""
    settings = request.settings
    items = [item for message in request.messages for item in _items(message)]
    body: dict[str, Any] = {"model": request.model, "input": items, "store": False}
    body |= {name: settings[name] for name in _PLAIN_SETTINGS if name in settings}
    if "max_tokens" in settings:
        body["max_output_tokens"] = settings["max_tokens"]
    if "reasoning_effort" in settings:
        body["reasoning"] = {"effort": settings["reasoning_effort"]}
    if request.tools:
        body["tools"] = [{"type": "function", "strict": False} | function(tool) for tool in request.tools]
    if request.tool_choice:
        is_name = request.tool_choice not in ("auto", "none", "required")
        body["tool_choice"] = {"type": "function", "name": request.tool_choice} if is_name else request.tool_choice
    if request.schema is not None:
        body["text"] = {"format": _format(request.schema)}
    if request.logprobs is not None:
        body["top_logprobs"] = request.logprobs
    include = _include(request)
    if include:
        body["include"] = include
    if request.stream:
        body["stream"] = True
    return body


def _include(request: Request) -> list[str]:
    """Models that do not reason refuse to be asked for their reasoning: only where effort is set is it asked for."""
    reasons = request.settings.get("reasoning_effort", "none") != "none"
    return [_WITH_SEALS] * reasons + [_WITH_LOGPROBS] * (request.logprobs is not None)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": content(message, _part)}
    elif message.role != "assistant":
        yield {"type": "message", "role": message.role, "content": content(message, _part)}
    else:
        for part in message.parts or (() if message.tool_calls else (TextPart(""),)):
            if isinstance(part, ThinkingPart):
                # Without its seal the server knows nothing of the reasoning, and refuses to hear of it.
                yield from (_reasoning(part),) if part.format == FORMAT and part.seal else ()
            elif isinstance(part, TextPart):
                yield {"type": "message", "role": "assistant", "content": part.text}
        yield from (_function_call(call) for call in message.tool_calls)


def _part(part: TextPart | MediaPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, FilePart):
        return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}
    return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}


def _reasoning(part: ThinkingPart) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    body: dict[str, Any] = {"type": "reasoning", "summary": summary, "encrypted_content": part.seal}
    return body | ({"id": part.id} if part.id else {})


def _function_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _custom_call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "custom_tool_call",
        "call_id": call.id,
        "name": call.name,
        "input": _free_text_in(call.arguments) or call.arguments,
    }


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "name": SCHEMA_NAME, "schema": dict(schema), "strict": is_strict(schema)}


# --- a request, read -------------------------------------------------------------------------------


class _InPart(msgspec.Struct):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None


class _InItem(msgspec.Struct):
    type: str = "message"
    input: Any = None
    role: str = ""
    content: str | list[_InPart] | None = None
    summary: list[_InPart] | None = None
    encrypted_content: str | None = None
    id: str | None = None
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    arguments: str = ""
    output: str | list[_InPart] = ""


class _InTool(msgspec.Struct):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    format: Any = None
    tools: list[_InTool] | None = None


class _InTools(msgspec.Struct):
    tools: list[_InTool] | None = None


class _InChoice(msgspec.Struct):
    name: str = ""


class _InFormat(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _InText(msgspec.Struct):
    format: _InFormat | None = None


class _InReasoning(msgspec.Struct):
    effort: str | int | None = None


class _In(msgspec.Struct):
    model: str
    input: str | list[_InItem]
    instructions: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    reasoning: _InReasoning | None = None
    tools: list[_InTool] | None = None
    tool_choice: str | _InChoice | None = None
    text: _InText | None = None
    include: list[str] | None = None
    top_logprobs: int | None = None
    stream: bool | None = None


_REQUEST_DECODER = msgspec.json.Decoder(_In)
_TOOLS_DECODER = msgspec.json.Decoder(_InTools)


def decode_request(body: bytes | Mapping[str, Any]) -> Request:
    """The request in a client's body. Tools that only OpenAI can run are left out."""
    incoming = read_request(_REQUEST_DECODER, body)
    items = [_InItem(role="user", content=incoming.input)] if isinstance(incoming.input, str) else incoming.input
    choice, form = incoming.tool_choice, incoming.text.format if incoming.text else None
    return Request(
        model=incoming.model,
        messages=(*((system(incoming.instructions),) if incoming.instructions else ()), *_read_items(items)),
        settings=_read_settings(incoming),
        tools=tuple(map(_read_tool, _flat(incoming.tools or ()))),
        tool_choice=choice.name if isinstance(choice, _InChoice) else choice or "",
        schema=None if form is None or form.type == "text" else form.schema or {},
        logprobs=(incoming.top_logprobs or 0) if _WITH_LOGPROBS in (incoming.include or ()) else None,
        stream=bool(incoming.stream),
    )


def _read_settings(incoming: _In) -> dict[str, Any]:
    named = {name: getattr(incoming, name) for name in _PLAIN_SETTINGS}
    named["max_tokens"] = incoming.max_output_tokens
    named["reasoning_effort"] = incoming.reasoning.effort if incoming.reasoning else None
    return {name: value for name, value in named.items() if value is not None}


def _read_items(items: Iterable[_InItem]) -> Iterator[Message]:
    """The conversation; what a model said, thought and called in one go is one turn."""
    parts: list[Part] = []
    calls: list[ToolCall] = []
    is_assistant = False
    for item in items:
        if item.type not in ("message", "reasoning", *_CALLS, *_OUTPUTS):
            continue
        if item.type in _OUTPUTS or (item.type == "message" and item.role != "assistant"):
            if is_assistant:
                yield Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls))
            parts, calls, is_assistant = [], [], False
            yield _read_message(item)
            continue
        is_assistant = True
        if item.type in _CALLS:
            arguments = item.arguments if item.type == "function_call" else _as_arguments(str(item.input or ""))
            name = _whole_name(item.namespace or "", item.name)
            calls.append(ToolCall(id=item.call_id, name=name, arguments=arguments))
        else:
            parts += [_read_reasoning(item)] if item.type == "reasoning" else _read_content(item.content)
    if is_assistant:
        yield Message(role="assistant", parts=tuple(parts), tool_calls=tuple(calls))


def _read_message(item: _InItem) -> Message:
    if item.type in _OUTPUTS:
        return Message(role="tool", parts=_read_content(item.output), tool_call_id=item.call_id)
    if item.role not in _ROLES:
        raise bad_request(f"no role {item.role!r} is known")
    return Message(role=_ROLES[item.role], parts=_read_content(item.content))


def _read_content(content: str | list[_InPart] | None) -> tuple[Part, ...]:
    return tuple(map(_read_part, content)) if isinstance(content, list) else text_parts(content)


def _read_part(part: _InPart) -> Part:
    if part.type == "input_image" and part.image_url:
        return image_of(part.image_url)
    if part.type in ("input_text", "output_text", "text", "refusal"):
        return TextPart(part.text or part.refusal)
    raise bad_request(f"content of type {part.type!r} cannot be passed on")


def _read_reasoning(item: _InItem) -> ThinkingPart:
    text = _PARAGRAPH.join(part.text for part in item.summary or ())
    return ThinkingPart(text=text, seal=item.encrypted_content or "", format=FORMAT, id=item.id or "")


def _read_tool(tool: _InTool) -> Tool:
    if tool.type != "custom":
        return Tool(name=tool.name, description=tool.description or "", parameters=tool.parameters or {})
    # Its own words may say that there is no JSON about it: now there is.
    description = f"{tool.description or ''}\n\n{_FREE_TEXT_GOES}".strip()
    return Tool(name=tool.name, description=description, parameters=_free_text_schema(tool))


def _free_text_schema(tool: _InTool) -> dict[str, Any]:
    """Nobody else can be held to a grammar; it is told instead."""
    form = tool.format if isinstance(tool.format, dict) else {}
    about = "All of the tool's input, as plain text."
    if form.get("definition"):
        about += f" It must follow this {form.get('syntax', '')} grammar:\n{form['definition']}"
    text = {"type": "string", "description": about}
    return {"type": "object", "properties": {_FREE_TEXT: text}, "required": [_FREE_TEXT], "additionalProperties": False}


# --- a reply ---------------------------------------------------------------------------------------


def decode(data: bytes) -> Reply:
    """The reply in a response's body."""
    reply = parse(_DECODER, data, "a response")
    _refuse_failed(reply)
    return build_reply(_events(reply.output), finish=_finish(reply), usage=_usage(reply.usage), model=reply.model)


def _refuse_failed(reply: _Reply) -> None:
    if reply.error is not None:
        raise reported_error({"error": reply.error})
    if reply.status in ("failed", "cancelled"):
        raise ProviderError(f"the server's answer is {reply.status}", kind=FailureKind.TRANSIENT)


def _finish(reply: _Reply) -> Finish:
    if reply.status == "incomplete":
        reason = reply.incomplete_details.reason if reply.incomplete_details else None
        return Finish.FILTERED if reason == "content_filter" else Finish.LENGTH
    refused = any(one.type == "refusal" for item in reply.output for one in item.content or ())
    return Finish.REFUSED if refused else Finish.STOP


def _events(items: Iterable[_Item]) -> Iterator[StreamEvent]:
    calls = 0
    for item in items:
        if item.type == "message":
            for one in item.content or ():
                yield TextDelta(one.text or one.refusal, decode_logprobs(one.logprobs))
        elif item.type == "reasoning":
            paragraphs = [one.text for one in (*(item.summary or ()), *(item.content or ()))]
            yield ThinkingDelta(_PARAGRAPH.join(paragraphs))
            yield from _seal(item)
        elif item.type in _CALLS:
            yield ToolCallDelta(index=calls, id=item.call_id, name=item.name, arguments=item.call_arguments)
            calls += 1


def _seal(item: _Item) -> Iterator[StreamEvent]:
    if item.encrypted_content:
        yield ThinkingSeal(seal=item.encrypted_content, format=FORMAT, id=item.id or "")


def encode_reply(
    reply: Reply,
    *,
    reply_id: str = "resp_0",
    created: int = 0,
    custom: Collection[str] = (),
    namespaces: Namespaces = _NO_NAMESPACES,
) -> dict[str, Any]:
    """The body of a response; `custom` are the tools whose calls are to be free text."""
    whole = reply.finish not in (Finish.LENGTH, Finish.FILTERED)
    reason = "content_filter" if reply.finish is Finish.FILTERED else "max_output_tokens"
    return {
        "id": reply_id,
        "object": "response",
        "created_at": created,
        "status": "completed" if whole else "incomplete",
        "error": None,
        "incomplete_details": None if whole else {"reason": reason},
        "model": reply.model,
        "output": list(_output(reply, reply_id, custom, namespaces)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _encode_usage(reply.usage),
    }


def _output(reply: Reply, reply_id: str, custom: Collection[str], namespaces: Namespaces) -> Iterator[dict[str, Any]]:
    logprobs = encode_logprobs(reply.logprobs)
    for number, part in enumerate(reply_parts(reply, FORMAT)):
        if isinstance(part, TextPart):
            yield _message_item(f"{reply_id}-{number}", part.text, logprobs, refused=reply.finish is Finish.REFUSED)
            logprobs = []
        elif isinstance(part, ThinkingPart):
            yield _reasoning(part) | {"id": part.id or f"{reply_id}-{number}", "encrypted_content": part.seal or None}
    for number, call in enumerate(reply.tool_calls):
        spelled = _custom_call(call) if call.name in custom else _function_call(call)
        yield spelled | _named(call.name, namespaces) | {"id": f"{reply_id}-call-{number}", "status": "completed"}


def _named(name: str, namespaces: Namespaces) -> dict[str, str]:
    """A call's name as the client has it."""
    if name not in namespaces:
        return {"name": name}
    namespace, inner = namespaces[name]
    return {"name": inner, "namespace": namespace}


def _message_item(item_id: str, text: str, logprobs: list[dict[str, Any]], *, refused: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "refusal", "refusal": text}
    if not refused:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [part]}


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.input_tokens_details, usage.output_tokens_details
    return detailed_usage(usage.input_tokens, usage.output_tokens, *details)


def _encode_usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# --- a stream --------------------------------------------------------------------------------------


class _Event(msgspec.Struct, gc=False):
    type: str
    delta: str = ""
    output_index: int = 0
    summary_index: int = 0
    logprobs: list[Logprob] | None = None
    item: _Item | None = None
    response: _Reply | None = None
    error: Any = None
    code: str | None = None
    message: str | None = None


_EVENT_DECODER = msgspec.json.Decoder(_Event)
_TEXT = "response.output_text.delta"
_REFUSAL = "response.refusal.delta"
_ARGUMENTS = "response.function_call_arguments.delta"
_INPUT = "response.custom_tool_call_input.delta"
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_NEW_THOUGHT = "response.reasoning_summary_part.added"
_ITEM = "response.output_item.added"
_ITEM_DONE = "response.output_item.done"
_LAST = ("response.completed", "response.incomplete", "response.failed")
_KNOWN = frozenset({_TEXT, _REFUSAL, _ARGUMENTS, *_THOUGHTS, _NEW_THOUGHT, _ITEM, _ITEM_DONE, *_LAST, "error"})


class Reader(StreamReader):
    """Reads a streamed response. Only its last event says that it is whole."""

    def __init__(self, **limits: int) -> None:
        super().__init__(**limits)
        self._with_arguments: set[int] = set()

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        event = None if payload == b"[DONE]" else parse_event(_EVENT_DECODER, payload, _KNOWN)
        if event is None:
            return
        if event.type == _TEXT:
            yield TextDelta(event.delta, decode_logprobs(event.logprobs))
        elif event.type == _ARGUMENTS:
            self._with_arguments.add(event.output_index)
            yield ToolCallDelta(index=self._call_index(event.output_index), arguments=event.delta)
        elif event.type in _THOUGHTS:
            yield ThinkingDelta(event.delta)
        elif event.type in _LAST and event.response is not None:
            yield from self._last_events(event.response)
        elif event.type == "error" or event.error is not None:
            raise reported_error({"error": event.error or {"code": event.code, "message": event.message}})
        else:
            yield from self._frame_events(event)

    def _frame_events(self, event: _Event) -> Iterator[StreamEvent]:
        item = event.item
        if event.type == _REFUSAL:
            self._refused = True
            yield TextDelta(event.delta)
        elif event.type == _NEW_THOUGHT and event.summary_index:
            yield ThinkingDelta(_PARAGRAPH)
        elif event.type == _ITEM and item is not None and item.type in _CALLS:
            yield ToolCallDelta(index=self._call_index(event.output_index), id=item.call_id, name=item.name)
        elif event.type == _ITEM_DONE and item is not None:
            yield from self._done_events(event.output_index, item)

    def _done_events(self, place: int, item: _Item) -> Iterator[StreamEvent]:
        if item.type == "reasoning":
            yield from _seal(item)
        elif item.type in _CALLS and place not in self._with_arguments:
            # Servers that stream no pieces send the call whole; free text is taken whole.
            self._with_arguments.add(place)
            yield ToolCallDelta(index=self._call_index(place), id=item.call_id, name=item.name, arguments=item.call_arguments)

    def _last_events(self, response: _Reply) -> Iterator[StreamEvent]:
        _refuse_failed(response)
        self._builder.model = response.model
        if self._builder.empty:
            # Servers that stream no pieces send everything with the end.
            yield from _events(response.output)
        self._finish, self._usage = _finish(response), _usage(response.usage)
        yield from self._end()


class Writer(StreamWriter):
    """Writes a streamed response: items that are added, filled and done, one after the other.

    A refusal ends as filtered: the words are out before it is known for one.
    """

    def __init__(
        self,
        *,
        model: str = "",
        reply_id: str = "resp_0",
        created: int = 0,
        custom: Collection[str] = (),
        namespaces: Namespaces = _NO_NAMESPACES,
    ) -> None:
        super().__init__(SequentialCalls())
        self._builder = ReplyBuilder()
        self._builder.model = model
        self._reply_id, self._created, self._custom = reply_id, created, custom
        self._namespaces = namespaces
        self._number = 0
        self._done: list[dict[str, Any]] = []
        self._free = _FreeText()
        self._kind = ""
        self._item: dict[str, Any] = {}
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def begin(self) -> Iterable[bytes]:
        """The response, still empty."""
        begun = encode_reply(Reply(text="", model=self._builder.model), reply_id=self._reply_id, created=self._created)
        return (self._event("response.created", response=begun | {"status": "in_progress"}),)

    def _pieces(self, event: StreamEvent) -> Iterator[bytes]:
        self._builder.add(event)
        if isinstance(event, StreamEnd):
            yield from self._end()
        elif isinstance(event, TextDelta):
            yield from self._open("message", role="assistant", content=[])
            logprobs = encode_logprobs(event.logprobs)
            self._logprobs += logprobs
            yield self._piece(_TEXT, event.text, content_index=0, logprobs=logprobs)
        elif isinstance(event, ThinkingDelta):
            yield from self._open("reasoning", summary=[], encrypted_content=None)
            yield self._piece(_THOUGHTS[0], event.text, summary_index=0)
        elif isinstance(event, ToolCallDelta):
            yield from self._call(event)
        elif event.format == FORMAT:
            yield from self._open("reasoning", summary=[], encrypted_content=None)
            self._item |= {"encrypted_content": event.seal, "id": event.id or self._item["id"]}
            yield from self._close()

    def _end(self) -> Iterator[bytes]:
        yield from self._close()
        reply = self._builder.reply()
        body = encode_reply(reply, reply_id=self._reply_id, created=self._created) | {"output": self._done}
        if reply.finish is Finish.REFUSED:
            body |= {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        yield self._event(f"response.{body['status']}", response=body)

    def _event(self, name: str, **fields: Any) -> bytes:
        body = {"type": name, "sequence_number": self._number} | fields
        self._number += 1
        return sse.event(encode_line(body), name.encode())

    def _call(self, event: ToolCallDelta) -> Iterator[bytes]:
        kind = f"custom_tool_call {event.index}"
        if event.name not in self._custom and self._kind != kind:
            named = _named(event.name, self._namespaces)
            yield from self._open(f"function_call {event.index}", call_id=event.id, **named, arguments="")
            if event.arguments:
                yield self._piece(_ARGUMENTS, event.arguments)
            return
        yield from self._open(kind, call_id=event.id, name=event.name, input="")
        if text := self._free.feed(event.arguments):
            yield self._piece(_INPUT, text)

    def _close_custom(self, fields: dict[str, Any]) -> Iterator[bytes]:
        """What could not be said in pieces is said now; arguments that are broken, or cut short, are what was said of them."""
        said, whole = "".join(self._texts), _free_text_in(self._free.arguments)
        whole = said or self._free.arguments if whole is None else whole
        if whole != said and whole.startswith(said):
            yield self._piece(_INPUT, whole[len(said) :])
        self._item["input"] = whole
        yield self._event("response.custom_tool_call_input.done", input=whole, **fields)
        self._free = _FreeText()

    def _close(self) -> Iterator[bytes]:
        if not self._kind:
            return
        text = "".join(self._texts)
        item = self._item
        fields = {"item_id": item["id"], "output_index": len(self._done)}
        if item["type"] == "message":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": self._logprobs}
            item["content"] = [part]
            done = fields | {"content_index": 0}
            yield self._event("response.output_text.done", text=text, logprobs=self._logprobs, **done)
            yield self._event("response.content_part.done", part=part, **done)
        elif item["type"] == "reasoning":
            item["summary"] = [{"type": "summary_text", "text": text}] if text else []
        elif item["type"] == "custom_tool_call":
            yield from self._close_custom(fields)
        else:
            item["arguments"] = text
            yield self._event("response.function_call_arguments.done", arguments=text, **fields)
        item["status"] = "completed"
        yield self._event(_ITEM_DONE, item=item, output_index=len(self._done))
        self._done.append(item)
        self._kind, self._texts, self._logprobs = "", [], []

    def _open(self, kind: str, **item: Any) -> Iterator[bytes]:
        if kind == self._kind:
            return
        yield from self._close()
        self._kind = kind
        item_id = f"{self._reply_id}-{len(self._done)}"
        self._item = {"type": kind.partition(" ")[0], "id": item_id, "status": "in_progress"} | item
        yield self._event(_ITEM, item=self._item, output_index=len(self._done))
        if kind == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            fields = {"item_id": item_id, "output_index": len(self._done), "content_index": 0}
            yield self._event("response.content_part.added", part=part, **fields)

    def _piece(self, name: str, delta: str, **fields: Any) -> bytes:
        self._texts.append(delta)
        return self._event(name, item_id=self._item["id"], output_index=len(self._done), delta=delta, **fields)
