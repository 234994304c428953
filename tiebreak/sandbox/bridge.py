"""The one address that programs inside can reach, and the name server that knows no names."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

Gateway = str | tuple[str, int]
"""Where the gateway listens outside: the path of a unix socket, or host and port."""

PORT = 8900
"""Where programs inside find it."""
_PIECE = 65536
_MOST_NAMES = 200
_CONNECT_S = 30.0


class Bridge:
    """Serves sockets that were made inside a sandbox, from outside."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._server: asyncio.Server | None = None
        self._answerer: asyncio.DatagramTransport | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.names: dict[str, None] = {}
        """Names that were asked for, in order."""

    async def serve(self, listener: socket.socket, names: socket.socket | None = None) -> None:
        """Carry what comes in at the listener to the gateway; answer questions for names."""
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._carry, sock=listener)
        if names is not None:
            names.setblocking(False)
            loop = asyncio.get_running_loop()
            self._answerer, _ = await loop.create_datagram_endpoint(lambda: _NoSuchName(self.names), sock=names)

    async def close(self) -> None:
        """Nothing is carried any more."""
        if self._server is not None:
            self._server.close()
        if self._answerer is not None:
            self._answerer.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        there: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_CONNECT_S):
                back, there = await self._connect()
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there))
                both.create_task(_pump(back, writer))
        except (OSError, TimeoutError, ExceptionGroup, asyncio.CancelledError):
            # The program sees its connection closed; a cancelled bridge has nobody left to tell.
            pass
        finally:
            self._open.discard(task)
            for end in (writer, there):
                if end is not None:
                    end.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._gateway, str):
            return await asyncio.open_unix_connection(self._gateway)
        return await asyncio.open_connection(*self._gateway)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


class _NoSuchName(asyncio.DatagramProtocol):
    """Answers every question with NXDOMAIN, and keeps the name."""

    def __init__(self, names: dict[str, None]) -> None:
        self._names = names

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        asked = question(data)
        if asked is None:
            return
        name, end = asked
        if len(self._names) < _MOST_NAMES:
            self._names[name] = None
        # Same id; a response, recursion available, no such name; the question again, and nothing else.
        self._transport.sendto(data[:2] + b"\x81\x83" + b"\0\x01" + bytes(6) + data[12:end], address)


def question(data: bytes) -> tuple[str, int] | None:
    """The name a DNS message asks for and where its first question ends; None for anything else."""
    labels, place = [], 12
    while place < len(data) and 0 < data[place] < 64:
        labels.append(data[place + 1 : place + 1 + data[place]].decode("ascii", "backslashreplace"))
        place += 1 + data[place]
    if not labels or place + 5 > len(data) or data[place] != 0 or data[2] & 0x80:
        return None
    return ".".join(labels), place + 5
