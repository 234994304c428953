"""Running a short Python program somebody else wrote: for scorers that judge an answer by what it does."""

from __future__ import annotations

import os

from tiebreak.core.task import TaskLimits
from tiebreak.core.work import Command, Finished, Isolation
from tiebreak.sandbox.command_line import Box, Folders, python_inside
from tiebreak.sandbox.execute import execute
from tiebreak.sandbox.scratch import Scratch

_PROGRAM = "program.py"
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
    limits = TaskLimits(memory_mb=memory_mb, processes=64, file_mb=64, disk_mb=256)
    own = None if isolation.level == "bubblewrap" else Scratch()
    try:
        name = own.name if own else f"p-{os.getpid()}-{os.urandom(4).hex()}"
        folders = Folders.below(own.path) if own else None
        extra = {_PROGRAM: code.encode("utf-8", "replace")}
        box = Box(name=name, isolation=isolation, limits=limits, extra=extra, folders=folders)
        argv = (python_inside(), "-I", "-S", "-B", "-c", _START, box.extra_path(_PROGRAM))
        return await execute(box, Command(argv=argv, stdin=stdin, timeout_s=timeout_s, cpu_s=timeout_s, merged=False))
    finally:
        if own:
            await own.remove()
