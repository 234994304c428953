"""A trial's own endpoint: reads what an agent asks in its dialect, has it answered, and writes the answer as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from tiebreak.core.errors import BenchmarkError, FailureKind, OutOfCalls, ProviderError, UsageError
from tiebreak.core.message import Reply, StreamEnd, StreamEvent, ToolCallDelta
from tiebreak.core.model import Request, Verbatim
from tiebreak.core.protocols import Listener
from tiebreak.core.work import PERMISSION_PATH, PermissionRequest
from tiebreak.gateway.dialects import AnswerHead, Route, encoded, models, route_of
from tiebreak.gateway.memory import Memory
from tiebreak.gateway.passing import passed_on
from tiebreak.gateway.server import Connection, Exchange, close_idle
from tiebreak.wire.reading import UNREADABLE
from tiebreak.wire.writing import events_of

PING_EVERY_S = 10.0
_BYTES_PER_TOKEN = 4
_LONGEST_SOCKET_PATH = 100
_LONGEST_NOTE = 200
_EVENTS = "text/event-stream"


class Answers(Protocol):
    """Whoever answers what comes in at the gateway."""

    def speaks(self, dialect: str) -> bool:
        """Whether requests in this dialect can be sent on as they are."""
        ...

    async def answer(self, request: Request, listener: Listener) -> Reply:
        """Answer a call: ProviderError when nobody can, OutOfCalls when no more are allowed."""
        ...

    async def permit(self, request: PermissionRequest) -> str:
        """Have a person answer a permission request: the option taken; UsageError when nobody is there."""
        ...

    def probed(self, what: str) -> None:
        """Something was asked that is no call of a model."""
        ...


class Gateway:
    """Listens on a socket of its own, so that no trial's calls can be taken for another's."""

    def __init__(self, *, model: str, context_window: int | None = None, ping_every_s: float = PING_EVERY_S) -> None:
        self.address: str | tuple[str, int] = ""
        """Where it listens: the path of a unix socket, or host and port."""
        self.key = secrets.token_urlsafe(24)
        """What agents send as a key: others on this machine may find the way here too."""
        self.answers: Answers | None = None
        """Set before the first request is let in."""
        self._model = model
        self._context_window = context_window
        self._ping_every_s = ping_every_s
        self._memory = Memory()
        self._peers: set[Connection] = set()

    @contextlib.asynccontextmanager
    async def open(self, *, on_port: bool = False) -> AsyncIterator[Gateway]:
        """Listen until the context ends: on a unix socket that only this user can reach, or on a port of this machine."""
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            if on_port:
                server = await loop.create_server(self._connection, "127.0.0.1", 0)
                self.address = server.sockets[0].getsockname()[:2]
            else:
                folder = await asyncio.to_thread(_private_folder)
                stack.push_async_callback(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True)
                self.address = str(folder / "g")
                server = await loop.create_unix_server(self._connection, self.address)
            stack.push_async_callback(self.hang_up)
            stack.callback(server.close)
            watch = asyncio.ensure_future(close_idle(self._peers))
            stack.callback(watch.cancel)
            yield self

    def _connection(self) -> Connection:
        return Connection(self.handle, self._peers)

    async def hang_up(self) -> None:
        """Give up whatever is still being answered: whoever asked is gone."""
        await asyncio.gather(*(peer.give_up() for peer in tuple(self._peers)))

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request, whatever it is."""
        route = route_of(exchange.path, exchange.query)
        answers = self.answers
        assert answers is not None, "nobody answers yet"
        if not any(secrets.compare_digest(self.key, key) for key in _keys(exchange)):
            exchange.reply(401, encoded(route.dialect.error("this model belongs to somebody else", 401)))
            return
        if exchange.method == "POST" and route.action == "generate":
            await self._generate(exchange, route, answers)
            return
        if exchange.method == "POST" and exchange.path == PERMISSION_PATH:
            await self._permit(exchange, route, answers)
            return
        answers.probed(f"{exchange.method} {exchange.path}")
        if exchange.method == "POST" and route.action == "count":
            exchange.reply(200, encoded(route.dialect.count(len(exchange.body) // _BYTES_PER_TOKEN)))
        elif exchange.method in ("GET", "HEAD") and route.action == "models":
            exchange.reply(200, encoded(models(self._model, self._context_window, route)))
        elif exchange.method == "HEAD" or (exchange.method == "GET" and exchange.path.strip("/") in ("", "health")):
            exchange.reply(200, b'{"status": "ok"}')
        else:
            exchange.reply(404, encoded(route.dialect.error(f"there is no {exchange.method} {exchange.path} here", 404)))

    async def _permit(self, exchange: Exchange, route: Route, answers: Answers) -> None:
        """A program that speaks for an agent asks for permission, and waits as long as a person takes."""
        try:
            request = msgspec.json.decode(exchange.body, type=PermissionRequest)
            exchange.reply(200, encoded({"option": await answers.permit(request)}))
        except UNREADABLE as error:
            exchange.reply(400, encoded(route.dialect.error(f"not a permission request: {error}")))
        except UsageError as error:
            exchange.reply(404, encoded(route.dialect.error(str(error), 404)))

    async def _generate(self, exchange: Exchange, route: Route, answers: Answers) -> None:
        verbatim = answers.speaks(route.dialect.name)
        try:
            request = self._read(exchange, route, lenient=verbatim)
        except ProviderError as error:
            answers.probed(f"{exchange.method} {exchange.path}: {error}")
            exchange.reply(400, encoded(route.dialect.error(str(error))))
            return
        if verbatim:
            body, left_out = passed_on(route.dialect.name, exchange.body)
            if left_out:
                answers.probed(f"left out of the request: {', '.join(left_out)[:_LONGEST_NOTE]}")
            request = replace(request, verbatim=_verbatim_request(exchange, route, body, whole=not left_out))
        head = AnswerHead(f"{route.dialect.prefix}{secrets.token_hex(12)}", self._model, int(datetime.now(UTC).timestamp()))
        outgoing = _Outgoing(exchange, route, self._memory, head, streamed=request.stream)
        with outgoing.kept_alive(self._ping_every_s):
            try:
                reply = await answers.answer(request, outgoing)
            except (ProviderError, OutOfCalls) as error:
                outgoing.fail(error)
            else:
                outgoing.finish(reply)

    def _read(self, exchange: Exchange, route: Route, *, lenient: bool) -> Request:
        try:
            return self._memory.put_back(route.dialect.decode(exchange.body, route))
        except ProviderError:
            if not lenient:
                raise
            return route.dialect.opaque_request(exchange.body, route)


def _verbatim_request(exchange: Exchange, route: Route, body: bytes, *, whole: bool) -> Verbatim:
    dialect = route.dialect
    headers = {name: exchange.headers[name] for name in dialect.kept_headers if name in exchange.headers}
    query = "&".join(one for one in exchange.query.split("&") if one in dialect.kept_queries)
    return Verbatim(dialect=dialect.name, body=body, headers=headers, query=query, whole=whole)


def _keys(exchange: Exchange) -> set[str]:
    """Every key a request brings, wherever its dialect puts one."""
    headers = exchange.headers
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    queries = (one.removeprefix("key=") for one in exchange.query.split("&"))
    return {bearer, headers.get("x-api-key", ""), headers.get("x-goog-api-key", ""), *queries}


def _private_folder() -> Path:
    """A folder only we can enter, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="tiebreak-gateway-"))
    if len(str(folder)) > _LONGEST_SOCKET_PATH - 2:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="tiebreak-gateway-", dir="/tmp"))
    return folder


class _Outgoing:
    """An answer on its way to the agent, in the agent's dialect: event by event, byte by byte, or as a whole."""

    def __init__(self, exchange: Exchange, route: Route, memory: Memory, head: AnswerHead, *, streamed: bool) -> None:
        self.begun = False
        self._exchange = exchange
        self._route = route
        self._memory = memory
        self._head = head
        self._streamed = streamed
        self._writer = route.dialect.writer(head, exchange.body)
        self._usage_filter = route.dialect.usage_filter(exchange.body) if streamed else None
        self._verbatim: list[bytes] | None = None
        self._ids: dict[int, str] = {}
        self._quiet = True

    # --- the answer as it comes

    def hear(self, event: StreamEvent) -> None:
        """Write an event. The end waits until the call is over: only then is it known to be a good one."""
        if not self._streamed or isinstance(event, StreamEnd):
            return
        if isinstance(event, ToolCallDelta):
            event = self._renamed(event)
        self._begin()
        self._send(self._writer.write(event))

    def hear_verbatim(self, data: bytes, events: Sequence[StreamEvent]) -> None:
        """Hand bytes on as they came."""
        if not self._streamed:
            self._verbatim = [data]
            return
        self.begun = True
        self._verbatim = []
        self._send((self._usage_filter.feed(data) if self._usage_filter else data,))

    def finish(self, reply: Reply) -> None:
        """The call was answered: write what was not written yet."""
        if self._verbatim is not None:
            self._finish_verbatim(self._verbatim)
            return
        reply = self._with_ids(reply)
        self._memory.keep(reply)
        if not self._streamed:
            reply = replace(reply, model=reply.model or self._head.model)
            body = self._route.dialect.whole(reply, self._head, self._exchange.body)
            self._exchange.reply(200, encoded([body] if self._route.in_a_list else body))
            return
        if self.begun:
            self._send(self._writer.write(StreamEnd(finish=reply.finish, usage=reply.usage)))
        else:
            self._begin()
            for event in events_of(reply):
                self._send(self._writer.write(event))
        self._exchange.end()

    def fail(self, error: BenchmarkError) -> None:
        """Nobody answers; said in a way that no program takes for a reason to try again."""
        kind = error.kind if isinstance(error, ProviderError) else FailureKind.BUDGET
        dialect, exchange = self._route.dialect, self._exchange
        if exchange.begun:
            # Clients want to hear of an answer before they hear that it failed.
            self._begin()
            exchange.piece(dialect.error_piece(str(error), self._head, kind=kind))
            exchange.end()
        else:
            exchange.reply(400, encoded(dialect.error(str(error), kind=kind)))

    @contextlib.contextmanager
    def kept_alive(self, every_s: float) -> Iterator[None]:
        """While the model is silent, say so from time to time; only a stream has room for that."""
        pulse = asyncio.get_running_loop().create_task(self._pulse(every_s)) if self._streamed else None
        try:
            yield
        finally:
            if pulse is not None:
                pulse.cancel()

    async def _pulse(self, every_s: float) -> None:
        while True:
            self._quiet = True
            await asyncio.sleep(every_s)
            if self._quiet:
                self._send((self._route.dialect.ping,))

    # --- the pieces

    def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            self._send(self._writer.begin())

    def _send(self, pieces: Iterable[bytes]) -> None:
        self._quiet = False
        if not self._exchange.begun:
            self._exchange.stream(_EVENTS)
        self._exchange.piece(b"".join(pieces))

    def _finish_verbatim(self, pieces: list[bytes]) -> None:
        if self._streamed:
            self._exchange.piece(self._usage_filter.rest() if self._usage_filter else b"")
            self._exchange.end()
        else:
            body = b"".join(pieces)
            self._exchange.reply(200, b"[%b]" % body if self._route.in_a_list else body)

    def _renamed(self, event: ToolCallDelta) -> ToolCallDelta:
        first = event.index not in self._ids
        return replace(event, id=self._call_id(event.index, event.id)) if first or event.id else event

    def _with_ids(self, reply: Reply) -> Reply:
        calls = (replace(call, id=self._call_id(index, call.id)) for index, call in enumerate(reply.tool_calls))
        return replace(reply, tool_calls=tuple(calls))

    def _call_id(self, index: int, given: str) -> str:
        if index not in self._ids:
            self._ids[index] = self._memory.fresh(given)
        return self._ids[index]
