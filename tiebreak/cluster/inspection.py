"""What a node can do, and whether it fits a run: looked at before anything is asked."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec

import tiebreak
from tiebreak import __version__
from tiebreak.core.contestant import AgentRef
from tiebreak.core.digest import digest_of
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.media import digest_of_bytes
from tiebreak.core.record import Record
from tiebreak.core.work import Isolation
from tiebreak.registry import loadable, make_agent, plugin_packages


class Question(Record, frozen=True, kw_only=True):
    """What is looked for on a node."""

    keys: tuple[str, ...] = ()
    """Variables that may hold keys."""
    files: tuple[str, ...] = ()
    """Files with code that the run uses."""


class Inspection(Record, frozen=True, kw_only=True):
    """What a node can do."""

    version: str
    python: str
    code: str
    """Digest of tiebreak's own code."""
    plugins: Mapping[str, str]
    """Packages that add plugins, each with its version and the digest of its code."""
    files: Mapping[str, str]
    """The files that were asked about: the digest of each, empty for one that is not there."""
    isolation: Isolation
    agents: tuple[str, ...]
    """Coding agents whose program is installed."""
    keys: tuple[str, ...]
    """Variables that are set; never what is in them."""
    folder: str
    """The working folder, by which relative paths go."""
    cpus: int


async def inspect_machine(question: Question) -> Inspection:
    """Look at this machine."""
    return Inspection(
        version=__version__,
        python=".".join(platform.python_version_tuple()[:2]),
        code=_digest_of_tree(Path(tiebreak.__file__).parent),
        plugins={package: _identity(package) for package in plugin_packages()},
        files={name: _digest_of_file(Path(name)) for name in question.files},
        isolation=await _isolation(),
        agents=tuple(_installed_agents()),
        keys=tuple(name for name in question.keys if os.environ.get(name)),
        folder=str(Path.cwd()),
        cpus=os.cpu_count() or 1,
    )


async def _isolation() -> Isolation:
    if sys.platform != "linux":
        return Isolation(level="none")
    from tiebreak.sandbox.isolation import detect_isolation

    return await detect_isolation(allow_unsandboxed=True)


def _installed_agents() -> list[str]:
    agents = {name: make_agent(AgentRef(name=name)) for name in loadable("agents")}
    return [name for name, agent in agents.items() if agent.program and shutil.which(agent.program)]


def _digest_of_tree(folder: Path) -> str:
    """Identity of all Python code below a folder."""
    return digest_of([[str(file.relative_to(folder)), _digest_of_file(file)] for file in sorted(folder.rglob("*.py"))])


def _digest_of_file(file: Path) -> str:
    try:
        return digest_of_bytes(file.expanduser().read_bytes())
    except OSError:
        return ""


def _identity(package: str) -> str:
    """A package's version and the digest of its code; one that is being worked on has the same version every day."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return ""
    files = [file for file in found.files or () if file.suffix == ".py"]
    return f"{found.version} {digest_of([[str(file), _digest_of_file(Path(str(file.locate())))] for file in files])[:12]}"


# --- does it fit a run? -------------------------------------------------------------------------------


class Wanted(Record, frozen=True, kw_only=True):
    """What a run asks of every node, and how the node it was started on looks itself."""

    here: Inspection
    question: Question
    tasks: bool = False
    allow_unsandboxed: bool = False
    agents: tuple[str, ...] = ()
    """The agents of the contestants, those with a program of their own."""
    keys: tuple[str, ...] = ()
    """Variables whose keys the models need and which are not handed over."""


def unfit(found: Inspection, wanted: Wanted) -> list[str]:
    """Why a node cannot take part in a run; nothing where it can."""
    here = wanted.here
    problems = []
    if found.python != here.python:
        problems.append(f"it has Python {found.python}, here it is {here.python}")
    if found.version != here.version:
        problems.append(f"it has tiebreak {found.version}, here it is {here.version}: install the same version")
    elif found.code != here.code:
        problems.append(f"its tiebreak {found.version} is not the same code as here: install it from the same source")
    problems += _other_plugins(found.plugins, here.plugins)
    problems += [
        f"{name} is {'another file' if found.files.get(name) else 'not there'} (its working folder is {found.folder})"
        for name, digest in here.files.items()
        if found.files.get(name) != digest
    ]
    if wanted.tasks and found.isolation.level in ("", "none") and not wanted.allow_unsandboxed:
        problems.append("it has no sandbox for coding tasks: install bubblewrap there, or say --allow-unsandboxed")
    problems += [f"the agent {name} is not installed there" for name in wanted.agents if name not in found.agents]
    problems += [f"{name} is not set there: set it, or say --send-keys" for name in wanted.keys if name not in found.keys]
    return problems


def _other_plugins(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [
        f"the plugins of {package} are {_version(there.get(package))} there and {_version(here.get(package))} here"
        for package in sorted({*there, *here})
        if there.get(package) != here.get(package)
    ]


def _version(identity: str | None) -> str:
    return identity or "not installed"


def in_words(found: Inspection) -> str:
    """What a node can do, in one line."""
    lacks = f" (without limits on {', '.join(found.isolation.missing)})" if found.isolation.missing else ""
    sandbox = "no sandbox" if found.isolation.level in ("", "none") else f"sandbox {found.isolation.level}{lacks}"
    agents = f"agents {', '.join(('builtin', *found.agents))}"
    keys = f"keys {', '.join(found.keys)}" if found.keys else "no keys"
    return f"{found.cpus} CPUs, {sandbox}; {agents}; {keys}; tiebreak {found.version}, Python {found.python}"


_decode_question = msgspec.msgpack.Decoder(Question).decode
_decode_inspection = msgspec.msgpack.Decoder(Inspection).decode


async def answer(data: bytes) -> bytes:
    """The inspection that a question asks for, both as they travel."""
    return msgspec.msgpack.encode(await inspect_machine(_decode_question(data)))


def question_bytes(question: Question) -> bytes:
    """A question as it travels."""
    return msgspec.msgpack.encode(question)


def inspection_of(data: bytes) -> Inspection:
    """An inspection that has travelled."""
    return _decode_inspection(data)


def programs_of(agents: Sequence[AgentRef]) -> tuple[str, ...]:
    """Of some agents, those that are programs and must be installed."""
    names = dict.fromkeys(agent.name for agent in agents)
    return tuple(name for name in names if _program(name))


def _program(name: str) -> str:
    try:
        return make_agent(AgentRef(name=name)).program
    except BenchmarkError:
        return ""
