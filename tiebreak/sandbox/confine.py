"""A link of the chain where there are no namespaces: Landlock rules, no privileges, and a keeper of the whole tree.

    python -I -S confine.py KEY=VALUE… -- PROGRAM…
    landlock=0|1   write=FOLDER   read=PATH   port=NUMBER   env=NAME=VALUE   cwd=FOLDER
    procs=FILE (cgroup.procs of a control group to enter)   limit=RESOURCE:SOFT:HARD

The keeper stays outside the rules. Orphans come to it, so that it can end every process the program left behind;
it does so when the program ends, when it is told to (SIGTERM), and when its own parent dies.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import NoReturn

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_SET_PDEATHSIG, _SET_SUBREAPER, _NO_NEW_PRIVS, _DROP_BOUND = 1, 36, 38, 24
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12))
"""Removing folders and files; making folders, files, sockets, pipes, links. Devices are never made."""
_DEVICES = (1 << 6) | (1 << 11)
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Start the program under the rules, keep its tree, end as it ended."""
    split = sys.argv.index("--")
    settings = [word.partition("=")[::2] for word in sys.argv[1:split]]
    if libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0) or libc.prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        sys.exit("confine: the process cannot be made a keeper")
    signal.signal(signal.SIGTERM, _told_to_end)
    child = os.fork()
    if child == 0:
        _become(settings, sys.argv[split + 1 :])
    os.close(0)
    sys.exit(_keep(child))


def _keep(child: int) -> int:
    code = 0
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            break
    _end_all()
    return 128 - code if code < 0 else code


def _told_to_end(*_: object) -> NoReturn:
    _end_all()
    os._exit(128 + signal.SIGTERM)


def _end_all() -> None:
    """Children of the ended come to us in turn, until none is left."""
    while True:
        listed = Path("/proc/self/task", str(os.getpid()), "children").read_text(encoding="ascii").split()
        for pid in listed:
            os.kill(int(pid), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _become(settings: list[tuple[str, str]], program: list[str]) -> NoReturn:
    """In the child: nothing more than the rules allow, then the program."""
    for changed in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        # The last two are ignored by Python, and programs would inherit that.
        signal.signal(changed, signal.SIG_DFL)
    keeper = os.getppid()
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)
    os.chdir(_first(settings, "cwd"))
    _limit(settings)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("confine: privileges cannot be given up")
    if _first(settings, "landlock") == "1":
        _restrict(settings)
    _drop_capabilities()
    env = dict(value.split("=", 1) for key, value in settings if key == "env")
    os.execve(program[0], program, env)  # noqa: S606


def _limit(settings: list[tuple[str, str]]) -> None:
    for key, value in settings:
        if key == "procs":
            Path(value).write_text("0", encoding="ascii")
        elif key == "limit":
            number, soft, hard = map(int, value.split(":"))
            most = resource.getrlimit(number)[1]
            fits = hard if most == resource.RLIM_INFINITY else min(hard, most)
            resource.setrlimit(number, (min(soft, fits), fits))


def _first(settings: list[tuple[str, str]], wanted: str) -> str:
    return next(value for key, value in settings if key == wanted)


def _restrict(settings: list[tuple[str, str]]) -> None:
    abi = _called(_CREATE, None, 0, 1)
    read = _EXECUTE | _READ_FILE | _READ_DIR
    write = read | _WRITE_FILE | _CHANGE | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    handled = write | _DEVICES | (_IOCTL if abi >= 5 else 0)
    network, scoped = (3 if abi >= 4 else 0), (3 if abi >= 6 else 0)
    attributes = struct.pack("QQQ", handled, network, scoped)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = _called(_CREATE, attributes, len(attributes), 0)
    of_a_file = _EXECUTE | _READ_FILE | _WRITE_FILE | (_TRUNCATE if abi >= 3 else 0)
    for key, value in settings:
        if key in ("read", "write"):
            rights = write if key == "write" else read
            _allow(rules, value, rights if Path(value).is_dir() else rights & of_a_file)
        elif key == "port" and network:
            _called(_ADD, rules, 2, struct.pack("QQ", 2, int(value)), 0)
    for device in filter(os.path.exists, _DEVICE_FILES):
        _allow(rules, device, _READ_FILE | _WRITE_FILE)
    _called(_RESTRICT, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _called(_ADD, rules, 1, struct.pack("=Qi", rights, descriptor), 0)
    os.close(descriptor)


def _called(*arguments: object) -> int:
    result = int(libc.syscall(*arguments))
    if result < 0:
        sys.exit(f"confine: Landlock: {os.strerror(ctypes.get_errno())}")
    return result


def _drop_capabilities() -> None:
    """Root without them owns its files and nothing more: no devices, no clock, no modules, no mounts."""
    for capability in range(64):
        libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)
    if libc.capset(header, bytes(24)):
        sys.exit("confine: capabilities cannot be given up")


if __name__ == "__main__":
    main()
