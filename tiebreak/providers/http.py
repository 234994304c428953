"""What the providers reached over HTTP have in common."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from tiebreak import __version__
from tiebreak.core.errors import ConfigError, FailureKind, ProviderError
from tiebreak.core.message import Reply, TextDelta, ToolCallDelta
from tiebreak.core.model import ModelRef, Request, Verbatim
from tiebreak.core.protocols import Endpoint, Listener
from tiebreak.core.redact import Redactor
from tiebreak.providers.batches import Account
from tiebreak.providers.transport import BodyTooLarge, Sink, Transport, TransportError
from tiebreak.wire.errors import http_error
from tiebreak.wire.reading import StreamReader, parse

_ENCODER = msgspec.json.Encoder()


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_MODELS = msgspec.json.Decoder(_Models)


class Wire(Protocol):
    """A wire format: one of the modules of tiebreak.wire."""

    FORMAT: str
    """Its name."""

    def decode(self, data: bytes, /) -> Reply:
        """An answer that came whole."""
        ...

    def encode(self, request: Request, /) -> dict[str, Any]:
        """The body of a request."""
        ...

    def Reader(self) -> StreamReader:
        """A reader of one that comes in pieces."""
        ...


class HttpProvider:
    """Sends bodies and fetches answers; each provider adds its paths, headers and wire format."""

    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    default_url: ClassVar[str] = ""
    takes_batches: ClassVar[bool] = False
    verbatim: ClassVar[frozenset[str]] = frozenset()
    """Formats in which a client's request can be sent on as it is."""

    @classmethod
    def dialects(cls, base_url: str) -> frozenset[str]:
        """Formats in which the server at this address takes a client's request as it is."""
        return cls.verbatim

    @classmethod
    def lacking(cls, base_url: str) -> str:
        """What has to be set besides a key."""
        return ""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.base_url = checked_url(endpoint.base_url or self.default_url)
        self._transport: Transport | None = None
        self._redact = Redactor((endpoint.api_key,))

    def headers(self) -> dict[str, str]:
        """Headers of every request, the key among them."""
        return {}

    async def open(self, model: ModelRef) -> None:
        """Get ready; nothing is sent yet."""
        self._open_transport()

    async def close(self) -> None:
        """Close every connection."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a body as JSON; the answer's bytes, or a ProviderError."""
        return await self._fetch("POST", path, _ENCODER.encode(body))

    async def model_ids(self, path: str) -> list[str]:
        """The names in a list of models as OpenAI and Anthropic spell it."""
        return [model.id for model in parse(_MODELS, await self.get(path), "a list of models").data]

    def adapt_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """A request's body as this very server wants it."""
        return body

    async def ask(
        self, path: str, wire: Wire, request: Request, listener: Listener | None = None, *, body: dict[str, Any] | None = None
    ) -> Reply:
        """Send a request and read its answer, whole or piece by piece.

        A client's request in the same format is sent in the client's own words; the answer's bytes go back as they came,
        and are read on the way.
        """
        own = request.verbatim if request.verbatim and request.verbatim.dialect == wire.FORMAT else None
        body = with_settings(own, request, wire) if own else wire.encode(request) if body is None else body
        data = _ENCODER.encode(self.adapt_body(body))
        path, headers = (f"{path}?{own.query}" if own and own.query else path), own.headers if own else None
        try:
            if request.stream:
                incoming = _Incoming(wire.Reader(), listener, verbatim=own is not None)
                await self._fetch("POST", path, data, incoming.take, headers)
                return incoming.reply()
            answer = await self._fetch("POST", path, data, headers=headers)
            reply = wire.decode(answer)
        except ProviderError as error:
            self._redacted(error)
            raise
        if own and listener is not None:
            listener.hear_verbatim(answer, ())
        return reply

    async def get(self, path: str) -> bytes:
        """Fetch an address; the answer's bytes, or a ProviderError."""
        return await self._fetch("GET", path, b"")

    async def _fetch(
        self, method: str, path: str, data: bytes, sink: Sink | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        transport = self._transport or self._open_transport()
        try:
            response = await transport.request(method, path, data, sink=sink, headers=headers)
        except BodyTooLarge as error:
            raise ProviderError(f"{self.base_url}: {error}", kind=FailureKind.MALFORMED) from error
        except TransportError as error:
            raise ProviderError(f"no answer from {self.base_url}: {error}", kind=FailureKind.TRANSIENT) from error
        if response.status != 200:
            raise self._redacted(http_error(response.status, response.body, response.headers))
        return response.body

    def _redacted(self, error: ProviderError) -> ProviderError:
        """The error without the key: servers repeat what they were sent, and an error's text is shown and kept."""
        error.args = (self._redact(str(error)),)
        return error

    def account(self) -> Account:
        """Where batch jobs are sent."""
        return Account(base_url=self.base_url, headers=self.headers(), redact=self._redact)

    def _open_transport(self) -> Transport:
        if self._transport is None:
            always = {"User-Agent": f"tiebreak/{__version__}", "Content-Type": "application/json"}
            self._transport = Transport(self.base_url, always | self.headers())
        return self._transport


class _Incoming:
    """A streamed answer on its way: read, timed, and told to whoever listens."""

    __slots__ = ("_answer_s", "_first_s", "_listener", "_reader", "_started", "_verbatim")

    def __init__(self, reader: StreamReader, listener: Listener | None, *, verbatim: bool = False) -> None:
        self._reader = reader
        self._listener = listener
        self._verbatim = verbatim
        self._started = monotonic()
        self._first_s: float | None = None
        self._answer_s: float | None = None

    def take(self, data: bytes) -> None:
        """The next bytes. Read before they are passed on: an error in them is ours to handle first."""
        events = self._reader.feed(data)
        if events and self._first_s is None:
            self._first_s = monotonic() - self._started
        if self._answer_s is None and any(isinstance(event, TextDelta | ToolCallDelta) for event in events):
            self._answer_s = monotonic() - self._started
        if self._listener is None:
            return
        if self._verbatim:
            self._listener.hear_verbatim(data, events)
            return
        for event in events:
            self._listener.hear(event)

    def reply(self) -> Reply:
        """The whole answer."""
        return replace(self._reader.finish(), first_token_seconds=self._first_s, first_answer_seconds=self._answer_s)


def with_settings(own: Verbatim, request: Request, wire: Wire) -> dict[str, Any]:
    """A client's own body, asking for the trial's model and with the user's settings in the place of the client's."""
    body: dict[str, Any] = msgspec.json.decode(own.body)
    bare = wire.encode(Request(model=request.model, messages=()))
    ours = wire.encode(Request(model=request.model, messages=(), settings=own.settings, stream=request.stream))
    if "max_tokens" in own.settings:
        body.pop("max_completion_tokens", None)
    for name, value in ours.items():
        # What is in every request says nothing of the settings.
        if name != "model" and bare.get(name) == value and name not in own.settings:
            continue
        kept = body.get(name)
        body[name] = {**kept, **value} if isinstance(kept, dict) and isinstance(value, dict) else value
    return body


def checked_url(url: str) -> str:
    """The base address without a closing slash, or an error that shows what one looks like."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{url!r} is not a server's address; it should look like http://127.0.0.1:8000/v1")
    return parts.geturl().rstrip("/")
