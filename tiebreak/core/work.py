"""Working in a folder: commands, what came of them, and what an attempt at a task amounted to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import msgspec

from tiebreak.core.record import Record
from tiebreak.core.task import Check, Solution


class Command(Record, frozen=True, kw_only=True):
    """A program to be run in a workspace's sandbox."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Added to the sandbox's own small environment; never a secret."""
    timeout_s: float = 120.0
    """Counted from the moment the program itself begins."""
    cpu_s: float | None = None
    """Most processor time of each of its processes."""
    merged: bool = True
    """Standard error goes where standard output goes, in order."""
    output_bytes: int = 200_000
    """More than this is read and thrown away, from the middle."""
    readable: tuple[str, ...] = ()
    """Folders of this machine the program may read besides the system's: an agent's own installation."""
    gateway: bool = False
    """May reach the trial's gateway, and nothing else; without it there is no network at all."""


class Finished(Record, frozen=True, kw_only=True):
    """How a command ended."""

    code: int | None
    """As a shell gives it: 128 + n after signal n. None when a limit ended it: see `ended_by`."""
    output: str = ""
    errors: str = ""
    """Standard error, unless merged."""
    ended_by: str = ""
    """A limit (time, memory, cpu, disk) or a signal's name; empty when it ended by itself."""
    seconds: float = 0.0
    hosts: tuple[str, ...] = ()
    """Names it tried to look up; nobody answered."""


class Changes(Record, frozen=True, kw_only=True):
    """What differs from the workspace as it was handed over."""

    files: tuple[str, ...] = ()
    """By path, in order; the first thousand where there are more."""
    files_changed: int = 0
    """All of them: new, changed and deleted."""
    lines_added: int = 0
    lines_removed: int = 0
    diff: str = ""
    """Unified; cut in the middle where it is very long."""


class TestResult(Record, frozen=True, kw_only=True):
    """How one test of a check went."""

    __test__: ClassVar[bool] = False
    id: str
    """As the runner of the tests names it."""
    status: str
    """passed, failed, error, skipped, missing, or forged: one that passes although it must fail."""
    group: str = ""
    """fail_to_pass, pass_to_pass, or empty."""

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self.status == "passed"


class Verdict(Record, frozen=True, kw_only=True):
    """What the check said."""

    passed: bool
    output: str = ""
    problem: str = ""
    """Why the check itself could not be run; then nothing is said about the work."""
    seconds: float = 0.0
    tests: tuple[TestResult, ...] = ()
    """Each test, where the check runs a suite."""


class Isolation(Record, frozen=True, kw_only=True):
    """How well the work was kept apart from the machine."""

    level: str = ""
    """bubblewrap, landlock, none."""
    missing: tuple[str, ...] = ()
    """Limits that could not be set here: memory, processes, network, …"""


class Workspace(Protocol):
    """A folder to work in, kept apart from everything else; agents get it from their context."""

    path: str
    """Where the folder is, as programs inside see it."""
    folder: str
    """Where the folder is on this machine, for a person to look into."""
    home: str
    """A private home folder, as programs inside see it."""
    gateway: str
    """HOST:PORT at which commands with `gateway` find the trial's gateway; empty when there is none."""
    isolation: Isolation

    @property
    def hosts(self) -> Iterable[str]:
        """Names that commands tried to look up so far."""
        ...

    async def run(self, command: Command) -> Finished:
        """Run a command in the folder. Nothing of it is left running afterwards."""
        ...

    async def read(self, path: str, most_bytes: int = 200_000) -> bytes:
        """A file's content, read from inside, so that no link leads out; FileNotFoundError and the like as usual."""
        ...

    async def write(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Write a file, from inside; folders are made."""
        ...

    async def write_home(self, path: str, content: bytes) -> None:
        """Write a file below the private home: an agent's configuration. Before anything has run there."""
        ...

    async def apply(self, solution: Solution) -> Finished:
        """Do what the reference solution does."""
        ...

    async def changes(self) -> Changes:
        """What differs from the start, by a baseline the folder cannot touch."""
        ...

    async def verify(self, check: Check) -> Verdict:
        """Judge a copy of the folder by the check."""
        ...


class Gateway(Record, frozen=True, kw_only=True):
    """The one address a program in the sandbox can reach: its trial's model, in every dialect."""

    base_url: str
    """As programs inside see it, without a closing slash: /v1/chat/completions, /v1/responses, /v1/messages and
    /v1beta/models/MODEL:generateContent are below it."""
    model: str
    """The name to ask for."""
    key: str
    """What to send as a key: the real one never leaves this process."""
    context_window: int | None = None
    """What the model can take, where known."""


PERMISSION_PATH = "/permission"
"""Where, below a gateway's address, a program that speaks for an agent asks for leave."""


class PermissionOption(Record, frozen=True, kw_only=True):
    """One answer that an agent would understand to its request for leave."""

    id: str
    name: str = ""
    kind: str = ""
    """allow_once, allow_always, reject_once, reject_always."""

    @property
    def allows(self) -> bool:
        """Whether the agent may then go on."""
        return self.kind.startswith("allow")


class PermissionRequest(Record, frozen=True, kw_only=True):
    """What an agent asks leave for, in its own words."""

    title: str = ""
    kind: str = ""
    """edit, execute, fetch, …"""
    details: str = ""
    """The tool's arguments, or the change it would make."""
    options: tuple[PermissionOption, ...] = ()

    @property
    def refusal(self) -> PermissionOption | None:
        """The option that says no, this time if it can be said so."""
        refusing = [option for option in self.options if option.kind.startswith("reject")]
        return min(refusing, key=lambda option: option.kind != "reject_once", default=None)


class WorkOutcome(StrEnum):
    """How an attempt at a task ended. A passing check makes it `passed`, however the agent ended."""

    PASSED = "passed"
    WRONG_RESULT = "wrong_result"
    NO_CHANGE = "no_change"
    QUESTION = "question"
    """Nothing that passes, and the agent's last word was a question."""
    TIMEOUT = "timeout"
    AGENT_ERROR = "agent_error"
    BUDGET = "budget"
    """The model calls the task allows were used up."""
    CONTEXT = "context"
    """The model's context was used up."""
    REJECTED = "rejected"
    """The model's server refused a request that the agent composed, after it had answered others."""
    PROVIDER_ERROR = "provider_error"
    VERIFIER_ERROR = "verifier_error"
    SANDBOX_ERROR = "sandbox_error"
    UNCHECKED = "unchecked"
    """The task has no check: what was done is kept, and nobody can say how good it is."""


class Step(Record, frozen=True, kw_only=True):
    """One thing that happened during an attempt, for the transcript."""

    at_s: float
    """Seconds since the attempt began."""
    kind: str
    """prompt, call, replay (an earlier attempt's call), tool, context, check, question, permission, answer, edit, error."""
    actor: str = ""
    """agent, runner, person, model."""
    text: str = ""
    data: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Work(Record, frozen=True, kw_only=True):
    """What an attempt at a task took and amounted to."""

    outcome: WorkOutcome
    seconds: float
    """From the first prompt to the agent's last word; the checks are not in it."""
    prompts_sent: int = 1
    model_calls: int = 0
    """Calls that were answered."""
    side_calls: int = 0
    """Of these, calls that were not about the task, such as finding a title."""
    tool_calls: int = 0
    follow_ups: int = 0
    questions: int = 0
    permission_requests: int = 0
    permissions_by_person: int = 0
    """Of these, requests that a person answered."""
    manual_edits: int = 0
    person_seconds: float = 0.0
    first_try: bool = False
    """The check passed before anyone helped."""
    changes: Changes = Changes()
    checked: bool = False
    """The check ran to its end."""
    check_output: str = ""
    tests: tuple[TestResult, ...] = ()
    """How each test of the check went, where it runs a suite."""
    isolation: Isolation = Isolation()
    hosts: tuple[str, ...] = ()
    agent_version: str = ""
    permissions: str = ""
    """How the agent was allowed to act, in its own words."""

    @property
    def test_counts(self) -> Mapping[str, tuple[int, int]]:
        """By group, how many tests of the check passed, and of how many; nothing where no suite was run."""
        groups: dict[str, list[bool]] = {}
        for test in self.tests:
            groups.setdefault(test.group, []).append(test.passed)
        return {name: (sum(passed), len(passed)) for name, passed in groups.items()}

    @property
    def interventions(self) -> int:
        """How often someone had to help."""
        return self.follow_ups + self.manual_edits + self.permissions_by_person
