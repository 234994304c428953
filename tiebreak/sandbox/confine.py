"""A link of the chain where there are no namespaces: Landlock rules, no privileges, then the program.

python -I -S confine.py KEY=VALUE… -- PROGRAM…
landlock=0|1   write=FOLDER   read=PATH   port=NUMBER   cwd=FOLDER
environment=DESCRIPTOR (NAME=VALUE, a zero byte between)
procs=FILE (cgroup.procs of a control group to enter)   limit=RESOURCE:SOFT:HARD
user=NUMBER (whom root becomes)   seccomp=DESCRIPTOR (of a filter of system calls)
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_SET_PDEATHSIG, _NO_NEW_PRIVS, _DROP_BOUND = 1, 38, 24
_KEEP_CAPABILITIES, _SET_SECCOMP, _FILTER, _AMBIENT, _RAISE = 8, 22, 2, 47, 2
_READ_SEARCH = 2
"""The capability to read what is closed to a user. Under Landlock's rules, that is what they allow and nothing else."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12))
"""Removing folders and files; making folders, files, sockets, pipes, links. Devices are never made."""
_DEVICES = (1 << 6) | (1 << 11)
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_DEVICE_FILES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Nothing more than the rules allow, then the program."""
    split = sys.argv.index("--")
    settings = [word.partition("=")[::2] for word in sys.argv[1:split]]
    program, keeper = sys.argv[split + 1 :], os.getppid()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, and programs inherit that.
        signal.signal(ignored, signal.SIG_DFL)
    os.chdir(_first(settings, "cwd"))
    _limit(settings)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("confine: privileges cannot be given up")
    if _first(settings, "landlock") == "1":
        _restrict(settings)
    _give_up_privileges(int(_first(settings, "user") or 0))
    # A change of user makes the kernel forget that we die with our keeper.
    _die_with(keeper)
    if descriptor := _first(settings, "seccomp"):
        _filter_calls(int(descriptor))
    env = _environment(int(_first(settings, "environment")))
    os.execve(program[0], program, env)  # noqa: S606


def _environment(descriptor: int) -> dict[bytes, bytes]:
    with open(descriptor, "rb") as file:
        variables = file.read().split(b"\0")
    return {name: value for name, _, value in (variable.partition(b"=") for variable in variables) if name}


def _die_with(keeper: int) -> None:
    libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)


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
    return next((value for key, value in settings if key == wanted), "")


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


def _give_up_privileges(user: int) -> None:
    """Root becomes another user, who owns nothing of this machine's; without one, root that may nothing more than a user."""
    kept = 1 << _READ_SEARCH if user else 0
    for capability in range(64):
        if not kept & (1 << capability):
            libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    if user:
        libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("Ii", 0x20080522, 0)
    if libc.capset(header, struct.pack("IIIIII", kept, kept, kept, 0, 0, 0)):
        sys.exit("confine: capabilities cannot be given up")
    if user and libc.prctl(_AMBIENT, _RAISE, _READ_SEARCH, 0, 0):
        sys.exit("confine: the other user could not read the sandbox's own files")


def _filter_calls(descriptor: int) -> None:
    program = os.read(descriptor, 1 << 16)
    os.close(descriptor)
    place = ctypes.create_string_buffer(program, len(program))
    if libc.prctl(_SET_SECCOMP, _FILTER, struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(place)), 0, 0):
        sys.exit(f"confine: system calls cannot be filtered: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
