"""HTTP/1.1 for programs in the sandbox: requests read whole, answers sent whole or piece by piece.

Parsed by httptools on asyncio's own transports, as in the client. The handler of a program that hangs up is cancelled
at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import httptools

log = logging.getLogger(__name__)

LARGEST_BODY_BYTES = 64 * 1024 * 1024
_LARGEST_HEAD_BYTES = 64 * 1024
_MOST_WAITING = 16
"""Requests sent ahead on one connection; nobody who means well sends more."""
_MOST_CONNECTIONS = 64
_IDLE_S = 120.0
"""How long a connection may be open without a whole request on it."""
_LOOK_S = 5.0
_MOST_PACKED = 1032
"""How many times its size a packed body can have been."""
_LARGEST_UNPACKED_HERE = 4 << 20
"""Larger bodies are unpacked in a thread: the event loop serves everybody."""
_JSON = "application/json"


class Refused(Exception):
    """A request that cannot be read; `status` says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Exchange:
    """One request and the way back to who sent it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    _transport: asyncio.Transport
    keep: bool
    """The connection stays open for the next request."""
    begun: bool = False
    """The answer's head is out."""
    _chunked: bool = field(default=False, init=False)

    def reply(self, status: int, body: bytes, *, kind: str = _JSON) -> None:
        """Send an answer that is there as a whole."""
        head = self._head(status, f"Content-Type: {kind}", f"Content-Length: {len(body)}")
        self._write(head if self.method == "HEAD" else head + body)

    def stream(self, kind: str) -> None:
        """Begin an answer that comes in pieces."""
        self._chunked = True
        self._write(self._head(200, f"Content-Type: {kind}", "Cache-Control: no-cache", "Transfer-Encoding: chunked"))

    def piece(self, data: bytes) -> None:
        """Send the next piece."""
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """No more pieces come."""
        self._write(b"0\r\n\r\n")

    def _head(self, status: int, *lines: str) -> bytes:
        self.begun = True
        connection = "keep-alive" if self.keep else "close"
        text = "\r\n".join((f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Connection: {connection}", *lines, "", ""))
        return text.encode("latin-1")

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


Handler = Callable[[Exchange], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One program's connection: its requests are answered one after the other."""

    def __init__(self, handler: Handler, peers: set[Connection]) -> None:
        self._handler = handler
        self._peers = peers
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[Exchange] = deque()
        self._task: asyncio.Task[None] | None = None
        self._since = 0.0
        self._begin()

    def is_idle(self, now: float) -> bool:
        """Whether it has been open for long, and nothing is being answered."""
        return (self._task is None or self._task.done()) and now - self._since > _IDLE_S

    def close(self) -> None:
        """Hang up; nothing is being answered."""
        if self._transport is not None:
            self._transport.abort()

    async def give_up(self) -> None:
        """Let go of whatever is being answered, and close."""
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._head_bytes = self._received = 0
        self._body: list[bytes] = []

    # --- what asyncio tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A program has come; one that opens connection after connection is turned away."""
        self._transport = cast(asyncio.Transport, transport)
        self._since = asyncio.get_running_loop().time()
        if len(self._peers) >= _MOST_CONNECTIONS:
            self._refuse(Refused(429, "too many connections are open"))
            return
        self._peers.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # Another protocol was offered; the request is answered in this one.
        except httptools.HttpParserCallbackError as error:
            self._refuse(error.__context__ if isinstance(error.__context__, Refused) else Refused(400, "not understood"))
        except httptools.HttpParserError as error:
            self._refuse(Refused(400, f"not HTTP: {error}"))

    def eof_received(self) -> bool:
        """The program has hung up: no client we serve sends half and waits."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever asked is gone."""
        self._peers.discard(self)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _refuse(self, refused: Refused) -> None:
        assert self._transport is not None
        exchange = Exchange("", "", "", {}, b"", self._transport, False)
        exchange.reply(refused.status, json.dumps({"error": {"message": str(refused)}}).encode())
        self._transport.close()

    # --- what the parser tells us

    def on_message_begin(self) -> None:
        """A new request."""
        self._begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of a repeated one the values are joined."""
        self._count(len(name) + len(value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]},{text}" if key in self._headers else text

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _LARGEST_HEAD_BYTES:
            raise Refused(431, "the request's head is too large")

    def on_headers_complete(self) -> None:
        """The body follows, and may be waited for until we say that we want it."""
        length = self._headers.get("content-length", "0")
        if length.isdigit() and int(length) > LARGEST_BODY_BYTES:
            raise Refused(413, f"the request is over {LARGEST_BODY_BYTES:,} bytes")
        if self._headers.get("expect", "").lower() == "100-continue":
            assert self._transport is not None
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._received += len(data)
        if self._received > LARGEST_BODY_BYTES:
            raise Refused(413, f"the request is over {LARGEST_BODY_BYTES:,} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is whole."""
        assert self._transport is not None
        if len(self._waiting) >= _MOST_WAITING:
            raise Refused(429, "too many requests were sent ahead")
        path, _, query = self._url.decode("latin-1").partition("?")
        body = b"".join(self._body)
        keep = self._parser.should_keep_alive()
        method = self._parser.get_method().decode("ascii")
        self._waiting.append(Exchange(method, path, query, self._headers, body, self._transport, keep))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while self._waiting:
            exchange = self._waiting.popleft()
            try:
                exchange.body = await _unpacked(exchange)
                await self._handler(exchange)
            except Refused as refused:
                self._refuse(refused)
                return
            except Exception:
                # Ours, and loud; the program only learns that there is no answer.
                log.exception("the gateway could not answer %s %s", exchange.method, exchange.path)
                if not exchange.begun:
                    exchange.reply(500, b'{"error": {"message": "the gateway could not answer"}}')
                exchange.keep = False
            self._since = asyncio.get_running_loop().time()
            if not exchange.keep and self._transport is not None:
                self._transport.close()
                return


async def close_idle(peers: set[Connection]) -> None:
    """Hang up on programs that hold connections open and say nothing, for as long as this runs."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_LOOK_S)
        for peer in tuple(peers):
            if peer.is_idle(loop.time()):
                peer.close()


async def _unpacked(exchange: Exchange) -> bytes:
    encoding = exchange.headers.get("content-encoding", "")
    if not encoding or len(exchange.body) * _MOST_PACKED < _LARGEST_UNPACKED_HERE:
        return unpacked(exchange.body, encoding)
    return await asyncio.to_thread(unpacked, exchange.body, encoding)


def unpacked(body: bytes, encoding: str) -> bytes:
    """A request's body as it was before it was packed."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Refused(415, f"bodies packed with {encoding[:20]} cannot be read: send them plain, or with gzip or deflate")
    opener = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = opener.decompress(body, LARGEST_BODY_BYTES + 1)
    except zlib.error:
        raise Refused(400, "the body's compression is broken") from None
    if len(plain) > LARGEST_BODY_BYTES:
        raise Refused(413, f"the request is over {LARGEST_BODY_BYTES:,} bytes")
    return plain
