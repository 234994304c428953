"""The judge: runs a check in one sandbox and the work it asks for in another.

The check's sandbox holds the check's files and a copy of the workspace without links; nothing of the work runs in it. The
work's sandbox holds a copy of the workspace and what the check put there by name; it shares no process, no mount and no
descriptor with the check, and has never heard of its files. What the work prints, writes and answers goes to the check as
data. The check's exit code is the verdict.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import TaskFile
from tiebreak.core.work import Command, Finished, TestResult
from tiebreak.sandbox import tree
from tiebreak.sandbox.command_line import Box, Folders, python_inside
from tiebreak.sandbox.execute import execute

_HERE = Path(__file__).resolve().parent
_HELPERS = ("run_tests.py", "run_pytest.py", "run_suite.py", "twins.py", "remote.py", "work_client.py")
_GUESTS = frozenset({"pytest_guest.py"})
"""Programs of ours that run tests where the work is."""
_MOST_TESTS = 20_000
_LONGEST_NAME = 400
_SCRIPT = "check.sh"
_PRELUDE = 'work() {{ "{python}" -I -S "{client}" "$@"; }}; export -f work; '
_MOST_REQUEST = 64 << 20
_MOST_OUTPUT = 4 << 20
_MOST_AT_ONCE = 64
"""Requests of one check that are served at the same time."""


def helpers(check_files: Sequence[str], suite: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """Files of ours that a check finds in its sandbox, the names of its own, and what a runner of tests has to know."""
    own = {name: (_HERE / name).read_bytes() for name in _HELPERS}
    told = {"check_files.json": list(check_files), "suite.json": {**(suite or {}), "files": list(check_files)}}
    return {**own, **{name: json.dumps(data).encode() for name, data in told.items()}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
    """One check and the work it judges."""

    check: Box
    """Where the check runs: see `helpers` for what its `extra` must hold."""
    work: Box
    """Where the work runs; its folders are given by `prepare`."""
    prepare: Callable[[], Folders | None]
    """Makes new folders with the work in them; None where the work needs none."""
    program: bool = False
    """The work is one program among the extra files of its sandbox, which has Python's own library and nothing besides."""
    tests: list[TestResult] = dataclasses.field(default_factory=list)
    """How each test went, as far as the check said so; filled while it runs."""

    async def run_script(self, script: str, *, timeout_s: float) -> Finished:
        """Run a check's script, in which `work` is a command. It is a file: what is on a command line, others may read."""
        prelude = _PRELUDE.format(python=python_inside(), client=self.check.extra_path("work_client.py"))
        extra = {**self.check.extra, _SCRIPT: (prelude + script).encode("utf-8", "replace")}
        judge = dataclasses.replace(self, check=dataclasses.replace(self.check, extra=extra))
        return await judge.run(Command(argv=("/bin/bash", "-e", self.check.extra_path(_SCRIPT)), timeout_s=timeout_s))

    async def run(self, command: Command) -> Finished:
        """Run the check, and whatever it asks for."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            service = _Service(self, command.timeout_s)
            serving = asyncio.create_task(service.serve(ours))
            env = {
                **command.env,
                "JUDGE_FD": str(theirs.fileno()),
                "CHECK_ROOT": self.check.cwd,
                "RUN_TESTS": self.check.extra_path("run_tests.py"),
                "RUN_PYTEST": self.check.extra_path("run_pytest.py"),
                "RUN_SUITE": self.check.extra_path("run_suite.py"),
            }
            try:
                finished = await execute(self.check, structs.replace(command, env=env), passed=(theirs.fileno(),))
                self.tests.extend(service.tests)
                return finished
            finally:
                serving.cancel()
                await asyncio.shield(service.close(serving))


class _Service:
    """Answers the requests of one check while it runs."""

    def __init__(self, judge: Judge, timeout_s: float) -> None:
        self._judge = judge
        self._end_s = time.monotonic() + timeout_s
        self._folders: Folders | None = None
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self.tests: list[TestResult] = []

    async def serve(self, control: socket.socket) -> None:
        """Take requests until there is nobody left to ask."""
        control.setblocking(False)
        while True:
            await _readable(control)
            kind, descriptors, _, _ = socket.recv_fds(control, 100, 4)
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not kind:
                return
            if len(self._running) >= _MOST_AT_ONCE or not self._known(kind, len(sockets)):
                for each in sockets:
                    each.close()
                continue
            task = asyncio.create_task(self._acts[kind][0](*sockets))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    @property
    def _acts(self) -> Mapping[bytes, tuple[Callable[..., Coroutine[Any, Any, None]], int]]:
        """What can be asked for, and how many sockets come with it."""
        return {b"tests": (self._tests, 2), b"run": (self._run, 1), b"suite": (self._suite, 2), b"report": (self._report, 1)}

    def _known(self, kind: bytes, sockets: int) -> bool:
        return kind in self._acts and self._acts[kind][1] == sockets

    async def close(self, serving: asyncio.Task[None]) -> None:
        """End what still runs."""
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(serving, *self._running, return_exceptions=True)

    async def _tests(self, report: socket.socket, channel: socket.socket) -> None:
        """A process that imports the work and answers the tests, in folders of its own."""
        with report, channel:
            folders = await asyncio.to_thread(self._judge.prepare)
            extra = {**self._judge.work.extra, "remote.py": (_HERE / "remote.py").read_bytes()}
            box = dataclasses.replace(self._judge.work, folders=folders, extra=extra)
            flags, place = (("-I", "-S", "-B"), (box.extra_path(""),)) if self._judge.program else (("-I", "-B"), ())
            argv = (python_inside(), *flags, box.extra_path("remote.py"), str(channel.fileno()), *place)
            finished = await self._executed(box, Command(argv=argv, timeout_s=self._left_s, merged=False), channel.fileno())
            channel.close()
            await _answer(report, finished)

    async def _suite(self, answer: socket.socket, channel: socket.socket) -> None:
        """A runner of tests beside the work, in folders of its own that hold the tests; it reports by the channel."""
        with answer, channel:
            try:
                reply = await self._suite_ran(json.loads(await _everything(answer)), channel)
            except (OSError, ValueError, KeyError, TypeError, SandboxError) as error:
                reply = {"refused": f"the tests cannot be run: {error}"}
            channel.close()
            await _answer(answer, reply)

    async def _suite_ran(self, request: dict[str, Any], channel: socket.socket) -> dict[str, Any]:
        name = str(request["program"])
        if name not in _GUESTS:
            raise ValueError(f"{name!r} runs no tests")
        folders, here = await asyncio.to_thread(self._judge.prepare), self._judge.check.folders
        assert folders is not None and here is not None
        await self._transfer(here.workspace, folders.workspace, request["inputs"])
        laid = tuple(TaskFile(path=str(path), content=base64.b64decode(text)) for path, text in request["files"].items())
        await asyncio.to_thread(tree.place_files, folders.workspace, laid)
        box = dataclasses.replace(self._judge.work, folders=folders, extra={name: (_HERE / name).read_bytes()})
        words = (box.python, "-I", "-B", box.extra_path(name), str(channel.fileno()), box.cwd, *map(str, request["argv"]))
        return await self._executed(box, Command(argv=words, timeout_s=self._left_s, merged=False), channel.fileno())

    async def _report(self, answer: socket.socket) -> None:
        """How each test went, as the check says."""
        with answer, contextlib.suppress(ValueError, KeyError, TypeError):
            rows = json.loads(await _everything(answer))
            cut = [{name: str(row[name])[:_LONGEST_NAME] for name in ("id", "status", "group")} for row in rows[:_MOST_TESTS]]
            self.tests += [TestResult(**row) for row in cut]

    async def _run(self, answer: socket.socket) -> None:
        """A command of the work."""
        with answer:
            try:
                reply = await self._ran(json.loads(await _everything(answer)))
            except (OSError, ValueError, KeyError, TypeError, SandboxError) as error:
                reply = {"refused": f"the command of the work cannot be run: {error}"}
            await _answer(answer, reply)

    async def _ran(self, request: dict[str, Any]) -> dict[str, Any]:
        argv = tuple(str(word) for word in request["argv"])
        if not argv:
            raise ValueError("there is no command")
        # Nothing of the work runs while its folder is read or written by us.
        async with self._one_at_a_time:
            if self._folders is None:
                self._folders = await asyncio.to_thread(self._judge.prepare)
            if self._folders is None:
                raise ValueError("there is no folder to run it in")
            there, here = self._folders.workspace, self._judge.check.folders
            assert here is not None
            await self._transfer(here.workspace, there, request["inputs"])
            stdin = base64.b64decode(request["stdin"])
            command = Command(argv=argv, stdin=stdin, timeout_s=self._left_s, merged=False, output_bytes=_MOST_OUTPUT)
            finished = await self._executed(dataclasses.replace(self._judge.work, folders=self._folders), command)
            with contextlib.suppress(FileNotFoundError):
                await self._transfer(there, here.workspace, request["outputs"])
            return finished

    async def _transfer(self, source: Path, target: Path, paths: Sequence[str]) -> None:
        most_bytes = self._judge.work.limits.disk_mb << 20
        for path in paths:
            await asyncio.to_thread(tree.transfer, source, target, str(path), most_bytes=most_bytes)

    async def _executed(self, box: Box, command: Command, *passed: int) -> dict[str, Any]:
        finished = await execute(box, command, passed=passed)
        names = ("code", "output", "errors", "ended_by", "seconds")
        return {name: getattr(finished, name) for name in names}

    @property
    def _left_s(self) -> float:
        return max(0.1, self._end_s - time.monotonic())


async def _readable(sock: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())


async def _everything(sock: socket.socket) -> bytes:
    sock.setblocking(False)
    loop, pieces, size = asyncio.get_running_loop(), list[bytes](), 0
    while piece := await loop.sock_recv(sock, 1 << 20):
        size += len(piece)
        if size > _MOST_REQUEST:
            raise ValueError("the request is too large")
        pieces.append(piece)
    return b"".join(pieces)


async def _answer(sock: socket.socket, reply: dict[str, Any]) -> None:
    sock.setblocking(False)
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(sock, json.dumps(reply).encode())
