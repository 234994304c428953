"""Control groups: the limits on memory and processes that hold for a whole tree, where this machine lets us set them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tiebreak.core.task import TaskLimits

PREFIX = "tiebreak-"
_MB = 1 << 20
_STALE_TRIES, _STALE_PAUSE_S = 100, 0.02


@dataclass(frozen=True, slots=True)
class Controllers:
    """The folders below which groups can be made; version 2 has one for everything."""

    memory: Path | None = None
    processes: Path | None = None
    version: int = 0

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each folder once."""
        return tuple(dict.fromkeys(folder for folder in (self.memory, self.processes) if folder))

    @property
    def missing(self) -> tuple[str, ...]:
        """The limits that nobody can set here."""
        return tuple(name for name, folder in (("memory", self.memory), ("processes", self.processes)) if folder is None)


@cache
def controllers() -> Controllers:
    """What this machine lets us use. Always below our own group: its limits go on holding."""
    mounts = _mounts()
    return _second_version(mounts) or _first_version(mounts)


def _mounts() -> dict[str, Path]:
    """Where each controller of version 1 is mounted; version 2 as the empty name."""
    found: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split()[:3]
            place = Path(before.split()[4])
            if kind == "cgroup2":
                found.setdefault("", place)
            elif kind == "cgroup":
                found.update({option: place for option in options.split(",") if option in ("memory", "pids")})
    return found


def _own_groups() -> dict[str, str]:
    """Our own group of each controller, as a path below its mount."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            found.update({name: path.lstrip("/") for name in names.split(",")})
    return found


def _second_version(mounts: dict[str, Path]) -> Controllers | None:
    """The nearest group at or above ours that shares both controllers out and lets us make groups."""
    if "" not in mounts:
        return None
    own = mounts[""] / _own_groups().get("", "")
    for folder in (own, *own.parents):
        if not folder.is_relative_to(mounts[""]):
            break
        with contextlib.suppress(OSError):
            offered = set((folder / "cgroup.controllers").read_text(encoding="ascii").split())
            if not {"memory", "pids"} <= offered:
                continue
            if not {"memory", "pids"} <= set((folder / "cgroup.subtree_control").read_text(encoding="ascii").split()):
                # Allowed for the root group, and for one that holds no process itself.
                (folder / "cgroup.subtree_control").write_text("+memory +pids", encoding="ascii")
            if _can_join(folder):
                return Controllers(folder, folder, 2)
    return None


def _first_version(mounts: dict[str, Path]) -> Controllers:
    own, usable = _own_groups(), {}
    for name in ("memory", "pids"):
        if name in mounts:
            inside = mounts[name] / own.get(name, "")
            # A container sees its own group as the mount itself, under a path it cannot see.
            folder = inside if inside.is_dir() else mounts[name]
            usable[name] = folder if _can_join(folder) else None
    return Controllers(usable.get("memory"), usable.get("pids"), 1)


def _can_join(folder: Path) -> bool:
    """Whether a group can be made here; a process of ours may then enter it by the same permission."""
    probe = folder / f"{PREFIX}probe-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    with contextlib.suppress(OSError):
        probe.rmdir()
    return os.access(folder / "cgroup.procs", os.W_OK)


class Group:
    """One command's group: made before it begins, gone after it."""

    def __init__(self, name: str, limits: TaskLimits) -> None:
        self._version = controllers().version
        self.folders: list[Path] = []
        for folder in controllers().folders:
            group = folder / f"{PREFIX}{name}"
            group.mkdir()
            self.folders.append(group)
        for file, value in self._settings(limits):
            file.write_text(str(value), encoding="ascii")

    def _settings(self, limits: TaskLimits) -> list[tuple[Path, int]]:
        memory_bytes = limits.memory_mb * _MB
        wanted = {"pids.max": limits.processes}
        if self._version == 2:
            wanted |= {"memory.max": memory_bytes, "memory.swap.max": 0}
        else:
            # In this order: memory with swap may never be less than memory alone.
            wanted |= {"memory.limit_in_bytes": memory_bytes, "memory.memsw.limit_in_bytes": memory_bytes}
        return [(group / name, value) for name, value in wanted.items() for group in self.folders if (group / name).exists()]

    @property
    def procs_files(self) -> list[Path]:
        """The cgroup.procs of the group: a process enters by writing 0 into it."""
        return [group / "cgroup.procs" for group in self.folders]

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process for using too much."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        for group in self.folders:
            with contextlib.suppress(OSError):
                words = (group / name).read_text(encoding="ascii").split()
                return dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", "0") != "0"
        return False

    async def remove(self) -> None:
        """Take the group away as soon as its last process is gone."""
        for wait_s in (0.002, 0.005, 0.01, *[0.05] * 40):
            self.folders = [group for group in self.folders if not remove_group(group)]
            if not self.folders:
                return
            for group in self.folders:
                kill_group(group)
            await asyncio.sleep(wait_s)


def kill_group(group: Path) -> None:
    """End every process of a group."""
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


def remove_group(group: Path) -> bool:
    """Whether a group is gone now."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_stale(name: str, folders: Iterable[Path]) -> bool:
    """Whether the groups that a killed owner of this name left in these folders are gone now."""
    left = [group for folder in folders for group in folder.glob(f"{PREFIX}{name}*")]
    for _ in range(_STALE_TRIES):
        for group in left:
            kill_group(group)
        left = [group for group in left if not remove_group(group)]
        if not left:
            return True
        # A killed process is in its group until its parent has waited for it.
        time.sleep(_STALE_PAUSE_S)
    return False
