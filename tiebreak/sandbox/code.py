"""Running a short Python program somebody else wrote: for scorers that judge an answer by what it does."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import AsyncIterator, Callable

from tiebreak.core.task import TaskLimits
from tiebreak.core.work import Command, Finished, Isolation
from tiebreak.sandbox.command_line import Box, Folders, python_inside
from tiebreak.sandbox.execute import execute
from tiebreak.sandbox.judge import Judge, helpers
from tiebreak.sandbox.scratch import Scratch

_MODULE = "program"
_PROGRAM, _TESTS = f"{_MODULE}.py", "tests.py"
_START = """
import site, sys
site.setquit()
path = sys.argv.pop(1)
with open(path, encoding="utf-8") as file:
    code = compile(file.read(), path, "exec")
del site, sys, path, file
exec(code)
"""
"""Without site-packages: what is installed differs between machines, and looking through it takes longer than the program."""


async def run_python(
    code: str, *, isolation: Isolation, stdin: bytes = b"", timeout_s: float = 10.0, memory_mb: int = 512
) -> Finished:
    """Run a program in the sandbox by our own interpreter, its standard error by itself.

    It has the standard library, an empty folder, no network, nothing of the environment, and no more than the limits.
    With namespaces nothing of it ever touches the disk.
    """
    async with _place(isolation) as (name, new_folders):
        extra = {_PROGRAM: code.encode("utf-8", "replace")}
        box = Box(name=name, isolation=isolation, limits=_limits(memory_mb), extra=extra, folders=new_folders())
        argv = (python_inside(), "-I", "-S", "-B", "-c", _START, box.extra_path(_PROGRAM))
        return await execute(box, Command(argv=argv, stdin=stdin, timeout_s=timeout_s, cpu_s=timeout_s, merged=False))


async def run_tests(program: str, tests: str, *, isolation: Isolation, timeout_s: float = 10.0, memory_mb: int = 512) -> Finished:
    """Run assertions about a program that somebody else wrote; the exit code is 0 when they held to the end.

    The program runs in a sandbox of its own: it cannot read the assertions, end them, or answer for them.
    """
    async with _place(isolation) as (name, new_folders):
        box = Box(name=name, isolation=isolation, limits=_limits(memory_mb), extra={_PROGRAM: program.encode("utf-8", "replace")})
        own = {**helpers([]), _TESTS: tests.encode("utf-8", "replace")}
        check = dataclasses.replace(box, extra=own, folders=new_folders())
        argv = (
            python_inside(),
            "-I",
            "-S",
            "-B",
            check.extra_path("run_tests.py"),
            "--program",
            _MODULE,
            check.extra_path(_TESTS),
        )
        judge = Judge(check=check, work=box, prepare=new_folders, program=True)
        return await judge.run(Command(argv=argv, timeout_s=timeout_s, merged=False))


def _limits(memory_mb: int) -> TaskLimits:
    return TaskLimits(memory_mb=memory_mb, processes=64, file_mb=64, disk_mb=256)


@contextlib.asynccontextmanager
async def _place(isolation: Isolation) -> AsyncIterator[tuple[str, Callable[[], Folders | None]]]:
    """A name for sandboxes, and a way to get folders for each; with namespaces none are needed."""
    if isolation.level == "bubblewrap":
        yield f"p-{os.getpid()}-{os.urandom(4).hex()}", lambda: None
        return
    own, numbers = Scratch(), itertools.count()
    try:
        yield own.name, lambda: Folders.below(own.folder(str(next(numbers))), isolation)
    finally:
        await own.remove()
