"""The command line that starts a program in the sandbox: a chain of programs, described in the room's own docstring."""

from __future__ import annotations

import fcntl
import math
import os
import posixpath
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import TaskLimits
from tiebreak.core.work import Command, Isolation
from tiebreak.sandbox import bridge, cgroups, seccomp

WORKSPACE, HOME = "/workspace", "/home/agent"
"""Where bubblewrap shows the two folders: the same in every attempt, so nothing random reaches a prompt."""
_HERE = Path(__file__).resolve().parent
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_ETC_FOLDERS = ("ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates", "alternatives")
"""Never `ssl` as a whole: it holds private keys, which an attempt that root started could read."""
_ETC_FILES = ("ld.so.cache", "localtime", "ssl/openssl.cnf", "pki/tls/openssl.cnf")
_OWN_ETC = ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf")
_PROC_OF_ROOT = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "mtrr", "pressure"))
_OPEN_FILES = 4096
_VAR_TMP = ("--symlink", "../tmp", "/var/tmp")  # noqa: S108 - the sandbox's own
_BEGIN = r"""printf '\001' >&0 || exit 120; exec <"$1"; shift; exec "$@" """
"""Says that the program begins, on the socket; takes the program's own input instead; becomes the program."""
_NO_CHANGES = 0x1 | 0x2 | 0x4 | 0x8
"""Seals of a file in memory: no further seals, no shrinking, no growing, no writing."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of this machine that programs inside may write to."""

    workspace: Path
    home: Path
    temporary: Path
    """For programs that have no /tmp of their own."""
    root: Path | None = None
    """The folder that programs of an image see as the root of their system; the workspace lies in it."""

    @classmethod
    def below(cls, folder: Path, isolation: Isolation) -> Folders:
        """New ones, which only the user who works in them can enter."""
        made = [folder / name for name in ("workspace", "home", "temporary")]
        for path in made:
            path.mkdir(mode=0o700)
            if user := other_user(isolation):
                os.chown(path, user, user)
        return cls(*made)

    @property
    def all(self) -> tuple[Path, Path, Path]:
        """Each of them."""
        return self.workspace, self.home, self.temporary


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A system that programs see instead of this machine's."""

    system: tuple[tuple[str, str], ...]
    """Folders of this machine that make it up and cannot be changed, and where they are shown."""
    workdir: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What programs inside may see and use."""

    name: str
    isolation: Isolation
    limits: TaskLimits
    folders: Folders | None = None
    """Without them, bubblewrap gives empty ones that vanish at the end."""
    gateway: bridge.Gateway | None = None
    extra: Mapping[str, bytes] = field(default_factory=dict)
    """Files of ours that programs inside may read; see `extra_path`."""
    links: tuple[tuple[str, str], ...] = ()
    """Absolute paths that lead into the workspace, or are empty folders; see Task.links."""

    readable: tuple[str, ...] = ()
    """Folders of this machine that programs inside may read: what the task's environment is made of."""
    path: tuple[str, ...] = ()
    """Folders that come first on PATH."""
    mounts: tuple[tuple[str, str], ...] = ()
    """A folder of this machine, and where programs inside find it; needs namespaces."""
    environment_python: str = ""
    machine: Machine | None = None
    """None for this machine's own system."""

    @property
    def python(self) -> str:
        """The interpreter of the task's environment; ours where it has none."""
        return self.environment_python or ("python3" if self.machine else python_inside())

    def extra_path(self, name: str) -> str:
        """Where programs inside find an extra file."""
        return f"/run/{name}" if self.namespaces else f"{self._outside.temporary}/{name}"

    @property
    def _outside(self) -> Folders:
        if self.folders is None:
            raise SandboxError(f"at the level {self.isolation.level!r} nothing can be run without a folder")
        return self.folders

    @property
    def namespaces(self) -> bool:
        """Whether programs see folders of their own rather than the machine's."""
        return self.isolation.level == "bubblewrap"

    @property
    def cwd(self) -> str:
        """The workspace as programs inside see it."""
        if self.machine is not None:
            return self.machine.workdir
        return WORKSPACE if self.namespaces else str(self._outside.workspace)

    @property
    def home_inside(self) -> str:
        """The home as programs inside see it."""
        return HOME if self.namespaces else str(self._outside.home)

    @property
    def own_network(self) -> bool:
        """Whether programs have a network with nothing in it."""
        return not {"network", "udp"} & set(self.isolation.missing)

    @property
    def gateway_port(self) -> int:
        """Where programs inside find the gateway. In the machine's own network only the gateway's own port can be it."""
        if self.gateway is None:
            return 0
        if self.own_network:
            return bridge.PORT
        if isinstance(self.gateway, str):
            raise SandboxError("without a network of its own a sandbox reaches a gateway by host and port, not by a unix socket")
        return self.gateway[1]


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The program, and what its version can do."""

    path: str
    version: tuple[int, ...]

    @property
    def modern(self) -> bool:
        """Whether it can limit a /tmp and forbid further user namespaces."""
        return self.version >= (0, 8)


_USER = 1000
_NOBODY = 65534
_NEEDED_TO_BE_ANOTHER = 1 << 0 | 1 << 2 | 1 << 6 | 1 << 7
"""Capabilities: to give files away, to read others', to change the group, to change the user."""


def other_user(isolation: Isolation) -> int:
    """The user that programs run as where root has no namespaces to put them in; 0 where they run as who we are."""
    return _NOBODY if isolation.level == "landlock" and can_change_user() else 0


@cache
def can_change_user() -> bool:
    """Whether we are root, with the privileges to become nobody."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    held = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
    known = (line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines())
    mapped = any(int(first) <= _NOBODY < int(first) + int(count) for first, _, count in known)
    return os.geteuid() == 0 and held & _NEEDED_TO_BE_ANOTHER == _NEEDED_TO_BE_ANOTHER and mapped


@cache
def bubblewrap() -> Bubblewrap | None:
    """The program on this machine; nowhere but in the system's own folders is looked."""
    path = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin")
    if path is None:
        return None
    said = subprocess.run([path, "--version"], env={}, capture_output=True, text=True, check=False, timeout=20).stdout
    return Bubblewrap(path, tuple(map(int, re.findall(r"\d+", said))))


@cache
def python_inside() -> str:
    """The interpreter programs find first: our own, outside any virtual environment."""
    return str(Path(sys.executable).resolve())


@cache
def _readable_always() -> tuple[str, ...]:
    """What a program needs that the system's folders do not hold: our interpreter's installation, where it is elsewhere."""
    prefix = Path(sys.base_prefix).resolve()
    return () if prefix.is_relative_to("/usr") else (str(prefix),)


def environment(box: Box, command: Command) -> dict[str, str]:
    """What programs inside find in their environment: nothing of ours."""
    own_bin = "".join(f"{folder}:" for folder in (*box.path, *(f"{folder}/bin" for folder in _readable_always())))
    if box.machine is not None:
        return {**_environment(box, ""), **box.machine.env, **command.env}
    return {**_environment(box, own_bin), **command.env}


def _environment(box: Box, own_bin: str) -> dict[str, str]:
    return {
        "PATH": f"{own_bin}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": box.home_inside,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp" if box.namespaces else box.extra_path(""),  # noqa: S108 - the sandbox's own
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Descriptors:
    """What a chain inherits besides its standard streams; closed in this process once it has been started."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def keep(self, descriptor: int) -> str:
        """Hand a descriptor on; gives its number as a word."""
        self.numbers.append(descriptor)
        return str(descriptor)

    def content(self, data: bytes) -> str:
        """Something to read that is nowhere on the disk, and cannot be changed by who reads it."""
        descriptor = os.memfd_create("tiebreak", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        self.keep(descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _NO_CHANGES)
        return str(descriptor)

    def close(self) -> None:
        """Let go of all."""
        for descriptor in self.numbers:
            os.close(descriptor)
        self.numbers.clear()


def command_line(
    box: Box, command: Command, control: socket.socket, inherited: Descriptors, *, procs_files: list[Path], port: int
) -> list[str]:
    """The whole command line. `control` learns when the program begins; it is the first shell's standard input."""
    words = []
    if box.own_network and (port or not box.namespaces):
        words = [python_inside(), "-I", "-S", str(_HERE / "gate.py"), "0", str(port)]
    words += [python_inside(), "-I", "-S", str(_HERE / "keeper.py"), str(os.getpid())]
    # A name of its own: without namespaces, commands that run at once share a folder.
    given = f"stdin-{os.urandom(4).hex()}"
    extra = {**box.extra, given: command.stdin} if command.stdin else box.extra
    if box.namespaces:
        words += _bubblewrap_words(box, command, control, inherited, extra=extra, own_network=not port)
    else:
        words += _landlock_words(box, command, port, procs_files, inherited)
        for name, content in extra.items():
            Path(box.extra_path(name)).write_bytes(content)
    stdin = box.extra_path(given) if command.stdin else os.devnull
    return [*words, "--", "/bin/sh", "-c", _BEGIN, "sh", stdin, *_process_limit(box), *command.argv]


def _process_limit(box: Box) -> list[str]:
    """In a user namespace of an ordinary user, the kernel counts the processes of that namespace alone."""
    counted = box.namespaces and os.getuid() != 0 and cgroups.controllers().processes is None
    return ["/usr/bin/prlimit", f"--nproc={box.limits.processes}", "--"] if counted else []


def resource_limits(box: Box, command: Command) -> Iterator[tuple[int, int, int]]:
    """What each process may use: resource, limit, and the limit nobody inside can raise it to."""
    file_bytes = box.limits.file_mb << 20
    yield resource.RLIMIT_CORE, 0, 0
    yield resource.RLIMIT_FSIZE, file_bytes, file_bytes
    yield resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES
    if "memory" in box.isolation.missing:
        # Not the tree's memory, but each process's data: better than nothing, and said to be missing.
        yield resource.RLIMIT_DATA, box.limits.memory_mb << 20, box.limits.memory_mb << 20
    if command.cpu_s is not None:
        seconds = max(1, math.ceil(command.cpu_s))
        yield resource.RLIMIT_CPU, seconds, seconds + 1


def _bubblewrap_words(
    box: Box, command: Command, control: socket.socket, inherited: Descriptors, *, extra: Mapping[str, bytes], own_network: bool
) -> Iterator[str]:
    """Bubblewrap; its arguments go through a descriptor, so that nothing inside reads this machine's paths in them."""
    program = bubblewrap()
    if program is None:
        raise SandboxError("bubblewrap is gone from this machine: install the package bubblewrap")
    arguments = [*_namespaces(program, own_network=own_network, user=0 if box.machine else _USER)]
    # It says which process is the first inside, and waits for our word before it goes on: see execute.
    arguments += ["--info-fd", inherited.keep(os.dup(control.fileno())), "--block-fd", inherited.keep(os.dup(control.fileno()))]
    if seccomp.available():
        arguments += ["--seccomp", inherited.content(seccomp.filter_program(namespaces=True))]
    arguments += _mounts(box, command, program, inherited, extra)
    for name, value in environment(box, command).items():
        arguments += ["--setenv", name, value]
    arguments += ["--chdir", box.cwd]
    yield from (program.path, "--args", inherited.content("\0".join(arguments).encode("utf-8", "surrogateescape")))


def _namespaces(program: Bubblewrap, *, own_network: bool, user: int) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
    yield from ("--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox")
    yield from ("--uid", str(user), "--gid", str(user))
    if own_network:
        yield "--unshare-net"
    if program.modern:
        yield "--disable-userns"


def _mounts(box: Box, command: Command, program: Bubblewrap, inherited: Descriptors, extra: Mapping[str, bytes]) -> Iterator[str]:
    yield from _machine(box, box.machine) if box.machine else ("--dir", "/run", "--dir", "/var", *_VAR_TMP)
    yield from ("--proc", "/proc", "--dev", "/dev")
    if os.getuid() == 0:
        # Inside it is an ordinary user, yet the kernel still takes it for root when it guards these by owner.
        for path in filter(os.path.exists, _PROC_OF_ROOT):
            yield from ("--ro-bind", path, path)
    yield from _empty_folder("/tmp", box, program)  # noqa: S108
    yield from () if box.machine else _system()
    # Written into the new root rather than mounted: a mount costs more than a small file.
    for source, name in _names_files() if box.machine else _etc_files():
        yield from ("--file", inherited.keep(os.open(source, os.O_RDONLY | os.O_CLOEXEC)), f"/etc/{name}")
    for name, content in extra.items():
        yield from ("--file", inherited.content(content), box.extra_path(name))
    for folder in (*_readable_always(), *_checked_readable(box, command)):
        yield from ("--ro-bind", folder, folder)
    for folder, place in box.mounts:
        yield from ("--ro-bind", folder, place)
    yield from _places(box, program)
    yield from () if box.machine else ("--remount-ro", "/")


def _places(box: Box, program: Bubblewrap) -> Iterator[str]:
    """The workspace, which is a part of an image's own root, the home, and what leads there."""
    if box.folders is None:
        yield from (*_empty_folder(HOME, box, program), *_empty_folder(WORKSPACE, box, program))
    else:
        yield from ("--bind", str(box.folders.home), HOME)
        yield from () if box.machine else ("--bind", str(box.folders.workspace), WORKSPACE)
    for path, target in box.links:
        yield from ("--symlink", posixpath.normpath(f"{WORKSPACE}/{target}"), path) if target else ("--tmpfs", path)


def _machine(box: Box, machine: Machine) -> Iterator[str]:
    """The system of an image: a root of the attempt's own, and over it what nobody can change."""
    if box.folders is None or box.folders.root is None:
        raise SandboxError("a task with an image of its own needs folders to run in")
    yield from ("--bind", str(box.folders.root), "/")
    for folder, place in machine.system:
        yield from ("--ro-bind", folder, place)
    yield from ("--tmpfs", "/run")


def _names_files() -> tuple[tuple[str, str], ...]:
    return tuple((str(_HERE / "etc" / name), name) for name in ("hosts", "resolv.conf"))


def _empty_folder(inside: str, box: Box, program: Bubblewrap) -> Iterator[str]:
    if program.modern:
        yield from ("--size", str(box.limits.disk_mb << 20))
    yield from ("--tmpfs", inside)


@cache
def _etc_files() -> tuple[tuple[str, str], ...]:
    own = [(str(_HERE / "etc" / name), name) for name in _OWN_ETC]
    return (*own, *((f"/etc/{name}", name) for name in _ETC_FILES if Path("/etc", name).is_file()))


@cache
def _system() -> tuple[str, ...]:
    words = ["--ro-bind", "/usr", "/usr"]
    for folder in map(Path, _SYSTEM):
        if folder.is_symlink():
            words += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            words += ["--ro-bind", str(folder), str(folder)]
    for path in (f"/etc/{name}" for name in _ETC_FOLDERS):
        if Path(path).is_dir():
            words += ["--ro-bind", path, path]
    return tuple(words)


def _checked_readable(box: Box, command: Command) -> Iterator[str]:
    """Folders an agent is installed in; never one that would show other attempts or their checks."""
    private = box.folders.all if box.folders else ()
    for folder in dict.fromkeys((*box.readable, *command.readable)):
        path = Path(folder)
        if not path.is_absolute() or not path.exists():
            raise SandboxError(f"{folder!r} cannot be shown inside the sandbox: it is no folder of this machine")
        if any(own.is_relative_to(path.resolve()) for own in private):
            raise SandboxError(f"{folder!r} cannot be shown inside the sandbox: it holds the workspaces of every attempt")
        yield folder


def _landlock_words(box: Box, command: Command, port: int, procs_files: list[Path], inherited: Descriptors) -> Iterator[str]:
    """Landlock, or nothing but the keeper of the process tree."""
    if box.machine is not None:
        raise SandboxError("a task with an image of its own can be run only where bubblewrap works")
    if named := [place for place, _ in box.links] + [place for _, place in box.mounts]:
        raise SandboxError(f"the task names folders such as {named[0]}, which can be had only where bubblewrap works")
    yield from (python_inside(), "-I", "-S", str(_HERE / "confine.py"))
    yield f"landlock={int(box.isolation.level == 'landlock')}"
    yield f"user={other_user(box.isolation) or ''}"
    if box.isolation.level == "landlock" and seccomp.available():
        yield f"seccomp={inherited.content(seccomp.filter_program(namespaces=False))}"
    yield f"cwd={box.cwd}"
    for file in procs_files:
        yield f"procs={file}"
    for number, soft, hard in resource_limits(box, command):
        yield f"limit={number}:{soft}:{hard}"
    for folder in box.folders.all if box.folders else ():
        yield f"write={folder}"
    etc = (*_ETC_FOLDERS, *_ETC_FILES, *_OWN_ETC)
    system = ("/usr", *_SYSTEM, "/proc", "/sys/devices/system/cpu", *(f"/etc/{name}" for name in etc))
    for path in (*system, *_readable_always(), *_checked_readable(box, command)):
        if Path(path).exists():
            yield f"read={path}"
    if port:
        yield f"port={port}"
    # By a descriptor: a command line can be read by everybody on the machine, and an agent's key is in here.
    variables = "\0".join(f"{name}={value}" for name, value in environment(box, command).items())
    yield f"environment={inherited.content(variables.encode('utf-8', 'surrogateescape'))}"
