"""What coding agents installed on this machine have in common: found, prepared, run in the sandbox, prompted again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from benchmark.core.errors import AgentError
from benchmark.core.protocols import Context
from benchmark.core.sample import Sample
from benchmark.core.trial import Output
from benchmark.core.work import Command, Finished, Gateway

_NO_LIMIT_S = 7 * 86400.0
"""The trial's own deadline ends an agent; this is only for the form."""
_REPOSITORY = """\
git init -q -b main . && git config user.name agent && git config user.email agent@localhost
git add -A -f . && git commit -q --allow-empty -m start
"""
"""Agents find their way by git: the workspace is a repository with one commit, and nothing of its past."""
_LONGEST_WORD = 4_000
QUIET = {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "NO_UPDATE_NOTIFIER": "1", "CI": "1", "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """How an agent is to be run: pure data, so that it can be looked at without the agent."""

    argv: tuple[str, ...]
    """Its program is named by its bare name."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """By path below the private home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where an agent was found."""

    program: str
    readable: tuple[str, ...]
    version: str


class Installed:
    """An agent that is a program of its own. Each adds how it is prepared."""

    uses_gateway: ClassVar[bool] = True
    program: ClassVar[str] = ""
    install: ClassVar[str] = ""
    """The one line that installs it."""
    dialect: ClassVar[str] = "chat"
    permissions: ClassVar[str] = ""
    """How it is allowed to act, in its own words: without this, agents differ by what they dare."""
    litter: ClassVar[tuple[str, ...]] = ()
    """Files it leaves in the workspace for itself, as shell patterns: no part of its work."""
    min_context: ClassVar[int] = 4_096
    """Tokens its own prompt and tools take, and a little to work with."""

    def prepare(self, gateway: Gateway, home: str, prompt: str) -> Prepared:
        """How the first prompt is put."""
        raise NotImplementedError

    def follow_up(self, gateway: Gateway, home: str, prompt: str) -> Prepared | None:
        """How a further prompt is put in the same conversation; None when the agent cannot go on with one."""
        return None

    def said(self, finished: Finished) -> str:
        """The agent's last words, as far as its output tells."""
        return finished.output.strip()[-_LONGEST_WORD:]

    async def run(self, sample: Sample, context: Context) -> Output:
        """Put the task to the agent, and go on as long as there is a next prompt."""
        gateway, home = context.gateway, context.workspace.home
        refuse_small_context(self.program, self.min_context, gateway)
        installation = found(self.program, self.install)
        context.note("agent", self.program, actor="runner", version=installation.version, permissions=self.permissions)
        await context.workspace.run(Command(argv=("bash", "-c", _REPOSITORY)))
        said = await self._prompted(self.prepare(gateway, home, sample.prompt), installation, context)
        while (prompt := await context.review(said)) is not None:
            again = self.follow_up(gateway, home, prompt)
            prepared = again or self.prepare(gateway, home, f"{sample.prompt}\n\n{prompt}")
            said = await self._prompted(prepared, installation, context)
        return Output(text=said)

    async def _prompted(self, prepared: Prepared, installation: Installation, context: Context) -> str:
        for path, text in prepared.files.items():
            await context.workspace.write_home(path, text.encode())
        command = Command(
            argv=(installation.program, *prepared.argv[1:]),
            env={**QUIET, **prepared.env},
            timeout_s=_NO_LIMIT_S,
            merged=False,
            readable=installation.readable,
            gateway=True,
        )
        finished = await context.workspace.run(command)
        if self.litter:
            await context.workspace.run(Command(argv=("bash", "-c", f"rm -rf {' '.join(self.litter)}")))
        if finished.code != 0:
            raise AgentError(_how_it_ended(self.program, finished))
        return self.said(finished)


def _how_it_ended(program: str, finished: Finished) -> str:
    how = f"was ended by {finished.ended_by}" if finished.ended_by else f"ended with exit code {finished.code}"
    said = (finished.errors.strip() or finished.output.strip())[-600:]
    return f"{program} {how}{f': {said}' if said else ''}"


def refuse_small_context(program: str, needed: int, gateway: Gateway) -> None:
    """A model that cannot even hold the agent's own prompt is told so before anything is tried."""
    window = gateway.context_window
    if window is not None and window < needed:
        raise AgentError(f"{program} needs a context of at least {needed:,} tokens, and {gateway.model} has {window:,}")


@cache
def found(program: str, install: str) -> Installation:
    """Where a program is, what must be readable for it to run, and its version."""
    path = shutil.which(program)
    if path is None:
        raise AgentError(f"{program} is not installed: {install}")
    # The link stays as it is: a virtual environment is found by the path its interpreter is called by.
    real = Path(path).resolve()
    package = _package_of(Path(path), real)
    folders = {str(package)}
    if node := shutil.which("node"):
        folders.add(str(Path(node).resolve().parents[1]))
    folders = {folder for folder in folders if not folder.startswith("/usr")}
    return Installation(program=path if _in_environment(Path(path)) else str(real), readable=tuple(sorted(folders)),
                        version=_version(Path(path), real))  # fmt: skip


def _in_environment(path: Path) -> bool:
    return (path.parent.parent / "pyvenv.cfg").is_file()


def _package_of(path: Path, real: Path) -> Path:
    """The folder that holds all of an installation."""
    if _in_environment(path):
        return path.parent.parent
    for folder in real.parents:
        if folder.name == "node_modules":
            return folder
    return real.parent


def _version(path: Path, real: Path) -> str:
    """Read, not asked: asking some agents for their version makes them call home."""
    if _in_environment(path):
        return _python_version(path)
    for folder in real.parents:
        if (folder / "package.json").is_file() and folder.name != "node_modules":
            data: dict[str, Any] = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if "version" in data:
                return str(data["version"])
    return ""


def _python_version(path: Path) -> str:
    names = {"aider": "aider_chat", "mini": "mini_swe_agent"}
    wanted = names.get(path.name, path.name)
    places = list((path.parent.parent / "lib").glob(f"python*/site-packages/{wanted}-*.dist-info"))
    return places[0].name.removesuffix(".dist-info").rpartition("-")[2] if places else ""


def json_field(text: str, *names: str) -> str:
    """A text field of the last JSON object in an output; empty when there is none."""
    for line in reversed(text.strip().splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        for name in names:
            if isinstance(data, dict) and isinstance(data.get(name), str):
                return str(data[name])
    try:
        data = json.loads(text)
    except ValueError:
        return ""
    return next((str(data[name]) for name in names if isinstance(data, dict) and isinstance(data.get(name), str)), "")
