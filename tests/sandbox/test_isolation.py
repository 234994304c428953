"""What this machine allows, and what to do where it does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import tiebreak
from tiebreak.core.errors import SandboxError
from tiebreak.core.work import Isolation
from tiebreak.sandbox import command_line, isolation
from tiebreak.sandbox.code import run_python

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]


@pytest.fixture
def fresh():
    """Nothing known about the machine yet, before and after."""
    caches = (isolation._detected, isolation.why_not, isolation._missing, isolation._own_network, isolation.landlock_version)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.needs("bubblewrap")
async def test_bubblewrap_comes_first(fresh):
    """Where it works, it is used."""
    assert (await isolation.detect_isolation()).level == "bubblewrap"
    assert isolation.how_to_fix() == ""


@pytest.mark.needs("landlock")
async def test_landlock_comes_second(fresh, monkeypatch):
    """And says what it does not cover, and what would be better."""
    monkeypatch.setattr(isolation, "bubblewrap", lambda: None)
    found = await isolation.detect_isolation()
    assert found.level == "landlock"
    assert "process list" in found.missing
    assert "apt install bubblewrap" in isolation.how_to_fix()


@pytest.mark.needs("bubblewrap")
async def test_nothing_is_refused_unless_allowed(fresh, monkeypatch):
    """The refusal names the fix."""
    broken = command_line.Bubblewrap("/bin/false", (0, 8))
    monkeypatch.setattr(isolation, "bubblewrap", lambda: broken)
    monkeypatch.setattr(command_line, "bubblewrap", lambda: broken)
    monkeypatch.setattr(isolation, "landlock_version", lambda: 0)
    with pytest.raises(SandboxError, match="--allow-unsandboxed"):
        await isolation.detect_isolation()
    allowed = await isolation.detect_isolation(allow_unsandboxed=True)
    assert allowed.level == "none"
    assert {"reading files", "writing files"} <= set(allowed.missing)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_program_is_run_apart(level):
    """Its output, its errors, its input."""
    code = "import sys; print(sys.stdin.read().upper()); print('oops', file=sys.stderr); open('f', 'w').write('x')"
    finished = await run_python(code, stdin="straße".encode(), isolation=isolation.isolation_at(level))
    assert (finished.code, finished.output, finished.errors) == (0, "STRASSE\n", "oops\n")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("code", "ended_by"),
    [("while True: pass", ("time", "cpu")), ("import os; os.abort()", ("SIGABRT",)), ("1/0", ("",))],
)
async def test_a_program_that_goes_wrong(level, code, ended_by):
    """Is told apart from one that is wrong."""
    finished = await run_python(code, timeout_s=1, isolation=isolation.isolation_at(level))
    assert finished.ended_by in ended_by
    assert finished.code != 0


@pytest.mark.parametrize("level", LEVELS)
async def test_a_program_that_eats_memory(level):
    """Ended by its group, or refused by the process's own limit."""
    finished = await run_python("x = bytearray(1 << 30)", memory_mb=128, isolation=isolation.isolation_at(level))
    assert finished.ended_by == "memory" or "MemoryError" in finished.errors


AS_NOBODY = """
import asyncio, sys
import msgspec
from tiebreak.core.task import Check, Task, TaskFile, TaskLimits
from tiebreak.core.work import Command
from tiebreak.sandbox.code import run_python
from tiebreak.sandbox.isolation import detect_isolation, isolation_at
from tiebreak.sandbox.workspace import Workspace

async def serve(reader, writer):
    writer.write(b"heard " + await reader.readline()); await writer.drain(); writer.close()

async def main():
    found = await detect_isolation()
    said = {"isolation": found}
    gateway = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = gateway.sockets[0].getsockname()[1]
    limits = TaskLimits(memory_mb=256, processes=48, file_mb=16)
    task = Task(files=(TaskFile(path="a.txt", content=b"a\\n"),), limits=limits)
    async with Workspace.open(task, isolation=found, gateway=("127.0.0.1", port)) as w:
        async def sh(script, **more):
            return await w.run(Command(argv=("bash", "-c", script), timeout_s=20, **more))
        said["who"] = await sh("id -u; echo b >> a.txt; cat /etc/shadow; ls /root")
        said["bomb"] = await sh(":(){ :|:& };: ; sleep 1; echo over")
        said["hog"] = await sh("exec python3 -c 'b = bytearray(1 << 30); print(\\"HAD\\")'")
        said["daemon"] = await sh("setsid sleep 600 & disown; echo left")
        said["stubborn"] = await sh("mkdir -p d/e; chmod 000 d/e d; echo done")
        code = f"import socket; s = socket.create_connection(('127.0.0.1', 8900)); s.sendall(b'me\\\\n'); print(s.recv(99))"
        said["gateway"] = await w.run(Command(argv=("python3", "-c", code), gateway=True))
        said["changes"] = await w.changes()
        said["verdict"] = await w.verify(Check(script="grep -q b a.txt"))
        test = TaskFile(path="test_it.py", content=b"import m\\ndef test_it():\\n    assert m.answer() == 42\\n")
        script = 'work -o out.txt sh -c "echo 1 > out.txt"; grep 1 out.txt; python3 -I "$RUN_TESTS" test_it.py'
        judged = Check(script=script, files=(test,))
        for name, answer in (("right", 42), ("wrong", 41)):
            await w.write("m.py", f"def answer(): return {answer}".encode())
            said[name] = await w.verify(judged)
    full = Task(limits=TaskLimits(memory_mb=256, processes=48, file_mb=64, disk_mb=200))
    for level in ("bubblewrap", "landlock"):
        async with Workspace.open(full, isolation=isolation_at(level)) as w:
            fill = "mkdir -p c/in; cd c/in; chmod 000 ..; for i in 1 2 3 4 5 6 7; do head -c 50M /dev/zero > f$i; done; sleep 20"
            said["filled " + level] = await w.run(Command(argv=("bash", "-c", fill), timeout_s=60))
    said["code"] = await run_python("print(6 * 7)", isolation=found)
    async with Workspace.open(task, isolation=isolation_at("landlock")) as w:
        script = "id -u; touch /tmp/outside; ls -d *; cat /proc/$PPID/environ"
        said["landlock"] = await w.run(Command(argv=("bash", "-c", script)))
        code = "import socket, ctypes, resource, os\\n" + "".join(
            f"try: print('GOT', {act})\\nexcept OSError: print('refused')\\n"
            for act in ("socket.socket(socket.AF_UNIX)", "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (9, 9))")
        ) + "print('shared', ctypes.CDLL(None).shmget(1, 1, 512))"
        said["calls"] = await w.run(Command(argv=("python3", "-c", code)))
        said["landlock isolation"] = w.isolation
    gateway.close()
    print(msgspec.json.encode(said).decode())

asyncio.run(main())
"""


def a_python_for_nobody():
    """An interpreter that an ordinary user may run, of our version."""
    for program in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        check = f"import sys; open(sys.executable, 'rb').close(); sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "-c", check]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return program
    return None


@pytest.mark.needs("root", "bubblewrap", "landlock")
def test_an_ordinary_user_is_kept_apart_too(tmp_path_factory):
    """Without privileges: the same sandbox; what cannot be limited is said to be missing."""
    program = a_python_for_nobody()
    if program is None:
        pytest.skip("no interpreter of this version that an ordinary user may run")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        package = Path(tiebreak.__file__).parent
        for name in ("core", "sandbox"):
            shutil.copytree(package / name, folder / "tiebreak" / name)
        shutil.copy(package / "__init__.py", folder / "tiebreak")
        shutil.copytree(Path(msgspec.__file__).parent, folder / "msgspec")
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "-c", AS_NOBODY]
        environment = {"PYTHONPATH": str(folder), "PATH": os.defpath, "SECRET": "of the host", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        check_what_nobody_saw(json.loads(done.stdout))
    finally:
        shutil.rmtree(folder)


def check_what_nobody_saw(said):
    found = msgspec.convert(said["isolation"], Isolation)
    assert found.level == "bubblewrap"
    assert said["who"]["output"].startswith("1000\n")
    assert "root:" not in said["who"]["output"]
    assert said["bomb"]["ended_by"] in ("", "time", "SIGTERM", "SIGKILL")
    assert "HAD" not in said["hog"]["output"]
    assert said["daemon"]["output"] == "left\n"
    assert "heard me" in said["gateway"]["output"]
    assert said["changes"]["files"] == ["a.txt"]
    assert said["verdict"]["passed"] is True
    assert (said["right"]["passed"], said["wrong"]["passed"]) == (True, False), said["right"]
    assert said["filled bubblewrap"]["ended_by"] == said["filled landlock"]["ended_by"] == "disk"
    assert said["calls"]["output"] == "refused\nrefused\nshared -1\n"
    assert "file attributes" in said["landlock isolation"]["missing"]
    assert not {"unix sockets", "shared memory", "process settings"} & set(said["landlock isolation"]["missing"])
    assert said["code"]["output"] == "42\n"
    assert said["landlock"]["output"].startswith("65534\n")
    assert "of the host" not in said["landlock"]["output"]
    assert not Path("/tmp/outside").exists()
    assert not list(Path("/tmp/tiebreak-65534").glob("w-*"))
