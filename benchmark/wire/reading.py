"""What reading is in every format: typed JSON or a ProviderError, and a stream gathered into a reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from benchmark.core.errors import FailureKind, ProviderError
from benchmark.core.message import (
    Finish,
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
    ToolCall,
    ToolCallDelta,
    Usage,
)
from benchmark.wire.faults import malformed, reported

LARGEST_STREAM_BYTES = 64 * 1024 * 1024
"""No answer is longer; a stream that is has lost its way."""

_MOST_TOKENS = 2**53
"""No call takes more; a larger count would not fit into a database, or a browser."""

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding raises; text that is not UTF-8 is a ValueError."""

T = TypeVar("T")
_SURROGATE = re.compile(rb"(\\\\)|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")


def parse(decoder: msgspec.json.Decoder[T], data: bytes, what: str) -> T:
    """A server's JSON as the decoder's type; an error it reports, or malformed."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        return second_look(decoder, data, what, error)


class _Named(msgspec.Struct):
    type: str


_NAMED = msgspec.json.Decoder(_Named)


def parse_event(decoder: msgspec.json.Decoder[T], data: bytes, known: frozenset[str]) -> T | None:
    """A streamed event as the decoder's type; None for one of a kind that says nothing to us, whatever its form."""
    try:
        return decoder.decode(data)
    except UNREADABLE:
        named = parse(_NAMED, data, "an event")
    return parse(decoder, data, f"the event {named.type!r}") if named.type in known else None


def read_request(
    decoder: msgspec.json.Decoder[T],
    body: bytes | Mapping[str, Any],
    *,
    tidied: Callable[[Any], Any] | None = None,
) -> T:
    """A client's request as the decoder's type, or a ProviderError that says what is wrong with it."""
    try:
        if tidied is not None:
            body = tidied(msgspec.json.decode(body) if isinstance(body, bytes) else body)
        return decoder.decode(body) if isinstance(body, bytes) else msgspec.convert(body, decoder.type)
    except UNREADABLE as error:
        raise bad_request(str(error)) from None


def bad_request(why: str) -> ProviderError:
    """The error of a request that cannot be understood."""
    return ProviderError(f"the request cannot be read: {why}", kind=FailureKind.BAD_REQUEST, status=400)


def second_look(decoder: msgspec.json.Decoder[T], data: bytes, what: str, error: Exception) -> T:
    """Read again what failed: half a character, which models do write, becomes the mark for a broken one."""
    mended = _SURROGATE.sub(lambda m: rb"\ufffd" if m[2] else m[0], data.decode("utf-8", "replace").encode())
    try:
        if mended != data:
            return decoder.decode(mended)
    except UNREADABLE:
        pass
    try:
        body = msgspec.json.decode(mended)
    except UNREADABLE:
        body = None
    if isinstance(body, dict) and body.get("error"):
        raise reported(body) from None
    raise malformed(f"is not {what} ({error})", data) from None


def plausible(usage: Usage) -> Usage | None:
    """What a server says a call consumed, or None: counts that cannot be are no counts, and nobody is billed by them."""
    counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens)
    return usage if min(counts) >= 0 and max(counts) <= _MOST_TOKENS else None


class Gathered:
    """Events put together: what was said so far, and at the end the reply."""

    __slots__ = ("_calls", "_end", "_logprobs", "_spans", "model", "model_seconds")

    def __init__(self) -> None:
        self.model = ""
        self.model_seconds: float | None = None
        self._spans: list[_Span] = []
        self._calls: dict[int, _Call] = {}
        self._logprobs: list[TokenLogprob] = []
        self._end: StreamEnd | None = None

    @property
    def ended(self) -> bool:
        """Whether the terminal marker came."""
        return self._end is not None

    @property
    def empty(self) -> bool:
        """Whether nothing came yet."""
        return not (self._spans or self._calls or self._logprobs)

    def settled(self, finish: Finish) -> Finish:
        """Most servers call it an ordinary stop when a tool is to be run."""
        return Finish.TOOL if finish is Finish.STOP and self._calls else finish

    def add(self, event: StreamEvent) -> None:
        """Take in the next event."""
        if isinstance(event, TextDelta):
            if event.text:
                self._span(thinking=False).pieces.append(event.text)
            if event.logprobs:
                self._logprobs.extend(event.logprobs)
        elif isinstance(event, ThinkingDelta):
            if event.text:
                self._span(thinking=True).pieces.append(event.text)
        elif isinstance(event, ToolCallDelta):
            self._called(event)
        elif isinstance(event, ThinkingSeal):
            self._sealed(event)
        else:
            self._end = event

    def reply(self) -> Reply:
        """Everything so far as one reply."""
        end = self._end or StreamEnd(finish=Finish.STOP)
        parts = tuple(span.part() for span in self._spans)
        sealed = any(span.seal for span in self._spans)
        return Reply(
            text="".join(part.text for part in parts if isinstance(part, TextPart)),
            finish=self.settled(end.finish),
            thinking="".join(part.text for part in parts if isinstance(part, ThinkingPart)),
            tool_calls=tuple(self._calls[index].whole() for index in sorted(self._calls)),
            usage=end.usage,
            model=self.model,
            model_seconds=self.model_seconds,
            logprobs=tuple(self._logprobs),
            parts=parts if sealed else (),
        )

    def _span(self, *, thinking: bool) -> _Span:
        last = self._spans[-1] if self._spans else None
        if last is None or last.thinking is not thinking or last.seal is not None:
            last = _Span(thinking)
            self._spans.append(last)
        return last

    def _sealed(self, event: ThinkingSeal) -> None:
        if event.redacted:
            self._spans.append(_Span(True))
            self._spans[-1].seal = event
        else:
            self._span(thinking=True).seal = event

    def _called(self, event: ToolCallDelta) -> None:
        call = self._calls.get(event.index)
        if call is None:
            call = self._calls[event.index] = _Call()
        # Some servers repeat the id and the name with every piece.
        call.id = call.id or event.id
        call.name = call.name or event.name
        call.seal = call.seal or event.seal
        call.pieces.append(event.arguments)


class _Call:
    """A tool call in the making."""

    __slots__ = ("id", "name", "pieces", "seal")

    def __init__(self) -> None:
        self.id = self.name = self.seal = ""
        self.pieces: list[str] = []

    def whole(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.pieces), seal=self.seal)


class _Span:
    """A run of text, or of reasoning up to its seal."""

    __slots__ = ("pieces", "seal", "thinking")

    def __init__(self, thinking: bool) -> None:
        self.thinking = thinking
        self.pieces: list[str] = []
        self.seal: ThinkingSeal | None = None

    def part(self) -> Part:
        text = "".join(self.pieces)
        if not self.thinking:
            return TextPart(text)
        seal = self.seal
        if seal is None:
            return ThinkingPart(text=text)
        return ThinkingPart(text=text, seal=seal.seal, format=seal.format, id=seal.id, redacted=seal.redacted)


def gather(
    events: Iterable[StreamEvent],
    *,
    finish: Finish,
    usage: Usage | None,
    model: str,
    model_seconds: float | None = None,
) -> Reply:
    """The reply that events make, of an answer that came in one piece."""
    gathered = Gathered()
    gathered.model, gathered.model_seconds = model, model_seconds
    for event in events:
        gathered.add(event)
    gathered.add(StreamEnd(finish=finish, usage=usage))
    return gathered.reply()


class _Splitter(Protocol):
    def feed(self, data: bytes) -> list[bytes]: ...
    def rest(self) -> list[bytes]: ...


class StreamReader:
    """Reads a streamed answer chunk by chunk; each format adds how it spells an event."""

    def __init__(self, splitter: _Splitter, *, limit_bytes: int = LARGEST_STREAM_BYTES) -> None:
        self._splitter = splitter
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._error: ProviderError | None = None
        self._gathered = Gathered()

    def feed(self, data: bytes) -> list[StreamEvent]:
        """What this chunk says. An error that the server reports is raised as soon as it is read."""
        self._size_bytes += len(data)
        if self._error is None and self._size_bytes > self._limit_bytes:
            self._error = ProviderError(f"the server's answer is over {self._limit_bytes:,} bytes", kind=FailureKind.MALFORMED)
        return self._taken(self._splitter.feed, data)

    def close(self) -> list[StreamEvent]:
        """What the end of the stream adds. A stream that was cut short is no answer."""
        events: list[StreamEvent] = []
        if not self._gathered.ended:
            events = self._taken(lambda _: self._splitter.rest(), b"")
        if not self._gathered.ended:
            end = self._end()
            if end is None:
                self._error = ProviderError("the server's answer was cut short", kind=FailureKind.MALFORMED)
                raise self._error
            self._gathered.add(end)
            events.append(end)
        return events

    def finish(self) -> Reply:
        """The whole answer, or the reason why there is none."""
        self.close()
        if self._error is not None:
            raise self._error
        return self._gathered.reply()

    def _taken(self, split: Callable[[bytes], list[bytes]], data: bytes) -> list[StreamEvent]:
        if self._error is not None:
            raise self._error
        events: list[StreamEvent] = []
        gathered = self._gathered
        try:
            for payload in split(data):
                before = len(events)
                if not gathered.ended:
                    self._take(payload, events)
                for event in events[before:]:
                    gathered.add(event)
        except ProviderError as error:
            self._error = error
            raise
        return events

    def _take(self, payload: bytes, events: list[StreamEvent]) -> None:
        """Add what one payload says."""
        raise NotImplementedError

    def _end(self) -> StreamEnd | None:
        """The end, when the answer is known to be whole although its last marker did not come."""
        raise NotImplementedError
