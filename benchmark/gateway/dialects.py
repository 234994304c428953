"""The dialects that agents speak: where each is found, how it is read, and how answers and errors are spelled in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from benchmark.core.errors import FailureKind, ProviderError
from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.wire import chat, gemini, messages, responses, sse
from benchmark.wire.writing import StreamWriter, encode_line

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Named:
    """What an answer is called."""

    id: str
    model: str
    created: int


class Dialect:
    """One way to ask a model."""

    name: ClassVar[str]
    prefix: ClassVar[str] = ""
    """What ids of answers begin with."""
    ping: ClassVar[bytes] = b": keep-alive\n\n"
    """Says nothing, so that a program does not take a slow model for a dead one."""
    kept_headers: ClassVar[tuple[str, ...]] = ()
    """Headers that belong to what is asked."""
    kept_queries: ClassVar[tuple[str, ...]] = ()

    def decode(self, body: bytes, route: Route) -> Request:
        """The request in a body, or ProviderError."""
        raise NotImplementedError

    def writer(self, named: Named, body: bytes) -> StreamWriter:
        """Writes the answer to this body as a stream."""
        raise NotImplementedError

    def whole(self, reply: Reply, named: Named, body: bytes) -> dict[str, Any]:
        """The answer to this body as one body."""
        raise NotImplementedError

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer to how long a prompt is."""
        return {"input_tokens": tokens}

    def error(self, message: str, status: int = 400, *, kind: FailureKind | None = None) -> dict[str, Any]:
        """An error as a body. By default one that no program takes for a reason to try again."""
        word = "not_found_error" if status == 404 else "invalid_request_error"
        code = "context_length_exceeded" if kind is FailureKind.CONTEXT_LENGTH else None
        return {"error": {"message": message, "type": word, "param": None, "code": code}}

    def error_piece(self, message: str, named: Named, *, kind: FailureKind | None = None) -> bytes:
        """An error in the middle of a stream."""
        return sse.event(encode_line(self.error(message, kind=kind)))

    def without_extras(self, body: bytes) -> chat.WithoutUsage | None:
        """Takes out of an answer's bytes what we asked for and the program did not."""
        return None

    def unread(self, body: bytes, route: Route) -> Request:
        """What can be told of a request that only its provider understands."""
        try:
            found = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise ProviderError("the request is not JSON", kind=FailureKind.BAD_REQUEST, status=400) from None
        streamed = isinstance(found, dict) and bool(found.get("stream"))
        return Request(model="", messages=(), stream=streamed or route.stream)


class _Options(msgspec.Struct):
    include_usage: bool | None = None


class _Streamed(msgspec.Struct):
    stream: bool | None = None
    stream_options: _Options | None = None


class Chat(Dialect):
    """OpenAI's chat completions."""

    name = "chat"
    prefix = "chatcmpl-"

    def decode(self, body: bytes, route: Route) -> Request:
        """Read a chat completion's request."""
        return chat.decode_request(body)

    def writer(self, named: Named, body: bytes) -> StreamWriter:
        """Chunks, and what they cost only for those who asked."""
        return chat.Writer(model=named.model, reply_id=named.id, created=named.created, with_usage=_wants_usage(body))

    def whole(self, reply: Reply, named: Named, body: bytes) -> dict[str, Any]:
        """A chat completion."""
        return chat.encode_reply(reply, reply_id=named.id, created=named.created)

    def without_extras(self, body: bytes) -> chat.WithoutUsage | None:
        """The last chunk's usage is asked for by us; not every client takes a chunk without choices."""
        return None if _wants_usage(body) else chat.WithoutUsage()


def _wants_usage(body: bytes) -> bool:
    try:
        asked = msgspec.json.decode(body, type=_Streamed)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return asked.stream_options is not None and bool(asked.stream_options.include_usage)


class Responses(Dialect):
    """OpenAI's responses."""

    name = "responses"
    prefix = "resp_"

    def decode(self, body: bytes, route: Route) -> Request:
        """Read a response's request."""
        return responses.decode_request(body)

    def writer(self, named: Named, body: bytes) -> StreamWriter:
        """A response's events."""
        custom = responses.custom_tools(body)
        return responses.Writer(model=named.model, reply_id=named.id, created=named.created, custom=custom)

    def whole(self, reply: Reply, named: Named, body: bytes) -> dict[str, Any]:
        """A response."""
        custom = responses.custom_tools(body) if reply.tool_calls else ()
        return responses.encode_reply(reply, reply_id=named.id, created=named.created, custom=custom)

    def count(self, tokens: int) -> dict[str, Any]:
        """How long a prompt is."""
        return {"object": "response.input_tokens", "input_tokens": tokens}

    def error_piece(self, message: str, named: Named, *, kind: FailureKind | None = None) -> bytes:
        """A response that failed."""
        code = "context_length_exceeded" if kind is FailureKind.CONTEXT_LENGTH else "invalid_prompt"
        failed = self.whole(Reply(text="", model=named.model), named, b"")
        failed |= {"status": "failed", "error": {"code": code, "message": message}}
        return sse.event(encode_line({"type": "response.failed", "response": failed}), b"response.failed")


class Messages(Dialect):
    """Anthropic's messages."""

    name = "messages"
    prefix = "msg_"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    kept_headers = ("anthropic-beta",)
    kept_queries = ("beta=true",)

    def decode(self, body: bytes, route: Route) -> Request:
        """Read a message's request."""
        return messages.decode_request(body)

    def writer(self, named: Named, body: bytes) -> StreamWriter:
        """A message's events."""
        return messages.Writer(model=named.model, reply_id=named.id)

    def whole(self, reply: Reply, named: Named, body: bytes) -> dict[str, Any]:
        """A message."""
        return messages.encode_reply(reply, reply_id=named.id)

    def error(self, message: str, status: int = 400, *, kind: FailureKind | None = None) -> dict[str, Any]:
        """Anthropic's form of an error."""
        word = "not_found_error" if status == 404 else "invalid_request_error"
        # The words that clients of this dialect know a full context by.
        message = f"prompt is too long: {message}" if kind is FailureKind.CONTEXT_LENGTH else message
        return {"type": "error", "error": {"type": word, "message": message}}

    def error_piece(self, message: str, named: Named, *, kind: FailureKind | None = None) -> bytes:
        """An error as an event of its own."""
        return sse.event(encode_line(self.error(message, kind=kind)), b"error")


class Gemini(Dialect):
    """Google's generateContent."""

    name = "gemini"
    prefix = "reply-"
    # Google's own clients read lines, and take a comment for an answer; an empty line they skip.
    ping = b"\n"

    def decode(self, body: bytes, route: Route) -> Request:
        """Read a request whose model and manner stood in the address."""
        return gemini.decode_request(body, model=route.model, stream=route.stream)

    def writer(self, named: Named, body: bytes) -> StreamWriter:
        """Replies, one after the other."""
        return gemini.Writer(model=named.model, reply_id=named.id)

    def whole(self, reply: Reply, named: Named, body: bytes) -> dict[str, Any]:
        """A reply."""
        return gemini.encode_reply(reply, reply_id=named.id)

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


def routed(path: str, query: str) -> Route:
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


def encoded(body: Any) -> bytes:
    """A body as JSON."""
    return _ENCODER.encode(body)
