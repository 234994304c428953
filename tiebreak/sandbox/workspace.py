"""One attempt's workspace: a private folder with a task's files, commands in it, its changes, and the check.

How a task writes a check that cannot be fooled
-----------------------------------------------
The script is run by `bash -e` on a copy of the workspace, without network, with an empty home. The check's own files
are laid over the copy first, so an edited test is the original again; put what decides the verdict there, never into
the workspace. In the copy there are no links, and nothing that steers an interpreter from aside: bytecode caches,
`sitecustomize.py`, `usercustomize.py` and `*.pth` are gone, and `conftest.py`, `pytest.ini` and `tox.ini` are what they
were at the start (name a file in the check's `keep` when writing it is the task). `protect` refuses other edits, such as
to `pyproject.toml` or `setup.cfg`.

The script may read the work; it must not run it where it runs itself. The work is run by

    work -i input.txt python3 program.py input.txt > got.txt      in another sandbox, which has never seen the check's files
    python3 -I "$RUN_TESTS" test_hidden.py                        tests here, the modules they import over there

See judge.py for how the two are kept apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import fnmatch
import functools
import itertools
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import structs

from tiebreak.core.errors import SandboxError, exhausted
from tiebreak.core.task import Check, Solution, Task
from tiebreak.core.work import Changes, Command, Finished, Isolation, Verdict
from tiebreak.sandbox import scratch as scratches
from tiebreak.sandbox import tree
from tiebreak.sandbox.bridge import Gateway
from tiebreak.sandbox.command_line import Box, Folders
from tiebreak.sandbox.difference import BY_PRODUCTS, cut, differences
from tiebreak.sandbox.execute import execute
from tiebreak.sandbox.judge import Judge, helpers
from tiebreak.sandbox.scratch import Scratch

_LONGEST_SCRIPT = 100_000
_NO_PROCESS = os.strerror(errno.EAGAIN)
_PROCESSES_TRIED = 32
_STEERING = frozenset({"sitecustomize.py", "usercustomize.py"})
_RUNNER_FILES = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini"})


class Workspace:
    """A folder to work in, kept apart from everything else. See the protocol of the same name for what each word means."""

    def __init__(self, task: Task, box: Box, folders: Folders, scratch: Scratch) -> None:
        self._task, self._box, self._scratch = task, box, scratch
        self._workspace, self._home = folders.workspace, folders.home
        self._start = {tree.checked_path(file.path): file for file in task.files}
        self._checks = itertools.count()
        self.isolation = box.isolation
        self.path = box.cwd
        self.folder = str(folders.workspace)
        self.home = box.home_inside
        self.hosts: dict[str, None] = {}
        """Names that commands tried to look up, in order."""
        self.gateway = f"127.0.0.1:{box.gateway_port}" if box.gateway else ""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, task: Task, *, isolation: Isolation, scratch: Path | None = None, gateway: Gateway | None = None
    ) -> AsyncIterator[Workspace]:
        """A fresh workspace with the task's files; nothing is left of it afterwards.

        `scratch` is the folder workspaces are made in; `gateway` is where commands that may reach it are led to.
        """
        await asyncio.to_thread(_sweep, scratch)
        own = Scratch(scratch)
        try:
            folders = Folders.below(own.path, isolation)
            box = Box(name=own.name, isolation=isolation, limits=task.limits, gateway=gateway, folders=folders, links=task.links)
            workspace = cls(task, box, folders, own)
            await asyncio.to_thread(tree.place_files, workspace._workspace, task.files)
            yield workspace
        finally:
            await asyncio.shield(own.remove())

    async def run(self, command: Command) -> Finished:
        """Run a command in the folder. Nothing of it is left running afterwards."""
        finished = await execute(self._box, command)
        self.hosts |= dict.fromkeys(finished.hosts)
        return finished

    async def read(self, path: str, most_bytes: int = 200_000) -> bytes:
        """A file's content. Links are followed while they stay below the folder; OSError as usual."""
        return await asyncio.to_thread(tree.read_file, self._workspace, path, most_bytes, inside=self.path)

    async def write(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Write a file; folders are made."""
        if len(content) > self._task.limits.file_mb << 20:
            raise SandboxError(f"{path!r} is larger than the {self._task.limits.file_mb} MB a file may have")
        write = functools.partial(tree.write_file, executable=executable, inside=self.path)
        await asyncio.to_thread(write, self._workspace, path, content)

    async def write_home(self, path: str, content: bytes) -> None:
        """Write a file below the private home."""
        await asyncio.to_thread(tree.write_file, self._home, path, content, inside=self.home)

    async def apply(self, solution: Solution) -> Finished:
        """Do what the reference solution does: its files, then its script."""
        await asyncio.to_thread(tree.place_files, self._workspace, solution.files)
        if not solution.script:
            return Finished(code=0)
        return await self.run(_script(solution.script))

    async def changes(self) -> Changes:
        """What differs from the task's own files."""
        return await asyncio.to_thread(self._differences)

    def _differences(self) -> Changes:
        # Its owner may have closed the folder itself, which would otherwise hide all that was done.
        self._workspace.chmod(0o700)
        return differences(self._workspace, self._start)

    async def verify(self, check: Check) -> Verdict:
        """Judge a copy of the folder by the check. Only trouble of ours is a `problem`."""
        started_s = time.perf_counter()
        try:
            broken = await asyncio.to_thread(self._broken_rules, check)
            verdict = Verdict(passed=False, output="\n".join(broken)) if broken else await self._judged(check)
            if not verdict.passed and _NO_PROCESS in verdict.output:
                verdict = structs.replace(verdict, problem=await self._out_of_processes())
        except (SandboxError, OSError) as error:
            verdict = Verdict(passed=False, problem=f"the check could not be run: {error}")
        return structs.replace(verdict, seconds=time.perf_counter() - started_s)

    async def _out_of_processes(self) -> str:
        """Whether this machine has no room for processes, tried now that the work's own are gone; empty where it has.

        What a check prints may be the work's own words, or the task's own limit was reached: neither is believed.
        """
        script = f"i=0; while [ $i -lt {_PROCESSES_TRIED} ]; do sleep 0.2 & i=$((i+1)); done; wait"
        finished = await execute(self._box, Command(argv=("/bin/sh", "-c", script), timeout_s=60.0))
        return f"the check could not be run: {exhausted(OSError(errno.EAGAIN, ''))}" if finished.code != 0 else ""

    def _broken_rules(self, check: Check) -> list[str]:
        """What the check forbids and was done."""
        if not check.protect and check.max_files_changed is None:
            return []
        changed = self._differences()
        patterns = [glob_pattern(glob) for glob in check.protect]
        broken = [f"{path} was not to be changed" for path in changed.files if any(p.fullmatch(path) for p in patterns)]
        if check.max_files_changed is not None and changed.files_changed > check.max_files_changed:
            broken.append(f"{changed.files_changed} files were changed; at most {check.max_files_changed} were to be")
        return broken

    async def _judged(self, check: Check) -> Verdict:
        folder = self._scratch.folder(f"check-{next(self._checks)}")
        try:
            _refuse_long(check.script)
            judge = await asyncio.to_thread(self._judge, check, folder)
            return _verdict(await judge.run_script(check.script, timeout_s=check.timeout_s), check, self._task)
        finally:
            await asyncio.shield(asyncio.to_thread(scratches.remove_tree, folder))

    def _judge(self, check: Check, folder: Path) -> Judge:
        """The check with its files over a copy of the work, and further copies of the work without them."""
        numbers = itertools.count()

        def prepare() -> Folders:
            return self._copied(check, _new(folder / f"work-{next(numbers)}"))

        own = self._copied(check, _new(folder / "judge"))
        tree.place_files(own.workspace, check.files)
        box = dataclasses.replace(self._box, gateway=None)
        extra = helpers([tree.checked_path(file.path) for file in check.files])
        return Judge(check=dataclasses.replace(box, folders=own, extra=extra), work=box, prepare=prepare)

    def _copied(self, check: Check, folder: Path) -> Folders:
        """A copy of the work as a check is to find it, with a home that nobody has been in."""
        own = Folders.below(folder, self.isolation)
        self._workspace.chmod(0o700)
        skip = BY_PRODUCTS - {".git"} | _STEERING
        tree.copy(self._workspace, own.workspace, skip=skip, most_bytes=self._task.limits.disk_mb << 20, inside=self.path)
        self._put_back(own.workspace, check)
        return own

    def _put_back(self, copy: Path, check: Check) -> None:
        """Files that steer a test runner are what they were; the task may say that writing them is the work."""
        keep = [glob_pattern(glob) for glob in check.keep]

        def is_put_back(path: str) -> bool:
            name = path.rpartition("/")[2]
            return (name in _RUNNER_FILES or name.endswith(".pth")) and not any(pattern.fullmatch(path) for pattern in keep)

        for path in [entry.path for entry in tree.walk(copy) if is_put_back(entry.path)]:
            if not (copy / path).is_dir():
                (copy / path).unlink()
        tree.place_files(copy, tuple(file for path, file in self._start.items() if is_put_back(path)))


def _new(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


@functools.cache
def _sweep(root: Path | None) -> None:
    """Once for each folder: what earlier runs that were killed left there."""
    with contextlib.suppress(OSError):
        scratches.remove_stale(root)


def _script(script: str) -> Command:
    _refuse_long(script)
    return Command(argv=("/bin/bash", "-e", "-c", script, "script"))


def _refuse_long(script: str) -> None:
    if len(script.encode("utf-8", "replace")) > _LONGEST_SCRIPT:
        raise SandboxError(f"a script may have at most {_LONGEST_SCRIPT} bytes: put the rest into a file")


def _verdict(finished: Finished, check: Check, task: Task) -> Verdict:
    reasons = {
        "time": f"the check was stopped: it had not ended after {check.timeout_s:g} s",
        "memory": f"the check was stopped: it used more than {task.limits.memory_mb} MB",
        "disk": f"the check was stopped: it wrote more than {task.limits.disk_mb} MB or too many files",
    }
    ended = f"\n{reasons[finished.ended_by]}" if finished.ended_by in reasons else ""
    return Verdict(passed=finished.code == 0, output=cut(finished.output + ended, 200_000).strip("\n"))


@functools.cache
def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a pattern for whole paths: `*` and `?` stay within a folder, `**` crosses folders."""
    pieces = []
    for piece in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]*\])", glob.removeprefix("./")):
        known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
        if known is None:
            known = fnmatch.translate(piece)[4:-3] if piece.startswith("[") else re.escape(piece)
        pieces.append(known)
    return re.compile("".join(pieces), re.DOTALL)
