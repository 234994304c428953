"""A server on this machine that answers everything with one and the same fault."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from types import TracebackType

KEY = "check-plugin-key"
"""The key that providers are given for it; the faults repeat it, as some servers do."""
_BODY = f'{{"error": {{"message": "scripted fault, key {KEY}", "type": "scripted"}}}}'.encode()


@dataclass(frozen=True, slots=True)
class Fault:
    """A status and a body; status 0 closes the connection without a word."""

    status: int
    body: bytes = _BODY


class FaultServer:
    """Listens on a free port while the context is open, and counts what it was asked."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.asked = 0

    async def __aenter__(self) -> FaultServer:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            await reader.readexactly(_length(head))
            if self._fault.status:
                writer.write(_response(self._fault))
                await writer.drain()
        writer.close()


def _length(head: bytes) -> int:
    """How long the body is that a request's head announces."""
    lines = head.decode("latin-1").lower().split("\r\n")
    return next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)


def _response(fault: Fault) -> bytes:
    head = f"HTTP/1.1 {fault.status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {len(fault.body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + fault.body
