"""A model server for tests: speaks the five dialects on loopback and keeps its own ledger of what it was asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tiebreak.pipeline import PREFLIGHT_PROMPT

KEY = "canary-key-5f1e0c"


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    dialect: str
    model: str
    prompt: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """An answer other than a good one."""

    status: int = 500
    body: str = '{"error": {"message": "scripted fault"}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Calls:
    """An answer that calls tools: name and arguments of each."""

    calls: tuple[tuple[str, dict[str, Any]], ...]


def said_in(content: Any) -> str:
    """The text of a message's content, in whichever dialect."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def letter_of(prompt: str) -> str:
    """An answer that depends on the prompt alone."""
    return "ABCD"[hashlib.sha256(prompt.encode()).digest()[0] % 4]


class FakeServer:
    """Runs in a thread of its own while the context is open, so that tests and child processes can both reach it."""

    def __init__(
        self,
        answer: Callable[[str], str | Calls] = letter_of,
        *,
        latency_s: float = 0.0,
        answer_tokens: int = 3,
        host: str = "127.0.0.1",
        slots: int = 1000,
        fault: Callable[[Asked, int], Fault | None] = lambda asked, number: None,
        preflight_fault: Callable[[Asked], Fault | None] = lambda asked: None,
        ollama_models: tuple[str, ...] = ("llama3:latest", "qwen2.5-coder:7b", "nomic-embed-text:latest"),
    ) -> None:
        self.answer = answer
        self.latency_s = latency_s
        self.latency_of: dict[str, float] = {}
        """By model, where it is another."""
        self.answer_tokens = answer_tokens
        self.host = host
        self._slots = asyncio.Semaphore(slots)
        self._answering = asyncio.Event()
        self._answering.set()
        self.fault = fault
        self.ollama_models = ollama_models
        self.preflight_fault = preflight_fault
        self.ledger: list[Asked] = []
        self.tried: list[Asked] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def hold(self) -> None:
        """Keep every answer back, until `release`."""
        self._loop.call_soon_threadsafe(self._answering.clear)

    def release(self) -> None:
        """Give the answers that were kept back, and answer as usual."""
        self._loop.call_soon_threadsafe(self._answering.set)

    def environment(self) -> dict[str, str]:
        """Variables that send every provider here."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GOOGLE_API_KEY": KEY,
            "OLLAMA_HOST": self.url,
        }

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._done = asyncio.Event()
        runner = web.AppRunner(self.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, self.host, 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    def application(self) -> web.Application:
        """Every address it answers at."""
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1beta/models/{call}", self._gemini)
        app.router.add_post("/api/chat", self._ollama)
        app.router.add_get("/api/tags", self._tags)
        return app

    async def _answered(self, asked: Asked, reply: Callable[[Any], dict[str, Any]]) -> web.Response:
        if asked.prompt == PREFLIGHT_PROMPT:
            # Tried out before the run: no part of what the tests count, and fine unless a test says otherwise.
            fault = self.preflight_fault(asked)
            self.tried.append(asked)
            return web.Response(status=fault.status, text=fault.body) if fault else web.json_response(reply("ready"))
        self.ledger.append(asked)
        fault = self.fault(asked, len(self.ledger))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self._slots:
                await asyncio.sleep(self.latency_of.get(asked.model, self.latency_s))
                await self._answering.wait()
        finally:
            self.in_flight -= 1
        if fault is not None:
            return web.Response(status=fault.status, text=fault.body, headers=fault.headers)
        return web.json_response(reply(self.answer(asked.prompt)))

    def _limited(self, text: Any, most_tokens: int | None) -> tuple[Any, int, bool]:
        """The answer as far as the request's limit lets it come: it is said at the very end."""
        if isinstance(text, Calls) or most_tokens is None or most_tokens >= self.answer_tokens or text == "ready":
            return text, self.answer_tokens, True
        return "Let me think.", most_tokens, False

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        asked = Asked("chat", body["model"], said_in(body["messages"][-1].get("content")), body, dict(request.headers))

        def reply(text: Any) -> dict[str, Any]:
            said, made, whole = self._limited(text, body.get("max_tokens") or body.get("max_completion_tokens"))
            message: dict[str, Any] = {"role": "assistant", "content": said}
            if isinstance(said, Calls):
                listed = [{"name": name, "arguments": json.dumps(given)} for name, given in said.calls]
                calls = [{"id": f"call_{i}", "type": "function", "function": one} for i, one in enumerate(listed)]
                message |= {"content": None, "tool_calls": calls}
            usage = {"prompt_tokens": 11, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": 2}}
            choice = {"message": message, "finish_reason": "stop" if whole else "length"}
            return {"model": body["model"], "choices": [choice], "usage": usage}

        return await self._answered(asked, reply)

    async def _responses(self, request: web.Request) -> web.Response:
        body = await request.json()
        last = body["input"][-1]
        prompt = said_in(last.get("content") or last.get("output"))
        asked = Asked("responses", body["model"], prompt, body, dict(request.headers))

        def reply(text: Any) -> dict[str, Any]:
            items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
            if isinstance(text, Calls):
                items = [
                    {"type": "function_call", "call_id": f"call_{i}", "name": name, "arguments": json.dumps(given)}
                    for i, (name, given) in enumerate(text.calls)
                ]
            usage = {"input_tokens": 11, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
            return {"model": body["model"], "status": "completed", "output": items, "usage": usage}

        return await self._answered(asked, reply)

    async def _messages(self, request: web.Request) -> web.Response:
        body = await request.json()
        asked = Asked("messages", body["model"], said_in(body["messages"][-1].get("content")), body, dict(request.headers))

        def reply(text: Any) -> dict[str, Any]:
            said, made, whole = self._limited(text, body["max_tokens"])
            content, stop = [{"type": "text", "text": said}], "end_turn" if whole else "max_tokens"
            if isinstance(said, Calls):
                stop, used = "tool_use", enumerate(said.calls)
                content = [{"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": given} for i, (name, given) in used]
            return {
                "model": body["model"],
                "content": content,
                "stop_reason": stop,
                "usage": {"input_tokens": 11, "output_tokens": made},
            }

        return await self._answered(asked, reply)

    async def _gemini(self, request: web.Request) -> web.Response:
        body = await request.json()
        model = request.match_info["call"].partition(":")[0]
        prompt = said_in(body["contents"][-1]["parts"])

        def reply(text: Any) -> dict[str, Any]:
            parts: list[dict[str, Any]] = [{"text": text}]
            if isinstance(text, Calls):
                parts = [{"functionCall": {"name": name, "args": given}} for name, given in text.calls]
            candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
            return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3}}

        return await self._answered(Asked("gemini", model, prompt, body, dict(request.headers)), reply)

    async def _ollama(self, request: web.Request) -> web.Response:
        body = await request.json()
        if not body["messages"]:
            return web.json_response({"model": body["model"], "message": {"role": "assistant", "content": ""}, "done": True})
        asked = Asked("ollama", body["model"], said_in(body["messages"][-1].get("content")), body, dict(request.headers))

        def reply(text: Any) -> dict[str, Any]:
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if isinstance(text, Calls):
                calls = [{"function": {"name": name, "arguments": given}} for name, given in text.calls]
                message = {"role": "assistant", "content": "", "tool_calls": calls}
            counts = {"prompt_eval_count": 11, "eval_count": 3, "total_duration": 2_000_000, "load_duration": 1_000_000}
            return {"model": body["model"], "message": message, "done": True, "done_reason": "stop", **counts}

        return await self._answered(asked, reply)

    async def _tags(self, request: web.Request) -> web.Response:
        return web.json_response({"models": [{"name": name, "digest": "0" * 64} for name in self.ollama_models]})
