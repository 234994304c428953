"""A coding task: files to work in, a check nobody but the runner sees, and a solution that proves the check."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tiebreak.core.digest import digest_of
from tiebreak.core.record import Record


class TaskFile(Record, frozen=True, kw_only=True):
    """One file, by its path below the workspace."""

    path: str
    content: bytes
    executable: bool = False


class Check(Record, frozen=True, kw_only=True):
    """How the work is judged: by a script run on a copy of the workspace. Exit code 0 passes."""

    script: str
    """Run by bash, in the workspace's copy, without network; the first command that fails ends it (`bash -e`)."""
    files: tuple[TaskFile, ...] = ()
    """Laid over the copy before the script runs, so an edited test is the original again. The agent never sees them."""
    protect: tuple[str, ...] = ()
    """Globs of files that must be byte for byte what they were; `**` crosses folders."""
    max_files_changed: int | None = None
    keep: tuple[str, ...] = ()
    """Globs of files that steer a test runner, such as `conftest.py`, when writing them is the work: others are put back."""
    restore: tuple[str, ...] = ()
    """Globs of files that the check finds as they were at the start, and none besides: tests and what they stand on."""
    fail_to_pass: tuple[str, ...] = ()
    """Tests of a suite that must pass and did not at the start."""
    pass_to_pass: tuple[str, ...] = ()
    """Tests of a suite that must go on to pass."""
    timeout_s: float = 60.0
    in_image: bool = False
    """The script runs in the task's image, beside the work: as other tools run their tests."""


class Solution(Record, frozen=True, kw_only=True):
    """A reference solution: files laid over the workspace, then a script run in it."""

    script: str = ""
    files: tuple[TaskFile, ...] = ()


class TaskLimits(Record, frozen=True, kw_only=True):
    """What an attempt may use; None where only the run's own limit holds."""

    timeout_s: float | None = None
    max_model_calls: int | None = None
    memory_mb: int = 2048
    processes: int = 256
    file_mb: int = 512
    """Largest single file."""
    disk_mb: int = 4096
    """All files together; a program that has written more is ended."""


class Image(Record, frozen=True, kw_only=True):
    """What a container engine makes the machine of a task from."""

    engine: str
    """podman or docker."""
    files: tuple[TaskFile, ...] = ()
    """The Dockerfile and what lies beside it."""
    reference: str = ""
    """Instead of a Dockerfile: an image by name and digest."""


class Environment(Record, frozen=True, kw_only=True):
    """What a task needs besides its files: a layer of packages, and what is done once before anybody works."""

    python: str = ""
    """The interpreter of a virtual environment on this machine, shown as it is; empty for none."""
    pip: tuple[TaskFile, ...] = ()
    """Lock files of Python packages, installed once into a layer of their own."""
    npm: tuple[TaskFile, ...] = ()
    """package.json and package-lock.json, installed once into a layer of their own. Without a lock, as they are found then."""
    image: Image | None = None
    """The system the task sees instead of this machine's."""
    setup: str = ""
    """A script run once in the workspace; what it makes there is kept and is part of every attempt's start."""


class Task(Record, frozen=True, kw_only=True, dict=True, gc=True):  # a dict to remember in is one the collector looks at
    """What makes a sample a coding task."""

    title: str = ""
    tags: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()
    """The workspace as the agent finds it."""
    check: Check | None = None
    """None for a task that is only prose: it can be attempted, and nobody can say how it went."""
    solution: Solution | None = None
    cheat: Solution | None = None
    """Something that looks like a solution and is none, such as a hard-coded answer; the check must fail it."""
    limits: TaskLimits = TaskLimits()
    links: tuple[tuple[str, str], ...] = ()
    """Absolute paths that must lead somewhere else, for tasks that name their folders so: (`/app`, `.`) stands for the
    workspace itself, (`/logs`, ``) for an empty folder that is gone afterwards."""
    needs: tuple[str, ...] = ()
    """Programs the check or the work needs in the sandbox, such as `node`."""
    environment: Environment = Environment()
    mcp: tuple[tuple[str, str], ...] = ()
    """Servers of the Model Context Protocol, by name: the command that starts each in the workspace."""

    @cached_property
    def digest(self) -> str:
        """Identity of what is worked on and how it is judged. The solution judges nothing."""
        check = self.check
        return digest_of(
            {
                "files": _listed(self.files),
                "limits": str(self.limits),
                "links": self.links,
                "check": check
                and [check.script, _listed(check.files), check.protect, check.max_files_changed, check.keep, check.timeout_s],
                **_suite(check),
                **_environment(self.environment),
                **({"mcp": self.mcp} if self.mcp else {}),
            }
        )


def _suite(check: Check | None) -> dict[str, Any]:
    """What a check says of a suite; nothing for one without."""
    parts = (check.restore, check.fail_to_pass, check.pass_to_pass) if check else ()
    return {"suite": parts} if any(parts) else {}


def _environment(environment: Environment) -> dict[str, Any]:
    if environment == Environment():
        return {}
    image = environment.image
    made = [image.reference, _listed(image.files)] if image else None
    return {"environment": [environment.python, _listed(environment.pip), _listed(environment.npm), environment.setup, made]}


def _listed(files: tuple[TaskFile, ...]) -> list[list[Any]]:
    return [[file.path, file.content.hex(), file.executable] for file in sorted(files, key=lambda file: file.path)]
