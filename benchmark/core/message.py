"""What is said to a model and what it says back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from benchmark.core.record import Record

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Record, frozen=True):
    """A piece of text in a message."""

    text: str


class ImagePart(Record, frozen=True, kw_only=True):
    """An image in a message, as bytes or by address."""

    media_type: str
    data_base64: str = ""
    url: str = ""


class ToolCall(Record, frozen=True, kw_only=True):
    """A model asking for a tool to be run."""

    id: str
    name: str
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)


Part = TextPart | ImagePart


class Message(Record, frozen=True, kw_only=True):
    """One turn of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """For role `tool`: the call this message answers."""

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        if len(self.parts) == 1 and isinstance(self.parts[0], TextPart):
            return self.parts[0].text
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])


def system(text: str) -> Message:
    """A system message of plain text."""
    return Message(role="system", parts=(TextPart(text),))


def user(text: str) -> Message:
    """A user message of plain text."""
    return Message(role="user", parts=(TextPart(text),))


def assistant(text: str) -> Message:
    """An assistant message of plain text."""
    return Message(role="assistant", parts=(TextPart(text),))


class Tool(Record, frozen=True, kw_only=True):
    """A tool offered to a model."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """JSON schema of the arguments."""


class Finish(StrEnum):
    """Why a model stopped, whatever its provider calls it."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    REFUSED = "refused"
    FILTERED = "filtered"


class Usage(Record, frozen=True, kw_only=True):
    """What one or more model calls consumed."""

    input_tokens: int = 0
    """Everything sent, cached tokens included."""
    cached_tokens: int = 0
    output_tokens: int = 0
    """Everything generated, reasoning included."""
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """None when we have no price for the model; never a guess."""

    def __add__(self, other: Usage) -> Usage:
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=sum(known) if len(known) == 2 else None,
        )


class Reply(Record, frozen=True, kw_only=True):
    """One model call's answer, in our words."""

    text: str
    finish: Finish = Finish.STOP
    thinking: str = ""
    """Reasoning the provider showed apart from the answer; never scored."""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    model: str = ""
    """The name the server says it answered with."""
    model_seconds: float | None = None
    """The server's own time for this answer, loading left out, where it tells."""


class TextDelta(Record, frozen=True):
    """A streamed piece of the answer."""

    text: str


class ThinkingDelta(Record, frozen=True):
    """A streamed piece of the reasoning."""

    text: str


class ToolCallDelta(Record, frozen=True, kw_only=True):
    """A streamed piece of a tool call; arguments arrive as fragments of JSON."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


class StreamEnd(Record, frozen=True, kw_only=True):
    """The terminal marker of a stream; a stream without one was cut."""

    finish: Finish
    usage: Usage | None = None


StreamEvent = TextDelta | ThinkingDelta | ToolCallDelta | StreamEnd
