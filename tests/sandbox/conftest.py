"""A host with things worth attacking."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.hostile import SECRET

from tiebreak.core.work import Isolation
from tiebreak.sandbox.isolation import isolation_at

_libc = ctypes.CDLL(None, use_errno=True)


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
        os.chmod("socket", 0o777)
        self.shared_key = int.from_bytes(os.urandom(3), "big") + 1
        self.shared = _libc.shmget(self.shared_key, 4096, 0o1666)
        self.state = self._state()

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
            "SHARED": str(self.shared_key),
        }

    def unharmed(self) -> None:
        """Assert that nothing has happened to any of it."""
        assert self.canary.read_text() == SECRET
        assert sorted(p.name for p in self.folder.iterdir() if p.name in ("canary", "socket")) == ["canary", "socket"]
        assert self.victim.poll() is None
        assert self._state() == self.state
        for each in (self.listener, self.abstract, self.unix):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.accept()
        self.datagrams.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.datagrams.recv(1)

    def _state(self) -> tuple[object, ...]:
        """What can be changed without reading or writing."""
        files = [(found.st_mode, found.st_uid, found.st_mtime) for found in (self.canary.stat(), self.folder.stat())]
        limit = resource.prlimit(self.victim.pid, resource.RLIMIT_CPU)
        settings = (os.getpriority(os.PRIO_PROCESS, self.victim.pid), os.sched_getaffinity(self.victim.pid))
        return (*files, os.listxattr(self.canary), limit, *settings)

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
        _libc.shmctl(self.shared, 0, None)
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
