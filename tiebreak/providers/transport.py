"""HTTP/1.1 to one server: pooled connections on asyncio's own transports, parsed by httptools.

A general client costs more than everything else we do for an answer, some 0.1 ms of CPU; this one does the little
that asking a model takes, and takes a fifth of that. It never follows a redirect (a key goes to the host it was
given for and to no other), sends nothing twice that a server may have seen, and leaves deadlines to its caller.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import select
import socket
import ssl
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

from tiebreak.core.errors import ConfigError

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

LARGEST_BODY_BYTES = 64 * 1024 * 1024
LARGEST_TOGETHER_BYTES = 256 * 1024 * 1024
"""Of all answers of one server that are under way: a server gone mad must not take the memory of the machine."""
_LARGEST_HEAD_BYTES = 64 * 1024
_CONNECT_S = 30.0
_NEXT_ADDRESS_S = 0.25
"""How long an address of a host may be silent before its next one is tried beside it (RFC 8305)."""
_KEPT_FOR = re.compile(r"timeout=(\d{1,6})")
_IDLE_S = 15.0
"""Servers close idle connections, most after a minute or more; an older one is not used again."""

Sink = Callable[[bytes], None]
"""Takes a streamed body piece by piece; what it raises ends the request."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A body that is read piece by piece while it is sent."""

    size: int
    pieces: Callable[[], Iterator[bytes]]


class TransportError(Exception):
    """The server could not be reached, or what came back is not HTTP."""


class BodyTooLarge(TransportError):
    """The answer is larger than any answer can be."""


@dataclass(slots=True)
class Response:
    """What a server answered."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """By lower-case name; of a repeated header the last."""
    body: bytes = b""


class Transport:
    """Connections to one server, used again as long as they are fresh."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._url = urlsplit(base_url)
        self._proxy = _proxy_for(self._url)
        self._head = _lines({"Host": _authority(self._url), **headers})
        """The headers every request has."""
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._under_way = _UnderWay()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | Upload = b"",
        *,
        sink: Sink | None = None,
        headers: Mapping[str, str] | None = None,
        largest: int | None = None,
    ) -> Response:
        """Send a request and wait for the whole answer; the body of a good one goes to the sink if there is one."""
        message = self._message(method, path, body, _lines(headers) if headers else b"")
        connection = self._fresh() or await self._connect()
        self._busy.add(connection)
        connection.under_way = self._under_way if largest is None else _UnderWay()
        try:
            pieces = body.pieces() if isinstance(body, Upload) else None
            return await connection.exchange(message, sink, pieces=pieces, largest=largest)
        finally:
            self._busy.discard(connection)
            connection.under_way.size -= connection.received
            connection.received = 0
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.abort()

    async def close(self) -> None:
        """Close every connection; what is still asked on one fails."""
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # A socket is let go of on the loop's next turn.

    def _fresh(self) -> _Connection | None:
        """The connection used last, if it is still fit to be used."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and monotonic() < connection.fresh_until and connection.is_quiet():
                return connection
            connection.abort()
        return None

    def _message(self, method: str, path: str, body: bytes | Upload, more: bytes) -> bytes:
        # Through a proxy, a plain request names the whole address; an encrypted one goes through a tunnel.
        origin = f"http://{_authority(self._url)}" if self._proxy and self._url.scheme == "http" else ""
        line = f"{method} {origin}{self._url.path}{path} HTTP/1.1\r\n".encode()
        size, data = (body.size, b"") if isinstance(body, Upload) else (len(body), body)
        return b"%b%b%bContent-Length: %d\r\n\r\n%b" % (line, self._head, more, size, data)

    async def _connect(self) -> _Connection:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await (self._connect_through_proxy(self._proxy) if self._proxy else _open(self._url))
        except TimeoutError:
            raise TransportError(f"no connection within {_CONNECT_S:g} s") from None
        except (OSError, ssl.SSLError) as error:
            raise TransportError(str(error) or type(error).__name__) from error

    async def _connect_through_proxy(self, proxy: SplitResult) -> _Connection:
        connection = await _open(proxy)
        if self._url.scheme == "http":
            return connection
        target = _authority(self._url, with_port=True)
        asked = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_proxy_authorization(proxy)}\r\n"
        response = await connection.exchange(asked.encode(), None, connecting=True)
        if response.status != 200:
            connection.abort()
            raise TransportError(f"the proxy {proxy.hostname} refused the connection with status {response.status}")
        await connection.encrypt(_tls(), self._url.hostname or "")
        return connection


class _UnderWay:
    """How much has come of the answers under way."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0


class _Connection(asyncio.Protocol):
    """One connection, which carries one exchange at a time."""

    def __init__(self) -> None:
        self.under_way = _UnderWay()
        self.fresh_until = 0.0
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._sink: Sink | None = None
        self._connecting = False
        self._unread: select.poll | None = None
        self._largest = LARGEST_BODY_BYTES
        self._writable = asyncio.Event()
        self._writable.set()
        self._begin()

    async def exchange(
        self,
        message: bytes,
        sink: Sink | None,
        *,
        connecting: bool = False,
        pieces: Iterator[bytes] | None = None,
        largest: int | None = None,
    ) -> Response:
        """Send a message, and the pieces of its body if it has any, and wait for its answer."""
        assert self._transport is not None
        if self._transport.is_closing():
            # Its end was told already, to nobody: whoever waited for an answer now would wait for ever.
            raise TransportError("the connection was closed before the request was sent")
        self._waiter = asyncio.get_running_loop().create_future()
        self._sink, self._connecting, self.reusable = sink, connecting, False
        self._largest = LARGEST_BODY_BYTES if largest is None else largest
        self._begin()
        self._transport.write(message)
        for piece in pieces or ():
            await self._writable.wait()
            if self._waiter.done():  # Answered before all was sent, or lost: nobody reads the rest.
                response = await self._waiter
                self.reusable = False
                return response
            self._transport.write(piece)
        return await self._waiter

    async def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        """Go on encrypted, inside a proxy's tunnel."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        upgraded = await loop.start_tls(self._transport, self, context, server_hostname=host)
        self._transport = cast(asyncio.Transport, upgraded)
        # The old parser still waits for the end of the proxy's answer, which has none.
        self._parser = httptools.HttpResponseParser(self)

    def is_quiet(self) -> bool:
        """Whether nothing came unasked, its end above all, that the loop has not told us of yet."""
        return self._unread is None or not self._unread.poll(0)

    def abort(self) -> None:
        """Close at once."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def _begin(self) -> None:
        """Forget the last answer."""
        self._response = Response()
        self._body: list[bytes] = []
        self.received = self._head_bytes = 0
        self._ends_with_connection = False
        self._inflate: Any = None

    def _fail(self, error: BaseException) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()

    # --- what asyncio tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; have the system notice a peer that went away without a word."""
        self._transport = cast(asyncio.Transport, transport)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # ValueError: the socket is closed by now
            peer = transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._unread = select.poll()
            self._unread.register(peer.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Parse what came; anything nobody asked for ends the connection."""
        if self._waiter is None or self._waiter.done():
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # Errors raised in the callbacks below arrive wrapped.
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
            self._fail(cause or TransportError(f"what came back is not HTTP: {error}"))
        except Exception as error:
            self._fail(error)

    def pause_writing(self) -> None:
        """The peer takes no more for now."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The peer takes more again."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """An answer that lasts until the connection ends is complete now; any other is cut."""
        self.reusable = False
        self._writable.set()
        if self._waiter is None or self._waiter.done():
            return
        if self._ends_with_connection and error is None:
            self.on_message_complete()
        else:
            # Even of a connection used before nobody can tell whether the server had read the request.
            reason = f": {error}" if error else ""
            self._fail(TransportError(f"the connection was closed before the answer was complete{reason}"))

    # --- what the parser tells us

    def on_message_begin(self) -> None:
        """A second answer in the same breath belongs to nobody, least of all to the first one's reader."""
        if self._waiter is None or self._waiter.done():
            raise TransportError("the server answered what it was not asked")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > _LARGEST_HEAD_BYTES:
            raise BodyTooLarge("the answer's headers are too large")
        self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The body follows."""
        response = self._response
        response.status = self._parser.get_status_code()
        headers = response.headers
        self._ends_with_connection = "content-length" not in headers and "transfer-encoding" not in headers
        if int(headers.get("content-length") or 0) > self._largest:
            raise BodyTooLarge(f"the answer is over {self._largest:,} bytes")
        if headers.get("content-encoding", "identity") in ("gzip", "deflate"):
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        if response.status != 200:
            self._sink = None
        if self._connecting:
            # A proxy's answer has no body we want: what follows belongs to the tunnel.
            self._conclude(response)

    def on_body(self, data: bytes) -> None:
        """A piece of the body, for the sink or for the end."""
        if self._connecting:
            return
        if self._inflate is not None:
            data = self._inflated(data)
        self.received += len(data)
        self.under_way.size += len(data)
        if self.received > self._largest:
            raise BodyTooLarge(f"the answer is over {self._largest:,} bytes")
        if self.under_way.size > LARGEST_TOGETHER_BYTES and self._largest <= LARGEST_BODY_BYTES:
            raise BodyTooLarge(f"the answers under way are over {LARGEST_TOGETHER_BYTES:,} bytes together")
        if self._sink is not None and self._response.status == 200:
            self._sink(data)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The answer is whole, unless it was only a word on the way (100 Continue)."""
        response = self._response
        if response.status < 200:
            self._response = Response()
            return
        if self._connecting:
            return
        response.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.fresh_until = monotonic() + _idle_seconds(response)
        # Local servers, llama.cpp among them, close after a stream and do not say so; a new local connection is cheap.
        encrypted = self._transport is None or self._transport.get_extra_info("sslcontext") is not None
        may_close_silently = self._sink is not None and not encrypted
        self.reusable = self._parser.should_keep_alive() and not self._ends_with_connection and not may_close_silently
        self._conclude(response)

    def _conclude(self, response: Response) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(response)

    def _inflated(self, data: bytes) -> bytes:
        """A compressed piece, unpacked no further than an answer may be long."""
        try:
            plain = self._inflate.decompress(data, self._largest - self.received + 1)
        except zlib.error as error:
            raise TransportError(f"the answer's compression is broken: {error}") from None
        return cast(bytes, plain)


def _idle_seconds(response: Response) -> float:
    """How long the connection may rest: no longer than the server says it keeps one."""
    promised = _KEPT_FOR.search(response.headers.get("keep-alive", ""))
    return min(_IDLE_S, float(promised[1]) - 1) if promised else _IDLE_S


async def _open(url: SplitResult) -> _Connection:
    """Connect to the host of an address; where its name stands for several addresses, a dead one does not hold us up."""
    loop, host, port = asyncio.get_running_loop(), url.hostname or "", _port(url)
    tls: dict[str, Any] = {"ssl": _tls(), "server_hostname": host} if url.scheme == "https" else {}
    addresses = [] if _is_ip_address(host) else await _resolve(host, port)
    if len(addresses) > 1:
        from aiohappyeyeballs import start_connection

        sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S)
        return (await loop.create_connection(_Connection, sock=sock, **tls))[1]
    address = addresses[0][4][0] if addresses else host
    return (await loop.create_connection(_Connection, str(address), port, **tls))[1]


async def _resolve(host: str, port: int) -> Sequence[AddrInfoType]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


@cache
def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _tls() -> ssl.SSLContext:
    """The system's certificates, or those of SSL_CERT_FILE; loading them takes long enough to do it once."""
    return ssl.create_default_context()


def _authority(url: SplitResult, *, with_port: bool = False) -> str:
    host = f"[{url.hostname}]" if url.hostname and ":" in url.hostname else url.hostname or ""
    port = _port(url) if with_port else url.port
    return f"{host}:{port}" if port else host


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _lines(headers: Mapping[str, str]) -> bytes:
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ConfigError(f"the value of {name} holds a line break or a character no header may have; is the key right?")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")


def _proxy_for(url: SplitResult) -> SplitResult | None:
    """The proxy the environment, or a system with settings for it, names for this address, if any."""
    if sys.platform not in ("darwin", "win32") and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # Brings half of the standard library along: only for those who may have a proxy.
    from urllib.request import getproxies, proxy_bypass

    named = getproxies().get(url.scheme) or getproxies().get("all")
    if not named or proxy_bypass(url.hostname or ""):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _proxy_authorization(proxy: SplitResult) -> str:
    if proxy.username is None:
        return ""
    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(secret).decode()}\r\n"
