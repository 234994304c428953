"""What writing is in every format: the pieces of a request that differ in spelling only."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from benchmark.core.message import (
    ImagePart,
    Message,
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
)
from benchmark.core.model import Request

ENCODER = msgspec.json.Encoder()
BROKEN = "INVALID_JSON"
"""Stands for the arguments' name where a format wants an object and the model wrote none."""

_LINE_BREAKS = ((b"\xe2\x80\xa8", rb"\u2028"), (b"\xe2\x80\xa9", rb"\u2029"), (b"\xc2\x85", rb"\u0085"))
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


def encode_line(body: Any) -> bytes:
    """JSON that stays on one line for everybody: some clients take Unicode's line breaks for ends of lines."""
    data = ENCODER.encode(body)
    for written, escaped in _LINE_BREAKS:
        if written in data:
            data = data.replace(written, escaped)
    return data


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


def as_list(stop: Any) -> list[str]:
    """Stop sequences, of which a user may write one or several."""
    return [stop] if isinstance(stop, str) else list(stop)


def data_url(image: ImagePart) -> str:
    """The image as an address: its own, or one that holds its bytes."""
    return image.url or f"data:{image.media_type};base64,{image.data_base64}"


def image_of(url: str) -> ImagePart:
    """The image behind an address."""
    found = _DATA_URL.fullmatch(url)
    return ImagePart(media_type=found[1], data_base64=found[2]) if found else ImagePart(media_type="", url=url)


def text_parts(text: str | None) -> tuple[TextPart, ...]:
    """A text as the parts of a message; no text is no part."""
    return (TextPart(text),) if text else ()


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """The tool behind each call's id: some formats answer a call by name."""
    return {call.id: call.name for message in messages for call in message.tool_calls}


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """A call's arguments for formats that want an object, even when the model wrote none."""
    parsed = call.parsed()
    return {BROKEN: call.arguments} if parsed is None else parsed


def arguments_text(arguments: Any) -> str:
    """Arguments that came as an object, as the JSON they would have been."""
    if isinstance(arguments, dict) and len(arguments) == 1 and isinstance(arguments.get(BROKEN), str):
        return str(arguments[BROKEN])
    return ENCODER.encode(arguments).decode()


def raw_arguments(arguments: msgspec.Raw) -> str:
    """Arguments that came as an object, word for word."""
    text = bytes(arguments).decode("utf-8", "replace")
    if BROKEN in text:
        with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
            return arguments_text(msgspec.json.decode(text))
    return text


def function(tool: Tool) -> dict[str, Any]:
    """A tool as OpenAI and those who followed spell it."""
    body: dict[str, Any] = {"name": tool.name}
    if tool.description:
        body["description"] = tool.description
    body["parameters"] = dict(tool.parameters)
    return body


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is closed throughout, as OpenAI wants it before it will hold a model to it."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping) or schema.get("type") == "object":
        names = set(properties or ())
        if schema.get("additionalProperties") is not False or names != set(schema.get("required") or ()):
            return False
    return all(is_strict(inner) for inner in _inner(schema))


def _inner(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("properties", "$defs", "definitions"):
        group = schema.get(name)
        yield from (inner for inner in (group.values() if isinstance(group, Mapping) else ()) if isinstance(inner, Mapping))
    for name in ("anyOf", "allOf", "oneOf"):
        group = schema.get(name)
        yield from (inner for inner in (group if isinstance(group, list) else ()) if isinstance(inner, Mapping))
    if isinstance(schema.get("items"), Mapping):
        yield schema["items"]


def openai_logprobs(logprobs: Iterable[TokenLogprob], *, with_top: bool = True) -> list[dict[str, Any]]:
    """Log-probabilities as OpenAI and Ollama spell them."""
    found = []
    for one in logprobs:
        entry: dict[str, Any] = {"token": one.token, "logprob": one.logprob, "bytes": list(one.token.encode())}
        if with_top:
            entry["top_logprobs"] = openai_logprobs(one.top, with_top=False)
        found.append(entry)
    return found


class Logprob(msgspec.Struct, gc=False):
    """One token's entry in OpenAI's and Ollama's log-probabilities."""

    token: str
    logprob: float
    top_logprobs: list[Logprob] | None = None

    def ours(self) -> TokenLogprob:
        """The entry in our words."""
        return TokenLogprob(self.token, self.logprob, tuple(other.ours() for other in self.top_logprobs or ()))


class StreamWriter:
    """Writes an answer in one format while it comes; each format adds how it spells an event."""

    def begin(self) -> Iterable[bytes]:
        """What stands before anything is said."""
        return ()

    def write(self, event: StreamEvent) -> Iterable[bytes]:
        """The pieces that say this event; the end of the stream is the last one to be written."""
        raise NotImplementedError


def written(writer: StreamWriter, events: Iterable[StreamEvent]) -> Iterator[bytes]:
    """A whole stream, piece by piece."""
    yield from writer.begin()
    for event in events:
        yield from writer.write(event)
        if isinstance(event, StreamEnd):
            return


def events_of(reply: Reply) -> Iterator[StreamEvent]:
    """The stream that a reply which came whole would have been."""
    parts = reply.parts or (ThinkingPart(text=reply.thinking), TextPart(reply.text))
    for part in parts:
        if isinstance(part, ThinkingPart):
            if part.text:
                yield ThinkingDelta(part.text)
            if part.seal:
                yield ThinkingSeal(seal=part.seal, format=part.format, id=part.id, redacted=part.redacted)
        elif isinstance(part, TextPart) and part.text:
            yield TextDelta(part.text)
    for index, call in enumerate(reply.tool_calls):
        yield ToolCallDelta(index=index, id=call.id, name=call.name, arguments=call.arguments, seal=call.seal)
    yield StreamEnd(finish=reply.finish, usage=reply.usage)


class WholeCalls:
    """Holds tool calls back until they are in one piece, for formats that stream no parts of one."""

    def __init__(self) -> None:
        self._held: dict[int, ToolCallDelta] = {}

    def take(self, event: StreamEvent) -> list[StreamEvent]:
        """What can be written now that this event has come."""
        if isinstance(event, ToolCallDelta):
            self._held[event.index] = _joined(self._held.get(event.index), event)
            return []
        held, self._held = self._held, {}
        return [*(held[index] for index in sorted(held)), event]


class InTurn:
    """Has one tool call after the other, for formats that finish one before they begin the next."""

    def __init__(self) -> None:
        self._current: int | None = None
        self._held: dict[int, list[ToolCallDelta]] = {}

    def take(self, event: StreamEvent) -> list[StreamEvent]:
        """What can be written now that this event has come."""
        if isinstance(event, ToolCallDelta):
            self._current = event.index if self._current is None else self._current
            if event.index == self._current:
                return [event]
            self._held.setdefault(event.index, []).append(event)
            return []
        held, self._current, self._held = self._held, None, {}
        return [*(piece for index in sorted(held) for piece in held[index]), event]


def _joined(first: ToolCallDelta | None, then: ToolCallDelta) -> ToolCallDelta:
    if first is None:
        return then
    return ToolCallDelta(
        index=first.index,
        id=first.id or then.id,
        name=first.name or then.name,
        arguments=first.arguments + then.arguments,
        seal=first.seal or then.seal,
    )
