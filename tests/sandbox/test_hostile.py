"""Programs that mean harm: the host is untouched, nothing is left, and the outcome is told right."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from sandbox.hostile import PROGRAMS, Hostile

from tiebreak.core.task import Task, TaskFile, TaskLimits
from tiebreak.core.work import Command, Isolation
from tiebreak.sandbox.workspace import Workspace

LIMITS = TaskLimits(memory_mb=256, processes=64, file_mb=64, disk_mb=300)
TASK = Task(files=(TaskFile(path="given.txt", content=b"given\n"),), limits=LIMITS)


async def attack(program: Hostile, isolation: Isolation, host, scratch: Path) -> None:
    async with Workspace.open(TASK, isolation=isolation, scratch=scratch) as workspace:
        command = Command(argv=("bash", "-c", program.script), env=host.env, timeout_s=program.timeout_s)
        finished = await asyncio.wait_for(workspace.run(command), program.timeout_s + 10)
        assert host.left_running() == []
        for word in program.says:
            assert word in finished.output
        for word in program.never:
            assert word not in finished.output
        if program.ended_by is not None:
            assert finished.ended_by == program.ended_by, finished
        assert len(finished.output) < 250_000
        # Whatever the names and contents are, the changes can be stored.
        assert msgspec.json.encode(await workspace.changes())
        host.unharmed()
    assert list(scratch.iterdir()) == []


@pytest.fixture
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
async def test_namespaces_hold(program, bubblewrap, host, scratch):
    """Under bubblewrap, every program."""
    if program.needs_groups and {"memory", "processes"} & set(bubblewrap.missing):
        pytest.skip("control groups cannot be used here")
    await attack(program, bubblewrap, host, scratch)


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("program", [p for p in PROGRAMS if not p.needs_namespaces], ids=lambda program: program.name)
async def test_landlock_holds(program, landlock, host, scratch):
    """Under Landlock, every program that does not ask for what only namespaces can give."""
    if program.needs_groups and {"memory", "processes"} & set(landlock.missing):
        pytest.skip("control groups cannot be used here")
    if program.name == "a datagram to the host" and {"udp", "network"} & set(landlock.missing):
        pytest.skip("datagrams are not covered here, and said not to be")
    await attack(program, landlock, host, scratch)
