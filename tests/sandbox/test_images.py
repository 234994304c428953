"""Tasks with an image of their own: made by an engine, run in our sandbox with everything that holds there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.command import run
from support.harbor import TASKS, HarborTask, write_harbor

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Check, Environment, Image, Task, TaskFile, TaskLimits
from tiebreak.core.work import Command
from tiebreak.datasets.tasks import load, read_task, spelled
from tiebreak.sandbox.images import engine
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.workspace import Workspace

BASE = b"FROM debian:bookworm-slim\nWORKDIR /app\nCOPY work.txt .\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def image_task(script: str, *, in_image: bool = False, files: tuple[TaskFile, ...] = (), **limits: int) -> Task:
    context = (TaskFile(path="Dockerfile", content=BASE), TaskFile(path="work.txt", content=b"work\n"))
    return Task(
        check=Check(script=script, in_image=in_image, files=files, timeout_s=30),
        environment=Environment(image=Image(engine="podman", files=context)),
        limits=TaskLimits(**limits),
    )


@pytest.mark.needs("bubblewrap")
def test_simple_dockerfiles_need_no_engine(tmp_path: Path) -> None:
    """The same tasks, the same verdicts; the others are named with their reason."""
    for name, task in TASKS.items():
        if name != "pip":
            write_harbor(tmp_path / "set" / name, task)

    done = run(
        *("batch", "--task", "set", "--models", "baseline/constant", "--agent", "solution,nothing", "--output", "out"),
        cwd=tmp_path,
        timeout=200,
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )

    simple = {name for name, task in TASKS.items() if task.simple} - {"pip"}
    solved = [line for line in done.stdout.splitlines() if ": passed in" in line]
    assert len(solved) == len(simple), done.stdout + done.stderr
    assert sum(": no change in" in line for line in done.stdout.splitlines()) == len(simple)
    said = done.stdout + done.stderr
    for name in TASKS.keys() - simple - {"pip"}:
        assert f"{name}: its Dockerfile" in said and "it needs podman or docker (--sandbox)" in said


@pytest.mark.needs("bubblewrap", "podman")
def test_tasks_of_harbor_run_in_their_images(tmp_path: Path) -> None:
    """Files outside the working folder, settings below /etc, root, several stages: solutions pass, doing nothing fails."""
    chosen = {name: TASKS[name] for name in ("elsewhere", "root", "stages")}
    for name, task in chosen.items():
        write_harbor(tmp_path / "set" / name, task)

    done = run(
        *("batch", "--task", "set", "--sandbox", "podman", "--models", "baseline/constant"),
        *("--agent", "solution,nothing", "--output", "out"),
        cwd=tmp_path,
        timeout=400,
    )

    lines = done.stdout.splitlines()
    assert sum("solution" in line and ": passed in" in line for line in lines) == len(chosen), done.stdout + done.stderr
    assert sum("nothing" in line and ": no change in" in line for line in lines) == len(chosen), done.stdout


@pytest.mark.needs("bubblewrap", "podman")
async def test_an_image_is_a_sandbox_like_any_other(tmp_path: Path) -> None:
    """No network, no host, no changes to the system; memory, processes and time are limited; nothing is left running."""
    canary = tmp_path / "canary"
    canary.write_text("host")
    task = image_task("true", memory_mb=128, processes=32)
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:

        async def sh(script: str, timeout_s: float = 20.0) -> tuple[int | None, str]:
            finished = await workspace.run(Command(argv=("bash", "-c", script), timeout_s=timeout_s))
            return finished.code, finished.ended_by or finished.output.strip()

        assert await sh("pwd; cat work.txt; id -u") == (0, "/app\nwork\n0")
        assert (await sh(f"cat {canary}"))[0] == 1
        assert (await sh("touch /usr/bin/new"))[0] == 1
        assert (await sh("echo >/dev/tcp/1.1.1.1/80"))[0] == 1
        assert (await sh("mount -t tmpfs none /mnt || chown 1:1 work.txt || mknod disk b 8 0"))[0] != 0
        assert (await sh("for i in $(seq 200); do sleep 5 & done; wait"))[0] != 0
        assert await sh("sleep 60", timeout_s=0.5) == (None, "time")
        assert (await sh("(sleep 300 & disown); mkdir -p /opt; echo kept > /opt/kept"))[0] == 0
        assert await sh("cat /opt/kept; ls /proc | grep -c '^[0-9]'") == (0, "kept\n4")
        assert (await workspace.changes()).files == ()
        await workspace.write("new.txt", b"new")
        assert (await workspace.changes()).files == ("new.txt",)


@pytest.mark.needs("bubblewrap", "podman")
async def test_the_judge_is_out_of_reach_of_an_image(tmp_path: Path) -> None:
    """The work runs in the image, the check does not: no expected file is there, and what the work plants has no say."""
    expected = TaskFile(path="expected.txt", content=b"42\n")
    check = "work bash answer.sh > got.txt; cmp got.txt expected.txt"
    cheats = ("cat /app/expected.txt /run/expected.txt", "ln -s expected.txt got.txt; echo", "kill -9 -1; exit 0")
    async with Workspace.open(
        image_task(check, files=(expected,)), isolation=isolation_at("bubblewrap"), scratch=tmp_path
    ) as workspace:
        for script, passes in (("echo 42", True), ("echo 41", False), *((cheat, False) for cheat in cheats)):
            await workspace.write("answer.sh", script.encode())
            verdict = await workspace.verify(Check(script=check, files=(expected,), timeout_s=30))
            assert (verdict.passed, verdict.problem) == (passes, ""), (script, verdict.output)


def test_an_engine_that_does_not_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may be installed without its daemon: the engine is asked, and the reason is told."""
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    engine.cache_clear()

    with pytest.raises(SandboxError, match="docker is installed and does not answer"):
        engine("docker")
    with pytest.raises(SandboxError, match="is no container engine"):
        engine("rkt")
    engine.cache_clear()


def test_an_image_may_be_named_instead_of_built(tmp_path: Path) -> None:
    """With an engine, tasks are read whatever their Dockerfile; without one they are skipped."""
    folder = write_harbor(tmp_path / "named", HarborTask("FROM nowhere/else:1\n", "true", "true"))
    (folder / "task.toml").write_text('[environment]\ndocker_image = "some/image@sha256:00"\n')

    task = read_task(folder, engine="podman").task

    assert task is not None and task.environment.image == Image(engine="podman", reference="some/image@sha256:00")
    assert task.check is not None and task.check.in_image
    assert subprocess.run(["bash", "-n", "-c", task.check.script], check=True, timeout=10).returncode == 0
    with pytest.raises(Exception, match="needs podman or docker"):
        load(spelled([folder]))
