"""A link of the chain: keeps the whole tree of processes below it, and ends it.

    python -I -S keeper.py PARENT PROGRAM…

Orphans come to the keeper, so that it can end every process the program left behind, also one that bubblewrap leaves
before it could ask to die with its parent. It does so when the program ends, when it is told to (SIGTERM), and when its
own parent, the process of that number, dies. It ends as the program ended.
"""

from __future__ import annotations

# Not `signal` and `ctypes`: what these make at their import takes longer than everything here, at every start of a sandbox.
import _ctypes
import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SET_PDEATHSIG, _SET_SUBREAPER = 1, 36


def prctl(option: int, value: int) -> int:
    """The system call: 0 where it worked."""
    function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]
    return int(_ctypes.call_function(function, (option, value, 0, 0, 0)))


def main() -> None:
    """Start the program and keep it."""
    if prctl(_SET_SUBREAPER, 1) or prctl(_SET_PDEATHSIG, _signal.SIGTERM):
        sys.exit("keeper: the process cannot be made one")
    _signal.signal(_signal.SIGTERM, _told_to_end)
    if os.getppid() != int(sys.argv[1]):
        return
    keeper = os.getpid()
    try:
        child = os.fork()
    except OSError as error:
        sys.exit(f"keeper: no process can be started: {error.strerror}")
    if child == 0:
        prctl(_SET_PDEATHSIG, _signal.SIGKILL)
        for changed in (_signal.SIGTERM, _signal.SIGPIPE, _signal.SIGXFSZ):
            # The last two are ignored by Python, and programs would inherit that.
            _signal.signal(changed, _signal.SIG_DFL)
        if os.getppid() == keeper:
            os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606
        os._exit(1)
    # Whoever waits for the end of a stream or a socket waits for the program, not for us.
    highest = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    os.closerange(0, highest + 1)
    os._exit(_keep(child))


def _keep(child: int) -> int:
    pid, status = os.wait()
    while pid != child:
        pid, status = os.wait()
    _end_all()
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _told_to_end(*_: object) -> NoReturn:
    _end_all()
    os._exit(128 + _signal.SIGTERM)


def _end_all() -> None:
    """Children of the ended come to us in turn, until none is left."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:  # noqa: PTH123 -- pathlib is slow to come
            for pid in listed.read().split():
                os.kill(int(pid), _signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main()
