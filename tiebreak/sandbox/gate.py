"""A link of the chain: enter a network namespace, hand its listening sockets out, become the next program.

    python -I -S gate.py DESCRIPTOR PORT NEXT…       PORT 0: no network at all, nothing is handed out

A socket stays in the network it was made in. So the one address that programs inside can reach, and the name
server that answers "no such name", are served by a process outside, through a descriptor.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from pathlib import Path

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_INTERFACE_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41


def main() -> None:
    """Do what the module says."""
    descriptor, port = int(sys.argv[1]), int(sys.argv[2])
    enter_network()
    if port:
        with socket.socket(fileno=os.dup(descriptor)) as control:
            hand_out(control, port)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, and programs inherit that.
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606


def enter_network() -> None:
    """A network of our own with nothing but a loopback; without privileges, a user namespace comes with it."""
    uid, gid = os.getuid(), os.getgid()
    if uid != 0 or _unshare(_NEW_NET):
        problem = _unshare(_NEW_USER | _NEW_NET)
        if problem:
            sys.exit(f"no network namespace can be made: {os.strerror(problem)}")
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh14s", b"lo", _UP_AND_RUNNING, b""))


def _unshare(flags: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if libc.unshare(flags) == 0 else ctypes.get_errno()


def hand_out(control: socket.socket, port: int) -> None:
    """Listen where the gateway is expected and where names are asked for; both are served from outside."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 53))
    both = array.array("i", [listener.fileno(), names.fileno()])
    control.sendmsg([b"\x02"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)])


if __name__ == "__main__":
    main()
