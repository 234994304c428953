"""A host with things worth attacking."""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.hostile import SECRET

from tiebreak.core.work import Isolation
from tiebreak.sandbox.isolation import isolation_at


class Host:
    """Canaries: files, a process, sockets, and a secret in our own environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = f"tag-{uuid.uuid4().hex}"
        self.canary = folder / "canary"
        self.canary.write_text(SECRET)
        self.victim = subprocess.Popen(["sleep", "600"], env={"SECRET": SECRET}, cwd=folder)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0{self.tag}")
        self.abstract.listen()
        self.unix = socket.socket(socket.AF_UNIX)
        # A path of a socket may have 107 characters, and a test's folder has more.
        os.chdir(folder)
        self.unix.bind("socket")
        self.unix.listen()

    @property
    def env(self) -> dict[str, str]:
        """Where everything is, for an attacker who has been told."""
        return {
            "HOST": str(self.folder),
            "PORT": str(self.listener.getsockname()[1]),
            "UDP": str(self.datagrams.getsockname()[1]),
            "VICTIM": str(self.victim.pid),
            "ABSTRACT": self.tag,
            "TAG": self.tag,
        }

    def unharmed(self) -> None:
        """Assert that nothing has happened to any of it."""
        assert self.canary.read_text() == SECRET
        assert sorted(p.name for p in self.folder.iterdir() if p.name in ("canary", "socket")) == ["canary", "socket"]
        assert self.victim.poll() is None
        for each in (self.listener, self.abstract, self.unix):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.accept()
        self.datagrams.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.datagrams.recv(1)

    def left_running(self) -> list[str]:
        """Processes anywhere on the machine that carry our tag."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"TAG={self.tag}".encode() in (process / "environ").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
        return found

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for each in (self.listener, self.datagrams, self.abstract, self.unix):
            each.close()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("HOST_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    host = Host(tmp_path)
    yield host
    host.close()


@pytest.fixture(scope="session")
def bubblewrap() -> Isolation:
    return isolation_at("bubblewrap")


@pytest.fixture(scope="session")
def landlock() -> Isolation:
    return isolation_at("landlock")
