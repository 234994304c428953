"""What the providers reached over HTTP have in common."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from benchmark import __version__
from benchmark.core.errors import ConfigError, FailureKind, ProviderError
from benchmark.core.message import Reply, StreamEvent
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Endpoint
from benchmark.core.redact import Redactor
from benchmark.providers.transport import BodyTooLarge, Sink, Transport, TransportError
from benchmark.wire.faults import fault

_ENCODER = msgspec.json.Encoder()


class StreamReader(Protocol):
    """Reads a streamed answer in one wire format."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """What this piece says."""
        ...

    def finish(self) -> Reply:
        """The whole answer."""
        ...


class Wire(Protocol):
    """A wire format: one of the modules of benchmark.wire."""

    def decode(self, data: bytes, /) -> Reply:
        """An answer that came whole."""
        ...

    def Reader(self) -> StreamReader:
        """A reader of one that comes in pieces."""
        ...


class HttpProvider:
    """Sends bodies and fetches answers; each provider adds its paths, headers and wire format."""

    default_url: ClassVar[str] = ""

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
        self._opened()

    async def close(self) -> None:
        """Close every connection."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a body as JSON; the answer's bytes, or a ProviderError."""
        return await self._fetch("POST", path, _ENCODER.encode(body))

    async def ask(self, path: str, body: Mapping[str, Any], wire: Wire, *, stream: bool) -> Reply:
        """Send a request and read its answer, whole or piece by piece."""
        try:
            return await (self._ask_streamed(path, body, wire) if stream else self._ask_whole(path, body, wire))
        except ProviderError as error:
            self._hidden(error)
            raise

    async def _ask_whole(self, path: str, body: Mapping[str, Any], wire: Wire) -> Reply:
        return wire.decode(await self._fetch("POST", path, _ENCODER.encode(body)))

    async def _ask_streamed(self, path: str, body: Mapping[str, Any], wire: Wire) -> Reply:
        reader, started = wire.Reader(), monotonic()
        first: list[float] = []

        def sink(data: bytes) -> None:
            if reader.feed(data) and not first:
                first.append(monotonic() - started)

        await self._fetch("POST", path, _ENCODER.encode(body), sink)
        return replace(reader.finish(), first_token_seconds=first[0] if first else None)

    async def get(self, path: str) -> bytes:
        """Fetch an address; the answer's bytes, or a ProviderError."""
        return await self._fetch("GET", path, b"")

    async def _fetch(self, method: str, path: str, data: bytes, sink: Sink | None = None) -> bytes:
        transport = self._transport or self._opened()
        try:
            response = await transport.request(method, path, data, sink=sink)
        except BodyTooLarge as error:
            raise ProviderError(f"{self.base_url}: {error}", kind=FailureKind.MALFORMED) from error
        except TransportError as error:
            raise ProviderError(f"no answer from {self.base_url}: {error}", kind=FailureKind.TRANSIENT) from error
        if response.status != 200:
            raise self._hidden(fault(response.status, response.body, response.headers))
        return response.body

    def _hidden(self, error: ProviderError) -> ProviderError:
        """The error without the key: servers repeat what they were sent, and an error's text is shown and kept."""
        error.args = (self._redact(str(error)),)
        return error

    def _opened(self) -> Transport:
        if self._transport is None:
            always = {"User-Agent": f"tiebreak/{__version__}", "Content-Type": "application/json"}
            self._transport = Transport(self.base_url, always | self.headers())
        return self._transport


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
