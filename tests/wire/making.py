"""What each wire format can hold, as strategies, and bytes that no server should send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import msgspec
from hypothesis import strategies as st
from support import ollama_wire as ollama
from support.streams import encode_stream

from tiebreak.core.errors import ProviderError
from tiebreak.core.message import (
    Finish,
    ImagePart,
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
    TokenLogprob,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages, responses

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty")


@dataclass(frozen=True)
class Format:
    """What a format can hold beyond plain words."""

    name: str
    module: ModuleType
    settings: tuple[str, ...]
    efforts: tuple[Any, ...]
    finishes: tuple[Finish, ...]
    stream_finishes: tuple[Finish, ...]
    stop_as_text: bool = False
    image_urls: bool = True
    tool_images: bool = False
    failed_tools: bool = False
    tool_choice: bool = True
    systems_anywhere: bool = True
    seals: bool = False
    redacted: bool = False
    plain_thinking: bool = False
    """Reasoning without a seal goes back in a request."""
    assistants_in_a_row: bool = True
    object_arguments: bool = False
    logprobs: bool = True
    usage_optional: bool = True
    reasoning_tokens: bool = True

    def __str__(self) -> str:
        return self.name


_ALL = (Finish.STOP, Finish.LENGTH, Finish.FILTERED, Finish.REFUSED)
FORMATS = (
    Format(
        "chat",
        chat,
        settings=(*SAMPLING, "repeat_penalty"),
        efforts=("none", "minimal", "low", "high", "xhigh"),
        finishes=_ALL,
        stream_finishes=(Finish.STOP, Finish.LENGTH, Finish.FILTERED),
        stop_as_text=True,
        plain_thinking=True,
    ),
    Format(
        "responses",
        responses,
        settings=("temperature", "top_p", "max_tokens"),
        efforts=("none", "minimal", "low", "high", "xhigh"),
        finishes=_ALL,
        stream_finishes=(Finish.STOP, Finish.LENGTH, Finish.FILTERED),
        tool_images=True,
        seals=True,
        assistants_in_a_row=False,
    ),
    Format(
        "messages",
        messages,
        settings=("temperature", "top_p", "top_k", "max_tokens", "stop"),
        efforts=("none", "low", "high", "max", 2048),
        finishes=(Finish.STOP, Finish.LENGTH, Finish.REFUSED),
        stream_finishes=(Finish.STOP, Finish.LENGTH, Finish.REFUSED),
        tool_images=True,
        failed_tools=True,
        systems_anywhere=False,
        seals=True,
        redacted=True,
        object_arguments=True,
        logprobs=False,
        usage_optional=False,
    ),
    Format(
        "gemini",
        gemini,
        settings=("temperature", "top_p", "top_k", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty"),
        efforts=("none", "minimal", "low", "high", 512),
        finishes=(Finish.STOP, Finish.LENGTH, Finish.FILTERED),
        stream_finishes=(Finish.STOP, Finish.LENGTH, Finish.FILTERED),
        failed_tools=True,
        systems_anywhere=False,
        seals=True,
        object_arguments=True,
    ),
    Format(
        "ollama",
        ollama,
        settings=(*SAMPLING, "repeat_penalty"),
        efforts=("none", "low", "high"),
        finishes=(Finish.STOP, Finish.LENGTH),
        stream_finishes=(Finish.STOP, Finish.LENGTH),
        stop_as_text=True,
        image_urls=False,
        tool_images=True,
        tool_choice=False,
        plain_thinking=True,
        object_arguments=True,
        usage_optional=False,
        reasoning_tokens=False,
    ),
)


def used(request: Request) -> frozenset[str]:
    """Every setting and ability the request makes use of, by the names that UNSUPPORTED uses."""
    images = [(m.role, part) for m in request.messages for part in m.parts if isinstance(part, ImagePart)]
    asked = {
        "tools": bool(request.tools),
        "tool_choice": bool(request.tool_choice),
        "schema": request.schema is not None,
        "logprobs": request.logprobs is not None,
        "stream": request.stream,
        "image": bool(images),
        "image_url": any(part.url for _, part in images),
        "tool_image": any(role == "tool" for role, _ in images),
    }
    return frozenset(request.settings) | {name for name, is_asked in asked.items() if is_asked}


# --- pieces ----------------------------------------------------------------------------------------

words = st.text(max_size=20)
said = st.text(min_size=1, max_size=20)
names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=4, max_size=12).filter(lambda n: n not in ("auto", "none", "required"))
ids = st.text("abcdef0123456789", min_size=3, max_size=8).map("call_".__add__)
counts = st.integers(0, 10**6)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6
)
objects = st.dictionaries(words, values, max_size=3)
numbers = st.floats(0, 2, allow_nan=False)


def _setting(form: Format, name: str) -> st.SearchStrategy[Any]:
    if name == "stop":
        several = st.lists(said, min_size=1, max_size=3)
        return several | said if form.stop_as_text else several
    return st.integers(1, 10**6) if name in ("max_tokens", "top_k", "seed") else numbers


@st.composite
def settings(draw: st.DrawFn, form: Format) -> dict[str, Any]:
    chosen = draw(st.sets(st.sampled_from(form.settings)))
    found = {name: draw(_setting(form, name)) for name in sorted(chosen)}
    if form.name == "messages":
        found.setdefault("max_tokens", 100)
    if form.name == "ollama":
        found["num_ctx"] = draw(st.integers(1, 10**6))
    if draw(st.booleans()):
        found["reasoning_effort"] = draw(st.sampled_from(form.efforts))
    return found


def images(form: Format) -> st.SearchStrategy[ImagePart]:
    held = st.sampled_from(["iVBORw0KGgo=", "iVBORaaaa"]).map(lambda d: ImagePart(media_type="image/png", data_base64=d))
    away = st.just(ImagePart(media_type="", url="https://example.org/a.png"))
    return held | away if form.image_urls else held


@st.composite
def spoken(draw: st.DrawFn, form: Format, *, with_images: bool) -> tuple[Part, ...]:
    """Parts with no text next to text: joined, they would be one."""
    parts: list[Part] = [TextPart(draw(said))] if draw(st.booleans()) else []
    if with_images and draw(st.booleans()):
        parts.append(draw(images(form)))
        if form.name != "ollama" and draw(st.booleans()):
            parts.append(TextPart(draw(said)))
    return tuple(parts)


def arguments(form: Format) -> st.SearchStrategy[str]:
    held = objects.map(lambda value: msgspec.json.encode(value).decode())
    return held if form.object_arguments else held | said


@st.composite
def calls(draw: st.DrawFn, form: Format) -> tuple[ToolCall, ...]:
    found = draw(
        st.lists(st.tuples(ids, names, arguments(form), st.sampled_from(["", "c2ln"])), max_size=2, unique_by=lambda c: c[0])
    )
    sealed = form.name == "gemini"
    return tuple(ToolCall(id=i, name=n, arguments=a, seal=s if sealed else "") for i, n, a, s in found)


@st.composite
def sealed(draw: st.DrawFn, form: Format) -> ThinkingPart:
    if form.redacted and draw(st.booleans()):
        return ThinkingPart(seal=draw(said), format=form.name, redacted=True)
    item = draw(ids) if form.name == "responses" else ""
    return ThinkingPart(text=draw(words), seal=draw(said), format=form.name, id=item)


@st.composite
def turn(draw: st.DrawFn, form: Format) -> Message:
    """What an assistant said before."""
    parts: list[Part] = []
    if form.seals:
        parts += draw(st.lists(sealed(form), max_size=2))
    elif form.plain_thinking and draw(st.booleans()):
        parts.append(ThinkingPart(text=draw(said), format=form.name))
    if draw(st.booleans()):
        parts.append(TextPart(draw(said)))
    return Message(role="assistant", parts=tuple(parts), tool_calls=draw(calls(form)))


@st.composite
def conversation(draw: st.DrawFn, form: Format) -> tuple[Message, ...]:
    found = [Message(role="system", parts=(TextPart(draw(said)),))] if draw(st.booleans()) else []
    for kind in draw(st.lists(st.sampled_from(["user", "assistant", "system"]), min_size=1, max_size=4)):
        if kind == "system" and form.systems_anywhere:
            found.append(Message(role="system", parts=(TextPart(draw(said)),)))
        elif kind == "assistant" and (form.assistants_in_a_row or not found or found[-1].role != "assistant"):
            found.append(draw(turn(form)))
            found += [draw(_result(form, call)) for call in found[-1].tool_calls]
        else:
            found.append(Message(role="user", parts=draw(spoken(form, with_images=True))))
    return tuple(found)


@st.composite
def _result(draw: st.DrawFn, form: Format, call: ToolCall) -> Message:
    parts = draw(spoken(form, with_images=form.tool_images))
    return Message(role="tool", parts=parts, tool_call_id=call.id, failed=form.failed_tools and draw(st.booleans()))


# --- whole records ---------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn, form: Format) -> Request:
    parameters = st.just({"type": "object", "properties": {"a": {"type": "string"}}})
    tools = draw(st.lists(st.builds(Tool, name=names, description=words, parameters=parameters), max_size=2))
    choice = st.sampled_from(["", "auto", "none", "required"]) | names
    return Request(
        model="m",
        messages=draw(conversation(form)),
        settings=draw(settings(form)),
        tools=tuple(tools),
        tool_choice=draw(choice) if form.tool_choice else "",
        schema=draw(st.none() | st.just({}) | st.just({"type": "object", "required": []})),
        logprobs=draw(st.none() | st.integers(0, 5)) if form.logprobs else None,
        stream=draw(st.booleans()),
    )


@st.composite
def usages(draw: st.DrawFn, form: Format) -> Usage | None:
    if form.usage_optional and draw(st.booleans()):
        return None
    cached, reasoning = draw(counts), draw(counts) if form.reasoning_tokens else 0
    sent, made = cached + draw(counts), reasoning + draw(counts)
    return Usage(input_tokens=sent, cached_tokens=cached, output_tokens=made, reasoning_tokens=reasoning)


likely = st.builds(TokenLogprob, words, st.floats(-50, 0))
logprobs = st.lists(st.builds(TokenLogprob, words, st.floats(-50, 0), st.lists(likely, max_size=2).map(tuple)), max_size=2)


@st.composite
def replies(draw: st.DrawFn, form: Format) -> Reply:
    made = draw(calls(form))
    finish = draw(st.sampled_from((Finish.TOOL, Finish.LENGTH) if made else form.finishes))
    parts: list[Part] = draw(st.lists(sealed(form), max_size=2)) if form.seals else []
    text = draw(said if finish is Finish.REFUSED else words)
    if parts and text:
        parts.append(TextPart(text))
    thinking = "".join(p.text for p in parts if isinstance(p, ThinkingPart)) if parts else draw(words)
    seconds = draw(st.integers(1, 10**9)) * 1e-9 if form.name == "ollama" else None
    return Reply(
        text=text,
        finish=finish,
        thinking=thinking,
        tool_calls=made,
        usage=draw(usages(form)),
        model="m",
        model_seconds=seconds,
        logprobs=tuple(draw(logprobs)) if form.logprobs and text and finish is not Finish.REFUSED else (),
        parts=tuple(parts),
    )


@st.composite
def streams(draw: st.DrawFn, form: Format) -> list[StreamEvent]:
    found: list[StreamEvent] = []
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "seal"]), max_size=4)):
        if kind == "text":
            tokens = tuple(draw(logprobs)) if form.logprobs else ()
            found += [TextDelta(draw(words), tokens), *map(TextDelta, draw(st.lists(said, max_size=2)))]
        else:
            found += map(ThinkingDelta, draw(st.lists(said, min_size=1, max_size=3)))
        if kind == "seal" and form.seals:
            part = draw(sealed(form))
            found.append(ThinkingSeal(seal=part.seal, format=form.name, id=part.id, redacted=part.redacted))
    made = draw(calls(form))
    for index, call in enumerate(made):
        found.append(ToolCallDelta(index=index, id=call.id, name=call.name, seal=call.seal))
        found += [ToolCallDelta(index=index, arguments=piece) for piece in _pieces(call.arguments, draw(st.integers(1, 9)))]
    finish = draw(st.sampled_from((Finish.TOOL, Finish.LENGTH) if made else form.stream_finishes))
    return [*found, StreamEnd(finish=finish, usage=draw(usages(form)))]


def _pieces(text: str, size: int) -> Iterator[str]:
    yield from (text[start : start + size] for start in range(0, len(text), size))


# --- hostile bytes ---------------------------------------------------------------------------------

_KEYS = (
    *("choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "id", "index", "type"),
    *("usage", "prompt_tokens", "completion_tokens", "finish_reason", "logprobs", "top_logprobs", "token", "logprob", "refusal"),
    *("error", "code", "status", "model", "output", "item", "response", "summary", "encrypted_content", "output_index"),
    *("content_block", "text", "thinking", "signature", "input", "stop_reason", "partial_json", "data", "details", "retryDelay"),
    *("candidates", "parts", "functionCall", "args", "thoughtSignature", "finishReason", "usageMetadata", "promptFeedback"),
    *("blockReason", "logprobsResult", "chosenCandidates", "topCandidates", "done", "done_reason", "eval_count", "models"),
    *("messages", "role", "contents", "systemInstruction", "generationConfig", "tools", "tool_choice", "max_tokens", "options"),
    *("image_url", "url", "source", "inlineData", "functionResponse", "toolConfig", "text", "format", "schema", "images"),
)
_WORDS = st.sampled_from(
    [
        *(
            "",
            "text",
            "thinking",
            "tool_use",
            "tool_result",
            "message",
            "function_call",
            "reasoning",
            "user",
            "assistant",
            "tool",
        ),
        *("content_block_start", "content_block_delta", "content_block_stop", "message_start", "message_delta", "message_stop"),
        *("response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.completed"),
        *(
            "response.function_call_arguments.delta",
            "response.failed",
            "response.incomplete",
            "error",
            "stop",
            "STOP",
            "end_turn",
        ),
        *("rate_limit_error", "overloaded_error", "INVALID_JSON", "data:image/png;base64,AAAA", "40s"),
    ]
)
_LEAVES = (
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | _WORDS | words
)
bodies = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=25,
)
json_bytes = bodies.map(lambda value: msgspec.json.encode(value))
lines = st.lists(
    st.one_of(
        json_bytes.map(lambda data: b"data: " + data),
        json_bytes,
        st.sampled_from(
            [b"data: [DONE]", b"data:", b"event: error", b": ping", b"", b"id: 1", b"retry: x", b"\xef\xbb\xbf", b"\r"]
        ),
        st.binary(max_size=30),
    ),
    max_size=8,
).map(lambda found: b"\n\n".join(found))
hostile = st.binary(max_size=200) | json_bytes | lines


@st.composite
def bent(draw: st.DrawFn, form: Format) -> bytes:
    """A good stream with a few bytes of it wrong."""
    data = bytearray(b"".join(encode_stream(form.module, draw(streams(form)), model="m")))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        data[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
        if not data:
            return b""
    return bytes(data)


def survive(form: Format, data: bytes, size: int) -> None:
    """Every way of reading ends in an answer or a ProviderError."""
    attempts = [form.module.decode, form.module.decode_request, lambda d: read(form, d, size)]
    if form.name == "ollama":
        attempts.append(ollama.decode_tags)
    for attempt in attempts:
        try:
            found = attempt(data)
        except ProviderError:
            continue
        if isinstance(found, Reply):
            msgspec.json.encode(form.module.encode_reply(found))
            tuple(call.parsed() for call in found.tool_calls)
        elif isinstance(found, Request):
            msgspec.json.encode(form.module.encode(found))


def read(form: Format, data: bytes, size: int) -> Reply:
    """What a reader makes of a stream in chunks of this size."""
    reader = form.module.Reader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader.finish()  # type: ignore[no-any-return]
