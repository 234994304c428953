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
    timeout_s: float = 60.0


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
    """Programs the check or the work needs on this machine, such as `node`."""

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
            }
        )


def _listed(files: tuple[TaskFile, ...]) -> list[list[Any]]:
    return [[file.path, file.content.hex(), file.executable] for file in sorted(files, key=lambda file: file.path)]
