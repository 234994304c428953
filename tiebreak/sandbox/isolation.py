"""What this machine allows: bubblewrap with namespaces, else Landlock, else a refusal that names the fix."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tiebreak.core.errors import SandboxError, exhausted
from tiebreak.core.task import TaskLimits
from tiebreak.core.work import Command, Isolation
from tiebreak.sandbox import cgroups, seccomp
from tiebreak.sandbox.command_line import Box, Folders, bubblewrap, can_change_user, python_inside
from tiebreak.sandbox.execute import execute
from tiebreak.sandbox.scratch import Scratch

_LANDLOCK_CREATE = 444
_USERNS_SWITCHES = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", "apparmor"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
}
_APPARMOR_FIX = (
    "AppArmor forbids user namespaces here (the default of Ubuntu 24.04): "
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 allows them; to keep it after a restart, write "
    "kernel.apparmor_restrict_unprivileged_userns=0 into /etc/sysctl.d/60-userns.conf"
)
_DOCKER_FIX = (
    "inside a container, namespaces are forbidden by its seccomp profile: start it with "
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)
_INSTALL_FIX = "install bubblewrap: apt install bubblewrap (dnf, pacman, apk and zypper have it under the same name)"


async def detect_isolation(*, allow_unsandboxed: bool = False) -> Isolation:
    """How programs are kept apart here, by having tried it. Refuses where they are not, unless that is allowed."""
    if sys.platform != "linux":
        raise SandboxError("programs are kept apart by Linux alone: elsewhere, use a Linux container, a virtual machine or WSL")
    try:
        found = await asyncio.to_thread(_detected)
    except (OSError, RuntimeError) as error:
        raise SandboxError(f"the sandbox cannot be tried: {exhausted(error) or error}") from error
    if found.level == "none" and not allow_unsandboxed:
        raise SandboxError(
            f"programs cannot be kept apart from this machine: {how_to_fix()}. --allow-unsandboxed runs them with all your rights"
        )
    return found


def isolation_at(level: str) -> Isolation:
    """A level by name, with what it does not cover here; whether it works is another question."""
    return Isolation(level=level, missing=_missing(level))


@cache
def _detected() -> Isolation:
    # In a thread without a loop: tried by the very code that runs commands later.
    for level, possible in (("bubblewrap", bubblewrap() is not None), ("landlock", landlock_version() > 0)):
        failure = why_not(level) if possible else "it is not there"
        if not failure:
            return isolation_at(level)
        for number in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE):
            if os.strerror(number) in failure:
                # The level may well work here: a lower one must not take its place.
                raise OSError(number, failure)
    return isolation_at("none")


@cache
def _missing(level: str) -> tuple[str, ...]:
    """What a level does not cover on this machine."""
    limits = list(cgroups.controllers().missing)
    if level == "bubblewrap":
        if "processes" in limits and os.getuid() != 0 and shutil.which("prlimit", path="/usr/bin"):
            limits.remove("processes")
        return (*limits, *(() if seccomp.available() else ("keyrings",)))
    network = () if _own_network() else ("network",) if level == "none" or landlock_version() < 4 else ("udp",)
    signals = () if level == "landlock" and landlock_version() >= 6 else ("signals",)
    files = () if level == "landlock" else ("reading files", "writing files")
    attributes = () if level == "landlock" and can_change_user() else ("file attributes",)
    filtered = level == "landlock" and seccomp.available()
    calls = () if filtered else ("unix sockets", "shared memory", "process settings", "keyrings")
    return (*limits, *network, *signals, *files, *attributes, *calls, "process list")


@cache
def _own_network() -> bool:
    """Whether a network namespace can be had without bubblewrap."""
    gate = str(Path(__file__).with_name("gate.py"))
    command = [python_inside(), "-I", "-S", gate, "0", "0", "/bin/true"]
    return subprocess.run(command, env={}, capture_output=True, check=False, timeout=60).returncode == 0


@cache
def landlock_version() -> int:
    """The version of the kernel's Landlock interface; 0 where there is none."""
    return max(0, int(ctypes.CDLL(None).syscall(_LANDLOCK_CREATE, None, 0, 1)))


@cache
def why_not(level: str) -> str:
    """What happens when a command is run at a level; empty when it works."""
    return asyncio.run(_trial(isolation_at(level)))


async def _trial(isolation: Isolation) -> str:
    scratch = Scratch()
    try:
        limits = TaskLimits(memory_mb=256, processes=64)
        box = Box(name=scratch.name, isolation=isolation, limits=limits, folders=Folders.below(scratch.path, isolation))
        finished = await execute(box, Command(argv=("/bin/true",), timeout_s=30))
    except SandboxError as error:
        return str(error)
    else:
        return "" if finished.code == 0 else f"/bin/true ended with {finished.code} {finished.ended_by}: {finished.output}"
    finally:
        await scratch.remove()


def how_to_fix() -> str:
    """What to do for the best level; empty when this machine has it."""
    if _detected().level == "bubblewrap":
        return ""
    if bubblewrap() is None:
        return _INSTALL_FIX
    for path, (forbidden, fix) in _USERNS_SWITCHES.items():
        if Path(path).is_file() and Path(path).read_text(encoding="ascii").strip() == forbidden and os.getuid() != 0:
            return _APPARMOR_FIX if fix == "apparmor" else f"user namespaces are switched off: sudo {fix}"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return _DOCKER_FIX
    return f"bubblewrap does not work here: {why_not('bubblewrap')}"


def how_to_limit(isolation: Isolation) -> str:
    """What to do for limits that are missing; empty when none is."""
    if not {"memory", "processes"} & set(isolation.missing):
        return ""
    if os.getuid() == 0:
        return "control groups are read-only here: in a container, docker run --privileged or -v /sys/fs/cgroup:/sys/fs/cgroup:rw"
    return "control groups need a place of their own: systemd-run --user --scope -p Delegate=yes tiebreak …"
