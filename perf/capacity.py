"""How many requests a second the mock server can take from clients that do nothing else; prints JSON."""

from __future__ import annotations

import argparse
import asyncio
import json

import uvloop
from measure import CLIENT_CORE, Stopwatch, pin
from server import ANSWER


class Client(asyncio.Protocol):
    """Sends the same request as soon as the last was answered."""

    def __init__(self, request: bytes, todo: list[None], done: asyncio.Semaphore) -> None:
        self._request = request
        self._todo = todo
        self._done = done
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received >= len(ANSWER):
            self._received -= len(ANSWER)
            self._next()

    def _next(self) -> None:
        if self._todo:
            self._todo.pop()
            self._transport.write(self._request)
        else:
            self._done.release()


async def ask(port: int, requests: int, connections: int) -> None:
    """Send that many requests and measure."""
    body = json.dumps({"model": "mock", "messages": [{"role": "user", "content": "x" * 190}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
    todo, done, loop = [None] * requests, asyncio.Semaphore(0), asyncio.get_running_loop()
    watch = Stopwatch()
    for _ in range(connections):
        await loop.create_connection(lambda: Client(head.encode() + body, todo, done), "127.0.0.1", port)
    for _ in range(connections):
        await done.acquire()
    watch.report(requests=requests)


def main() -> None:
    """Measure the server at a port."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    pin(CLIENT_CORE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask(arguments.port, arguments.requests, arguments.connections))


if __name__ == "__main__":
    main()
