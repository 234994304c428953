"""A server of chat completions for tests that takes any path, and keeps each request as it came."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Call:
    """One request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the server sends back in the place of a good answer."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def completion(call: Call, text: str = "ready", **usage: Any) -> dict[str, Any]:
    """A chat completion."""
    counts = {"prompt_tokens": 11, "completion_tokens": 3, **usage}
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"model": call.body["model"], "choices": [choice], "usage": counts}


def chunks(call: Call, text: str = "ready", **usage: Any) -> list[dict[str, Any]]:
    """The same in pieces."""
    pieces: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in text]
    pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    pieces.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3, **usage}})
    return [{"model": call.body["model"], **piece} for piece in pieces]


class CompatibleServer:
    """Runs in a thread of its own while the context is open; any path that ends in /models or /chat/completions is one."""

    def __init__(
        self,
        *,
        models: tuple[str, ...] = ("small", "org/large"),
        usage: dict[str, Any] | None = None,
        fault: Callable[[Call, int], Answer | None] = lambda call, number: None,
    ) -> None:
        self.models = models
        self.usage = usage or {}
        self.fault = fault
        self.calls: list[Call] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CompatibleServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[Call]:
        """The requests for an answer."""
        return [call for call in self.calls if call.method == "POST"]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._done = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._any)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    async def _any(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        call = Call(request.method, request.path, dict(request.headers), body)
        self.calls.append(call)
        fault = self.fault(call, len(self.asked))
        if fault is not None:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        if call.method == "GET" and call.path.endswith("/models"):
            return web.json_response({"data": [{"id": name} for name in self.models]})
        if not call.path.endswith("/chat/completions"):
            return web.json_response({"error": {"message": f"no such path: {call.path}"}}, status=404)
        return await self._streamed(request, call) if body.get("stream") else web.json_response(completion(call, **self.usage))

    async def _streamed(self, request: web.Request, call: Call) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks(call, **self.usage):
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response
