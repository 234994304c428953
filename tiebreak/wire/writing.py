"""What writing is in every format: the pieces of a request that differ in spelling only."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tiebreak.core.message import (
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
    ToolCall,
    ToolCallDelta,
)
from tiebreak.wire.reading import UNREADABLE, PartialCall

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


def as_list(stop: Any) -> list[str]:
    """Stop sequences, of which a user may write one or several."""
    return [stop] if isinstance(stop, str) else list(stop)


def data_url(part: MediaPart) -> str:
    """An image or file as an address: an image's own, or one that holds its bytes."""
    own = part.url if isinstance(part, ImagePart) else ""
    return own or f"data:{part.media_type};base64,{part.data_base64}"


def image_of(url: str) -> ImagePart:
    """The image behind an address."""
    found = _DATA_URL.fullmatch(url)
    return ImagePart(media_type=found[1], data_base64=found[2]) if found else ImagePart(media_type="", url=url)


def text_parts(text: str | None) -> tuple[TextPart, ...]:
    """A text as the parts of a message; no text is no part."""
    return (TextPart(text),) if text else ()


def reply_parts(reply: Reply, form: str) -> tuple[Part, ...]:
    """A reply's text and reasoning in their order where the reasoning is of this format, else the words alone."""
    if any(isinstance(part, ThinkingPart) and part.format == form for part in reply.parts):
        return reply.parts
    thinking = (ThinkingPart(text=reply.thinking, format=form),) if reply.thinking else ()
    return (*thinking, *text_parts(reply.text))


def turns(messages: Iterable[Message]) -> list[list[Message]]:
    """The conversation without its instructions; the results of calls made together are one turn."""
    found: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and found and found[-1][0].role == "tool":
            found[-1].append(message)
        elif message.role != "system":
            found.append([message])
    return found


def instructions(messages: Iterable[Message]) -> str:
    """What the system messages say, for formats that have one place for it."""
    return "\n\n".join(message.text for message in messages if message.role == "system")


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
        with contextlib.suppress(*UNREADABLE):
            return arguments_text(msgspec.json.decode(text))
    return text


class StreamWriter:
    """Writes an answer in one format while it comes; each format adds how it spells an event."""

    def __init__(self, calls: SequentialCalls | WholeCalls | None = None) -> None:
        self._calls = calls
        """How the pieces of tool calls are ordered, where the format cannot take them as they come."""

    def begin(self) -> Iterable[bytes]:
        """What stands before anything is said."""
        return ()

    def write(self, event: StreamEvent) -> Iterable[bytes]:
        """The pieces that say what can be said now; the end of the stream is the last to be written."""
        events = [event] if self._calls is None else self._calls.take(event)
        return [piece for one in events for piece in self._pieces(one)]

    def _pieces(self, event: StreamEvent) -> Iterable[bytes]:
        raise NotImplementedError


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
    yield from (call_event(index, call) for index, call in enumerate(reply.tool_calls))
    yield StreamEnd(finish=reply.finish, usage=reply.usage)


def call_event(index: int, call: ToolCall) -> ToolCallDelta:
    """A whole tool call as the one piece that it is."""
    return ToolCallDelta(index=index, id=call.id, name=call.name, arguments=call.arguments, seal=call.seal)


class WholeCalls:
    """Holds tool calls back until they are in one piece, for formats that stream no parts of one."""

    def __init__(self) -> None:
        self._held: defaultdict[int, PartialCall] = defaultdict(PartialCall)

    def take(self, event: StreamEvent) -> list[StreamEvent]:
        """What can be written now that this event has come."""
        if isinstance(event, ToolCallDelta):
            self._held[event.index].add(event)
            return []
        calls = [(index, self._held[index].whole()) for index in sorted(self._held)]
        self._held.clear()
        return [*(call_event(index, call) for index, call in calls), event]


class SequentialCalls:
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
