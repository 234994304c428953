"""The one address that can be reached from inside."""

from __future__ import annotations

import asyncio

import pytest

from tiebreak.core.task import Task
from tiebreak.core.work import Command
from tiebreak.sandbox.bridge import question
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

ASK = """
import socket, sys
host, port = sys.argv[1].split(':')
with socket.create_connection((host, int(port)), 10) as gateway:
    gateway.sendall(b'hello\\n')
    print(gateway.makefile().read())
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[2])), 2)
    print('REACHED')
except OSError as error:
    print('refused')
try:
    socket.getaddrinfo('api.example.com', 443)
except OSError as error:
    print('no name')
"""


async def answer(reader, writer):
    writer.write(b"the gateway heard " + await reader.readline())
    await writer.drain()
    writer.close()


async def reach(level, gateway, other_port, scratch):
    async with Workspace.open(Task(), isolation=isolation_at(level), scratch=scratch, gateway=gateway) as workspace:
        command = Command(argv=("python3", "-c", ASK, workspace.gateway, str(other_port)), gateway=True)
        return await workspace.run(command)


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("by", ["port", "path"])
async def test_only_the_gateway_is_reached(by, tmp_path):
    """By a port of the host or a unix socket; another port is not, and names are collected."""
    (tmp_path / "s").mkdir()
    path = str(tmp_path / "g")[-100:] if len(str(tmp_path)) < 90 else f"/tmp/g-{tmp_path.name[-8:]}"
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other, await asyncio.start_unix_server(answer, path):
        port = other.sockets[0].getsockname()[1]
        finished = await reach("bubblewrap", ("127.0.0.1", port) if by == "port" else path, port, tmp_path / "s")
    assert finished.output.splitlines() == ["the gateway heard hello", "", "refused", "no name"]
    assert finished.hosts == ("api.example.com",)


@pytest.mark.needs("landlock")
async def test_landlock_lets_only_the_gateway_through(tmp_path):
    """The same, without namespaces for files and processes."""
    async with (
        await asyncio.start_server(answer, "127.0.0.1", 0) as gateway,
        await asyncio.start_server(answer, "127.0.0.1", 0) as other,
    ):
        ports = [server.sockets[0].getsockname()[1] for server in (gateway, other)]
        finished = await reach("landlock", ("127.0.0.1", ports[0]), ports[1], tmp_path)
    assert finished.output.splitlines()[:3] == ["the gateway heard hello", "", "refused"]


@pytest.mark.needs("bubblewrap")
async def test_a_gateway_that_is_down_is_a_closed_connection(tmp_path):
    """Not a hang, not an error of ours."""
    finished = await reach("bubblewrap", ("127.0.0.1", 9), 9, tmp_path)
    assert finished.code is not None
    assert "heard" not in finished.output


@pytest.mark.parametrize("data", [b"", b"\0" * 12, b"\0" * 12 + b"\x05ab", b"\xff" * 600, b"\0" * 12 + b"\x01a"])
def test_broken_questions_are_not_answered(data):
    """Anything may come in."""
    assert question(data) is None


def test_a_question_has_a_name():
    """Labels with their lengths, then type and class."""
    data = b"\x12\x34\x01\0\0\x01" + bytes(6) + b"\x03api\x07example\x03com\0\0\x01\0\x01"
    assert question(data) == ("api.example.com", len(data))
