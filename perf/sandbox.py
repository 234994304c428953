"""How long it takes to run something apart from the machine.

    python perf/sandbox.py               # prints the figures, as medians

A command that does nothing, the same through the gateway's network, a short Python program, and what bubblewrap alone needs.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import uvloop

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tiebreak.core.task import Check, Task, TaskFile  # noqa: E402
from tiebreak.core.work import Command  # noqa: E402
from tiebreak.sandbox.code import run_python  # noqa: E402
from tiebreak.sandbox.isolation import detect_isolation  # noqa: E402
from tiebreak.sandbox.workspace import Workspace  # noqa: E402

ROUNDS = 40


async def milliseconds(act: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The median time of an act."""
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        await act()
        took.append(1000 * (time.perf_counter() - started))
    return median(took)


async def plainly(*words: str) -> None:
    """A program started as it is, for comparison."""
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={})


async def together(isolation: object, programs: int = 100) -> float:
    """Milliseconds for each of many short programs, four at a time."""
    gate = asyncio.Semaphore(4)

    async def one() -> None:
        async with gate:
            await run_python("print(1)", isolation=isolation)  # type: ignore[arg-type]

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(programs)))
    return 1000 * (time.perf_counter() - started) / programs


async def measure() -> int:
    """Print the figures beside their targets; 1 when one is missed."""
    isolation = await detect_isolation()
    bwrap = shutil.which("bwrap")
    bare = await milliseconds(lambda: plainly(bwrap, "--unshare-all", "--ro-bind", "/", "/", "/bin/true")) if bwrap else 0.0
    python = await milliseconds(lambda: plainly(sys.executable, "-I", "-c", "pass"))
    files = tuple(TaskFile(path=f"src/{n}.py", content=b"x = 1\n" * 50) for n in range(100))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    gateway = server.sockets[0].getsockname()
    with tempfile.TemporaryDirectory() as folder:
        async with Workspace.open(Task(files=files), isolation=isolation, scratch=Path(folder), gateway=gateway[:2]) as workspace:
            nothing = await milliseconds(lambda: workspace.run(Command(argv=("/bin/true",))))
            reaching = await milliseconds(lambda: workspace.run(Command(argv=("/bin/true",), gateway=True)))
            changes = await milliseconds(workspace.changes)
            verify = await milliseconds(lambda: workspace.verify(Check(script="true")))
    server.close()
    program = await milliseconds(lambda: run_python("pass", isolation=isolation))
    many = await together(isolation)
    rows = [
        (f"level {isolation.level}: /bin/true, ms", nothing, nothing <= 40, "≤ 40"),
        ("bubblewrap alone, ms", bare, True, ""),
        ("/bin/true with the gateway's network, ms", reaching, True, ""),
        ("a Python program, more than Python itself, ms", program - python, program - python <= 60, "≤ 60"),
        ("a hundred Python programs, four at a time, ms each", many, True, ""),
        ("changes among 100 files, ms", changes, changes <= 40, "≤ 40"),
        ("a check of 100 files that does nothing, ms", verify, verify <= 120, "≤ 120"),
    ]
    for name, value, held, target in rows:
        print(f"{'✓' if held and target else ' ' if not target else '✗'} {name:62} {value:8.3g}  {target}")
    return 0 if all(held for _, _, held, _ in rows) else 1


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(measure()))
