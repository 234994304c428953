"""What is said to a model and what it says back."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from tiebreak.core.record import Record

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Record, frozen=True, tag="text"):
    """A piece of text in a message."""

    text: str


class MediaPart(Record, frozen=True, kw_only=True):
    """What images, files and sounds in a message have in common: their bytes, or a file that holds them until they are sent."""

    media_type: str
    data_base64: str = ""
    path: str = ""
    """The file with the bytes, where they are not here; never sent."""
    digest: str = ""
    """Of the bytes, where they were looked at; never sent."""
    name: str = ""
    size_bytes: int = 0
    width: int = 0
    height: int = 0


class ImagePart(MediaPart, frozen=True, kw_only=True, tag="image"):
    """An image in a message, as bytes or by address."""

    url: str = ""


class FilePart(MediaPart, frozen=True, kw_only=True, tag="file"):
    """A document in a message."""


class AudioPart(MediaPart, frozen=True, kw_only=True, tag="audio"):
    """A sound in a message."""


class ThinkingPart(Record, frozen=True, kw_only=True, tag="thinking"):
    """Reasoning in an assistant's turn, as its provider wants it back when the conversation goes on."""

    text: str = ""
    seal: str = ""
    """The provider's signature of the reasoning, or the reasoning itself encrypted; opaque to us."""
    format: str = ""
    """The wire format whose server made it: a seal goes back to the same kind of server and to no other."""
    id: str = ""
    redacted: bool = False
    """The provider withheld the text; the seal is all there is."""


class ToolCall(Record, frozen=True, kw_only=True):
    """A model asking for a tool to be run."""

    id: str
    name: str
    arguments: str = "{}"
    """JSON as the model wrote it, which may be broken."""
    seal: str = ""
    """What the provider wants back with this call when the conversation goes on; opaque to us."""

    def parsed(self) -> dict[str, Any] | None:
        """The arguments by name, or None when the model did not write a JSON object."""
        if not self.arguments.strip():
            return {}
        try:
            value = msgspec.json.decode(self.arguments)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


Part = TextPart | ImagePart | FilePart | AudioPart | ThinkingPart


class Message(Record, frozen=True, kw_only=True):
    """One turn of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """For role `tool`: the call this message answers."""
    failed: bool = False
    """For role `tool`: the tool could not do what was asked; the text says why."""

    @property
    def is_plain(self) -> bool:
        """Whether its role and its text are all there is to it."""
        if self.tool_calls or self.tool_call_id:
            return False
        return len(self.parts) == 1 and isinstance(self.parts[0], TextPart)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Its images and files."""
        return tuple(part for part in self.parts if isinstance(part, MediaPart))

    @property
    def text(self) -> str:
        """The message's text parts, joined."""
        if len(self.parts) == 1 and isinstance(self.parts[0], TextPart):
            return self.parts[0].text
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


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
    """Of those, read from the provider's cache."""
    cache_write_tokens: int = 0
    """Of those, written to the provider's cache."""
    long_cache_write_tokens: int = 0
    """Of the written ones, those kept for an hour."""
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
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            long_cache_write_tokens=self.long_cache_write_tokens + other.long_cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=sum(known) if len(known) == 2 else None,
        )


class TokenLogprob(Record, frozen=True):
    """How likely a token was, and where asked for, what else might have stood there."""

    token: str
    logprob: float
    top: tuple[TokenLogprob, ...] = ()
    """The likeliest tokens at this place, the likeliest first; their own `top` is empty."""


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
    cached: bool = False
    """Taken from an earlier run: it cost nothing now and says nothing about speed."""
    first_token_seconds: float | None = None
    """From sending to the first piece of a streamed answer, thoughts included."""
    first_answer_seconds: float | None = None
    """From sending to the first piece that is no thought: what a reader of the answer waits for."""
    logprobs: tuple[TokenLogprob, ...] = ()
    parts: tuple[Part, ...] = ()
    """Text and reasoning in the provider's order, only where it wants its reasoning back unchanged."""

    def as_message(self) -> Message:
        """This answer as a turn of the conversation, to go on from."""
        parts = self.parts or ((TextPart(self.text),) if self.text else ())
        return Message(role="assistant", parts=parts, tool_calls=self.tool_calls)


class Likelihood(Record, frozen=True, kw_only=True):
    """How likely a model finds a continuation, token by token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    prompt_tokens: int = 0
    """What was read before it."""

    @property
    def total(self) -> float:
        """The continuation's log-probability."""
        return sum(self.logprobs)


class TextDelta(Record, frozen=True):
    """A streamed piece of the answer."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ThinkingDelta(Record, frozen=True):
    """A streamed piece of the reasoning."""

    text: str


class ThinkingSeal(Record, frozen=True, kw_only=True):
    """The seal of the reasoning streamed just before, or of reasoning that is not shown."""

    seal: str
    format: str
    id: str = ""
    redacted: bool = False


class ToolCallDelta(Record, frozen=True, kw_only=True):
    """A streamed piece of a tool call; arguments arrive as fragments of JSON."""

    index: int
    """Which of the turn's calls, counted from 0."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    seal: str = ""


class StreamEnd(Record, frozen=True, kw_only=True):
    """The terminal marker of a stream; a stream without one was cut."""

    finish: Finish
    usage: Usage | None = None


StreamEvent = TextDelta | ThinkingDelta | ThinkingSeal | ToolCallDelta | StreamEnd
