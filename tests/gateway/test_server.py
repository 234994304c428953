"""The gateway as an HTTP server: what programs send, in all the ways they send it."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import pytest
from support.agent_model import DONE

from tiebreak.gateway.dialects import route_of
from tiebreak.gateway.gateway import Gateway
from tiebreak.gateway.server import LARGEST_BODY_BYTES

BODY = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()


class Peer:
    """One raw connection."""

    def __init__(self, gateway):
        self.gateway = gateway

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(*self.gateway.address)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    def send(self, data, *headers, method="POST", path="/v1/chat/completions", key=None):
        key = self.gateway.key if key is None else key
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}", *headers]
        if not any(h.startswith(("Content-Length", "Transfer")) for h in headers):
            lines.append(f"Content-Length: {len(data)}")
        self.writer.write("\r\n".join((*lines, "", "")).encode() + data)

    async def receive(self):
        """Status, headers and body of the next answer."""
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = b""
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readline(), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readline()
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body


def said(body):
    return json.loads(body)["choices"][0]["message"]["content"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_compressed_bodies_are_read(pack, opened):
    gateway = await opened(name="noop")
    async with Peer(gateway) as peer:
        name = "gzip" if pack is gzip.compress else "deflate"
        peer.send(pack(BODY), f"Content-Encoding: {name}")
        status, _, body = await peer.receive()
    assert (status, said(body)) == (200, DONE)


async def test_chunked_bodies_and_kept_connections(opened):
    """Several requests on one connection, one sent in pieces, one announced and waited with."""
    gateway = await opened(name="noop")
    async with Peer(gateway) as peer:
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (BODY[:7], BODY[7:])) + b"0\r\n\r\n"
        peer.send(pieces, "Transfer-Encoding: chunked")
        assert said((await peer.receive())[2]) == DONE
        peer.send(b"", "Expect: 100-continue", f"Content-Length: {len(BODY)}")
        assert (await peer.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        peer.writer.write(BODY)
        assert said((await peer.receive())[2]) == DONE
        peer.send(BODY)
        peer.send(BODY, "Connection: close")
        assert [said((await peer.receive())[2]) for _ in range(2)] == [DONE, DONE]
        assert await peer.reader.read() == b""
    assert len(gateway.answers.asked) == 4


async def test_probes_are_answered_and_not_calls(opened, model):
    """What agents try before they begin; nothing of it reaches the model."""
    gateway = await opened(name="org.noop", context_window=32768)
    async with Peer(gateway) as peer:
        seen = []
        for method, path in (
            ("HEAD", "/"),
            ("GET", "/"),
            ("GET", "/v1/models"),
            ("GET", "/models"),
            ("GET", "/v1/models/org.noop"),
            ("GET", "/v1beta/models"),
            ("POST", "/v1/messages/count_tokens?beta=true"),
            ("POST", "/v1beta/models/x:countTokens"),
        ):
            peer.send(BODY if method == "POST" else b"", method=method, path=path)
            if method == "HEAD":
                head = await peer.reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                continue
            status, _, body = await peer.receive()
            assert status == 200, path
            seen.append(json.loads(body))
    assert [found["id"] for found in seen[1]["data"]] == ["org.noop"] == [seen[3]["id"]]
    assert seen[4]["models"][0] == {
        "name": "models/org.noop",
        "displayName": "org.noop",
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "inputTokenLimit": 32768,
    }
    assert seen[5]["input_tokens"] == seen[6]["totalTokens"] == len(BODY) // 4
    assert len(gateway.answers.probes) == 8
    assert gateway.answers.asked == [] == model.ledger


@pytest.mark.parametrize(
    ("path", "form"),
    [("/v1/embeddings", "error"), ("/v1beta/models/x:embedContent", "gemini"), ("/v1/files", "error"), ("/etc/passwd", "error")],
)
async def test_nothing_else_is_served(path, form, opened, model):
    gateway = await opened()
    async with Peer(gateway) as peer:
        peer.send(BODY, path=path)
        status, _, body = await peer.receive()
    error = json.loads(body)["error"]
    assert status == 404
    assert path in error["message"]
    assert (error.get("status") == "NOT_FOUND") is (form == "gemini")
    assert model.ledger == []


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"", (f"Content-Length: {LARGEST_BODY_BYTES + 1}",), 413),
        (gzip.compress(bytes(LARGEST_BODY_BYTES + 1)), ("Content-Encoding: gzip",), 413),
        (b"not gzip", ("Content-Encoding: gzip",), 400),
        (b"x", ("Content-Encoding: zstd",), 415),
        (b"", ("X-Long: " + "x" * 70_000,), 431),
        (b"{", (), 400),
        (b"[]", (), 400),
        (b'{"model": "x", "messages": 3}', (), 400),
    ],
    ids=["announced", "bomb", "broken", "zstd", "head", "half", "list", "shape"],
)
async def test_what_cannot_be_read_is_refused(data, headers, status, opened):
    gateway = await opened(verbatim=False)
    async with Peer(gateway) as peer:
        peer.send(data, *headers)
        found, _, body = await peer.receive()
    assert found == status
    assert json.loads(body)["error"]["message"]


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip, zstd", 'a"b\\c'])
async def test_packing_nobody_here_can_undo_is_called_by_its_name(encoding, opened, model):
    """With what to do instead, and as JSON whatever the name; the model is never asked."""
    gateway = await opened()
    async with Peer(gateway) as peer:
        peer.send(b"(\xb5/\xfd", f"Content-Encoding: {encoding}")
        status, _, body = await peer.receive()
    said = f"bodies packed with {encoding} cannot be read: send them plain, or with gzip or deflate"
    assert (status, json.loads(body)["error"]["message"]) == (415, said)
    assert model.ledger == []


@pytest.mark.parametrize("encoding", ["gzip", "GZip", " identity"])
async def test_names_of_packings_are_read_in_any_letters(encoding, opened):
    gateway = await opened(name="noop")
    async with Peer(gateway) as peer:
        peer.send(BODY if "identity" in encoding else gzip.compress(BODY), f"Content-Encoding: {encoding}")
        assert (await peer.receive())[0] == 200


async def test_what_is_no_http_ends_the_connection_alone(opened):
    gateway = await opened(name="noop")
    async with Peer(gateway) as rude, Peer(gateway) as polite:
        rude.writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        assert (await rude.receive())[0] == 400
        assert await rude.reader.read() == b""
        polite.send(BODY)
        assert (await polite.receive())[0] == 200


async def test_a_port_is_for_those_with_the_key_alone(opened, model):
    """Others on this machine can reach a port, and must not spend the user's money."""
    gateway = await opened()
    async with Peer(gateway) as peer:
        peer.send(BODY, key="dummy")
        assert (await peer.receive())[0] == 401
    assert model.ledger == []


async def test_the_socket_is_private_and_gone_afterwards(tmp_path):
    from pathlib import Path

    gateway = Gateway(model="x")
    async with gateway.open():
        path = Path(gateway.address)
        assert path.is_socket()
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("path", "query", "dialect", "action", "stream"),
    [
        ("/v1/chat/completions", "", "chat", "generate", False),
        ("/chat/completions", "", "chat", "generate", False),
        ("/v1/v1/messages", "beta=true", "messages", "generate", False),
        ("/v1/responses/", "", "responses", "generate", False),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent", "alt=sse", "gemini", "generate", True),
        ("/v1beta/models/qwen2.5-coder:7b:generateContent", "", "gemini", "generate", False),
        ("/v1/models/x:streamGenerateContent", "", "gemini", "generate", False),
    ],
)
def test_addresses_as_clients_write_them(path, query, dialect, action, stream):
    route = route_of(path, query)
    assert (route.dialect.name, route.action, route.stream) == (dialect, action, stream)


async def test_googles_streams_without_events_are_a_list(opened):
    gateway = await opened("openai", "noop")
    async with Peer(gateway) as peer:
        body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).encode()
        peer.send(body, path="/v1beta/models/x:streamGenerateContent")
        status, _, answer = await peer.receive()
    assert status == 200
    assert json.loads(answer)[0]["candidates"][0]["content"]["parts"][0]["text"] == DONE


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"title": "Edit", "options": [{"id": "yes", "kind": "allow_once"}]}, 200, '{"option":"yes"}'),
        ({"title": "Edit"}, 404, "nobody is here"),
        ({"title": 3}, 400, "not a permission request"),
        ([], 400, "not a permission request"),
    ],
)
async def test_a_program_asks_for_leave_where_a_person_is_reached(body, status, said, opened):
    """And hears plainly when nobody is there, or when it does not ask for permission at all."""
    gateway = await opened("openai", "noop")
    async with Peer(gateway) as peer:
        peer.send(json.dumps(body).encode(), path="/permission")
        found, _, answer = await peer.receive()
    assert (found, said in answer.decode()) == (status, True), answer
