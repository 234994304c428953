"""HTTP as servers really speak it, well or badly, on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop
from aiohappyeyeballs import AddrInfoType

from tiebreak.core.errors import ConfigError
from tiebreak.providers import transport
from tiebreak.providers.transport import BodyTooLarge, Transport, TransportError

Answer = Callable[[bytes, asyncio.StreamWriter], None]


class Peer:
    """A server that reads requests and answers each with the bytes it was given."""

    def __init__(self, *answers: bytes, close_after: bool = False) -> None:
        self.answers = list(answers)
        self.close_after = close_after
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                writer.write(self.answers.pop(0))
                await writer.drain()
                if self.close_after:
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(peer: Peer, **options: object) -> AsyncIterator[str]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, **options)  # type: ignore[arg-type]
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.sleep(0.02)  # what is open on the other side ends too


@asynccontextmanager
async def reaching(peer: Peer, **headers: str) -> AsyncIterator[Transport]:
    async with serving(peer) as address:
        client = Transport(f"http://{address}/v1", headers)
        try:
            yield client
        finally:
            await client.close()


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def test_request_says_what_it_must_and_no_more() -> None:
    peer = Peer(answer(b"{}"))
    async with reaching(peer, Authorization="Bearer k") as client:
        response = await client.request("POST", "/chat", b"hello")

    assert (response.status, response.body) == (200, b"{}")
    line, *headers = peer.requests[0].partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert line == "POST /v1/chat HTTP/1.1"
    assert {h.partition(":")[0] for h in headers} == {"Host", "Authorization", "Content-Length"}
    assert peer.requests[0].endswith(b"\r\n\r\nhello")


async def test_connection_is_used_again() -> None:
    peer = Peer(answer(b"1"), answer(b"2"))
    async with reaching(peer) as client:
        assert [(await client.request("POST", "/", b"")).body for _ in range(2)] == [b"1", b"2"]
    assert peer.connections == 1


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"late"), b"late"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(b"late"), b"late"),
        (answer(gzip.compress(b"packed" * 50), "Content-Encoding: gzip"), b"packed" * 50),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (answer(b""), b""),
    ],
    ids=["chunked", "continue", "hints", "gzip", "no content", "empty"],
)
async def test_every_way_to_send_a_body_is_understood(raw: bytes, body: bytes) -> None:
    async with reaching(Peer(raw, answer(b"next"))) as client:
        assert (await client.request("POST", "/")).body == body
        assert (await client.request("POST", "/")).body == b"next"


async def test_body_that_lasts_until_the_connection_ends_is_whole() -> None:
    async with reaching(Peer(b"HTTP/1.1 200 OK\r\n\r\nall of it", close_after=True)) as client:
        assert (await client.request("GET", "/")).body == b"all of it"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    ],
)
async def test_cut_or_foreign_answer_is_an_error(raw: bytes) -> None:
    """Part of an answer is never taken for the whole."""
    async with reaching(Peer(raw, close_after=True)) as client:
        with pytest.raises(TransportError):
            await client.request("POST", "/")


async def test_body_larger_than_any_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it says so, does not, or hides it by compression."""
    monkeypatch.setattr(transport, "LARGEST_BODY_BYTES", 1000)
    large = b"x" * 2000
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + large + b"\r\n0\r\n\r\n"
    for raw in (answer(large), chunked, answer(gzip.compress(large), "Content-Encoding: gzip")):
        async with reaching(Peer(raw)) as client:
            with pytest.raises(BodyTooLarge):
                await client.request("POST", "/")


async def test_answers_that_are_too_large_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be as long as one may be; what all of them take of the memory is bounded, and given back."""
    monkeypatch.setattr(transport, "LARGEST_TOGETHER_BYTES", 5000)
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"x" * 2000
    async with reaching(Peer(half, half, half)) as client:
        asked = [asyncio.create_task(client.request("POST", "/")) for _ in range(3)]
        (refused,), waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(BodyTooLarge, match="under way"):
            await refused
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert client._under_way.size == 0


async def test_redirect_is_not_followed() -> None:
    async with reaching(Peer(answer(b"", "Location: http://127.0.0.1:9/", status="302 Found"))) as client:
        response = await client.request("POST", "/")
    assert (response.status, response.headers["location"]) == (302, "http://127.0.0.1:9/")


async def test_connection_the_server_closes_is_not_used_again() -> None:
    peer = Peer(answer(b"1", "Connection: close"), answer(b"2"))
    async with reaching(peer) as client:
        assert [(await client.request("POST", "/")).body for _ in range(2)] == [b"1", b"2"]
    assert peer.connections == 2


async def test_connection_closed_while_idle_is_replaced_without_a_word() -> None:
    """The server never saw the request on the old one; on a new one it is sent once."""
    peer = Peer(answer(b"1"), close_after=True)
    async with reaching(peer) as client:
        assert (await client.request("POST", "/")).body == b"1"
        peer.answers.append(answer(b"2"))
        assert (await client.request("POST", "/")).body == b"2"
    assert (peer.connections, len(peer.requests)) == (2, 2)


async def test_cancelled_request_leaves_no_connection_behind() -> None:
    """The answer to a request that was given up can never be taken for that of another."""
    peer = Peer(b"", answer(b"2"))
    async with reaching(peer) as client:
        asking = asyncio.ensure_future(client.request("POST", "/"))
        while not peer.requests:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await client.request("POST", "/")).body == b"2"
    assert peer.connections == 2


async def test_streamed_body_goes_to_the_sink_and_an_error_does_not() -> None:
    pieces: list[bytes] = []
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with reaching(Peer(chunked, answer(b"sorry", status="500 Oops"))) as client:
        good = await client.request("POST", "/", sink=pieces.append)
        bad = await client.request("POST", "/", sink=pieces.append)
    assert (b"".join(pieces), good.body) == (b"abcde", b"")
    assert (bad.status, bad.body) == (500, b"sorry")


async def test_what_the_sink_raises_ends_the_request() -> None:
    def refuse(data: bytes) -> None:
        raise RuntimeError("seen enough")

    async with reaching(Peer(answer(b"abc"))) as client:
        with pytest.raises(RuntimeError, match="seen enough"):
            await client.request("POST", "/", sink=refuse)


async def test_nobody_there_is_an_error_with_the_reason() -> None:
    client = Transport("http://127.0.0.1:9/v1", {})
    with pytest.raises(TransportError, match=r"(?i)connect"):
        await client.request("POST", "/")


LOOPS = pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
FAMILIES = {"127.0.0.1": socket.AF_INET, "127.0.0.2": socket.AF_INET, "::1": socket.AF_INET6}


@contextmanager
def black_hole(address: str, port: int) -> Iterator[None]:
    """A port whose queue of connections is full: one more gets no answer, as from a host that is not there."""
    with ExitStack() as opened:
        listening = opened.enter_context(socket.create_server((address, port), family=FAMILIES[address], backlog=0))
        for _ in range(4):
            waiting = opened.enter_context(socket.socket(FAMILIES[address]))
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname()[:2])
        yield


@LOOPS
@pytest.mark.parametrize(
    ("addresses", "silent"),
    [
        (["127.0.0.2", "127.0.0.1"], False),
        (["::1", "127.0.0.1"], False),
        (["127.0.0.2", "127.0.0.1"], True),
        (["::1", "127.0.0.2", "127.0.0.1"], True),
    ],
    ids=["refused", "refused, IPv6", "silent", "silent, IPv6"],
)
def test_an_address_that_is_dead_gives_way_to_the_next(
    monkeypatch: pytest.MonkeyPatch, factory: Callable[[], asyncio.AbstractEventLoop], addresses: list[str], silent: bool
) -> None:
    """Whether it refuses or says nothing at all; and the name is still what the server is told."""

    async def resolved(host: str, port: int) -> list[AddrInfoType]:
        assert host == "models.invalid"
        return [(FAMILIES[address], socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    async def ask() -> tuple[bytes, list[bytes]]:
        peer = Peer(answer(b"alive"))
        async with serving(peer) as address:
            port = int(address.rpartition(":")[2])
            with black_hole(addresses[0], port) if silent else nullcontext():
                client = Transport(f"http://models.invalid:{port}", {})
                response = await asyncio.wait_for(client.request("POST", "/"), 60)
                await client.close()
        return response.body, peer.requests

    monkeypatch.setattr(transport, "_resolve", resolved)
    with asyncio.Runner(loop_factory=factory) as runner:
        body, requests = runner.run(ask())
    assert body == b"alive"
    assert len(requests) == 1 and b"\r\nHost: models.invalid:" in requests[0]


@LOOPS
def test_a_name_none_of_whose_addresses_answers_is_an_error(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """This machine's own name, at a port where nobody listens."""
    with asyncio.Runner(loop_factory=factory) as runner, pytest.raises(TransportError, match=r"(?i)connect"):
        runner.run(Transport("http://localhost:9/v1", {}).request("POST", "/"))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Nor is anything else done for it that costs time."""
    monkeypatch.setattr(transport, "_resolve", None)
    peer = Peer(answer(b"here"))
    server = await asyncio.start_server(peer.serve, host.strip("[]"), 0)
    client = Transport(f"http://{host}:{server.sockets[0].getsockname()[1]}", {})
    assert (await client.request("GET", "/")).body == b"here"
    await client.close()
    server.close()
    await asyncio.sleep(0.02)


def test_key_with_a_line_break_is_refused() -> None:
    """It would end the header and begin another."""
    with pytest.raises(ConfigError, match="line break"):
        Transport("http://127.0.0.1:9", {"Authorization": "Bearer k\r\nX-Evil: 1"})


async def test_plain_request_goes_through_the_proxy_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(answer(b"by proxy"))
    async with serving(peer) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        monkeypatch.setenv("no_proxy", "")
        client = Transport("http://models.invalid/v1", {})
        response = await client.request("POST", "/chat")
        await client.close()

    assert response.body == b"by proxy"
    assert peer.requests[0].startswith(b"POST http://models.invalid/v1/chat HTTP/1.1\r\nHost: models.invalid\r\n")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key, made for one test."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subprocess.run([*made, "-keyout", key, "-out", cert, *subject], check=True, capture_output=True)
    return cert, key


@pytest.mark.needs("openssl")
async def test_encrypted_directly_and_through_a_tunnel(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A trusted certificate is accepted, and a proxy sees nothing but the name of the host."""
    serverside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serverside.load_cert_chain(*certificate)
    monkeypatch.setattr(transport, "_tls", lambda: ssl.create_default_context(cafile=str(certificate[0])))
    seen: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        host, _, port = head.split()[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pour(reader, back), _pour(there, writer))
        await asyncio.gather(back.wait_closed(), writer.wait_closed(), return_exceptions=True)

    async with serving(Peer(*[answer(b"secret")] * 3), ssl=serverside) as address:
        for host in ("127.0.0.1", "localhost"):
            direct = Transport(f"https://{host}:{address.rpartition(':')[2]}", {})
            assert (await direct.request("GET", "/")).body == b"secret"
            await direct.close()
        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        monkeypatch.setenv("https_proxy", f"http://me:pass@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        hidden = Transport(f"https://{address}", {})
        assert (await hidden.request("GET", "/")).body == b"secret"
        await hidden.close()
        proxy.close()
    assert seen[0].startswith(f"CONNECT {address} HTTP/1.1".encode())
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in seen[0]


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


@pytest.mark.needs("openssl")
async def test_unknown_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    serverside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serverside.load_cert_chain(*certificate)
    async with serving(Peer(answer(b"secret")), ssl=serverside) as address:
        with pytest.raises(TransportError, match=r"(?i)certificate"):
            await Transport(f"https://{address}", {}).request("GET", "/")


@LOOPS
def test_request_a_server_may_have_read_is_not_sent_again(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A connection used before that is closed instead of answered is an error, for the caller to count."""

    async def ask() -> int:
        peer = Peer(answer(b"1"), b"", answer(b"2"))
        async with reaching(peer) as client:
            await client.request("POST", "/", b"")
            peer.close_after = True
            with pytest.raises(TransportError, match="closed before the answer"):
                await client.request("POST", "/", b"")
        return len(peer.requests)

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(ask()) == 2


@LOOPS
def test_connection_closed_meanwhile_is_not_used(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Even when the loop has had no time to tell: the request goes out once, on a new connection."""

    async def ask() -> tuple[bytes, int]:
        peer = Peer(answer(b"1"), answer(b"2"))
        async with reaching(peer) as client:
            await client.request("POST", "/", b"")
            theirs = client._idle[0]
            assert theirs.is_quiet()
            theirs._transport.pause_reading()  # type: ignore[union-attr]
            for task in asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]
                task.cancel()
            await asyncio.sleep(0.02)
            assert theirs.reusable
            assert not theirs.is_quiet()
            return (await client.request("POST", "/", b"")).body, peer.connections

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(ask()) == (b"2", 2)


@LOOPS
def test_a_connection_that_ends_before_its_first_request_was_not_asked(factory: Callable[[], Any]) -> None:
    """The server is gone between the greeting and the question: that may be tried again, and nobody waits for an answer."""

    async def asked_too_late() -> None:
        async with serving(Peer()) as address:
            connection = await transport._open(urlsplit(f"http://{address}"))
            connection.abort()
            await asyncio.sleep(0.05)
            with pytest.raises(TransportError, match="closed before the request was sent"):
                async with asyncio.timeout(5):
                    await connection.exchange(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", None)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asked_too_late())
