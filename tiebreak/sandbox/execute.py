"""Running one command in the sandbox: started, fed, read, limited, and ended with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tiebreak.core.errors import SandboxError
from tiebreak.core.work import Command, Finished
from tiebreak.sandbox import bridge, disk_usage
from tiebreak.sandbox.cgroups import Group
from tiebreak.sandbox.command_line import Box, Descriptors, command_line, resource_limits

log = logging.getLogger(__name__)

_START_S = 60.0
_START_AGAIN_S = 0.2
_END_S = 10.0
_DISK_CHECK_S = 0.25
"""How often the disk is looked at while a command runs."""
_PIECE = 1 << 20
_FREELY_READ = 16 << 20
_PAUSE_S = 0.005
"""Between reads of an endless output: reading it all at full speed would take the other trials' processor."""
_BEGUN = b"\x01"
_STARTS = 3
"""Setting a sandbox up can fail on a busy machine for no reason of the command's. It had not begun, so it may begin again."""
_numbers = itertools.count()


class _NotBegun(SandboxError):
    """The sandbox was started and gave up before the command began."""


async def execute(box: Box, command: Command, *, passed: Sequence[int] = ()) -> Finished:
    """Run a command. A SandboxError means that it was never begun, for a reason of ours.

    The command inherits the descriptors that are `passed`, under the same numbers.
    """
    for start in range(1, _STARTS + 1):
        try:
            return await _execute_once(box, command, passed)
        except _NotBegun as error:
            if start == _STARTS:
                raise
            log.warning("%s; starting it again", error)
            await asyncio.sleep(_START_AGAIN_S * start)
    raise AssertionError("unreachable")


async def _execute_once(box: Box, command: Command, passed: Sequence[int]) -> Finished:
    running = _Running(box, command, passed)
    try:
        await running.start()
        return await running.finish()
    finally:
        # Shielded: a second cancellation may not leave processes behind.
        await asyncio.shield(running.end())


class _Running:
    """One command while it runs."""

    def __init__(self, box: Box, command: Command, passed: Sequence[int]) -> None:
        self._box, self._command, self._passed = box, command, passed
        self._group: Group | None = None
        self._process: _Process | None = None
        self._bridge: bridge.Bridge | None = None
        self._init: int | None = None
        """A descriptor of the first process inside: its end is the end of all."""
        self._limit = ""
        self._outputs: list[_Capture] = []
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Make the group, start the chain, wait until the program itself begins."""
        here, there = socket.socketpair()
        with here:
            try:
                with there:
                    self._group = Group(f"{self._box.name}-{next(_numbers)}", self._box.limits)
                    self._spawn(there, self._open_gateway())
                await self._read_outputs()
            except OSError as error:
                raise SandboxError(f"the sandbox could not be started: {error}") from error
            await self._until_begun(here)
        self._started_s = time.perf_counter()

    def _open_gateway(self) -> int:
        """The port inside, 0 for none."""
        if not self._command.gateway:
            return 0
        if self._box.gateway is None:
            raise SandboxError("a command wants to reach a gateway and the workspace was opened without one")
        self._bridge = bridge.Bridge(self._box.gateway)
        return self._box.gateway_port

    def _spawn(self, control: socket.socket, port: int) -> None:
        inherited = Descriptors()
        try:
            procs_files = self._group.procs_files if self._group else []
            words = command_line(self._box, self._command, control, inherited, procs_files=procs_files, port=port)
            self._process = _Process(words, control, [*inherited.numbers, *self._passed], merged=self._command.merged)
        finally:
            inherited.close()

    async def _read_outputs(self) -> None:
        assert self._process is not None
        for stream in await self._process.streams():
            self._outputs.append(_Capture(self._command.output_bytes))
            self._readers.append(asyncio.create_task(self._outputs[-1].take(stream)))

    async def _until_begun(self, here: socket.socket) -> None:
        said = b""
        here.setblocking(False)
        try:
            async with asyncio.timeout(_START_S):
                while _BEGUN not in said:
                    await _readable(here.fileno())
                    words, descriptors, _, _ = socket.recv_fds(here, 4096, 4)
                    if not words:
                        break
                    said += words
                    await self._handle_message(words, descriptors, here)
        except (TimeoutError, ConnectionResetError):
            # Reset: the chain ended without reading our word. What it said on its outputs tells more.
            pass
        except OSError as error:
            raise _NotBegun(f"the sandbox could not be started: {error}") from error
        if _BEGUN not in said:
            raise _NotBegun(f"the sandbox could not be started: {await self._startup_error()}")

    async def _handle_message(self, words: bytes, descriptors: list[int], here: socket.socket) -> None:
        """The sockets of the network inside, or the number of the first process inside, which waits for our word."""
        if descriptors and self._bridge is not None:
            listener, names = (socket.socket(fileno=descriptor) for descriptor in descriptors)
            await self._bridge.serve(listener, names)
        first = re.search(rb'"child-pid":\s*(\d+)', words)
        if first:
            self._init = os.pidfd_open(int(first[1]))
            self._set_limits(int(first[1]))
            here.send(b"\n")

    def _set_limits(self, first: int) -> None:
        """From outside, while nothing of the program runs yet; its processes inherit them."""
        assert self._process is not None
        for number, soft, hard in resource_limits(self._box, self._command):
            # A limit that is already lower cannot be raised, and holds as it is.
            most = resource.prlimit(first, number)[1]
            fits = hard if most == resource.RLIM_INFINITY else min(hard, most)
            resource.prlimit(first, number, (min(soft, fits), fits))
        for file in self._group.procs_files if self._group else []:
            file.write_text(str(first), encoding="ascii")

    async def _startup_error(self) -> str:
        """What the chain said before it gave up."""
        self._kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*self._readers), _END_S)
        said = " ".join(capture.text() for capture in self._outputs).strip()
        return said or "it said nothing; is the machine out of memory or processes?"

    async def finish(self) -> Finished:
        """Wait for the program to end, or end it."""
        process = self._process
        assert process is not None
        watching = asyncio.create_task(self._watch_disk())
        try:
            async with asyncio.timeout(self._command.timeout_s):
                await process.wait()
        except TimeoutError:
            self._limit = "time"
        finally:
            seconds = time.perf_counter() - self._started_s
            await self._stop(process, watching)
        return self._result(process.returncode, seconds)

    async def _stop(self, process: _Process, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            task.cancel()
        if process.returncode is None:
            self._kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*self._readers, return_exceptions=True), _END_S)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _result(self, code: int | None, seconds: float) -> Finished:
        if not self._limit and code not in (0, None) and self._group is not None and self._group.out_of_memory():
            self._limit = "memory" if code in (137, -9) else ""
        if not self._limit and code == 128 + signal.SIGXCPU:
            self._limit = "cpu"
        texts = [capture.text() for capture in self._outputs]
        return Finished(
            code=None if self._limit else code,
            output=texts[0],
            errors=texts[1] if len(texts) > 1 else "",
            ended_by=self._limit or _signal_name(code),
            seconds=seconds,
            hosts=tuple(self._bridge.names) if self._bridge else (),
        )

    async def _watch_disk(self) -> None:
        """End a program that fills the disk with its files, large or many."""
        if self._box.folders is None or self._process is None:
            return
        folders, most = self._box.folders.all, self._box.limits.disk_mb << 20
        start = os.statvfs(folders[0])
        while True:
            await asyncio.sleep(_DISK_CHECK_S)
            now = os.statvfs(folders[0])
            written = (start.f_bavail - now.f_bavail) * now.f_frsize
            if written < most // 2 and start.f_favail - now.f_favail < _MOST_FILES // 2:
                continue
            # Perhaps somebody else fills it: what is in these folders decides.
            used, files = await asyncio.to_thread(_usage, folders, self._process.pid)
            if used > most or files >= _MOST_FILES:
                self._limit = "disk"
                self._kill()
                return
            await asyncio.sleep(8 * _DISK_CHECK_S)

    def _kill(self) -> None:
        """End the whole tree. With namespaces, the first process inside takes all others with it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
        else:
            # The keeper ends what it keeps.
            process.send(signal.SIGTERM)

    async def end(self) -> None:
        """Nothing is left: no process, no group, no bridge, no descriptor."""
        process = self._process
        if process is not None and process.returncode is None:
            self._kill()
            try:
                await asyncio.wait_for(process.wait(), _END_S)
            except TimeoutError:
                process.send(signal.SIGKILL)
                await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._group is not None:
            await self._group.remove()
        if self._bridge is not None:
            await self._bridge.close()
        if self._init is not None:
            os.close(self._init)
            self._init = None
        if process is not None:
            process.close()


_MOST_FILES = 100_000


def _usage(folders: Sequence[Path], process: int) -> tuple[int, int]:
    """Bytes really taken on the disk, and the number of entries."""
    counted = [disk_usage.in_folder(folder, _MOST_FILES) for folder in folders]
    unnamed = disk_usage.without_name(process, folders[0].stat().st_dev)
    return sum(used for used, _ in counted) + unnamed, sum(files for _, files in counted)


class _Capture:
    """The beginning and the end of a program's output; what lies between is counted and thrown away."""

    def __init__(self, most_bytes: int) -> None:
        self._half = max(1, most_bytes // 2)
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    async def take(self, stream: asyncio.StreamReader) -> None:
        """Read to the end."""
        while piece := await stream.read(_PIECE):
            self._total += len(piece)
            room = self._half - len(self._head)
            self._head += piece[:room]
            self._tail += piece[room:] if room > 0 else piece
            del self._tail[: -self._half]
            if self._total > _FREELY_READ:
                await asyncio.sleep(_PAUSE_S)

    def text(self) -> str:
        """What is kept; bytes that are no text are replaced."""
        left_out = self._total - len(self._head) - len(self._tail)
        middle = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return bytes(self._head + middle + self._tail).decode("utf-8", "replace")


class _Process:
    """A process of ours. Not the loop's own: those are forked, and so slower to start the larger we are."""

    def __init__(self, words: list[str], stdin: socket.socket, inherited: list[int], *, merged: bool) -> None:
        self._popen = subprocess.Popen(
            words,
            stdin=stdin.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=inherited,
            start_new_session=True,
        )
        self._descriptor = os.pidfd_open(self._popen.pid)
        self._transports: list[asyncio.ReadTransport] = []

    @property
    def pid(self) -> int:
        """Of the first program of the chain."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """As subprocess has it; None while it runs."""
        return self._popen.returncode

    async def streams(self) -> list[asyncio.StreamReader]:
        """Standard output, and standard error unless it is merged."""
        loop, readers = asyncio.get_running_loop(), []
        for pipe in filter(None, (self._popen.stdout, self._popen.stderr)):
            reader = asyncio.StreamReader(limit=_PIECE)
            transport, _ = await loop.connect_read_pipe(functools.partial(asyncio.StreamReaderProtocol, reader), pipe)
            self._transports.append(transport)
            readers.append(reader)
        return readers

    async def wait(self) -> None:
        """Until it has ended."""
        if self._popen.returncode is None:
            await _readable(self._descriptor)
            self._popen.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens to a process that is gone."""
        self._popen.send_signal(number)

    def close(self) -> None:
        """Let go of its descriptors."""
        for transport in self._transports:
            transport.close()
        os.close(self._descriptor)


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor has something to say."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _signal_name(code: int | None) -> str:
    if code is None or (0 <= code <= 128):
        return ""
    try:
        return signal.Signals(code - 128 if code > 128 else -code).name
    except ValueError:
        return ""
