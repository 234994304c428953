"""The command line: one vocabulary, one file per command, one place that prints."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, *, default_command: str | None = None) -> int:
    """Run a command line and return its exit code. `default_command` is used when none is named."""
    from tiebreak.cli.main import run_command_line

    return run_command_line(arguments, default_command=default_command)
