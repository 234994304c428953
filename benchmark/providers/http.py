"""The one HTTP layer under every provider: pooled connections, no retries, no surprises."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from benchmark import __version__
from benchmark.core.errors import ConfigError, FailureKind, ProviderError
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Endpoint
from benchmark.wire.faults import fault

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

_ENCODER = msgspec.json.Encoder()
_LARGEST_BODY_BYTES = 64 * 1024 * 1024
_CONNECT_S = 30.0
_USER_AGENT = f"tiebreak/{__version__}"
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class HttpProvider:
    """What the providers reached over HTTP have in common; each adds its paths, headers and wire format."""

    default_url: ClassVar[str] = ""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.base_url = checked_url(endpoint.base_url or self.default_url)
        self._session: ClientSession | None = None
        self._urls: dict[str, URL] = {}
        self._network_errors: tuple[type[Exception], ...] = (OSError, TimeoutError)

    def headers(self) -> dict[str, str]:
        """Headers of every request, the key among them."""
        return {}

    async def open(self, model: ModelRef) -> None:
        """Open the connection pool; nothing is sent yet."""
        self._connected()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a body as JSON; the answer's bytes, or a ProviderError."""
        return await self._fetch("POST", path, _ENCODER.encode(body))

    async def get(self, path: str) -> bytes:
        """Fetch an address; the answer's bytes, or a ProviderError."""
        return await self._fetch("GET", path, None)

    async def _fetch(self, method: str, path: str, data: bytes | None) -> bytes:
        session = self._session or self._connected()
        try:
            # Redirects are not followed: a key goes to the host it was given for and to no other.
            async with session.request(method, self._url(path), data=data, allow_redirects=False) as response:
                content = await (response.read() if _is_plain(response) else _read_capped(response))
                if response.status == 200:
                    return content
                raise fault(response.status, content, response.headers)
        except self._network_errors as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ProviderError:
        reason = str(error) or type(error).__name__
        return ProviderError(f"no answer from {self.base_url}: {reason}", kind=FailureKind.TRANSIENT)

    def _url(self, path: str) -> URL:
        # Parsing an address costs as much as building the request; each is parsed once.
        if path not in self._urls:
            from yarl import URL

            self._urls[path] = URL(self.base_url + path, encoded=True)
        return self._urls[path]

    def _connected(self) -> ClientSession:
        if self._session is None:
            from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

            self._network_errors = (ClientError, OSError, TimeoutError)
            self._session = ClientSession(
                connector=TCPConnector(limit=self._endpoint.max_connections, ttl_dns_cache=300),
                cookie_jar=DummyCookieJar(),
                headers={"Content-Type": "application/json", "User-Agent": _USER_AGENT, **self.headers()},
                # Not asking for compression saves both sides its cost: answers are small and often streamed.
                skip_auto_headers=("Accept", "Accept-Encoding"),
                # The engine holds the deadline of every call; only the connecting has its own.
                timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
                trust_env=any(os.environ.get(name) for name in _PROXY_VARIABLES),
            )
        return self._session


def _is_plain(response: ClientResponse) -> bool:
    """Whether the answer says how long it is, and that is no longer than any answer can be."""
    length = response.content_length
    return length is not None and length <= _LARGEST_BODY_BYTES and "Content-Encoding" not in response.headers


async def _read_capped(response: ClientResponse) -> bytes:
    """The whole body, refusing one larger than any answer can be, however well it was compressed."""
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _LARGEST_BODY_BYTES:
            raise ProviderError(f"the server's answer is over {_LARGEST_BODY_BYTES:,} bytes", kind=FailureKind.MALFORMED)
        chunks.append(chunk)
    return b"".join(chunks)


def checked_url(url: str) -> str:
    """The base address without a closing slash, or an error that shows what one looks like."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not a server's address; it should look like http://127.0.0.1:8000/v1")
    return parts.geturl().rstrip("/")
