"""A server of batch jobs in the three dialects, which keeps a ledger of what it ran and for whom, and can fail at any step."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.server import KEY, FakeServer, said_in

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ANSWERED, ERROR, BAD, MISSING, GARBLED = "answered", "error", "bad", "missing", "garbled"
EXPIRED, CANCELLED = "expired", "cancelled"
MOMENTS = ("arrived", "done", "answered")
"""Of a request: it came, it was carried out, its answer was sent. Of results there is also `half`."""
CREATES = ("openai_create", "anthropic_create", "gemini")
RESULTS = ("openai_content", "anthropic_results", "google_results")


@dataclass
class FakeJob:
    """A job as the server has it; its fate was decided when it was created."""

    id: str
    dialect: str
    key: str
    file: str
    created_s: float
    lines: dict[str, str]
    """By custom id, what became of it."""
    replies: dict[str, Any]
    refused: tuple[str, str] | None = None

    def count(self, *fates: str) -> int:
        return sum(fate in fates for fate in self.lines.values())


@dataclass(frozen=True)
class Kill:
    """The client is killed at this moment of its n-th request, from 1."""

    request: int
    moment: str


@dataclass
class Behaviour:
    """How the server behaves from now on."""

    metadata: bool = True
    """Whether its lists tell whose a job is."""
    lists: bool = True
    delay_s: float = 0.0
    lag_s: float = 0.0
    """How long after its creation a job comes into the list."""
    fate: Callable[[str, int], str] = lambda custom_id, times: ANSWERED
    """What becomes of a request that was sent so many times."""
    refuses: Callable[[int], tuple[str, str] | None] = lambda number: None
    """Code and message of a job that is validated and not run, by its number from 1."""
    fault: Callable[[str, int], int] = lambda step, times: 0
    """Status to answer a step with instead; -1 carries it out and loses the answer, -2 loses the request."""
    kill: Kill | None = None


@dataclass
class Ledger:
    """What the server did."""

    jobs: dict[str, FakeJob] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    """By custom id, how often it was in a job."""
    paid: Counter[str] = field(default_factory=Counter)
    """By custom id, how often it was answered, which is what is billed."""
    steps: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    """Every step, as they came."""


class BatchServer(FakeServer):
    """Also answers requests that are asked as usual."""

    def __init__(self, **behaviour: Any) -> None:
        super().__init__(answer=lambda prompt: f"Answer to {prompt}")
        self.reset(**behaviour)

    def reset(self, **behaviour: Any) -> None:
        """Forget everything, and behave like this from now on."""
        self.how = Behaviour(**behaviour)
        self.batches = Ledger()
        self.requests = 0
        self.victim: int | None = None
        self.ledger.clear()

    def behave(self, **changes: Any) -> None:
        """Behave otherwise from now on."""
        for name, value in changes.items():
            setattr(self.how, name, value)

    def application(self) -> web.Application:
        app = super().application()

        @web.middleware
        async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._watched(request, handler)

        app.middlewares.append(watched)
        route = app.router
        route.add_post("/v1/files", self._openai_upload)
        route.add_get("/v1/files/{id}", self._openai_file)
        route.add_get("/v1/files/{id}/content", self._openai_content)
        route.add_post("/v1/batches", self._openai_create)
        route.add_get("/v1/batches", self._openai_list)
        route.add_get("/v1/batches/{id}", self._openai_look)
        route.add_post("/v1/messages/batches", self._anthropic_create)
        route.add_get("/v1/messages/batches", self._anthropic_list)
        route.add_get("/v1/messages/batches/{id}", self._anthropic_look)
        route.add_get("/v1/messages/batches/{id}/results", self._anthropic_results)
        route.add_post("/upload/v1beta/files", self._google_upload)
        route.add_get("/v1beta/batches", self._google_list)
        route.add_get("/v1beta/batches/{id}", self._google_look)
        route.add_get("/download/v1beta/files/{id}", self._google_results)
        route.add_get("/v1beta/files/{id}", self._google_results)  # as the official client spells it
        return app

    # --- every request

    async def _watched(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        step = request.match_info.handler.__name__.removeprefix("_")
        self.requests += 1
        number = self.requests
        self.batches.steps[step] += 1
        self.batches.order.append(step)
        assert KEY not in request.path_qs
        await self._kill_at(number, "arrived")
        fault = self.how.fault(step, self.batches.steps[step])
        if fault > 0:
            return web.json_response({"error": {"message": f"scripted fault, your key is {KEY}"}}, status=fault)
        if fault == -2:
            _hang_up(request)
        request["number"] = number
        response = await handler(request)
        await self._kill_at(number, "done")
        if fault == -1:
            _hang_up(request)
        if not response.prepared:
            await response.prepare(request)
            await response.write_eof()
        if self.how.kill == Kill(number, "answered"):
            await asyncio.sleep(0.003)
            await self._kill_at(number, "answered")
        return response

    async def _kill_at(self, number: int, moment: str) -> None:
        if self.how.kill != Kill(number, moment):
            return
        deadline = time.monotonic() + 5
        while self.victim is None and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
        if self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
        self.how.kill = None

    async def _lines(self, request: web.Request, lines: list[dict[str, Any] | str]) -> web.StreamResponse:
        """Results, sent in two halves."""
        data = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        await self._kill_at(request["number"], "half")
        await response.write(data[len(data) // 2 :])
        await response.write_eof()
        return response

    # --- jobs

    def create(self, dialect: str, key: str, file: str, requests: dict[str, dict[str, Any]]) -> FakeJob:
        number = len(self.batches.jobs) + 1
        refused = self.how.refuses(number)
        lines: dict[str, str] = {}
        replies = {}
        for custom_id, body in requests.items():
            self.batches.sent[custom_id] += 1
            lines[custom_id] = MISSING if refused else self.how.fate(custom_id, self.batches.sent[custom_id])
            if lines[custom_id] in (ANSWERED, GARBLED):
                self.batches.paid[custom_id] += 1
                replies[custom_id] = _REPLIES[dialect](body)
        names = {"chat": "batch_", "responses": "batch_", "messages": "msgbatch_", "gemini": "batches/"}
        job = FakeJob(f"{names[dialect]}{number:03}", dialect, key, file, time.monotonic(), lines, replies, refused)
        self.batches.jobs[job.id] = job
        return job

    def _ended(self, job: FakeJob) -> bool:
        return time.monotonic() >= job.created_s + self.how.delay_s

    def _listed(self, *dialects: str) -> list[FakeJob]:
        """The newest first."""
        now = time.monotonic()
        jobs = [job for job in self.batches.jobs.values() if job.dialect in dialects and now >= job.created_s + self.how.lag_s]
        return jobs[::-1]

    # --- OpenAI

    async def _openai_upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert form["purpose"] == "batch"
        assert isinstance(file, web.FileField)
        name = f"file-{len(self.batches.files) + 1:03}"
        with file.file as content:
            self.batches.files[name] = (file.filename, content.read())
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "filename": file.filename})

    async def _openai_file(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if not self.how.metadata or name not in self.batches.files:
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        return web.json_response({"id": name, "object": "file", "filename": self.batches.files[name][0]})

    async def _openai_create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["completion_window"] == "24h"
        lines = [json.loads(line) for line in self.batches.files[asked["input_file_id"]][1].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == asked["endpoint"] for line in lines)
        assert len({line["body"]["model"] for line in lines}) == 1, "one model a file"
        dialect = "responses" if asked["endpoint"] == "/v1/responses" else "chat"
        key = asked["metadata"]["tiebreak_batch"]
        job = self.create(dialect, key, asked["input_file_id"], {line["custom_id"]: line["body"] for line in lines})
        return web.json_response(self._openai(job))

    async def _openai_list(self, request: web.Request) -> web.Response:
        if not self.how.lists:
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        jobs = self._listed("chat", "responses")
        ids = [job.id for job in jobs]
        start = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
        page = jobs[start : start + 2]  # Small pages, so that there are several.
        return web.json_response(
            {"object": "list", "data": [self._openai(job) for job in page], "has_more": start + 2 < len(jobs)}
        )

    async def _openai_look(self, request: web.Request) -> web.Response:
        job = self.batches.jobs.get(request.match_info["id"])
        return web.json_response(self._openai(job)) if job else _unknown()

    def _openai(self, job: FakeJob) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": job.id,
            "object": "batch",
            "endpoint": "/v1/responses" if job.dialect == "responses" else "/v1/chat/completions",
            "input_file_id": job.file,
            "completion_window": "24h",
            "status": "in_progress",
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "created_at": 1_700_000_000,
            "request_counts": {"total": len(job.lines), "completed": 0, "failed": 0},
            "metadata": {"tiebreak_batch": job.key} if self.how.metadata else None,
        }
        if not self._ended(job):
            return found
        if job.refused:
            code, message = job.refused
            errors = {"object": "list", "data": [{"code": code, "message": message, "param": None, "line": None}]}
            return found | {"status": "failed", "errors": errors}
        good, bad = job.count(ANSWERED, GARBLED), job.count(ERROR, BAD, EXPIRED, CANCELLED)
        status = "expired" if job.count(EXPIRED) else "cancelled" if job.count(CANCELLED) else "completed"
        counts = {"total": len(job.lines), "completed": good, "failed": bad}
        outputs = {"output_file_id": f"{job.id}-out" if good else None, "error_file_id": f"{job.id}-err" if bad else None}
        return found | outputs | {"status": status, "request_counts": counts}

    async def _openai_content(self, request: web.Request) -> web.StreamResponse:
        name, _, kind = request.match_info["id"].rpartition("-")
        job = self.batches.jobs[name]
        fates = {"out": (ANSWERED, GARBLED), "err": (ERROR, BAD, EXPIRED, CANCELLED)}[kind]
        return await self._lines(request, [self._openai_line(job, one) for one, fate in job.lines.items() if fate in fates][::-1])

    def _openai_line(self, job: FakeJob, custom_id: str) -> dict[str, Any] | str:
        line: dict[str, Any] = {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": None, "error": None}
        fate = job.lines[custom_id]
        if fate == GARBLED:
            return json.dumps(line)[:40]
        if fate in (EXPIRED, CANCELLED):
            return line | {"error": {"code": f"batch_{fate}", "message": f"This request was {fate}."}}
        statuses = {
            ERROR: (500, {"error": {"message": "server"}}),
            BAD: (400, {"error": {"message": "bad words", "type": "invalid_request_error"}}),
        }
        status, body = statuses.get(fate) or (200, job.replies[custom_id])
        return line | {"response": {"status_code": status, "request_id": "req_1", "body": body}}

    # --- Anthropic

    async def _anthropic_create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        requests = {line["custom_id"]: line["params"] for line in asked["requests"]}
        assert all(len(custom_id) <= 64 for custom_id in requests)
        return web.json_response(self._anthropic(self.create("messages", "", "", requests)))

    async def _anthropic_list(self, request: web.Request) -> web.Response:
        jobs = self._listed("messages")
        ids = [job.id for job in jobs]
        start = ids.index(request.query["after_id"]) + 1 if "after_id" in request.query else 0
        page = jobs[start : start + 2]
        return web.json_response({"data": [self._anthropic(job) for job in page], "has_more": start + 2 < len(jobs)})

    async def _anthropic_look(self, request: web.Request) -> web.Response:
        job = self.batches.jobs.get(request.match_info["id"])
        return web.json_response(self._anthropic(job)) if job else _unknown()

    def _anthropic(self, job: FakeJob) -> dict[str, Any]:
        ended = self._ended(job)
        counts = {
            "processing": 0 if ended else len(job.lines),
            "succeeded": job.count(ANSWERED) if ended else 0,
            "errored": job.count(ERROR, BAD) if ended else 0,
            "canceled": job.count(CANCELLED) if ended else 0,
            "expired": job.count(EXPIRED) if ended else 0,
        }
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": "2026-11-18T20:00:00Z",
            "results_url": f"{self.url}/v1/messages/batches/{job.id}/results" if ended else None,
        }

    async def _anthropic_results(self, request: web.Request) -> web.StreamResponse:
        job = self.batches.jobs[request.match_info["id"]]
        kinds = {ERROR: ("api_error", "server"), BAD: ("invalid_request_error", "bad words")}
        lines: list[dict[str, Any] | str] = []
        for custom_id, fate in job.lines.items():
            if fate in kinds:
                kind, message = kinds[fate]
                error = {"type": "error", "error": {"type": kind, "message": message}}
                result: dict[str, Any] = {"type": "errored", "error": error}
            elif fate == ANSWERED:
                result = {"type": "succeeded", "message": job.replies[custom_id]}
            else:
                result = {"type": "canceled" if fate == CANCELLED else "expired"}
            lines.append({"custom_id": custom_id, "result": result})
        return await self._lines(request, lines[::-1])

    # --- Gemini

    async def _gemini(self, request: web.Request) -> web.Response:
        model, _, action = request.match_info["call"].partition(":")
        if action != "batchGenerateContent":
            return await super()._gemini(request)
        asked = (await request.json())["batch"]
        file = asked["inputConfig"]["fileName"]
        lines = [json.loads(line) for line in self.batches.files[file][1].splitlines()]
        job = self.create("gemini", asked["displayName"], model, {line["key"]: line["request"] for line in lines})
        return web.json_response(self._google(job))

    async def _google_upload(self, request: web.Request) -> web.Response:
        if request.headers["X-Goog-Upload-Command"] == "start":
            assert request.headers["X-Goog-Upload-Protocol"] == "resumable"
            size = request.headers["X-Goog-Upload-Header-Content-Length"]
            address = f"{self.url}/upload/v1beta/files?upload_id=u1&size={size}"
            return web.json_response({}, headers={"X-Goog-Upload-URL": address})
        assert request.headers["X-Goog-Upload-Command"] == "upload, finalize"
        data = await request.read()
        assert len(data) == int(request.query["size"])
        name = f"files/in{len(self.batches.files) + 1:03}"
        self.batches.files[name] = ("", data)
        file = {"name": name, "sizeBytes": str(len(data)), "state": "ACTIVE"}
        return web.json_response({"file": file}, headers={"X-Goog-Upload-Status": "final"})

    async def _google_list(self, request: web.Request) -> web.Response:
        jobs = self._listed("gemini")
        start = int(request.query.get("pageToken", 0))
        page: dict[str, Any] = {"operations": [self._google(job) for job in jobs[start : start + 2]]}
        return web.json_response(page | ({"nextPageToken": str(start + 2)} if start + 2 < len(jobs) else {}))

    async def _google_look(self, request: web.Request) -> web.Response:
        job = self.batches.jobs.get(f"batches/{request.match_info['id']}")
        return web.json_response(self._google(job)) if job else _unknown()

    def _google(self, job: FakeJob) -> dict[str, Any]:
        kind = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
        about = {
            "@type": kind,
            "model": f"models/{job.file}",
            "displayName": job.key,
            "state": "BATCH_STATE_RUNNING",
            "batchStats": {"requestCount": str(len(job.lines))},
        }
        if not self._ended(job):
            return {"name": job.id, "metadata": about}
        if job.refused:
            code, message = job.refused
            error = {"code": 8, "status": code, "message": message}
            return {"name": job.id, "metadata": about | {"state": "BATCH_STATE_FAILED"}, "done": True, "error": error}
        state = "EXPIRED" if job.count(EXPIRED) else "CANCELLED" if job.count(CANCELLED) else "SUCCEEDED"
        about["batchStats"] |= {"successfulRequestCount": str(job.count(ANSWERED))}  # type: ignore[operator]
        file = {"responsesFile": f"files/{job.id.removeprefix('batches/')}-out"}
        return {
            "name": job.id,
            "metadata": about | {"state": f"BATCH_STATE_{state}", "output": file},
            "done": True,
            "response": file,
        }

    async def _google_results(self, request: web.Request) -> web.StreamResponse:
        assert request.query["alt"] == "media"
        name = request.match_info["id"].removesuffix(":download").removesuffix("-out")
        job = self.batches.jobs[f"batches/{name}"]
        errors = {
            ERROR: {"code": 500, "message": "server", "status": "INTERNAL"},
            BAD: {"code": 400, "message": "bad words", "status": "INVALID_ARGUMENT"},
        }
        lines: list[dict[str, Any] | str] = [
            {"key": one, "error": errors[fate]} if fate in errors else {"key": one, "response": job.replies[one]}
            for one, fate in job.lines.items()
            if fate in (*errors, ANSWERED)
        ]
        return await self._lines(request, lines)


def _hang_up(request: web.Request) -> None:
    """Close the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    raise web.HTTPServiceUnavailable


def _unknown() -> web.Response:
    return web.json_response({"error": {"message": "no such batch"}}, status=404)


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": f"Answer to {said_in(body['messages'][-1]['content'])}"}
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}


def _responses(body: dict[str, Any]) -> dict[str, Any]:
    text = f"Answer to {said_in(body['input'][-1]['content'])}"
    items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    usage = {"input_tokens": 100, "output_tokens": 50}
    return {"id": "resp_1", "object": "response", "model": body["model"], "status": "completed", "output": items, "usage": usage}


def _messages(body: dict[str, Any]) -> dict[str, Any]:
    text = f"Answer to {said_in(body['messages'][-1]['content'])}"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 100, "output_tokens": 50},
    }


def _generated(body: dict[str, Any]) -> dict[str, Any]:
    text = f"Answer to {said_in(body['contents'][-1]['parts'])}"
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 50}}


_REPLIES = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _generated}
