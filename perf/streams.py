"""Streamed answers, and encrypted connections: our client, or the official one, against the mock server.

    python perf/streams.py               # starts its own servers, prints the figures

Many streams at once, each piece in a packet of its own; CPU time of the client alone, for each piece.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from measure import CLIENT_CORE, pin

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

STREAMS = 64
PIECES = 200
TLS_CONNECTIONS = 256
TLS_REQUESTS = 20
TLS_LATENCY_MS = 50


async def at_once(workers: int, rounds: int, ask: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """So many workers, each asking so often; the first round is not counted."""

    async def worker() -> None:
        for _ in range(rounds):
            await ask()

    await asyncio.gather(*(ask() for _ in range(workers)))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(workers)))
    return {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


async def ours(url: str, workers: int, rounds: int, *, stream: bool) -> dict[str, float]:
    """Our provider."""
    from tiebreak.core.message import user
    from tiebreak.core.model import Request
    from tiebreak.core.protocols import Endpoint
    from tiebreak.providers.openai import OpenAI

    provider = OpenAI(Endpoint(base_url=url, api_key="x"))
    request = Request(model="mock", messages=(user("What is the capital of France?"),), stream=stream)
    figures = await at_once(workers, rounds, lambda: provider.generate(request))
    await provider.close()
    return figures


async def official(url: str, workers: int, rounds: int) -> dict[str, float]:
    """The official client, told to stream and to read the stream to its end."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0)

    async def ask() -> None:
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        async for _ in await client.chat.completions.create(model="mock", messages=messages, stream=True):  # type: ignore[call-overload]
            pass

    figures = await at_once(workers, rounds, ask)
    await client.close()
    return figures


def in_process(*arguments: str, **environment: str) -> dict[str, float]:
    """Run one client in a process of its own."""
    command = [sys.executable, str(HERE / "streams.py"), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def main() -> None:
    """Measure everything, or be one of the clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", nargs="?", choices=["ours", "official", "tls"])
    parser.add_argument("url", nargs="?", default="")
    arguments = parser.parse_args()
    if arguments.client is None:
        sys.exit(measure())
    pin(CLIENT_CORE)
    clients = {
        "ours": lambda: ours(arguments.url, STREAMS, 4, stream=True),
        "official": lambda: official(arguments.url, STREAMS, 1),
        "tls": lambda: ours(arguments.url, TLS_CONNECTIONS, TLS_REQUESTS, stream=False),
    }
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(clients[arguments.client]())))


def measure() -> int:
    """Print the figures beside their targets; 1 when one is missed."""
    with Server("--pieces", str(PIECES)) as url:
        pairs = [(in_process("ours", url), in_process("official", url)) for _ in range(3)]
    mine = sorted(1e6 * a["cpu_s"] / (STREAMS * 4 * PIECES) for a, _ in pairs)[1]
    theirs = sorted(1e6 * b["cpu_s"] / (STREAMS * PIECES) for _, b in pairs)[1]
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(Path(folder))
        with Server("--tls", certificate, key, "--latency-ms", str(TLS_LATENCY_MS), scheme="https") as url:
            walls = [in_process("tls", url, SSL_CERT_FILE=certificate)["wall_s"] for _ in range(3)]
    ideal = TLS_REQUESTS * TLS_LATENCY_MS / 1000
    rows = [
        ("streamed, our CPU a piece, µs", mine, mine <= 30, "≤ 30"),
        ("streamed, official client's CPU a piece, µs", theirs, True, ""),
        ("official client's over ours", theirs / mine, theirs / mine >= 4, "≥ 4"),
        (f"TLS, {TLS_CONNECTIONS} connections at {TLS_LATENCY_MS} ms, share of the ideal rate", ideal / sorted(walls)[1],
         ideal / sorted(walls)[1] >= 0.85, "≥ 0.85"),
    ]  # fmt: skip
    for name, value, held, target in rows:
        print(f"{'✓' if held and target else ' ' if not target else '✗'} {name:62} {value:8.3g}  {target}")
    return 0 if all(held for _, _, held, _ in rows) else 1


class Server:
    """The mock server while the block runs; gives its address."""

    def __init__(self, *arguments: str, scheme: str = "http") -> None:
        self._command = [sys.executable, str(HERE / "server.py"), *arguments]
        self._scheme = scheme

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return f"{self._scheme}://127.0.0.1:{self._process.stdout.readline().strip()}/v1"

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for this machine, good for a day."""
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", key, "-out", certificate, *names], check=True, capture_output=True)
    return certificate, key


if __name__ == "__main__":
    main()
