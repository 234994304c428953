"""The dialects that agents speak: where each is found, how it is read, and how answers and errors are spelled in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from tiebreak.core.errors import FailureKind
from tiebreak.core.message import Reply
from tiebreak.core.model import Request
from tiebreak.wire import chat, gemini, messages, responses, sse
from tiebreak.wire.reading import UNREADABLE, bad_request
from tiebreak.wire.writing import ENCODER, StreamWriter, encode_line

encoded = ENCODER.encode
"""A body as JSON."""


class Wire(Protocol):
    """The server's side of a wire format: one of the modules of tiebreak.wire."""

    FORMAT: str

    def decode_request(self, body: bytes, /) -> Request:
        """The request in a body, or ProviderError."""
        ...

    def encode_reply(self, reply: Reply, /, *, reply_id: str) -> dict[str, Any]:
        """An answer as one body."""
        ...

    def Writer(self, *, model: str, reply_id: str) -> StreamWriter:
        """Writes an answer as a stream."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What stands at the head of every answer, besides what it says."""

    id: str
    model: str
    created: int


class Dialect:
    """One way to ask a model."""

    wire: ClassVar[Wire]
    prefix: ClassVar[str] = ""
    """What ids of answers begin with."""
    ping: ClassVar[bytes] = b": keep-alive\n\n"
    """Says nothing, so that a program does not take a slow model for a dead one."""
    kept_headers: ClassVar[tuple[str, ...]] = ()
    """Headers that belong to what is asked."""
    kept_queries: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """The format's name."""
        return self.wire.FORMAT

    def decode(self, body: bytes, route: Route) -> Request:
        """The request in a body, or ProviderError."""
        return self.wire.decode_request(body)

    def writer(self, head: AnswerHead, body: bytes) -> StreamWriter:
        """Writes the answer to this body as a stream."""
        return self.wire.Writer(model=head.model, reply_id=head.id)

    def whole(self, reply: Reply, head: AnswerHead, body: bytes) -> dict[str, Any]:
        """The answer to this body as one body."""
        return self.wire.encode_reply(reply, reply_id=head.id)

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer to how long a prompt is."""
        return {"input_tokens": tokens}

    def error(self, message: str, status: int = 400, *, kind: FailureKind | None = None) -> dict[str, Any]:
        """An error as a body. By default one that no program takes for a reason to try again."""
        word = "not_found_error" if status == 404 else "invalid_request_error"
        code = "context_length_exceeded" if kind is FailureKind.CONTEXT_LENGTH else None
        return {"error": {"message": message, "type": word, "param": None, "code": code}}

    def error_piece(self, message: str, head: AnswerHead, *, kind: FailureKind | None = None) -> bytes:
        """An error in the middle of a stream."""
        return sse.event(encode_line(self.error(message, kind=kind)))

    def usage_filter(self, body: bytes) -> chat.WithoutUsage | None:
        """Takes out of an answer's bytes what we asked for and the program did not."""
        return None

    def opaque_request(self, body: bytes, route: Route) -> Request:
        """What can be told of a request that only its provider understands."""
        try:
            request = msgspec.json.decode(body, type=dict[str, Any])
        except UNREADABLE as error:
            raise bad_request(str(error)) from None
        limits = [request.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
        longest = max((most for most in limits if isinstance(most, int)), default=0)
        settings = {"max_tokens": longest} if longest > 0 else {}
        return Request(model="", messages=(), settings=settings, stream=bool(request.get("stream")) or route.stream)


class _Options(msgspec.Struct):
    include_usage: bool | None = None


class _Streamed(msgspec.Struct):
    stream: bool | None = None
    stream_options: _Options | None = None


class Chat(Dialect):
    """OpenAI's chat completions."""

    wire: ClassVar[Wire] = chat
    prefix = "chatcmpl-"

    def writer(self, head: AnswerHead, body: bytes) -> StreamWriter:
        """Chunks, and what they cost only for those who asked."""
        return chat.Writer(model=head.model, reply_id=head.id, created=head.created, with_usage=_wants_usage(body))

    def whole(self, reply: Reply, head: AnswerHead, body: bytes) -> dict[str, Any]:
        """A chat completion."""
        return chat.encode_reply(reply, reply_id=head.id, created=head.created)

    def usage_filter(self, body: bytes) -> chat.WithoutUsage | None:
        """The last chunk's usage is asked for by us; not every client takes a chunk without choices."""
        return None if _wants_usage(body) else chat.WithoutUsage()


def _wants_usage(body: bytes) -> bool:
    try:
        asked = msgspec.json.decode(body, type=_Streamed)
    except UNREADABLE:
        return False
    return asked.stream_options is not None and bool(asked.stream_options.include_usage)


class Responses(Dialect):
    """OpenAI's responses."""

    wire: ClassVar[Wire] = responses
    prefix = "resp_"

    def writer(self, head: AnswerHead, body: bytes) -> StreamWriter:
        """A response's events."""
        custom, namespaces = responses.custom_tools(body), responses.tool_namespaces(body)
        return responses.Writer(model=head.model, reply_id=head.id, created=head.created, custom=custom, namespaces=namespaces)

    def whole(self, reply: Reply, head: AnswerHead, body: bytes) -> dict[str, Any]:
        """A response."""
        custom = responses.custom_tools(body) if reply.tool_calls else ()
        namespaces = responses.tool_namespaces(body) if reply.tool_calls else {}
        return responses.encode_reply(reply, reply_id=head.id, created=head.created, custom=custom, namespaces=namespaces)

    def count(self, tokens: int) -> dict[str, Any]:
        """How long a prompt is."""
        return {"object": "response.input_tokens", "input_tokens": tokens}

    def error_piece(self, message: str, head: AnswerHead, *, kind: FailureKind | None = None) -> bytes:
        """A response that failed."""
        code = "context_length_exceeded" if kind is FailureKind.CONTEXT_LENGTH else "invalid_prompt"
        failed = self.whole(Reply(text="", model=head.model), head, b"")
        failed |= {"status": "failed", "error": {"code": code, "message": message}}
        return sse.event(encode_line({"type": "response.failed", "response": failed}), b"response.failed")


class Messages(Dialect):
    """Anthropic's messages."""

    wire: ClassVar[Wire] = messages
    prefix = "msg_"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    kept_headers = ("anthropic-beta",)
    kept_queries = ("beta=true",)

    def error(self, message: str, status: int = 400, *, kind: FailureKind | None = None) -> dict[str, Any]:
        """Anthropic's form of an error."""
        word = "not_found_error" if status == 404 else "invalid_request_error"
        # The words that clients of this dialect know a full context by.
        message = f"prompt is too long: {message}" if kind is FailureKind.CONTEXT_LENGTH else message
        return {"type": "error", "error": {"type": word, "message": message}}

    def error_piece(self, message: str, head: AnswerHead, *, kind: FailureKind | None = None) -> bytes:
        """An error as an event of its own."""
        return sse.event(encode_line(self.error(message, kind=kind)), b"error")


class Gemini(Dialect):
    """Google's generateContent."""

    wire: ClassVar[Wire] = gemini
    prefix = "reply-"
    # Google's own clients read lines, and take a comment for an answer; an empty line they skip.
    ping = b"\n"

    def decode(self, body: bytes, route: Route) -> Request:
        """Read a request whose model and manner stood in the address."""
        return gemini.decode_request(body, model=route.model, stream=route.stream)

    def count(self, tokens: int) -> dict[str, Any]:
        """How long a prompt is."""
        return {"totalTokens": tokens}

    def error(self, message: str, status: int = 400, *, kind: FailureKind | None = None) -> dict[str, Any]:
        """Google's form of an error."""
        word = "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT"
        return {"error": {"code": status, "message": message, "status": word}}


CHAT, RESPONSES, MESSAGES, GEMINI = Chat(), Responses(), Messages(), Gemini()
_ENDINGS: Mapping[str, tuple[Dialect, str]] = {
    "/chat/completions": (CHAT, "generate"),
    "/responses": (RESPONSES, "generate"),
    "/responses/input_tokens": (RESPONSES, "count"),
    "/messages": (MESSAGES, "generate"),
    "/messages/count_tokens": (MESSAGES, "count"),
}
_GEMINI = re.compile(r"/models/(?P<model>.+):(?P<action>generateContent|streamGenerateContent|countTokens)")
_VERSIONS = re.compile(r"/v1(beta|alpha)?\d*(?=/)")


@dataclass(frozen=True, slots=True)
class Route:
    """What an address asks for."""

    dialect: Dialect
    action: str
    """generate, count, models, nothing."""
    model: str = ""
    stream: bool = False
    in_a_list: bool = False
    """Google's streams are one JSON list, unless asked for as events."""


def route_of(path: str, query: str) -> Route:
    """What is asked for at a path; clients put the version there, leave it out, or put it twice."""
    below = "/" + _VERSIONS.sub("", path).strip("/")
    if below in _ENDINGS:
        return Route(*_ENDINGS[below])
    if found := _GEMINI.fullmatch(below):
        if found["action"] == "countTokens":
            return Route(GEMINI, "count")
        streamed = found["action"].startswith("stream")
        as_events = "alt=sse" in query.split("&")
        return Route(GEMINI, "generate", found["model"], streamed and as_events, streamed and not as_events)
    dialect: Dialect = GEMINI if "/v1beta/" in path else CHAT
    if below == "/models" or below.startswith("/models/"):
        return Route(dialect, "models", below.removeprefix("/models").strip("/"))
    return Route(dialect, "nothing")


def models(model: str, context_window: int | None, route: Route) -> dict[str, Any]:
    """The one model there is, in a form that clients of each dialect find their own fields in."""
    if route.dialect is GEMINI:
        methods = ["generateContent", "countTokens"]
        about: dict[str, Any] = {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": methods}
        about |= {"inputTokenLimit": context_window} if context_window else {}
        return about if route.model else {"models": [about]}
    about = {"id": model, "object": "model", "created": 0, "owned_by": "tiebreak", "type": "model", "display_name": model}
    about |= {"created_at": "1970-01-01T00:00:00Z"} | ({"context_window": context_window} if context_window else {})
    if route.model:
        return about
    return {"object": "list", "data": [about], "has_more": False, "first_id": model, "last_id": model}
