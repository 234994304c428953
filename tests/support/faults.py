"""A model server that misbehaves as told, down to the bytes on the socket, and keeps its own ledger of what it did.

It speaks the five dialects, streamed or not. What the n-th request of a prompt gets is the prompt's script: a list of
the names in FAULTS (or "fine"), of which the last goes on for ever, or a function of what was asked and its number.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from support import ollama_wire as ollama
from support.streams import encode_stream
from tiebreak.core.message import Finish, Reply, StreamEnd, StreamEvent, TextDelta, Usage
from tiebreak.wire import chat, gemini, messages, responses, sse

WIRES: dict[str, ModuleType] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
    "ollama": ollama,
}
DIALECTS = tuple(WIRES)
KEYS = {
    "OPENAI_API_KEY": "canary-7f3a91c2-of-openai",
    "ANTHROPIC_API_KEY": "canary-b08e55d1-of-anthropic",
    "GOOGLE_API_KEY": "canary-2d64fa7e-of-google",
    "GEMINI_API_KEY": "canary-9c17be30-of-gemini",
    "OLLAMA_API_KEY": "canary-e5520ad8-of-ollama",
}
"""A key of its own for every provider; where one turns up tells who let it out."""
USAGE = Usage(input_tokens=1101, output_tokens=3033)
"""What a good answer says it took: numbers that stand nowhere else in it."""
REFUSAL = "I would rather not."
OVER_THE_CAP_BYTES = 80 * 1024 * 1024
_DRIP_S = 0.2

Script = Sequence[str] | Callable[["Asked", int], str]


@dataclass(frozen=True)
class Asked:
    """One request as the server read it."""

    dialect: str
    model: str
    prompt: str
    streamed: bool
    head: str

    @property
    def key(self) -> str:
        """The key that came with it."""
        return next((key for key in KEYS.values() if key in self.head), "")


@dataclass
class Account:
    """What one prompt brought the server, and what it got."""

    requests: int = 0
    billed_tokens: int = 0
    answered: list[str] = field(default_factory=list)


@dataclass
class Exchange:
    """One request and the means to answer it, well or badly."""

    asked: Asked
    text: str
    writer: asyncio.StreamWriter
    keep: bool = True
    """Whether the connection lives on."""

    # --- what is said

    def payloads(self, text: str | None = None, finish: Finish = Finish.STOP) -> list[bytes]:
        """A good answer as JSON: one body, or one for each event."""
        wire, text = WIRES[self.asked.dialect], self.text if text is None else text
        if not self.asked.streamed:
            return [json.dumps(wire.encode_reply(Reply(text=text, finish=finish, usage=USAGE, model=self.asked.model))).encode()]
        thirds = [text[: len(text) // 3], text[len(text) // 3 :]] if text else []
        events: list[StreamEvent] = [*map(TextDelta, thirds), StreamEnd(finish=finish, usage=USAGE)]
        frames = encode_stream(wire, events, model=self.asked.model)
        return [_payload(frame) for frame in frames]

    def framed(self, payload: bytes) -> bytes:
        """A payload as it stands in a stream."""
        return payload + b"\n" if self.asked.dialect == "ollama" else sse.event(payload)

    def error(self, status: int, word: str, message: str = "scripted fault") -> bytes:
        """An error as the dialect words it; it repeats the key it was asked with, as some servers do."""
        message = f"{message} (asked with {self.asked.key})"
        if self.asked.dialect == "ollama":
            return json.dumps({"error": message}).encode()
        if self.asked.dialect == "messages":
            return json.dumps({"type": "error", "error": {"type": word, "message": message}}).encode()
        if self.asked.dialect == "gemini":
            return json.dumps({"error": {"code": status, "status": word, "message": message}}).encode()
        return json.dumps({"error": {"type": word, "code": word, "message": message}}).encode()

    # --- how it is sent

    def head(self, status: int = 200, *headers: str) -> bytes:
        """The head of an answer."""
        lines = [f"HTTP/1.1 {status} As Told", *headers]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until they are on their way."""
        self.writer.write(data)
        await self.writer.drain()

    async def whole(self, body: bytes, status: int = 200, *headers: str, kind: str = "application/json") -> None:
        """Send an answer whose length is known."""
        await self.write(self.head(status, f"Content-Length: {len(body)}", f"Content-Type: {kind}", *headers) + body)

    async def begin(self, *headers: str) -> None:
        """Begin an answer in chunks."""
        await self.write(self.head(200, "Transfer-Encoding: chunked", "Content-Type: text/event-stream", *headers))

    async def chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the answer."""
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def answer(self, payloads: Iterable[bytes], *headers: str, kind: str = "application/json") -> None:
        """Send payloads as the answer: in chunks if a stream was asked for, else as one body."""
        if not self.asked.streamed:
            return await self.whole(b"".join(payloads), 200, *headers, kind=kind)
        await self.begin(*headers)
        for payload in payloads:
            await self.chunk(self.framed(payload))
        return await self.chunk(b"")

    def reset(self) -> None:
        """Break the connection off, so that the other side is told of an error."""
        self.keep = False
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def _payload(frame: bytes) -> bytes:
    return frame.partition(b"data: ")[2].strip() if b"data: " in frame else frame.strip()


# --- the faults ------------------------------------------------------------------------------------

Act = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """A way to misbehave, and where it makes sense."""

    act: Act
    billed: bool = True
    """Whether the model did its work, so that it costs."""
    streamed: tuple[bool, ...] = (False, True)
    dialects: tuple[str, ...] = DIALECTS


FAULTS: dict[str, Fault] = {}


def _fault(name: str, **options: Any) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        FAULTS[name] = Fault(act, **options)
        return act

    return register


_WORDS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    402: ("billing_error", "FAILED_PRECONDITION"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    413: ("request_too_large", "INVALID_ARGUMENT"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    503: ("overloaded_error", "UNAVAILABLE"),
    504: ("timeout_error", "DEADLINE_EXCEEDED"),
    529: ("overloaded_error", "UNAVAILABLE"),
}
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)


def _word(exchange: Exchange, status: int) -> str:
    return _WORDS.get(status, ("api_error", "INTERNAL"))[exchange.asked.dialect == "gemini"]


def _refuse(status: int) -> Act:
    async def act(exchange: Exchange) -> None:
        await exchange.whole(exchange.error(status, _word(exchange, status)), status)

    return act


for _status in STATUSES:
    FAULTS[f"status {_status}"] = Fault(_refuse(_status), billed=False)

HINTS = {
    "zero": "Retry-After: 0",
    "negative": "Retry-After: -5",
    "seconds": "Retry-After: 7",
    "fraction": "Retry-After: 1.5",
    "milliseconds": "retry-after-ms: 2500",
    "date": "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT",
    "past date": "Retry-After: Sat, 01 Jan 2000 00:00:00 GMT",
    "ten minutes": "Retry-After: 600",
    "absurd": "Retry-After: 1e9",
    "infinite": "Retry-After: inf",
    "overflowing": f"Retry-After: {'9' * 400}",
    "garbage": "Retry-After: soon, I hope",
    "impossible date": "Retry-After: Fri, 99 Foo 99999 99:99:99 GMT",
}


def _hint(header: str) -> Act:
    async def act(exchange: Exchange) -> None:
        await exchange.whole(exchange.error(429, _word(exchange, 429)), 429, header)

    return act


for _name, _header in HINTS.items():
    FAULTS[f"429 {_name}"] = Fault(_hint(_header), billed=False)


@_fault("429 RetryInfo", billed=False)
async def _retry_info(exchange: Exchange) -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
    body = {"error": {"code": 429, "message": "you exceeded your current quota, per minute", "details": [detail]}}
    await exchange.whole(json.dumps(body).encode(), 429)


@_fault("insufficient quota", billed=False)
async def _quota(exchange: Exchange) -> None:
    message = "You exceeded your current quota, please check your plan and billing details."
    await exchange.whole(exchange.error(429, "insufficient_quota", message), 429, "Retry-After: 0")


@_fault("redirect 301", billed=False)
async def _redirect(exchange: Exchange) -> None:
    await exchange.whole(b"", 301, "Location: /elsewhere")


@_fault("reset before the answer")
async def _reset(exchange: Exchange) -> None:
    exchange.reset()


@_fault("closed before the answer")
async def _close(exchange: Exchange) -> None:
    exchange.keep = False


@_fault("half a head")
async def _half_head(exchange: Exchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    exchange.keep = False


@_fault("not HTTP")
async def _not_http(exchange: Exchange) -> None:
    await exchange.write(b"SSH-2.0-OpenSSH_9.9\r\n")
    exchange.keep = False


async def _half(exchange: Exchange) -> None:
    """The first half of a good answer, the second announced."""
    payloads = exchange.payloads()
    if exchange.asked.streamed:
        await exchange.begin()
        await exchange.chunk(exchange.framed(payloads[0]))
        await exchange.write(b"400\r\n" + exchange.framed(payloads[1])[:10])
    else:
        await exchange.write(exchange.head(200, f"Content-Length: {len(payloads[0])}") + payloads[0][: len(payloads[0]) // 2])
    exchange.keep = False


@_fault("reset mid-body")
async def _reset_mid_body(exchange: Exchange) -> None:
    await _half(exchange)
    await asyncio.sleep(0.01)
    exchange.reset()


FAULTS["half a body, then close"] = Fault(_half)


@_fault("half a body of unknown length")
async def _half_unknown(exchange: Exchange) -> None:
    payload = exchange.payloads()[0]
    await exchange.write(exchange.head() + exchange.framed(payload)[: len(payload) // 2])
    exchange.keep = False


@_fault("never answers")
async def _never(exchange: Exchange) -> None:
    await asyncio.Event().wait()


@_fault("drip of the head")
async def _drip_head(exchange: Exchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await exchange.write(b"x")
        await asyncio.sleep(_DRIP_S)


@_fault("drip of the body")
async def _drip(exchange: Exchange) -> None:
    await exchange.write(exchange.head(200, "Content-Length: 1000000"))
    while True:
        await exchange.write(b" ")
        await asyncio.sleep(_DRIP_S)


@_fault("malformed JSON")
async def _malformed(exchange: Exchange) -> None:
    first, *rest = exchange.payloads()
    await exchange.answer([first[:-5], *rest])


@_fault("empty body")
async def _empty_body(exchange: Exchange) -> None:
    await exchange.whole(b"")


@_fault("200 text/html")
async def _html(exchange: Exchange) -> None:
    await exchange.whole(b"<!doctype html>\n<title>Sign in</title>\n<p>Welcome to the airport network.", kind="text/html")


@_fault("JSON of another kind")
async def _other(exchange: Exchange) -> None:
    await exchange.answer([b'[{"hello": ["world"]}]'])


@_fault("nested too deeply")
async def _nested(exchange: Exchange) -> None:
    await exchange.answer([b'{"choices":' + b"[" * 100_000])


def _spelled(exchange: Exchange, replacement: bytes) -> list[bytes]:
    return [payload.replace(b"@@@", replacement) for payload in exchange.payloads("half of a @@@ character")]


@_fault("wrong charset")
async def _latin(exchange: Exchange) -> None:
    await exchange.answer(_spelled(exchange, "é".encode("latin-1")), kind="application/json; charset=iso-8859-1")


@_fault("lone surrogate")
async def _surrogate(exchange: Exchange) -> None:
    await exchange.answer(_spelled(exchange, rb"\ud83d"))


@_fault("binary rubbish")
async def _binary(exchange: Exchange) -> None:
    await exchange.answer([bytes(range(128, 256)) * 10])


@_fault("no choices")
async def _no_choices(exchange: Exchange) -> None:
    emptied = {"choices": [], "content": [], "candidates": [], "output": []}
    if exchange.asked.streamed or exchange.asked.dialect == "ollama":
        return await exchange.answer(exchange.payloads(""))
    body = json.loads(exchange.payloads("")[0])
    return await exchange.answer([json.dumps(body | {name: [] for name in emptied if name in body}).encode()])


@_fault("no text")
async def _no_text(exchange: Exchange) -> None:
    await exchange.answer(exchange.payloads(""))


@_fault("content filter", dialects=("chat", "responses", "messages", "gemini"))
async def _filter(exchange: Exchange) -> None:
    await exchange.answer(exchange.payloads("", Finish.FILTERED))


@_fault("prompt blocked", dialects=("gemini",))
async def _blocked(exchange: Exchange) -> None:
    await exchange.answer([b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}'])


@_fault("refusal", dialects=("chat", "responses", "messages"))
async def _refusal(exchange: Exchange) -> None:
    payloads = exchange.payloads(REFUSAL, Finish.REFUSED)
    if exchange.asked.streamed and exchange.asked.dialect == "chat":
        said = json.dumps({"choices": [{"index": 0, "delta": {"refusal": REFUSAL}, "finish_reason": None}]}).encode()
        payloads = [said, b'{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}', *payloads[-2:]]
    elif exchange.asked.streamed and exchange.asked.dialect == "responses":
        said = json.dumps({"type": "response.refusal.delta", "output_index": 0, "delta": REFUSAL}).encode()
        payloads = [said, *exchange.payloads("")[-1:]]
    await exchange.answer(payloads)


def _with_usage(old: bytes, new: bytes) -> Act:
    async def act(exchange: Exchange) -> None:
        await exchange.answer([payload.replace(old, new) for payload in exchange.payloads()])

    return act


FAULTS["NaN as usage"] = Fault(_with_usage(b"3033", b"NaN"))
FAULTS["negative usage"] = Fault(_with_usage(b"3033", b"-3033"))
FAULTS["usage beyond all bounds"] = Fault(_with_usage(b"3033", b"9" * 30))

_COUNTS = frozenset({"usage", "usageMetadata", "prompt_eval_count", "prompt_eval_cached_count", "eval_count"})


def _without_counts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_counts(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _without_counts(inner) for name, inner in value.items() if name not in _COUNTS}
    return value


@_fault("no usage")
async def _no_usage(exchange: Exchange) -> None:
    payloads = exchange.payloads()
    await exchange.answer([p if p == b"[DONE]" else json.dumps(_without_counts(json.loads(p))).encode() for p in payloads])


async def _broken_off(exchange: Exchange, status: int) -> None:
    """An error where an answer was begun."""
    error = exchange.error(status, _word(exchange, status))
    if not exchange.asked.streamed:
        return await exchange.answer([error])
    if exchange.asked.dialect == "responses":
        error = json.dumps({**json.loads(error)["error"], "type": "error", "param": None}).encode()
    return await exchange.answer([*exchange.payloads()[:2], error])


@_fault("error after 200: overloaded")
async def _overloaded(exchange: Exchange) -> None:
    await _broken_off(exchange, 503)


@_fault("error after 200: rate limit")
async def _limited(exchange: Exchange) -> None:
    await _broken_off(exchange, 429)


@_fault("gzip bomb")
async def _bomb(exchange: Exchange) -> None:
    await exchange.whole(_packed_zeros(), 200, "Content-Encoding: gzip")


@cache
def _packed_zeros() -> bytes:
    """200 MB in some 200 KB, packed piece by piece: it is the client's memory that is looked at."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(1024 * 1024)) for _ in range(200)) + packer.flush()


@_fault("broken gzip")
async def _broken_gzip(exchange: Exchange) -> None:
    body = gzip.compress(b"".join(map(exchange.framed, exchange.payloads())))
    await exchange.whole(body[:20] + b"\xff" * 20 + body[40:], 200, "Content-Encoding: gzip")


@_fault("half of a gzip")
async def _half_gzip(exchange: Exchange) -> None:
    body = gzip.compress(b"".join(map(exchange.framed, exchange.payloads())))
    await exchange.whole(body[: len(body) // 2], 200, "Content-Encoding: gzip")


@_fault("body over the cap, announced")
async def _too_large(exchange: Exchange) -> None:
    await exchange.write(exchange.head(200, f"Content-Length: {OVER_THE_CAP_BYTES}") + bytes(1000))
    exchange.keep = False
    await asyncio.sleep(0.05)


@_fault("body over the cap")
async def _too_large_in_chunks(exchange: Exchange) -> None:
    await exchange.begin()
    piece = b" " * (1024 * 1024)
    for _ in range(OVER_THE_CAP_BYTES // len(piece)):
        await exchange.chunk(piece)
    await exchange.chunk(b"")


@_fault("head over the cap")
async def _large_head(exchange: Exchange) -> None:
    await exchange.write(exchange.head(200, *(f"X-{n}: {'x' * 1000}" for n in range(100)), "Content-Length: 0"))
    exchange.keep = False


@_fault("duplicate chunks")
async def _duplicates(exchange: Exchange) -> None:
    """The whole body twice; of a stream, its end."""
    payloads = exchange.payloads()
    await exchange.answer([*payloads, payloads[-1], payloads[-1]])


@_fault("answers twice")
async def _twice(exchange: Exchange) -> None:
    """A good answer and, in the same breath, one that nobody asked for."""
    body = b"".join(map(exchange.framed, exchange.payloads())) if exchange.asked.streamed else exchange.payloads()[0]
    good = exchange.head(200, f"Content-Length: {len(body)}") + body
    await exchange.write(good + exchange.head(500, "Content-Length: 4") + b"oops")


@_fault("one byte at a time")
async def _bytes(exchange: Exchange) -> None:
    payloads = exchange.payloads()
    body = b"".join(map(exchange.framed, payloads)) if exchange.asked.streamed else payloads[0]
    await exchange.begin()
    for position in range(len(body)):
        await exchange.chunk(body[position : position + 1])
        if position % 100 == 0:
            await asyncio.sleep(0.001)
    await exchange.chunk(b"")


@_fault("the key as an answer", dialects=("chat", "responses", "messages", "gemini"))
async def _key(exchange: Exchange) -> None:
    """Some gateways answer with what they were sent."""
    await exchange.answer([payload.replace(b"@@@", exchange.asked.key.encode()) for payload in exchange.payloads("I got @@@")])


_STREAMED: dict[str, Any] = {"streamed": (True,)}


@_fault("no terminal marker", **_STREAMED)
async def _unterminated(exchange: Exchange) -> None:
    payloads = exchange.payloads()
    ends = {"chat": 3, "responses": 1, "messages": 2, "gemini": 1, "ollama": 1}[exchange.asked.dialect]
    await exchange.answer(payloads[:-ends])


@_fault("reset mid-stream", **_STREAMED)
async def _reset_mid_stream(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(exchange.framed(exchange.payloads()[0]))
    await asyncio.sleep(0.01)
    exchange.reset()


@_fault("never-ending stream", **_STREAMED)
async def _endless(exchange: Exchange) -> None:
    piece = next(p for p in exchange.payloads() if exchange.text[-3:].encode() in p)
    await exchange.begin()
    while True:
        await exchange.chunk(exchange.framed(piece))
        await asyncio.sleep(0.005)


@_fault("drip of chunks", **_STREAMED)
async def _drip_chunks(exchange: Exchange) -> None:
    piece = next(p for p in exchange.payloads() if exchange.text[-3:].encode() in p)
    await exchange.begin()
    while True:
        await exchange.chunk(exchange.framed(piece))
        await asyncio.sleep(_DRIP_S)


@_fault("fine")
async def _fine(exchange: Exchange) -> None:
    await exchange.answer(exchange.payloads())


# --- the server ------------------------------------------------------------------------------------


class FaultServer:
    """Runs in a thread of its own while the context is open."""

    def __init__(self, answer: Callable[[str], str], *, latency_s: Callable[[Asked, int], float] | None = None) -> None:
        self.answer = answer
        self.latency_s = latency_s
        self.scripts: dict[str, Script] = {}
        self.script: Script = ("fine",)
        """For prompts without one of their own."""
        self.loading: Script = ("fine",)
        """For Ollama's request to load a model, which comes before the first question and is no trial."""
        self.ledger: dict[tuple[str, str], Account] = {}
        """By model and prompt."""
        self.strays: list[str] = []
        """Requests for addresses nobody should ask for."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def __enter__(self) -> FaultServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, dialect: str) -> str:
        """Where a provider of the dialect finds the server."""
        return f"{self.url}/v1" if dialect in ("chat", "responses") else self.url

    def account(self, model: str, prompt: str) -> Account:
        """What the server has written down for a prompt."""
        return self.ledger.setdefault((model, prompt), Account())

    async def _main(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 20)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._done.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._served(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether another may come on the same connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
        asked = _read(head, await reader.readexactly(length))
        if asked is None:
            self.strays.append(head.partition("\r\n")[0])
            return False
        return await self._answered(Exchange(asked, self.answer(asked.prompt), writer))

    async def _answered(self, exchange: Exchange) -> bool:
        asked = exchange.asked
        account = self.account(asked.model, asked.prompt)
        account.requests += 1
        name = self._scripted(asked, account.requests)
        account.answered.append(name)
        account.billed_tokens += (USAGE.input_tokens + USAGE.output_tokens) * FAULTS[name].billed
        if self.latency_s is not None:
            await asyncio.sleep(self.latency_s(asked, account.requests))
        await FAULTS[name].act(exchange)
        return exchange.keep

    def _scripted(self, asked: Asked, number: int) -> str:
        script = self.scripts.get(asked.prompt, self.script) if asked.prompt else self.loading
        return script(asked, number) if callable(script) else script[min(number, len(script)) - 1]


def _read(head: str, body: bytes) -> Asked | None:
    """The request, if it is one for a model."""
    path = head.split(" ")[1]
    if path == "/v1/chat/completions":
        dialect, request = "chat", chat.decode_request(body)
    elif path == "/v1/responses":
        dialect, request = "responses", responses.decode_request(body)
    elif path == "/v1/messages":
        dialect, request = "messages", messages.decode_request(body)
    elif path == "/api/chat":
        dialect, request = "ollama", ollama.decode_request(body)
    elif path.startswith("/v1beta/models/"):
        model, _, action = path.removeprefix("/v1beta/models/").partition(":")
        dialect, request = "gemini", gemini.decode_request(body, model=model, stream=action.startswith("stream"))
    else:
        return None
    prompt = request.messages[-1].text if request.messages else ""
    return Asked(dialect, request.model, prompt, request.stream, head)
