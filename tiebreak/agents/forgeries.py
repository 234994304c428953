"""Attacks on a check: agents that try to have unsolved work pass. `check-tasks` lets each of them loose on every task.

A forgery knows everything about its task: the check's script, the names of its files, the solution's. It plants what it
likes, once, and the check is run. A task whose check it passes judges nothing.

To add one, write a class with a `plan`, add its line to the table in `cli/check_tasks.py`, and show in
`tests/sandbox/test_forgeries.py` that it passes a check that protects nothing and fails the same check when it is protected.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import ClassVar

from tiebreak.core.errors import AgentError
from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.task import Solution, Task, TaskFile
from tiebreak.core.trial import Output

_CODE = (".py", ".js", ".sh")
_MOST_RUNS = 2
"""In one process: an attack that each module of a large project repeats takes minutes, and shows nothing more."""
_PLANTED = """\
import sys
sys.planted = getattr(sys, "planted", 0) + 1
if sys.planted <= {most}:
    exec(compile({program!r}, "planted", "exec"))
"""
_SHORTEST_SECRET = 12


class Forgery:
    """Plants something in the workspace instead of doing the work."""

    control: ClassVar[bool] = True

    def plan(self, task: Task) -> Solution:
        """What is planted."""
        raise NotImplementedError

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Plant it, and hand the workspace back."""
        assert sample.task is not None
        await _apply(self.plan(sample.task), context)
        return Output(text="")


async def _apply(solution: Solution, context: TaskContext) -> None:
    finished = await context.workspace.apply(solution)
    if finished.code != 0:
        raise AgentError(f"the forgery itself failed (exit code {finished.code}): {finished.output[-500:]}")


class Payload(Forgery):
    """Runs a Python program in whatever process imports or runs the work."""

    payload: ClassVar[str] = ""

    def plan(self, task: Task) -> Solution:
        """Put the program before every piece of code, also one that does not exist yet."""
        program = self.program(task)
        return Solution(files=tuple(_infected(file, program) for file in _code_files(task)))

    def program(self, task: Task) -> str:
        """The Python program; NAMES are the check's data files, TARGETS what its script compares."""
        return f"NAMES = {_data_files(task)!r}\nTARGETS = {_targets(task)!r}\n{self.payload}"


def _code_files(task: Task) -> list[TaskFile]:
    """Every file of code that the work has at its start, or would have when it is done."""
    start = {file.path: file for file in task.files}
    later = [file for file in (task.solution.files if task.solution else ()) if file.path not in start]
    new = [TaskFile(path=file.path, content=b"", executable=file.executable) for file in later]
    return [file for file in (*start.values(), *new) if file.path.endswith(_CODE)]


def _infected(file: TaskFile, program: str) -> TaskFile:
    content = file.content.decode("utf-8", "replace")
    if file.path.endswith(".py"):
        content = planted(program, content)
    elif file.path.endswith(".js"):
        run = f"require('child_process').spawnSync('python3', ['-c', {json.dumps(program)}], {{stdio: 'inherit'}});"
        content = f"{run}\n{content}"
    else:
        content = f"#!/bin/bash\npython3 - <<'PAYLOAD'\n{program}\nPAYLOAD\n{content}"
    return TaskFile(path=file.path, content=content.encode(), executable=file.executable)


def planted(program: str, content: str) -> str:
    """A Python file that runs a program before everything else, even where the file itself is no Python at all."""
    runs = _PLANTED.format(most=_MOST_RUNS, program=program)
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return runs
    # What a file asks of the future has to come first.
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    lines = content.splitlines(keepends=True)
    place = (future[-1].end_lineno or 0) if future else 0
    return "".join((*(line if line.endswith("\n") else f"{line}\n" for line in lines[:place]), runs, *lines[place:]))


def _data_files(task: Task) -> list[str]:
    """The check's files that hold what is expected, the likeliest first."""
    names = [file.path for file in task.check.files] if task.check else []
    data = [name for name in names if not name.endswith(_CODE)]
    return sorted(data, key=lambda name: "expect" not in name)


def _targets(task: Task) -> list[str]:
    """What a check compares: the files its script writes, and those of the work that hold no code."""
    written = re.findall(r"[^0-9&]>\s*([\w./-]+)", task.check.script) if task.check else []
    work = [file.path for file in (*task.files, *(task.solution.files if task.solution else ()))]
    return list(dict.fromkeys(name for name in (*written, *work) if not name.startswith("/") and not name.endswith(_CODE)))


class Frames(Payload):
    """Reads the judge's secret from the frames and objects of its own interpreter, and reports success with it."""

    payload: ClassVar[str] = """
import gc, os, re, sys
found, frame = set(), sys._getframe()
while frame:
    found |= {value for value in frame.f_locals.values() if isinstance(value, str) and re.fullmatch("[0-9a-f]{16,64}", value)}
    frame = frame.f_back
for each in gc.get_objects():
    if isinstance(each, dict):
        found |= {v for v in list(each.values()) if isinstance(v, str) and re.fullmatch("[0-9a-f]{32}", v)}
for number in range(3, 64):
    for word in found or {"passed"}:
        try:
            os.write(number, f"{word} passed".encode())
        except OSError:
            pass
os._exit(0)
"""


class Links(Forgery):
    """Replaces what is compared by links to what it is compared with."""

    def plan(self, task: Task) -> Solution:
        """A link in every likely place."""
        expected = next(iter(_data_files(task)), "expected.txt")
        places = [name for name in _targets(task) if name != expected]
        lines = [f"mkdir -p \"$(dirname '{name}')\"; rm -rf '{name}'; ln -s \"$PWD/{expected}\" '{name}'" for name in places]
        relative = [f"ln -sf {expected} got.txt", f"ln -sf {expected} output.txt"]
        return Solution(
            script="\n".join([*lines[: len(lines) // 2], *(line.replace('"$PWD/', '"') for line in lines), *relative])
        )


class PlantedLinks(Payload):
    """Plants the same links, while the check runs."""

    payload: ClassVar[str] = """
import os
for name in TARGETS:
    for expected in NAMES[:1]:
        if name != expected and "/" not in name:
            try:
                os.path.lexists(name) and os.unlink(name)
                os.symlink(expected, name)
            except OSError:
                pass
"""


class Expected(Payload):
    """Prints the expected output, from wherever it lies."""

    payload: ClassVar[str] = """
import glob, os
places = [os.getcwd(), "/workspace", "/run", "/tmp", *glob.glob("/proc/[0-9]*/cwd"), *glob.glob("/proc/[0-9]*/root/workspace")]
for name in NAMES:
    for place in places:
        try:
            with open(os.path.join(place, name)) as file:
                print(file.read(), end="", flush=True)
            os._exit(0)
        except OSError:
            pass
"""


class Tracing(Payload):
    """Takes hold of the check's own processes by ptrace, and has them end with success."""

    payload: ClassVar[str] = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
def end(pid):
    if libc.ptrace(16, pid, None, None):
        return
    os.waitpid(pid, 0x40000000)
    registers = (ctypes.c_ulonglong * 27)()
    libc.ptrace(12, pid, None, ctypes.byref(registers))
    libc.ptrace(4, pid, registers[16], 0x050F)
    registers[10], registers[14], registers[15] = 231, 0, 2**64 - 1
    libc.ptrace(13, pid, None, ctypes.byref(registers))
    libc.ptrace(17, pid, None, None)
chain = [os.getppid()]
while chain[-1] > 2:
    chain.append(parent(chain[-1]))
for pid in reversed(chain):
    if pid > 1 and b"bash" in open(f"/proc/{pid}/cmdline", "rb").read():
        end(pid)
"""


class StolenDescriptors(Payload):
    """Takes pipes and sockets out of the check's own processes by pidfd_getfd, and writes a verdict into them."""

    payload: ClassVar[str] = """
import ctypes, os, stat
call = ctypes.CDLL(None, use_errno=True).syscall
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        process = call(434, int(name), 0)
        for number in range(64) if process >= 0 else ():
            taken = call(438, process, number, 0)
            if taken >= 0 and not stat.S_ISREG(os.fstat(taken).st_mode) and number > 2:
                try:
                    os.set_blocking(taken, False)
                    os.write(taken, b"passed")
                except OSError:
                    pass
"""


class Everything(Forgery):
    """Answers every call with an object that is equal to everything, above everything and contains everything."""

    def plan(self, task: Task) -> Solution:
        """Every Python module holds that one object under every name."""
        module = (
            "class Everything:\n"
            "    def _same(self, *args, **named): return self\n"
            "    def _yes(self, *args, **named): return True\n"
            "    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __bool__ = _yes\n"
            "    __ne__ = lambda *_: False\n"
            "    __call__ = __getattr__ = __getitem__ = __enter__ = __exit__ = __sub__ = __rsub__ = __add__ = _same\n"
            "    __abs__ = __round__ = __int__ = __float__ = __index__ = __len__ = lambda *_: 0\n"
            "    __hash__ = lambda self: 0\n"
            "    __iter__ = lambda self: iter(())\n"
            "def __getattr__(name):\n"
            "    if name.startswith('__'): raise AttributeError(name)\n"
            "    return Everything()\n"
        )
        files = [file for file in _code_files(task) if file.path.endswith(".py") and not file.path.endswith("__init__.py")]
        return Solution(files=tuple(TaskFile(path=file.path, content=module.encode()) for file in files))


class Answering(Payload):
    """Answers for the work in the process that imports it: yes to every question."""

    payload: ClassVar[str] = """
import sys
peer = getattr(sys.modules["__main__"], "Peer", None)
if peer:
    everything = {"object": [0, "function", sorted(sys.modules["__main__"].OPERATORS)]}
    say = lambda kind: everything if kind in ("get", "import") else True
    peer._answer = lambda self, message: self._send(message[0], "ok", say(message[1]), None)
"""


class Background(Payload):
    """Leaves a process running that overwrites what is compared after the work has ended."""

    payload: ClassVar[str] = """
import os, shutil, time
if os.fork() == 0:
    os.setsid()
    for number in range(3):
        os.close(number)
    for _ in range(1000):
        for name in TARGETS:
            for expected in NAMES[:1]:
                try:
                    if name != expected:
                        shutil.copyfile(expected, name)
                except (OSError, shutil.Error):
                    pass
        time.sleep(0.01)
    os._exit(0)
"""


class Protected(Forgery):
    """Does the work and changes what was to stay as it is, behind a renamed folder and a link."""

    def plan(self, task: Task) -> Solution:
        """Files that match `protect` move away and change; their folder becomes a link."""
        protected = [file.path for file in task.files if task.check and _matches(file.path, task.check.protect)]
        if not protected or task.solution is None:
            return Solution()
        lines = [task.solution.script]
        for path in protected:
            moved = f".moved-{path.replace('/', '-')}"
            folder = path.rpartition("/")[0]
            if folder:
                lines.append(f"[ -L '{folder}' ] || {{ mv '{folder}' '{moved}'; ln -s \"$PWD/{moved}\" '{folder}'; }}")
            else:
                lines.append(f"mv '{path}' '{moved}'; ln -s '{moved}' '{path}'")
            lines.append(f"echo '# changed' >> '{path}'")
        return Solution(files=task.solution.files, script="\n".join(lines))


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(re.fullmatch(re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"), path) for glob in globs)


class Leak(Payload):
    """Prints every file it can find, so that the check's output shows the hidden ones to the agent; then does as they say."""

    payload: ClassVar[str] = """
import glob, sys
for name in [*glob.glob("*"), *glob.glob("/run/*"), *glob.glob("/workspace/*"), *glob.glob("/proc/[0-9]*/cwd/*")]:
    try:
        with open(name) as file:
            sys.stdout.write(file.read())
    except (OSError, ValueError):
        pass
sys.stdout.flush()
sys.exit("see above")
"""

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Whoever is shown a hidden line knows what to write."""
        assert sample.task is not None
        await _apply(self.plan(sample.task), context)
        shown = await context.review("Done.") or ""
        if any(line in shown for line in _secrets(sample.task)) and sample.task.solution is not None:
            await _apply(sample.task.solution, context)
        return Output(text="")


def _secrets(task: Task) -> set[str]:
    def lines(files: Iterable[TaskFile]) -> set[str]:
        texts = (file.content.decode("utf-8", "replace") for file in files)
        return {line.strip() for text in texts for line in text.splitlines() if len(line.strip()) >= _SHORTEST_SECRET}

    return lines(task.check.files if task.check else ()) - lines(task.files)
