"""A model that does one small piece of work by tools, whoever the agent is: read a file, change it, say so.

Speaks chat, responses, messages, gemini and ollama on loopback, whole or streamed, and keeps a ledger of what it was
asked. The model's name picks what it does, and what follows a dot keeps runs apart: `fix`, `fix.2`, `loop`, `status-500`.

    fix        reads the file, edits it, says that it is done
    shell      the same by the shell alone
    noop       says that it is done, and does nothing
    served     calls the tool `stock_level` of a server, then says that it is done
    ask        asks in words;  ask-tool  asks by the agent's own asking tool, where there is one
    loop       reads the file for ever
    nousage    as fix, and says nothing of tokens
    flaky      the first request fails with 500, then as fix
    slow       as fix, each answer after `slow_s`
    status-N   always answers with that status
    then-N     the first request as shell, then always that status
    context    always says that the prompt is too long
    keyed      as fix, and repeats the key it was sent
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.faults import WIRES
from support.streams import encode_stream
from tiebreak.core.errors import ProviderError
from tiebreak.core.message import Finish, Reply, StreamEnd, ToolCall, Usage
from tiebreak.core.model import Request
from tiebreak.wire.writing import events_of

KEY = "canary-key-77aa41c9"
READ = ("Read", "read", "read_file", "ReadFile", "view", "read_files")
EDIT = ("Edit", "edit", "replace", "str_replace", "edit_file", "single_find_and_replace", "MultiEdit", "apply_patch")
SHELL = (
    *("Bash", "bash", "run_shell_command", "shell", "exec_command", "shell_command", "local_shell"),
    *("container.exec", "run_terminal_command"),
)
ASK = ("AskUserQuestion", "AskQuestion", "ask_user", "question", "ask_user_question", "request_user_input")
DONE = "Done: the file is repaired."
USAGE = Usage(input_tokens=1200, cached_tokens=200, output_tokens=34)


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    dialect: str
    model: str
    request: Request
    body: dict[str, Any]
    headers: dict[str, str]
    query: str
    path: str

    @property
    def results(self) -> int:
        """How many tools have answered so far."""
        return sum(message.role == "tool" for message in self.request.messages)


@dataclass
class AgentModel:
    """Runs in a thread of its own while the context is open, so that tests and child processes can both reach it."""

    file: str = "README.md"
    old: str = "teh"
    new: str = "the"
    root: str = ""
    """The folder of the file as the agent's tools want it; empty: relative to where they work."""
    host: str = "127.0.0.1"
    slow_s: float = 1.0
    pause_s: float = 0.0
    """Before each streamed piece but the first."""
    thinking: str = ""
    seal: str = ""
    """Where the dialect has one, every tool call carries it, and is refused when it comes back without."""
    ledger: list[Asked] = field(default_factory=list)
    sent: list[tuple[str, int]] = field(default_factory=list)
    """Each streamed piece that left: the model and the piece's number."""
    tool_calls: Counter[str] = field(default_factory=Counter)
    """Tools it asked for, by model."""
    hung_up: list[str] = field(default_factory=list)
    """Models whose answer was not waited for."""

    def __enter__(self) -> AgentModel:
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._served: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

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

    @property
    def patch(self) -> str:
        """The edit in the words of a tool that takes free text."""
        return f"*** Begin Patch\n*** Update File: {self.file}\n@@\n-{self.old}\n+{self.new}\n*** End Patch\n"

    def asked_of(self, model: str) -> list[Asked]:
        """What one model was asked."""
        return [asked for asked in self.ledger if asked.model == model]

    # --- the server

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._done = asyncio.Event()
        app = web.Application(client_max_size=1 << 28)
        for path, dialect in (
            ("/v1/chat/completions", "chat"),
            ("/v1/responses", "responses"),
            ("/v1/messages", "messages"),
            ("/v1beta/models/{call}", "gemini"),
            ("/api/chat", "ollama"),
        ):
            app.router.add_post(path, self._handler(dialect))
        app.router.add_get("/api/tags", self._tags)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, self.host, 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    async def _tags(self, request: web.Request) -> web.Response:
        names = ("fix:latest", "noop:latest", "loop:latest")
        return web.json_response({"models": [{"name": name, "digest": "0" * 64} for name in names]})

    def _handler(self, dialect: str) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                asked = await _read(dialect, request)
            except ProviderError as error:
                return _error(dialect, 400, str(error))
            if asked is None:
                body = {"model": "x", "message": {"role": "assistant", "content": ""}, "done": True}
                return web.json_response(body)
            self.ledger.append(asked)
            try:
                return await self._answer(asked, request)
            except (asyncio.CancelledError, ConnectionResetError):
                self.hung_up.append(asked.model)
                raise

        return handle

    async def _answer(self, asked: Asked, request: web.Request) -> web.StreamResponse:
        manner = asked.model.partition(".")[0].partition(":")[0]
        self._served[asked.model] += 1
        if manner == "slow":
            await asyncio.sleep(self.slow_s)
        status = int(manner[7:]) if manner.startswith("status-") else 0
        if manner.startswith("then-"):
            status = int(manner[5:]) if self._served[asked.model] > 1 else 0
            manner = "shell"
        if manner == "flaky" and self._served[asked.model] == 1:
            status = 500
        if manner == "context":
            return _error(asked.dialect, 400, "prompt is too long: 20000 tokens exceed the context length")
        if status:
            return _error(asked.dialect, status, "a scripted failure")
        if self.seal and not _sealed(asked, self.seal):
            return _error(asked.dialect, 400, "a call came back without its seal")
        reply = self._said(asked, manner)
        if asked.request.stream:
            return await self._stream(asked, reply, request)
        extra = {"reply_id": f"id-{len(self.ledger)}"} if asked.dialect != "ollama" else {}
        body = WIRES[asked.dialect].encode_reply(reply, **extra)
        return web.json_response(body)

    async def _stream(self, asked: Asked, reply: Reply, request: web.Request) -> web.StreamResponse:
        kind = "application/x-ndjson" if asked.dialect == "ollama" else "text/event-stream"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        extra: dict[str, Any] = {"reply_id": f"id-{len(self.ledger)}"} if asked.dialect != "ollama" else {}
        if asked.dialect == "chat":
            extra["with_usage"] = bool((asked.body.get("stream_options") or {}).get("include_usage"))
        events = [piece for event in events_of(reply) for piece in _in_pieces(event)]
        pieces = encode_stream(WIRES[asked.dialect], events, model=asked.model, **extra)
        for number, piece in enumerate(pieces):
            if number and self.pause_s:
                await asyncio.sleep(self.pause_s)
            await response.write(piece)
            self.sent.append((asked.model, number))
        await response.write_eof()
        return response

    # --- what it says

    def _said(self, asked: Asked, manner: str) -> Reply:
        usage = None if manner == "nousage" else USAGE
        made = {"thinking": self.thinking, "usage": usage, "model": asked.model}
        call = self._call(asked, manner)
        if call is None:
            return Reply(text=self._words(asked, manner), **made)
        self.tool_calls[asked.model] += 1
        seal = self.seal if asked.dialect == "gemini" else ""
        called = ToolCall(id=f"call-{len(self.ledger)}", name=call[0], arguments=json.dumps(call[1]), seal=seal)
        return Reply(text="Let me see.", tool_calls=(called,), finish=Finish.TOOL, **made)

    def _words(self, asked: Asked, manner: str) -> str:
        if manner in ("ask", "ask-tool"):
            return "Before I change anything: which spelling do you want?"
        text = "\n".join(message.text for message in asked.request.messages)
        if not asked.request.tools and "SEARCH/REPLACE" in text and manner != "noop":
            block = f"<<<<<<< SEARCH\n{self.old}\n=======\n{self.new}\n>>>>>>> REPLACE"
            return f"I repair it.\n\n{self.file}\n```\n{block}\n```\n"
        if manner == "keyed":
            return f"{DONE} I was sent {asked.headers.get('Authorization') or asked.headers.get('x-api-key')}"
        return DONE

    def _call(self, asked: Asked, manner: str) -> tuple[str, dict[str, Any]] | None:
        """The next tool to call and its arguments; None to speak."""
        tools = {tool.name: tool.parameters for tool in asked.request.tools}
        if not tools or manner in ("noop", "ask"):
            return None
        if manner == "served":
            offered = next((name for name in tools if name.endswith("stock_level")), "")
            return (offered, {"item": "nails"}) if offered and not asked.results else None
        reads, edits, shell, asks = (_first(tools, names) for names in (READ, EDIT, SHELL, ASK))
        if manner == "ask-tool":
            return (asks, self._filled(tools[asks], "")) if asks and not asked.results else None
        if manner == "shell":
            reads = edits = None
        step = 0 if manner == "loop" else asked.results
        at = f"cd {self.root} && " if self.root else ""
        if step == 0:
            name, command = reads or shell, f"{at}cat {self.file}"
        elif step == 1:
            name, command = edits or shell, f"{at}sed -i 's/{self.old}/{self.new}/' {self.file}"
        elif step == 2 and shell and any("COMPLETE_TASK_AND_SUBMIT" in m.text for m in asked.request.messages):
            name, command = shell, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        else:
            return None
        return (name, self._filled(tools[name], command)) if name else None

    def _filled(self, schema: Any, command: str) -> dict[str, Any]:
        """Arguments by the names of the properties, so that one script fits every agent's tools."""
        known = {
            **dict.fromkeys(("filepath", "path", "absolutepath", "file"), f"{self.root}/{self.file}".lstrip("/")),
            **dict.fromkeys(("oldstring", "oldstr", "oldtext", "old"), self.old),
            **dict.fromkeys(("newstring", "newstr", "newtext", "new"), self.new),
            **dict.fromkeys(("command", "cmd", "script"), command),
            "input": self.patch,
            "question": "Which spelling do you want?",
            "description": "a step",
            "instruction": f"Replace {self.old} by {self.new}",
        }
        if self.root:
            known |= dict.fromkeys(("filepath", "path", "absolutepath", "file"), f"{self.root}/{self.file}")
        found: dict[str, Any] = {}
        for name, about in (schema.get("properties") or {}).items():
            plain = name.lower().replace("_", "")
            if plain in known:
                value: Any = known[plain]
                wants_list = about.get("type") == "array" and plain in ("command", "cmd")
                found[name] = ["bash", "-lc", value] if wants_list else value
            elif name in (schema.get("required") or ()):
                found[name] = self._made_up(about, command)
        return found

    def _made_up(self, about: dict[str, Any], command: str) -> Any:
        if about.get("enum"):
            return about["enum"][0]
        kind = about.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "array":
            inner = about.get("items") or {}
            return [self._filled(inner, command) if inner.get("type") == "object" else "a"] * 2
        return {"integer": 1, "number": 1, "boolean": False, "object": {}}.get(kind or "", "a")


def _in_pieces(event: Any) -> list[Any]:
    """Longer texts and arguments in two pieces, as models send them."""
    for name in ("text", "arguments"):
        value = getattr(event, name, "")
        if len(value) > 1 and not isinstance(event, StreamEnd):
            half = len(value) // 2
            from msgspec.structs import replace

            first, second = replace(event, **{name: value[:half]}), replace(event, **{name: value[half:]})
            return [first, replace(second, id="", name="", seal="") if name == "arguments" else second]
    return [event]


def _sealed(asked: Asked, seal: str) -> bool:
    if asked.dialect != "gemini":
        return True
    return all(call.seal == seal for message in asked.request.messages for call in message.tool_calls)


def _first(tools: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in tools), None)


async def _read(dialect: str, request: web.Request) -> Asked | None:
    raw = await request.read()
    body = json.loads(raw)
    named: dict[str, Any] = {}
    if dialect == "gemini":
        model, _, action = request.match_info["call"].rpartition(":")
        named = {"model": model, "stream": action.startswith("stream")}
    elif dialect == "ollama" and not body.get("messages"):
        return None
    read = WIRES[dialect].decode_request(raw, **named)
    headers = dict(request.headers)
    return Asked(dialect, read.model, read, body, headers, request.query_string, request.path)


def _error(dialect: str, status: int, message: str) -> web.Response:
    error: dict[str, Any] = {"message": message, "type": "error", "code": status}
    if dialect == "ollama":
        return web.json_response({"error": message}, status=status)
    if dialect == "messages":
        return web.json_response({"type": "error", "error": {"type": "api_error", "message": message}}, status=status)
    return web.json_response({"error": error}, status=status)
