"""How this program was started, for lines that can be copied."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from tiebreak.core.errors import (
    AgentError,
    BenchmarkError,
    DatasetError,
    MissingExtra,
    MissingKey,
    ModelError,
    ProviderError,
    SandboxError,
    ScorerError,
    StoreError,
)

SCRIPTS = ("run_benchmarks.py", "batch_runner.py")
_LONGEST_IN_HELP = 36
_UNDER_UV = "UV_RUN_RECURSION_DEPTH"
"""Set by `uv run` for what it starts: its Python is not the one a shell would find."""


def invoked_as() -> str:
    """What starts this program again, from the folder one is in."""
    program = Path(sys.argv[0])
    if program.name == "tiebreak":
        return _command(program)
    script = program.name in SCRIPTS and program.is_file()
    what = shlex.quote(str(_from_here(program))) if script else "-m tiebreak"
    if _UNDER_UV in os.environ and not _from_here(program).is_absolute():
        return f"uv run {what}" if script else f"uv run python {what}"
    return f"{_command(Path(sys.executable))} {what}"


def name_in_help() -> str:
    """What help calls the program: how it is started, where that leaves room for the rest of the line."""
    program = invoked_as()
    script = Path(sys.argv[0]).name
    return program if len(program) <= _LONGEST_IN_HELP else script if script in SCRIPTS else "tiebreak"


def spelled(text: str) -> str:
    """The text with every `tiebreak COMMAND` in it as it must be typed here."""
    return re.sub(rf"\btiebreak (?={_COMMANDS}\b)", lambda _: f"{invoked_as()} ", text)


_COMMANDS = "(?:run|batch|check-tasks|demo|ask|list|import|audit|report|compare|score|export|open|view|doctor)"


def with_help(error: BenchmarkError, command: str) -> str:
    """An error's words, and the command that helps, as it must be typed here; it is not said twice."""
    said, program = spelled(str(error)), invoked_as()
    if re.search(rf"{re.escape(program)} {_COMMANDS}\b", said):
        return said
    # `score` reads votes from a file too, and no list of datasets helps there.
    kinds = _HELPS if command != "score" else [one for one in _HELPS if one[0] is not DatasetError]
    helps = next((helping for kind, helping in kinds if isinstance(error, kind)), f"{command} --help".strip())
    return f"{said}\nsee: {program} {helps}"


_HELPS: tuple[tuple[type[BenchmarkError], str], ...] = (
    (MissingKey, "doctor"),
    (ModelError, "list models"),
    (DatasetError, "list datasets"),
    (MissingExtra, "doctor"),
    (StoreError, "list runs"),
    (AgentError, "list agents"),
    (ScorerError, "list scorers"),
    (SandboxError, "doctor"),
    (ProviderError, "doctor"),
)
"""Errors and the commands that tell more; of any other, how the command is used."""


def _command(program: Path) -> str:
    """A program by its name if a shell finds just this one, else by where it is."""
    found = shutil.which(program.name)
    if found is not None and Path(found).absolute() == program.absolute():
        return program.name
    return shlex.quote(str(_from_here(program)))


def _from_here(path: Path) -> Path:
    """The path from the current folder where it is below it, else from the root."""
    here, whole = Path.cwd(), path.absolute()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole
