"""What reading is in every format: typed JSON or a ProviderError, and a stream builder into a reply."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import (
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
from tiebreak.wire import sse
from tiebreak.wire.errors import malformed_answer, reported_error

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
        return parse_leniently(decoder, data, what, error)


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
    decoder: msgspec.json.Decoder[T], body: bytes | Mapping[str, Any], *, tidied: Callable[[Any], Any] | None = None
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


def parse_leniently(decoder: msgspec.json.Decoder[T], data: bytes, what: str, error: Exception) -> T:
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
        raise reported_error(body) from None
    raise malformed_answer(f"is not {what} ({error})", data) from None


def usage_of(
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    cached_tokens: int | None = 0,
    reasoning_tokens: int | None = 0,
    cache_write_tokens: int = 0,
    long_cache_write_tokens: int | None = 0,
) -> Usage | None:
    """What a server says a call consumed, or None: counts that cannot be are no counts, and nobody is billed by them."""
    counts = (input_tokens or 0, cached_tokens or 0, output_tokens or 0, reasoning_tokens or 0)
    writes = (cache_write_tokens, long_cache_write_tokens or 0)
    possible = min(counts) >= 0 and max(counts) <= _MOST_TOKENS and 0 <= writes[1] <= writes[0]
    # What is read from a cache, or written to it, is a part of what was sent.
    if not possible or counts[1] + writes[0] > counts[0]:
        return None
    return Usage(
        input_tokens=counts[0],
        cached_tokens=counts[1],
        cache_write_tokens=writes[0],
        long_cache_write_tokens=writes[1],
        output_tokens=counts[2],
        reasoning_tokens=counts[3],
    )


class ReplyBuilder:
    """Events put together: what was said so far, and at the end the reply."""

    __slots__ = ("_calls", "_end", "_logprobs", "_spans", "model", "model_seconds")

    def __init__(self) -> None:
        self.model = ""
        self.model_seconds: float | None = None
        self._spans: list[_Span] = []
        self._calls: defaultdict[int, PartialCall] = defaultdict(PartialCall)
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

    @property
    def call_count(self) -> int:
        """How many tool calls came so far."""
        return len(self._calls)

    def final_finish(self, finish: Finish) -> Finish:
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
            self._calls[event.index].add(event)
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
            finish=self.final_finish(end.finish),
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


class PartialCall:
    """A tool call that comes in pieces."""

    __slots__ = ("id", "name", "pieces", "seal")

    def __init__(self) -> None:
        self.id = self.name = self.seal = ""
        self.pieces: list[str] = []

    def add(self, event: ToolCallDelta) -> None:
        """Take in the next piece; some servers repeat the id and the name with every one."""
        self.id = self.id or event.id
        self.name = self.name or event.name
        self.seal = self.seal or event.seal
        self.pieces.append(event.arguments)

    def whole(self) -> ToolCall:
        """The call, once all of it has come."""
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


def build_reply(
    events: Iterable[StreamEvent], *, finish: Finish, usage: Usage | None, model: str, model_seconds: float | None = None
) -> Reply:
    """The reply that events make, of an answer that came in one piece."""
    builder = ReplyBuilder()
    builder.model, builder.model_seconds = model, model_seconds
    for event in events:
        builder.add(event)
    builder.add(StreamEnd(finish=finish, usage=usage))
    return builder.reply()


class _Splitter(Protocol):
    def feed(self, data: bytes) -> list[bytes]: ...
    def rest(self) -> list[bytes]: ...


class StreamReader:
    """Reads a streamed answer chunk by chunk; each format adds how it spells an event."""

    splitter: ClassVar[type[_Splitter]] = sse.Events

    def __init__(self, *, limit_bytes: int = LARGEST_STREAM_BYTES) -> None:
        self._splitter = self.splitter()
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._error: ProviderError | None = None
        self._builder = ReplyBuilder()
        self._finish: Finish | None = None
        """Set once the answer is known to be whole."""
        self._refused = False
        self._usage: Usage | None = None
        self._call_indexes: dict[Hashable, int] = {}

    def feed(self, data: bytes) -> list[StreamEvent]:
        """What this chunk says. An error that the server reports is raised as soon as it is read."""
        self._size_bytes += len(data)
        if self._error is None and self._size_bytes > self._limit_bytes:
            self._error = ProviderError(f"the server's answer is over {self._limit_bytes:,} bytes", kind=FailureKind.MALFORMED)
        return self._read(self._splitter.feed, data)

    def close(self) -> list[StreamEvent]:
        """What the end of the stream adds. A stream that was cut short is no answer."""
        events: list[StreamEvent] = []
        if not self._builder.ended:
            events = self._read(lambda _: self._splitter.rest(), b"")
        if not self._builder.ended:
            # The closing marker did not come; some servers never send it.
            for end in self._end():
                self._builder.add(end)
                return [*events, end]
            self._error = ProviderError("the server's answer was cut short", kind=FailureKind.MALFORMED)
            raise self._error
        return events

    def finish(self) -> Reply:
        """The whole answer, or the reason why there is none."""
        self.close()
        if self._error is not None:
            raise self._error
        return self._builder.reply()

    def _read(self, split: Callable[[bytes], list[bytes]], data: bytes) -> list[StreamEvent]:
        if self._error is not None:
            raise self._error
        events: list[StreamEvent] = []
        builder = self._builder
        try:
            for payload in split(data):
                if builder.ended:
                    break
                for event in self._events(payload):
                    builder.add(event)
                    events.append(event)
        except ProviderError as error:
            self._error = error
            raise
        return events

    def _events(self, payload: bytes) -> Iterator[StreamEvent]:
        """What one payload says."""
        raise NotImplementedError

    def _call_index(self, place: Hashable) -> int:
        """Which of the turn's calls stands at a place: calls are counted apart from what is between them."""
        return self._call_indexes.setdefault(place, len(self._call_indexes))

    def _end(self) -> Iterator[StreamEnd]:
        """The end, once the answer is known to be whole."""
        if self._finish is not None:
            finish = Finish.REFUSED if self._refused else self._builder.final_finish(self._finish)
            yield StreamEnd(finish=finish, usage=self._usage)
