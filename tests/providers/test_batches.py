"""The pieces that batch jobs are made of: large bodies, lines, addresses, and garbage instead of any of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiebreak.core.batch import LineResult, RemoteJob
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.protocols import Endpoint
from tiebreak.core.redact import Redactor
from tiebreak.providers.batches import Account, BatchClient, Lines, file_upload, job_refused
from tiebreak.providers.batches_anthropic import AnthropicBatches
from tiebreak.providers.batches_google import GoogleBatches
from tiebreak.providers.batches_openai import OpenAIBatches
from tiebreak.providers.openai import OpenAI
from tiebreak.providers.transport import Transport, Upload

KEY = "canary-key"
PIECE = b"x" * 100_000


@contextlib.asynccontextmanager
async def listening(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> AsyncIterator[str]:
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await handle(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def account(url: str) -> Account:
    return Account(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, redact=Redactor((KEY,)))


def clients(url: str) -> list[Any]:
    openai = OpenAI(Endpoint(base_url=url, api_key=KEY))
    return [
        OpenAIBatches(account(url), endpoint="/v1/chat/completions", speaks=openai),
        AnthropicBatches(account(url)),
        GoogleBatches(account(url)),
    ]


async def test_a_large_body_waits_for_its_reader() -> None:
    """Pieces are read no sooner than the server takes what came before: 200 MB are never in memory at once."""
    made, taken = 0, asyncio.Event()

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(2000):
            made += 1
            yield PIECE

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await taken.wait()
        left = 2000 * len(PIECE)
        while left:
            left -= len(await reader.read(1 << 20))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with listening(handle) as url:
        transport = Transport(url, {})
        sending = asyncio.create_task(transport.request("POST", "/files", Upload(2000 * len(PIECE), pieces)))
        await asyncio.sleep(0.2)
        held = made
        taken.set()
        response = await sending
        await transport.close()

    assert response.body == b"ok"
    assert made == 2000 and held < 200


async def test_a_refusal_ends_the_upload() -> None:
    """The answer is heard although not all was sent, and the connection is not used again."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big")
        await writer.drain()
        await asyncio.sleep(0.2)

    async with listening(handle) as url:
        transport = Transport(url, {})
        response = await transport.request("POST", "/files", Upload(500 * len(PIECE), lambda: iter([PIECE] * 500)))
        assert response.status == 413 and transport._idle == []
        await transport.close()


def test_lines_come_whole_however_they_are_cut() -> None:
    data = b'{"a":1}\n\n{"b":"' + b"y" * 5000 + b'"}\r\n{"c":3}'
    for size in (1, 2, 7, 4096, len(data)):
        found: list[bytes] = []
        lines = Lines(found.append)
        for start in range(0, len(data), size):
            lines.feed(data[start : start + size])
        lines.end()
        assert [sorted(json.loads(line)) for line in found] == [["a"], ["b"], ["c"]], size


def test_a_file_goes_up_with_what_stands_around_it(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"1\n2\n3\n")
    body = file_upload(path, before=b"<", after=b">")
    assert b"".join(body.pieces()) == b"<1\n2\n3\n>" and body.size == 8


async def test_no_key_is_sent_to_another_host() -> None:
    """A server that names an address elsewhere is not followed."""
    client = BatchClient(account("http://127.0.0.1:9/base"))
    assert client.own_path("http://127.0.0.1:9/base/upload?id=1") == "/upload?id=1"
    for elsewhere in ("http://127.0.0.1:10/upload", "https://127.0.0.1:9/upload", "//evil.example/upload"):
        with pytest.raises(ProviderError, match="no key is sent there"):
            client.own_path(elsewhere)


def test_what_is_over_a_limit_is_told_apart() -> None:
    assert job_refused("token_limit_exceeded", "Enqueued token limit").kind is FailureKind.RATE_LIMIT
    assert job_refused("", "Enqueued token limit reached for gpt-4o").kind is FailureKind.RATE_LIMIT
    assert job_refused("invalid_json_line", "line 3").kind is FailureKind.BAD_REQUEST


SEEDS = [
    '{"id":"b","custom_id":"t","response":{"status_code":200,"body":{"choices":[{"message":{"content":"x"}}]}},"error":null}',
    '{"custom_id":"t","error":{"code":"batch_expired","message":"m"},"response":null}',
    '{"custom_id":"t","result":{"type":"succeeded","message":{"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}}}',
    '{"custom_id":"t","result":{"type":"errored","error":{"type":"error","error":{"type":"api_error","message":"m"}}}}',
    '{"key":"t","response":{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}}',
    '{"key":"t","error":{"code":500,"message":"m","status":"INTERNAL"}}',
]
VALUES = (None, True, -1, 1e300, "", "\ud800", [], [None], {}, {"code": []}, "x" * 300)


def _mangled(chance: random.Random, value: Any) -> Any:
    if chance.random() < 0.15:
        return chance.choice(VALUES)
    if isinstance(value, dict):
        return {name: _mangled(chance, one) for name, one in value.items() if chance.random() > 0.05}
    return [_mangled(chance, one) for one in value] if isinstance(value, list) else value


def test_no_line_of_results_breaks_a_run() -> None:
    """Whatever stands in it, it is a result, nothing, or an error that we know."""
    chance = random.Random(7)
    for _ in range(3000):
        line = json.dumps(_mangled(chance, json.loads(chance.choice(SEEDS)))).encode()
        line = line[: chance.randrange(len(line))] if chance.random() < 0.2 else line
        for client in clients("http://127.0.0.1:9"):
            with contextlib.suppress(ProviderError):
                assert isinstance(client.read(line), LineResult | None)


JOBS = [
    {
        "id": "b", "status": "completed", "input_file_id": "f", "output_file_id": "o", "error_file_id": None,
        "request_counts": {"total": 1, "completed": 1, "failed": 0}, "metadata": {"tiebreak_batch": "k"},
        "errors": {"data": [{"code": "c", "message": "m"}]},
    },
    {"id": "b", "processing_status": "ended", "request_counts": {"processing": 0, "succeeded": 1, "expired": 1}},
    {
        "name": "batches/b", "done": True, "response": {"responsesFile": "files/x"}, "error": {"status": "s", "message": "m"},
        "metadata": {"state": "BATCH_STATE_FAILED", "displayName": "k", "batchStats": {"requestCount": "1"}},
    },
]  # fmt: skip


async def test_no_job_that_a_server_tells_of_breaks_a_run() -> None:
    """The same for the jobs themselves."""
    chance = random.Random(11)
    body = b""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with listening(handle) as url:
        all_of_them = clients(url)
        for _ in range(300):
            body = json.dumps(_mangled(chance, chance.choice(JOBS))).encode()
            for client in all_of_them:
                with contextlib.suppress(ProviderError):
                    assert isinstance(await client.look("b"), RemoteJob)
        for client in all_of_them:
            await client.close()
