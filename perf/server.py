"""A chat-completions server that answers "A", fast enough not to be what is measured.

Prints its port, serves until its standard input closes. GET /stats tells what it saw, GET /reset forgets it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
import time

import uvloop
from measure import SERVER_CORE, pin

_COMPLETION = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51},
    }
).encode()


def response(body: bytes) -> bytes:
    """A whole HTTP response around a body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


ANSWER = response(_COMPLETION)


def piece(data: str) -> bytes:
    """One server-sent event as a chunk of a chunked body."""
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


def delta(text: str, finish: str | None = None, **more: object) -> str:
    """One streamed piece of a completion."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "mock", "choices": [choice], **more})


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_PIECE = piece(delta(" word"))
_USAGE = {"prompt_tokens": 50, "completion_tokens": 200, "total_tokens": 250}
STREAM_END = piece(delta("", "stop", usage=_USAGE)) + piece("[DONE]") + b"0\r\n\r\n"
_BETWEEN_PIECES_S = 0.004


class Stats:
    """What the server saw since it was last told to forget."""

    def __init__(self) -> None:
        self.requests = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.first_s = 0.0
        self.last_s = 0.0
        self.cpu_s = time.process_time()

    def reset(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]

    def as_json(self) -> bytes:
        """The figures; `wire_s` is from the first request to the last reply."""
        figures = {
            "requests": self.requests,
            "most_in_flight": self.most_in_flight,
            "wire_s": self.last_s - self.first_s,
            "cpu_s": time.process_time() - self.cpu_s,
        }
        return json.dumps(figures).encode()


class Chat(asyncio.Protocol):
    """One kept-alive connection."""

    def __init__(self, stats: Stats, loop: asyncio.AbstractEventLoop, latency_s: float, pieces: int) -> None:
        self._stats = stats
        self._loop = loop
        self._latency_s = latency_s
        self._pieces = pieces
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that has arrived whole."""
        data = self._buffer + data if self._buffer else data
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                break
            head = data[:end]
            if head.startswith(b"POST"):
                end += _content_length(head)
                if len(data) < end:
                    break
                self._asked()
            else:
                self._told(head)
            data = data[end:]
        self._buffer = data

    def _asked(self) -> None:
        stats = self._stats
        stats.first_s = stats.first_s or time.monotonic()
        stats.in_flight += 1
        stats.most_in_flight = max(stats.most_in_flight, stats.in_flight)
        if self._latency_s:
            self._loop.call_later(self._latency_s, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        stats = self._stats
        stats.requests += 1
        stats.in_flight -= 1
        stats.last_s = time.monotonic()
        if self._pieces:
            self._stream()
        else:
            self._transport.write(ANSWER)

    def _stream(self) -> None:
        """Each piece in a packet of its own, as a model makes them."""
        self._transport.write(STREAM_HEAD)
        for number in range(1, self._pieces + 1):
            self._loop.call_later(number * _BETWEEN_PIECES_S, self._transport.write, STREAM_PIECE)
        self._loop.call_later((self._pieces + 1) * _BETWEEN_PIECES_S, self._transport.write, STREAM_END)

    def _told(self, head: bytes) -> None:
        figures = self._stats.as_json()
        if head.startswith(b"GET /reset"):
            self._stats.reset()
        self._transport.write(response(figures))


def _content_length(head: bytes) -> int:
    at = head.find(b"Content-Length:")
    if at < 0:
        at = head.lower().index(b"content-length:")
    return int(head[at + 15 : head.index(b"\r", at)])


async def serve(latency_s: float, pieces: int, tls: ssl.SSLContext | None) -> None:
    """Listen on a free port until standard input closes."""
    loop, stats, closed = asyncio.get_running_loop(), Stats(), asyncio.Event()
    server = await loop.create_server(lambda: Chat(stats, loop, latency_s, pieces), "127.0.0.1", 0, backlog=1024, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop.add_reader(sys.stdin.fileno(), closed.set)
    await closed.wait()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--pieces", type=int, default=0, help="stream every answer in so many pieces")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    arguments = parser.parse_args()
    tls = None
    if arguments.tls:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*arguments.tls)
    pin(SERVER_CORE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments.latency_ms / 1000, arguments.pieces, tls))


if __name__ == "__main__":
    main()
