"""What the gateway adds: to a call, and to each piece of a streamed answer, translated or passed on.

    python perf/gateway.py               # starts its own server, prints the figures beside their targets

The same requests to the same server, straight and through a gateway; the model's server runs in a process of its own,
the gateway shares ours with the client, whose own work on the second leg is therefore counted too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from streams import PIECES, Server

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

CALLS = 300
STREAMS = 32
MOST_MS_PER_CALL = 3.0
MOST_US_PER_PIECE = 60.0
_PADDING = "x" * 20_000
_PATHS = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": _PADDING}]}),
    "messages": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": _PADDING}]}),
    "responses": ("/v1/responses", {"input": _PADDING}),
    "gemini": ("/v1beta/models/m:generateContent", {"contents": [{"role": "user", "parts": [{"text": _PADDING}]}]}),
}


class Answers:
    """The provider itself, with no engine between."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def speaks(self, dialect: str) -> bool:
        return dialect == "chat"

    def probed(self, what: str) -> None:
        raise AssertionError(what)

    async def answer(self, request: Any, listener: Any) -> Any:
        return await self._provider.generate(request, listener)


async def called(transport: Any, path: str, body: dict[str, Any]) -> float:
    """Median seconds of a call, one after the other."""
    data, found = json.dumps({"model": "m"} | body).encode(), []
    for _ in range(CALLS):
        started = time.perf_counter()
        response = await transport.request("POST", path, data)
        found.append(time.perf_counter() - started)
        assert response.status == 200, response.body
    return statistics.median(found)


async def streamed(transport: Any, path: str, body: dict[str, Any]) -> float:
    """Processor seconds of many streams at once; their pieces come with pauses, so the wall says nothing."""
    path = path.replace(":g", ":streamG") + "?alt=sse" if ":g" in path else path
    data = json.dumps({"model": "m", "stream": True} | body).encode()

    async def one() -> None:
        response = await transport.request("POST", path, data, sink=lambda data: None)
        assert response.status == 200, response.body

    await one()
    began = time.process_time()
    await asyncio.gather(*(one() for _ in range(STREAMS)))
    return time.process_time() - began


async def measured(url: str, measure: Callable[..., Awaitable[float]]) -> dict[str, float]:
    """What a measure gives straight, and through the gateway in each dialect."""
    from tiebreak.core.protocols import Endpoint
    from tiebreak.gateway.gateway import Gateway
    from tiebreak.providers.openai import OpenAI
    from tiebreak.providers.transport import Transport

    provider = OpenAI(Endpoint(base_url=url, api_key="x"))
    gateway = Gateway(model="m")
    gateway.answers = Answers(provider)
    async with gateway.open(on_port=True):
        host, port = gateway.address
        straight = Transport(url, {})
        through = Transport(f"http://{host}:{port}", {"Authorization": f"Bearer {gateway.key}"})
        path, body = _PATHS["chat"]
        found = {"straight": await measure(straight, path.removeprefix("/v1"), body)}
        for dialect, (path, body) in _PATHS.items():
            found[dialect] = await measure(through, path, body)
        await straight.close()
        await through.close()
    await provider.close()
    return found


def main() -> int:
    """Print the figures; 1 when a target is missed."""
    with Server() as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        whole = runner.run(measured(url, called))
    with Server("--pieces", str(PIECES)) as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pieces = runner.run(measured(url, streamed))
    missed = 0
    for dialect in _PATHS:
        call_ms = 1e3 * (whole[dialect] - whole["straight"])
        piece_us = 1e6 * (pieces[dialect] - pieces["straight"]) / (STREAMS * PIECES)
        good = call_ms <= MOST_MS_PER_CALL and piece_us <= MOST_US_PER_PIECE
        missed += not good
        print(
            f"{'✓' if good else '✗'} {dialect:10} adds {call_ms:5.2f} ms to a call, {piece_us:5.1f} µs of CPU to a streamed piece"
        )
    print(f"  targets: {MOST_MS_PER_CALL:g} ms and {MOST_US_PER_PIECE:g} µs; reading in the client is in both")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
