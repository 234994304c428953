"""What coding agents installed on this machine have in common: found, prepared, run in the sandbox, prompted again."""

from __future__ import annotations

import json
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tiebreak.core.errors import AgentError
from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.core.work import PERMISSION_PATH, Command, Finished, Gateway

_NO_LIMIT_S = 7 * 86400.0
"""The trial's own deadline ends an agent; this is only for the form."""
_LONGEST_WORD = 4_000
_DRIVER = "acp_driver.py"
_PERSON = "person"
_RELAY = "mcp_relay.py"
_RELAYED = ".mcp-calls.jsonl"
QUIET = {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "NO_UPDATE_NOTIFIER": "1", "CI": "1", "NO_COLOR": "1"}


Servers = Mapping[str, tuple[str, ...]]
"""Servers of the Model Context Protocol by name, and what starts each."""


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
    speaks_acp: ClassVar[bool] = False
    """Whether it can ask for permission to act, by the Agent Client Protocol."""
    acp_auth: ClassVar[str] = ""
    """The way to sign in it wants named, when it speaks the Agent Client Protocol."""
    litter: ClassVar[tuple[str, ...]] = ()
    """Files it leaves in the workspace for itself, as shell patterns: no part of its work."""
    min_context: ClassVar[int] = 4_096
    """Tokens its own prompt and tools take, and a little to work with."""
    takes_servers: ClassVar[bool] = False
    """Whether it can be given servers of the Model Context Protocol: see `offering`."""
    resumes: ClassVar[bool] = True
    """Whether a further prompt can be put in the same conversation."""

    def prepare(self, gateway: Gateway, home: str, prompt: str, *, again: bool = False) -> Prepared:
        """How a prompt is put: the first, or `again` in the same conversation."""
        raise NotImplementedError

    def over_acp(self, gateway: Gateway, home: str) -> Prepared | None:
        """How the agent is started to speak the Agent Client Protocol, with nothing allowed beforehand; None if it cannot."""
        return None

    def offering(self, prepared: Prepared, servers: Servers, home: str) -> Prepared:
        """The same, with servers of the Model Context Protocol that the agent starts itself."""
        return prepared

    def reply_text(self, finished: Finished) -> str:
        """The agent's last words, as far as its output tells."""
        return finished.output.strip()[-_LONGEST_WORD:]

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Put the task to the agent, and go on as long as there is a next prompt."""
        gateway, home = context.gateway, context.workspace.home
        refuse_small_context(self.program, self.min_context, gateway)
        installation = find_installation(self.program, self.install)
        policy = context.permission_policy
        answered = "by a person" if policy == _PERSON else f"by the policy {policy!r}"
        permissions = f"asked over ACP, answered {answered}" if policy else self.permissions
        context.note("agent", self.program, actor="runner", version=installation.version, permissions=permissions)
        send = self._send_over_acp if policy else self._send
        servers = await self._servers(sample, context)
        said = await send(self.offering(self._first(gateway, home, sample.prompt, policy), servers, home), installation, context)
        while (prompt := await context.review(said)) is not None:
            if policy or not self.resumes:
                prepared = self._first(gateway, home, f"{sample.prompt}\n\n{prompt}", policy)
            else:
                prepared = self.prepare(gateway, home, prompt, again=True)
            said = await send(self.offering(prepared, servers, home), installation, context)
        return Output(text=said)

    async def _servers(self, sample: Sample, context: TaskContext) -> Servers:
        """The task's servers, each behind a relay that counts its calls; none for an agent that takes none."""
        servers = sample.task.mcp if sample.task else ()
        if servers and not self.takes_servers:
            names = ", ".join(name for name, _ in servers)
            context.note("mcp", f"{self.program} takes no MCP servers: it works without {names}", actor="runner")
        if not servers or not self.takes_servers:
            return {}
        home = context.workspace.home
        relay = Path(__file__).with_name(_RELAY).read_bytes()
        await context.workspace.write_home(_RELAY, relay)
        words = ("python3", "-I", f"{home}/{_RELAY}")
        return {name: (*words, name, f"{home}/{_RELAYED}", command) for name, command in servers}

    def _first(self, gateway: Gateway, home: str, prompt: str, policy: str) -> Prepared:
        """How a conversation begins: with all permissions given, or over the protocol by which the agent asks for them."""
        if not policy:
            return self.prepare(gateway, home, prompt)
        prepared = self.over_acp(gateway, home)
        if prepared is None:
            raise AgentError(f"{self.program} cannot ask for permission: it does not speak the Agent Client Protocol")
        driver = Path(__file__).with_name(_DRIVER).read_text(encoding="utf-8")
        answers = f"{gateway.base_url}{PERMISSION_PATH}?key={gateway.key}" if policy == _PERSON else policy
        words = ("python3", "-I", f"{home}/{_DRIVER}", answers, self.acp_auth, prompt, "--")
        return replace(prepared, argv=(*words, *prepared.argv), files={**prepared.files, _DRIVER: driver})

    async def _send_over_acp(self, prepared: Prepared, installation: Installation, context: TaskContext) -> str:
        """One prompt over the protocol; the permissions that the agent asked for are counted."""
        place = prepared.argv.index("--") + 1
        argv = (*prepared.argv[:place], installation.program, *prepared.argv[place + 1 :])
        finished = await self._run(replace(prepared, argv=argv), installation, context)
        try:
            summary = json.loads(finished.output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise AgentError(_how_it_ended(self.program, finished)) from None
        # What a person was asked is written down already, when it was asked.
        for request in summary["permissions"] if context.permission_policy != _PERSON else ():
            context.note("permission", f"{request['kind']}: {request['title']}", answer=context.permission_policy)
        if finished.code != 0:
            raise AgentError(f"{self.program} stopped with {summary['stop'] or 'no reason'}: {summary['error'][:600]}")
        return str(summary["said"])

    async def _send(self, prepared: Prepared, installation: Installation, context: TaskContext) -> str:
        argv = (installation.program, *prepared.argv[1:])
        finished = await self._run(replace(prepared, argv=argv), installation, context)
        if finished.code != 0:
            raise AgentError(_how_it_ended(self.program, finished))
        return self.reply_text(finished)

    async def _run(self, prepared: Prepared, installation: Installation, context: TaskContext) -> Finished:
        for path, text in prepared.files.items():
            await context.workspace.write_home(path, text.encode())
        command = Command(
            argv=prepared.argv,
            env={**QUIET, **prepared.env},
            timeout_s=_NO_LIMIT_S,
            merged=False,
            readable=installation.readable,
            gateway=True,
        )
        finished = await context.workspace.run(command)
        if self.takes_servers:
            await _note_served(context)
        if self.litter:
            await context.workspace.run(Command(argv=("bash", "-c", f"rm -rf {' '.join(self.litter)}")))
        return finished


async def _note_served(context: TaskContext) -> None:
    """Write down what the relays saw since the last time."""
    place = shlex.quote(f"{context.workspace.home}/{_RELAYED}")
    script = f"cat {place} 2>/dev/null; rm -f {place}"
    listed = await context.workspace.run(Command(argv=("bash", "-c", script), merged=False))
    calls = Counter(" ".join(call) for line in listed.output.splitlines() if (call := _call_in(line)))
    for tool, count in calls.items():
        context.note("mcp", f"{tool}: {count} call{'s' * (count != 1)}", calls=count)


def _call_in(line: str) -> list[str]:
    """The server and the tool of a line; the agent may have written it, too."""
    try:
        call = json.loads(line)
    except ValueError:
        return []
    return call if isinstance(call, list) and len(call) == 2 and all(isinstance(part, str) for part in call) else []


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
def find_installation(program: str, install: str) -> Installation:
    """Where a program is, what must be readable for it to run, and its version."""
    path = shutil.which(program)
    if path is None:
        raise AgentError(f"{program} is not installed: {install}")
    # The link stays as it is: a virtual environment is found by the path its interpreter is called by.
    real = Path(path).resolve()
    folders = {_package_of(Path(path), real)}
    if node := shutil.which("node"):
        folders.add(Path(node).resolve().parents[1])
    return Installation(
        program=path if _in_environment(Path(path)) else str(real),
        readable=tuple(sorted(str(folder) for folder in folders if not str(folder).startswith("/usr"))),
        version=_version(Path(path), real),
    )


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
        package = {"aider": "aider_chat", "mini": "mini_swe_agent"}.get(path.name, path.name)
        places = list((path.parent.parent / "lib").glob(f"python*/site-packages/{package}-*.dist-info"))
        return places[0].name.removesuffix(".dist-info").rpartition("-")[2] if places else ""
    for folder in real.parents:
        if (folder / "package.json").is_file() and folder.name != "node_modules":
            data: dict[str, Any] = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if "version" in data:
                return str(data["version"])
    return ""


def json_field(text: str, *names: str) -> str:
    """A text field of the last JSON object in an output; empty when there is none."""
    for candidate in (*reversed(text.strip().splitlines()), text):
        data = _parsed(candidate)
        for name in names:
            if isinstance(data.get(name), str):
                return str(data[name])
    return ""


def last_event_text(output: str, field: str, kind: str) -> str:
    """The text of the last event of a kind, of an agent that prints one JSON object a line, each with its news in a field."""
    last = ""
    for line in output.splitlines():
        event = _parsed(line).get(field)
        if isinstance(event, dict) and event.get("type") == kind:
            last = str(event.get("text") or last)
    return last


def _parsed(text: str) -> dict[str, Any]:
    """The JSON object in a text; empty when there is none: agents print other things as well."""
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def with_server_settings(prepared: Prepared, path: str, servers: Servers) -> Prepared:
    """The same with servers in a settings file as Gemini CLI and Qwen Code have it."""
    settings = json.loads(prepared.files[path])
    listed = {name: {"command": words[0], "args": list(words[1:]), "trust": True} for name, words in servers.items()}
    return replace(prepared, files={**prepared.files, path: json.dumps({**settings, "mcpServers": listed})})


def quiet_settings(auth: str) -> str:
    """The settings file of Gemini CLI and of Qwen Code, which grew from it: how to sign in, and no call home."""
    return json.dumps(
        {
            "security": {"auth": {"selectedType": auth}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "enableAutoUpdate": False},
        }
    )
