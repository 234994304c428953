"""Commands in the sandbox: what they see, what they say, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tiebreak
from tiebreak.core.errors import FailureKind, SandboxError
from tiebreak.core.task import Task, TaskLimits
from tiebreak.core.work import Command, Isolation
from tiebreak.sandbox import cgroups, command_line, scratch
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

LEVELS = [
    pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.needs("landlock")),
]
TASK = Task(limits=TaskLimits(memory_mb=256, processes=64, file_mb=64))


@pytest.fixture(params=LEVELS)
async def workspace(request, tmp_path):
    async with Workspace.open(TASK, isolation=isolation_at(request.param), scratch=tmp_path) as opened:
        yield opened


async def test_input_output_and_exit_code(workspace):
    """What goes in, what comes out, and with which code."""
    command = Command(
        argv=("bash", "-c", "cat; echo wrong >&2; exit 3"), stdin=b"x" * 300_000, merged=False, output_bytes=400_000
    )
    finished = await workspace.run(command)
    assert (finished.code, finished.output, finished.errors) == (3, "x" * 300_000, "wrong\n")
    assert finished.ended_by == ""


async def test_streams_are_merged_in_order(workspace):
    """Standard error goes where standard output goes, unless told otherwise."""
    finished = await workspace.run(Command(argv=("sh", "-c", "echo 1; echo 2 >&2; echo 3")))
    assert (finished.output, finished.errors) == ("1\n2\n3\n", "")


async def test_a_program_that_does_not_exist_is_the_commands_fault(workspace):
    """As a shell would say it."""
    finished = await workspace.run(Command(argv=("no-such-program",)))
    assert finished.code == 127
    assert "not found" in finished.output


async def test_a_signal_is_named(workspace):
    """With the code a shell gives."""
    finished = await workspace.run(Command(argv=("bash", "-c", "kill -SEGV $$")))
    assert (finished.code, finished.ended_by) == (139, "SIGSEGV")


async def test_processor_time_ends_a_program(workspace):
    """Before the clock on the wall does."""
    finished = await workspace.run(Command(argv=("bash", "-c", "while :; do :; done"), cpu_s=1, timeout_s=60))
    assert (finished.code, finished.ended_by) == (None, "cpu")


async def test_the_environment_is_empty_but_for_the_sandboxes_own(workspace, monkeypatch):
    """Nothing of ours; what the command adds."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    finished = await workspace.run(Command(argv=("env",), env={"GIVEN": "yes"}))
    assert "GIVEN=yes" in finished.output
    assert "secret" not in finished.output
    assert f"HOME={workspace.home}" in finished.output


async def test_a_cancelled_command_leaves_nothing_running(workspace):
    """Cancelling the one who waits ends the whole tree."""
    tag = os.urandom(8).hex()
    script = "setsid sleep 600 & trap '' TERM; sleep 600"
    running = asyncio.create_task(workspace.run(Command(argv=("bash", "-c", script), env={"TAG": tag})))
    await until(lambda: len(tagged(tag)) >= 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tagged(tag) == []


async def test_many_commands_at_once(workspace):
    """Each gets its own answer."""
    said = await asyncio.gather(*(workspace.run(Command(argv=("echo", str(n)))) for n in range(12)))
    assert [finished.output for finished in said] == [f"{n}\n" for n in range(12)]


async def test_a_flood_costs_no_memory(workspace):
    """The beginning and the end are kept, and the program is not waited for in vain."""
    command = Command(
        argv=("bash", "-c", "echo first; head -c 100M /dev/zero | tr '\\0' 'x'; echo; echo last"), output_bytes=1000
    )
    finished = await workspace.run(command)
    assert finished.output.startswith("first\n")
    assert finished.output.endswith("\nlast\n")
    assert len(finished.output) < 1100


@pytest.mark.parametrize("level", LEVELS)
def test_killing_us_kills_everything_inside(level, tmp_path):
    """Even `kill -9`; the next start removes the folder and the control groups that are left."""
    tag = os.urandom(8).hex()
    code = f"""
import asyncio, pathlib
from tiebreak.core.task import Task
from tiebreak.core.work import Command
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace
async def main():
    async with Workspace.open(Task(), isolation=isolation_at({level!r}), scratch=pathlib.Path({str(tmp_path)!r})) as w:
        await w.run(Command(argv=("bash", "-c", "setsid sleep 600 & trap '' TERM; sleep 600"), env={{"TAG": {tag!r}}}))
asyncio.run(main())
"""
    ours = subprocess.Popen([sys.executable, "-c", code], cwd=Path(tiebreak.__file__).parent.parent)
    try:
        wait_for(lambda: len(tagged(tag)) >= 2)
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    wait_for(lambda: tagged(tag) == [])
    [left] = tmp_path.iterdir()
    assert scratch.remove_stale(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    wait_for(lambda: not any(list(folder.glob(f"*{left.name}*")) for folder in cgroups.controllers().folders))


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("dies", ["we", "bubblewrap"])
def test_a_bubblewrap_that_has_not_begun_does_not_stay(dies, tmp_path):
    """It asks to die with its parent only once it is set up; until then somebody else has to end what it leaves."""
    fake, pids = tmp_path / "bwrap", tmp_path / "pids"
    fake.write_text(f"#!/bin/sh\nsetsid sleep 600 &\necho $! $$ > {pids}.new; mv {pids}.new {pids}\nsleep 600\n")
    fake.chmod(0o755)
    code = f"""
import asyncio, pathlib
from tiebreak.core.task import Task
from tiebreak.core.work import Command
from tiebreak.sandbox import command_line
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace
command_line.bubblewrap = lambda: command_line.Bubblewrap({str(fake)!r}, (0, 8))
async def main():
    async with Workspace.open(Task(), isolation=isolation_at("bubblewrap"), scratch=pathlib.Path({str(tmp_path)!r})) as w:
        await w.run(Command(argv=("true",)))
asyncio.run(main())
"""
    ours = subprocess.Popen([sys.executable, "-c", code], cwd=Path(tiebreak.__file__).parent.parent, stderr=subprocess.DEVNULL)
    try:
        wait_for(pids.exists)
        orphan, bubblewrap = map(int, pids.read_text().split())
        if dies == "bubblewrap":
            os.kill(bubblewrap, signal.SIGKILL)
            wait_for(lambda: not alive(orphan))
    finally:
        ours.kill()
        ours.wait()
    wait_for(lambda: not alive(orphan) and not alive(bubblewrap))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_workspace_in_use_is_not_stale(tmp_path):
    """Only the lock of a dead owner is free."""
    scratch.Scratch(tmp_path)
    code = f"import pathlib; from tiebreak.sandbox import scratch; print(scratch.remove_stale(pathlib.Path({str(tmp_path)!r})))"
    root = Path(tiebreak.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.mark.needs("bubblewrap")
async def test_what_was_never_begun_is_our_trouble(tmp_path):
    """A sandbox that cannot be built is no failure of the program."""
    async with Workspace.open(TASK, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        with pytest.raises(SandboxError, match="no folder of this machine") as raised:
            await workspace.run(Command(argv=("true",), readable=("/no/such/folder",)))
        assert raised.value.kind is FailureKind.SANDBOX
        with pytest.raises(SandboxError, match="every attempt"):
            await workspace.run(Command(argv=("true",), readable=(str(tmp_path),)))
        with pytest.raises(SandboxError, match="without one"):
            await workspace.run(Command(argv=("true",), gateway=True))


async def test_readable_folders_can_be_read_and_not_written(workspace, tmp_path_factory):
    """An agent's own installation."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "agent").write_text("installed")
    script = f"cat {folder}/agent; echo hacked > {folder}/agent"
    finished = await workspace.run(Command(argv=("bash", "-c", script), readable=(str(folder),)))
    assert "installed" in finished.output
    assert (folder / "agent").read_text() == "installed"


async def test_without_isolation_the_tree_is_still_ended(tmp_path):
    """The level that has to be allowed."""
    tag = os.urandom(8).hex()
    async with Workspace.open(TASK, isolation=Isolation(level="none", missing=("network",)), scratch=tmp_path) as workspace:
        script = "setsid sleep 600 & disown; echo $PWD"
        finished = await workspace.run(Command(argv=("bash", "-c", script), env={"TAG": tag}))
        assert finished.output == f"{workspace.path}\n"
    assert tagged(tag) == []


def tagged(tag):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TAG={tag}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


async def until(condition, most_s=20):
    end = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def wait_for(condition, most_s=20):
    end = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(("failures", "said"), [(1, ""), (2, ""), (9, "the disk is on fire")])
async def test_a_sandbox_that_gives_up_before_the_command_began_is_started_again(tmp_path, monkeypatch, failures, said):
    """Nothing of the command had run: a busy machine does not cost a trial. What goes on failing says why."""
    real, starts, fake = command_line.bubblewrap(), tmp_path / "starts", tmp_path / "bwrap"
    # It names the first process inside and ends without reading our word, which resets the connection.
    fake.write_text(
        f"""#!/bin/sh
echo >> {starts}
if [ $(wc -l < {starts}) -le {failures} ]; then
    printf '{{"child-pid": %d}}' $$ >&0; sleep 0.1; echo the disk is on fire >&2; exit 1
fi
exec {real.path} "$@"
"""
    )
    fake.chmod(0o755)
    monkeypatch.setattr(command_line, "bubblewrap", lambda: command_line.Bubblewrap(str(fake), real.version))
    async with Workspace.open(TASK, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
        if said:
            with pytest.raises(SandboxError, match=said):
                await workspace.run(Command(argv=("echo", "hello")))
        else:
            assert (await workspace.run(Command(argv=("echo", "hello")))).output == "hello\n"
    assert len(starts.read_text().splitlines()) == min(failures + 1, 3)


async def test_no_variable_of_a_command_is_on_a_command_line(workspace):
    """Everybody on the machine can read those."""
    secret = f"key-{os.urandom(8).hex()}"
    running = asyncio.create_task(workspace.run(Command(argv=("sleep", "3"), env={"AGENT_KEY": secret})))
    await until(lambda: any(b"sleep" in line for line in command_lines()))
    assert [line for line in command_lines() if secret.encode() in line] == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (await workspace.run(Command(argv=("printenv", "AGENT_KEY"), env={"AGENT_KEY": secret}))).output.strip() == secret


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()
