"""The command line: one vocabulary, one file per command, one place that prints."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str] | None = None, *, default_command: str | None = None) -> int:
    """Run a command line and return its exit code. `default_command` is used when none is named."""
    _open_standard_streams()
    with _dying_quietly():
        from tiebreak.cli.main import run_command_line

    return run_command_line(arguments, default_command=default_command)


@contextlib.contextmanager
def _dying_quietly() -> Iterator[None]:
    """While modules are loaded there is nothing to finish: an interrupt ends us without a word."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_standard_streams() -> None:
    """Whoever starts us with closed standard streams gets empty ones: else the first files we open would take their place."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number, which is this one.
