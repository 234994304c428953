"""A filter of system calls: what neither namespaces nor Landlock keep from a program.

The kernel runs the filter, a small program of its own kind (BPF), before every system call of the sandbox. A call that is
refused fails with EPERM. The numbers are those of the kernel's tables for the two machines we know; elsewhere there is no
filter, and the isolation says so.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_AF_UNIX = 1


@dataclass(frozen=True)
class _Machine:
    audit: int
    """How the kernel names it."""
    numbers: dict[str, int]


def _numbered(text: str) -> dict[str, int]:
    words = text.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        _numbered("""
            socket 41 shmget 29 shmat 30 shmctl 31 semget 64 semop 65 semctl 66 semtimedop 220 msgget 68 msgsnd 69 msgrcv 70
            msgctl 71 mq_open 240 mq_unlink 241 add_key 248 request_key 249 keyctl 250 prlimit64 302 setpriority 141
            sched_setparam 142 sched_setscheduler 144 sched_setaffinity 203 sched_setattr 314 ioprio_set 251 migrate_pages 256
            move_pages 279 io_uring_setup 425 open_by_handle_at 304
        """),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        _numbered("""
            socket 198 shmget 194 shmat 196 shmctl 195 semget 190 semop 193 semctl 191 semtimedop 192 msgget 186 msgsnd 189
            msgrcv 188 msgctl 187 mq_open 180 mq_unlink 181 add_key 217 request_key 218 keyctl 219 prlimit64 261 setpriority 140
            sched_setparam 118 sched_setscheduler 119 sched_setaffinity 122 sched_setattr 274 ioprio_set 30 migrate_pages 238
            move_pages 239 io_uring_setup 425 open_by_handle_at 265
        """),
    ),
}
_KEYS = ("add_key", "request_key", "keyctl", "open_by_handle_at")
"""The kernel's keyrings know no namespaces: the session's keys would be there for the taking."""
_SHARED = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink", "migrate_pages", "move_pages"),
    # It does what other calls do, and is not filtered.
    "io_uring_setup",
)
_OF_OTHERS = {"prlimit64": 0, "setpriority": 1, "sched_setparam": 0, "sched_setscheduler": 0, "sched_setaffinity": 0}
_OF_OTHERS |= {"sched_setattr": 0, "ioprio_set": 1}
"""Calls that may concern the caller alone: which argument names the process, 0 being the caller."""


def available() -> bool:
    """Whether there is a filter for this machine."""
    return platform.machine() in _MACHINES


def filter_program(*, namespaces: bool) -> bytes:
    """The filter, as prctl and bubblewrap take it; without namespaces it also keeps from what only they keep apart."""
    machine = _MACHINES[platform.machine()]
    lines = [
        *_only_if_equal(_ARCHITECTURE, machine.audit),
        _line(_LOAD, _NUMBER),
        # The same processor's other way to number its calls.
        *((_line(_IF_AT_LEAST, _X32, 0, 1), _line(_RETURN, _REFUSE)) if platform.machine() == "x86_64" else ()),
    ]
    for name in _KEYS if namespaces else (*_KEYS, *_SHARED):
        lines += [_line(_IF_EQUAL, machine.numbers[name], 0, 1), _line(_RETURN, _REFUSE)]
    if not namespaces:
        lines += _refused_if(machine.numbers["socket"], 0, _AF_UNIX, equal=True)
        for name, argument in _OF_OTHERS.items():
            lines += _refused_if(machine.numbers[name], argument, 0, equal=False)
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _only_if_equal(offset: int, value: int) -> list[bytes]:
    return [_line(_LOAD, offset), _line(_IF_EQUAL, value, 1, 0), _line(_RETURN, _REFUSE)]


def _refused_if(number: int, argument: int, value: int, *, equal: bool) -> list[bytes]:
    """Refuse a call by the lower half of one argument; the number is loaded before and after."""
    return [
        _line(_IF_EQUAL, number, 0, 4),
        _line(_LOAD, _ARGUMENTS + 8 * argument),
        _line(_IF_EQUAL, value, *((0, 1) if equal else (1, 0))),
        _line(_RETURN, _REFUSE),
        _line(_LOAD, _NUMBER),
    ]
