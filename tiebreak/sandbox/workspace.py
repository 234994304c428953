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
import shlex
import stat
import tempfile
import time
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from msgspec import structs

from tiebreak.core.digest import digest_of
from tiebreak.core.errors import SandboxError, exhausted
from tiebreak.core.task import Check, Solution, Task, TaskFile
from tiebreak.core.work import Changes, Command, Finished, Isolation, Verdict
from tiebreak.sandbox import scratch as scratches
from tiebreak.sandbox import tree
from tiebreak.sandbox.bridge import Gateway
from tiebreak.sandbox.command_line import Box, Folders, Machine
from tiebreak.sandbox.difference import BY_PRODUCTS, cut, differences
from tiebreak.sandbox.execute import execute
from tiebreak.sandbox.images import copied_root, fresh_root, machine_for
from tiebreak.sandbox.judge import Judge, helpers
from tiebreak.sandbox.layers import cache_folder, layer_for
from tiebreak.sandbox.scratch import Scratch

_LONGEST_SCRIPT = 100_000
_NO_PROCESS = os.strerror(errno.EAGAIN)
_PROCESSES_TRIED = 32
_STEERING = frozenset({"sitecustomize.py", "usercustomize.py"})
_SETUP_S = 1800.0
_MOST_KEPT = 1 << 30
_MOST_START = 16 << 20
"""Of a file that an image brings, so much is compared."""
_NOT_FOUND = 127
"""The exit code of a shell that does not find a program."""
_NOT_FOUND_WORDS = re.compile(r"([\w.+-]+): (?:command )?not found|env: [‘']([\w.+-]+)[’']: No such file")
_BROUGHT = {"pytest": "false"}
"""What a runner of ours misses by itself: its word is enough."""
_CONFIGS = {
    **{"pytest.ini": b"", ".pytest.ini": b"", "pyproject.toml": b"[tool.pytest"},
    **{"tox.ini": b"[pytest]", "setup.cfg": b"[tool:pytest]"},
}
"""Where pytest looks for its settings, in order, and what must be in the file."""
_RUNNER_FILES = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini"})


class Workspace:
    """A folder to work in, kept apart from everything else. See the protocol of the same name for what each word means."""

    def __init__(self, task: Task, box: Box, folders: Folders, scratch: Scratch) -> None:
        self._task, self._box, self._scratch = task, box, scratch
        self._workspace, self._home, self._root = folders.workspace, folders.home, folders.root
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
        kept = await _set_up(task, isolation, scratch) if task.environment.setup else None
        if kept is not None:
            task = structs.replace(task, files=await asyncio.to_thread(_files_in, kept))
        own = Scratch(scratch)
        try:
            box = await asyncio.to_thread(_box, task, isolation, own, gateway)
            assert box.folders is not None
            workspace = cls(task, box, box.folders, own)
            await asyncio.to_thread(workspace._begin, kept)
            yield workspace
        finally:
            await asyncio.shield(own.remove())

    def _begin(self, kept: Path | None) -> None:
        """Lay the task's files and the folders of its set-up; what an image has there already is part of the start too."""
        for entry in tree.walk(kept) if kept else ():
            if entry.kind == stat.S_IFDIR:
                (self._workspace / entry.path).mkdir(exist_ok=True)
        tree.place_files(self._workspace, self._task.files)
        if self._box.machine is not None:
            entries = (entry for entry in tree.walk(self._workspace, skip=BY_PRODUCTS) if entry.kind == stat.S_IFREG)
            for entry in entries:
                content = entry.read(_MOST_START)
                self._start[entry.path] = TaskFile(path=entry.path, content=content, executable=entry.executable)

    def keep(self, folder: Path) -> None:
        """Copy the folder's files to a place that lasts: all of them, or none."""
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
        self._workspace.chmod(0o700)
        left_out = tree.copy(self._workspace, part, skip=BY_PRODUCTS, most_bytes=_MOST_KEPT, inside=self.path)
        if left_out:
            scratches.remove_tree(part)
            raise SandboxError(f"what the task's set-up made cannot be kept: {left_out[0]}")
        with contextlib.suppress(OSError):
            # Somebody else was faster, and made the same.
            part.rename(folder)
        if part.exists():
            scratches.remove_tree(part)

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
            finished = await judge.run_script(check.script, timeout_s=check.timeout_s)
            verdict = _verdict(finished, check, self._task)
            problem = await self._missing_program(check, finished) if finished.code == _NOT_FOUND else ""
            return structs.replace(verdict, tests=tuple(judge.tests), problem=problem)
        finally:
            await asyncio.shield(asyncio.to_thread(scratches.remove_tree, folder))

    def _judge(self, check: Check, folder: Path) -> Judge:
        """The check with its files over a copy of the work, and further copies of the work without them."""
        numbers = itertools.count()

        box = dataclasses.replace(self._box, gateway=None)

        def prepare() -> Folders:
            return self._copied(check, _new(folder / f"work-{next(numbers)}"), box.machine)

        machine = box.machine if check.in_image else None
        own = self._copied(check, _new(folder / "judge"), machine)
        tree.place_files(own.workspace, check.files)
        extra = helpers([tree.checked_path(file.path) for file in check.files], self._suite(check))
        return Judge(check=dataclasses.replace(box, folders=own, extra=extra, machine=machine), work=box, prepare=prepare)

    async def _missing_program(self, check: Check, finished: Finished) -> str:
        """Which program the check's own script calls and does not find; empty when that is only what the work says."""
        for name in dict.fromkeys(a or b for a, b in _NOT_FOUND_WORDS.findall(finished.output)):
            if not re.search(rf"(?<![\w.+-]){re.escape(name)}(?![\w+-])", check.script) and name not in _BROUGHT:
                continue
            look = Command(argv=("/bin/sh", "-c", f"{_BROUGHT.get(name, 'command -v')} {shlex.quote(name)}"), timeout_s=60.0)
            empty = self._box.namespaces and self._box.machine is None
            box = dataclasses.replace(self._box, gateway=None, folders=None) if empty else self._box
            if (await execute(box, look)).code != 0:
                return f"the check needs {name}, which is not in the sandbox; name it in the task's `needs` or `packages`"
        return ""

    def _suite(self, check: Check) -> dict[str, Any]:
        """What a runner of tests has to know: its settings, what is to pass, and which modules are the work's own."""
        laid = {tree.checked_path(file.path): file for file in check.files}
        known = {**self._start, **laid}
        config = next((name for name, marks in _CONFIGS.items() if name in known and marks in known[name].content), "")
        content = known[config].content.decode("utf-8", "replace") if config else "[pytest]\n"
        return {
            "config": [config or "pytest.ini", content],
            "own": sorted({name for path in known if (name := _module_of(path))}),
            "scripts": _console_scripts(known["pyproject.toml"].content if "pyproject.toml" in known else b""),
            "fail_to_pass": check.fail_to_pass,
            "pass_to_pass": check.pass_to_pass,
        }

    def _copied(self, check: Check, folder: Path, machine: Machine | None) -> Folders:
        """A copy of the work as a check is to find it, with a home that nobody has been in."""
        if machine is not None and self._root is not None:
            return copied_root(machine, self._root, folder)
        own = Folders.below(folder, self.isolation)
        self._workspace.chmod(0o700)
        skip = BY_PRODUCTS - {".git"} | _STEERING
        tree.copy(self._workspace, own.workspace, skip=skip, most_bytes=self._task.limits.disk_mb << 20, inside=self.path)
        self._put_back(own.workspace, check)
        return own

    def _put_back(self, copy: Path, check: Check) -> None:
        """Files that steer a test runner are what they were; the task may say that writing them is the work."""
        keep = [glob_pattern(glob) for glob in check.keep]
        restore = [glob_pattern(glob) for glob in check.restore]

        def is_put_back(path: str) -> bool:
            name = path.rpartition("/")[2]
            steering = name in _RUNNER_FILES or name.endswith(".pth") or any(pattern.fullmatch(path) for pattern in restore)
            return steering and not any(pattern.fullmatch(path) for pattern in keep)

        for path in [entry.path for entry in tree.walk(copy) if is_put_back(entry.path)]:
            if not (copy / path).is_dir():
                (copy / path).unlink()
        tree.place_files(copy, tuple(file for path, file in self._start.items() if is_put_back(path)))


_setting_up: dict[str, asyncio.Lock] = {}


async def _set_up(task: Task, isolation: Isolation, scratch: Path | None) -> Path:
    """The folder with the task's files as its set-up leaves them: run once, and kept by what it is made from."""
    plain = structs.replace(task, environment=structs.replace(task.environment, setup=""))
    digest = digest_of([structs.replace(plain, check=None).digest, task.environment.setup])
    folder = cache_folder() / "layers" / f"setup-{digest}"
    async with _setting_up.setdefault(digest, asyncio.Lock()):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            async with Workspace.open(plain, isolation=isolation, scratch=scratch) as workspace:
                finished = await workspace.run(_script(task.environment.setup, timeout_s=_SETUP_S))
                if finished.code != 0:
                    reason = finished.ended_by or f"exit code {finished.code}"
                    raise SandboxError(f"the task's set-up failed ({reason}): {finished.output.strip()[-500:]}")
                await asyncio.to_thread(workspace.keep, folder)
    return folder


def _files_in(folder: Path) -> tuple[TaskFile, ...]:
    entries = (entry for entry in tree.walk(folder) if entry.kind == stat.S_IFREG)
    return tuple(TaskFile(path=e.path, content=e.read(_MOST_KEPT), executable=e.executable) for e in entries)


def _box(task: Task, isolation: Isolation, scratch: Scratch, gateway: Gateway | None) -> Box:
    """What the programs of an attempt see: new folders, on this machine or on that of the task's image."""
    image = task.environment.image
    machine = machine_for(image) if image else None
    layer = layer_for(task.environment, task.needs if machine is None else (), with_pytest=machine is None and _runs_pytest(task))
    return Box(
        name=scratch.name,
        isolation=isolation,
        limits=task.limits,
        gateway=gateway,
        folders=fresh_root(machine, scratch.path) if machine else Folders.below(scratch.path, isolation),
        links=task.links,
        readable=layer.readable,
        path=layer.path,
        mounts=layer.mounts,
        environment_python=layer.python,
        machine=machine,
    )


def _runs_pytest(task: Task) -> bool:
    return task.check is not None and "RUN_PYTEST" in task.check.script


def _module_of(path: str) -> str:
    """The top-level Python module a file of a project belongs to; empty for none."""
    parts = path.removeprefix("src/").split("/")
    if not path.endswith(".py"):
        return ""
    return parts[0].removesuffix(".py")


_SCRIPT_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
_SCRIPT_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def _console_scripts(project: bytes) -> dict[str, str]:
    """The commands that a project's pyproject.toml brings, and the function behind each."""
    try:
        scripts = tomllib.loads(project.decode("utf-8", "replace")).get("project", {}).get("scripts", {})
        listed = {str(name): str(target).replace(" ", "") for name, target in scripts.items()}
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError):
        return {}
    return {name: target for name, target in listed.items() if _SCRIPT_NAME.fullmatch(name) and _SCRIPT_TARGET.fullmatch(target)}


def _new(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


@functools.cache
def _sweep(root: Path | None) -> None:
    """Once for each folder: what earlier runs that were killed left there."""
    with contextlib.suppress(OSError):
        scratches.remove_stale(root)


def _script(script: str, *, timeout_s: float = 120.0) -> Command:
    _refuse_long(script)
    return Command(argv=("/bin/bash", "-e", "-c", script, "script"), timeout_s=timeout_s)


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
