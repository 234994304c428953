"""A check's way to the work: asks the judge outside to run a command where the work is, and the check is not.

    work [-i PATH]… [-o PATH]… [-x PATH]… COMMAND…        in a check's script

Standard input, standard output, standard error and the exit code are the command's. The work's folder lives as long as
the check. `-i` copies a file or folder of the check's to the same place there; `-o` brings one back afterwards, without
links; `-x` does both, so that both sides hold the same.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_STOPPED = 124
"""The exit code of a command that a limit ended, as the program `timeout` has it."""


@dataclass(frozen=True)
class Completed:
    """How a command of the work ended."""

    code: int | None
    """None when a limit ended it: see `ended_by`."""
    output: str
    errors: str
    ended_by: str
    seconds: float


def send(kind: str, *passed: socket.socket) -> socket.socket:
    """Hand a request to the judge; what it answers can be read from the socket that is returned."""
    ours, theirs = socket.socketpair()
    control = socket.socket(fileno=os.dup(int(os.environ["JUDGE_FD"])))
    with control, theirs:
        socket.send_fds(control, [kind.encode()], [theirs.fileno(), *(each.fileno() for each in passed)])
    return ours


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    exchanged: Sequence[str] = (),
) -> Completed:
    """Run a command of the work; paths are relative to the check's own folder."""
    request = {
        "argv": list(argv),
        "inputs": [*_placed(inputs), *_placed(exchanged)],
        "outputs": [*_placed(outputs), *_placed(exchanged)],
        "stdin": base64.b64encode(stdin).decode(),
    }
    with send("run") as answer:
        answer.sendall(json.dumps(request).encode())
        answer.shutdown(socket.SHUT_WR)
        finished = json.loads(answer.makefile("rb").read() or b"{}")
    if "refused" in finished:
        raise ValueError(finished["refused"])
    return Completed(**finished)


def report(tests: Sequence[dict[str, str]]) -> None:
    """Say of each test how it went, for the report; the verdict is the script's exit code alone."""
    with send("report") as answer:
        answer.sendall(json.dumps(list(tests)).encode())
        answer.shutdown(socket.SHUT_WR)
        answer.recv(1)


def _placed(paths: Sequence[str]) -> list[str]:
    return [os.path.relpath(path, os.environ["CHECK_ROOT"]) for path in paths]


def main() -> int:
    """The command `work`."""
    parser = argparse.ArgumentParser(prog="work", add_help=False)
    for flag, name in (("-i", "inputs"), ("-o", "outputs"), ("-x", "exchanged")):
        parser.add_argument(flag, dest=name, action="append", default=[])
    parser.add_argument("argv", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    try:
        finished = run(
            given.argv, stdin=sys.stdin.buffer.read(), inputs=given.inputs, outputs=given.outputs, exchanged=given.exchanged
        )
    except (ValueError, KeyError, OSError, TypeError) as error:
        sys.stderr.write(f"work: {error}\n")
        return 125
    sys.stdout.write(finished.output)
    sys.stderr.write(finished.errors)
    if finished.code is None:
        sys.stderr.write(f"work: ended by {finished.ended_by}\n")
    return _STOPPED if finished.code is None else finished.code


if __name__ == "__main__":
    sys.exit(main())
