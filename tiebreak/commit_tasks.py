"""Coding tasks made from commits: a commit's tests are the hidden check, its code is the solution, and both are tried first."""

from __future__ import annotations

import asyncio
import math
import re
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from msgspec import structs

from tiebreak.core.errors import BenchmarkError, SandboxError
from tiebreak.core.files import atomic_writer, slug
from tiebreak.core.task import Check, Solution, Task, TaskLimits
from tiebreak.core.work import Isolation, Verdict
from tiebreak.datasets.repository import RUNNER_SETTINGS, TEST_FILES, Commit, Patched, Repository, is_test_file
from tiebreak.datasets.suites import RUN_PYTEST, holds_tests, suite_of
from tiebreak.datasets.task_environment import as_solution, environment_of
from tiebreak.datasets.task_markdown import FrontMatter, PackagesPart
from tiebreak.sandbox.run_pytest import DRAWS
from tiebreak.sandbox.workspace import Workspace

TIMES = 3
"""So often a solution must pass: what passes only sometimes is no test."""
REPOSITORY = "repository.git"
_MOST_CHANGED = 60
_SHORTEST_LIMIT_S, _LONGEST_LIMIT_S = 120.0, 1200.0
_TRIED_S = 300.0
"""So long each trial may take where nothing else was asked for: a commit whose tests hang is no task."""
_NOTHING_TO_MEND = "its tests pass before it as well"
_AHEAD = 3
"""So many times more commits than are tried at once may be waited for."""
_ROOM = 20
"""So many times longer than here may tests take on a slower or busier machine."""
_LONGEST_PROMPT = 8_000
_TRAILER = re.compile(r"^(?:[A-Z][\w-]+-by|Change-Id|Co-authored-by|Refs?|Closes|Fixes): ?.*$", re.MULTILINE | re.IGNORECASE)


class NoTask(BenchmarkError):
    """Why no task can be made of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What every task of a repository has in common."""

    python: str = ""
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    setup: str = ""
    timeout_s: float | None = None
    """Most seconds for the tests, each time they are run; None: as many as follow from how long the solution took."""
    memory_mb: int = 2048

    @property
    def front(self) -> FrontMatter:
        """The same as fields of a task file."""
        packages = PackagesPart(pip=list(self.pip), npm=list(self.npm))
        return FrontMatter(python=self.python, packages=packages, setup=self.setup)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTask:
    """A task of a commit, and what its tests did."""

    commit: Commit
    prompt: str
    tests: bytes
    """The patch with the tests, and with what the runner of tests is set up by."""
    solution: bytes
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    flaky: tuple[str, ...]
    """Tests that passed only sometimes: they decide nothing."""
    timeout_s: float
    """Most seconds for the tests."""

    @property
    def name(self) -> str:
        """A name for its folder."""
        subject = re.sub(r"[^a-z0-9]+", "-", self.commit.message.partition("\n")[0].lower())
        return slug(f"{self.commit.id[:8]}-{subject[:40].strip('-')}".strip("-"))


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying a commit."""

    commit: Commit
    outcome: MadeTask | NoTask
    seconds: float


def divided(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Changed files: what the tests are made of, and everything else."""
    listed = list(paths)
    tests = [path for path in listed if is_test_file(path) or path in RUNNER_SETTINGS]
    return tests, [path for path in listed if path not in tests]


def why_no_candidate(tests: Sequence[str], code: Sequence[str]) -> str:
    """Why a commit that changed these files makes no task; empty when it may."""
    if not any(map(holds_tests, tests)):
        return "it changes no tests"
    if not any(PurePosixPath(path).suffix not in (".md", ".rst", ".txt", "") for path in code):
        return "it changes no code"
    if len(tests) + len(code) > _MOST_CHANGED:
        return f"it changes more than {_MOST_CHANGED} files"
    return ""


async def make_task(repository: Repository, commit: Commit, wishes: Wishes, isolation: Isolation) -> MadeTask:
    """The task of a commit, tried: its tests fail before, and pass after as often as they are run. Raises NoTask."""
    try:
        tests, code = divided(await asyncio.to_thread(repository.changed, commit.parent, commit.id))
        if reason := why_no_candidate(tests, code):
            raise NoTask(reason)
        patches = [await asyncio.to_thread(repository.patch, commit.parent, commit.id, paths) for paths in (tests, code)]
        task = await asyncio.to_thread(_task_before, repository, commit, wishes, patches)
    except ValueError as error:
        raise NoTask(str(error)) from None
    before, after, seconds = await _tried(task, isolation)
    steady = [test for test, statuses in after.items() if set(statuses) == {"passed"}]
    failing = tuple(test for test in steady if before.get(test) != "passed")
    if not failing:
        raise NoTask(_NOTHING_TO_MEND if steady else "its tests do not pass after it")
    return MadeTask(
        commit=commit,
        prompt=prompt_of(commit.message),
        tests=patches[0],
        solution=patches[1],
        fail_to_pass=failing,
        pass_to_pass=tuple(test for test in steady if before.get(test) == "passed"),
        flaky=tuple(test for test, statuses in after.items() if "passed" in statuses and test not in steady),
        # A task's check runs them as themselves and as their twins, once for each draw.
        timeout_s=2 * DRAWS * wishes.timeout_s if wishes.timeout_s else limit_for(seconds),
    )


def limit_for(seconds: float) -> float:
    """Seconds that tests may take which took so many here: enough for a machine that has much else to do."""
    return float(min(_LONGEST_LIMIT_S, max(_SHORTEST_LIMIT_S, math.ceil(seconds * _ROOM))))


def _task_before(repository: Repository, commit: Commit, wishes: Wishes, patches: Sequence[bytes]) -> Task:
    """The task as it is before it is known which tests decide."""
    tests, code = (repository.applied(commit.parent, patch) for patch in patches)
    files = repository.files(commit.parent)
    suite = suite_of(tests.files, files)
    if suite is None:
        raise NoTask("it only removes tests")
    if missing := [name for name in suite.needs if shutil.which(name) is None]:
        raise NoTask(f"its tests need {', '.join(missing)}, not installed here")
    return Task(
        files=files,
        check=Check(script=suite.script, files=tests.files, restore=TEST_FILES, timeout_s=wishes.timeout_s or _TRIED_S),
        needs=suite.needs,
        solution=_solution(code),
        limits=TaskLimits(memory_mb=wishes.memory_mb),
        environment=environment_of(wishes.front, files, repository.path),
    )


def _solution(code: Patched) -> Solution:
    solution = as_solution(code)
    if not solution.files and not solution.script:
        raise NoTask("it changes no code")
    return solution


async def _tried(task: Task, isolation: Isolation) -> tuple[dict[str, str], dict[str, list[str]], float]:
    """What each test does before the solution, and each time after it; and how long they took at most."""
    assert task.check is not None and task.solution is not None
    # Nobody cheats here: pytest's word is believed, and its twins only have to show once that they can fail.
    believed, judged = _drawing(task.check, 0), _drawing(task.check, 1)
    try:
        async with Workspace.open(task, isolation=isolation) as workspace:
            before = _statuses(await workspace.verify(believed))
            if before and set(before.values()) == {"passed"}:
                raise NoTask(_NOTHING_TO_MEND)
            applied = await workspace.apply(task.solution)
            if applied.code != 0:
                raise NoTask(f"its change cannot be made again: {applied.output[-300:]}")
            verdicts: list[Verdict] = []
            for number in range(TIMES):
                verdicts.append(await workspace.verify(believed if number else judged))
                if not any(test.passed and before.get(test.id) != "passed" for test in verdicts[-1].tests):
                    raise NoTask(_why_nothing_passes(verdicts[-1]))
    except SandboxError as error:
        raise NoTask(str(error)) from None
    each = [_statuses(verdict) for verdict in verdicts]
    after = {test: [statuses.get(test, "missing") for statuses in each] for test in dict.fromkeys(t for s in each for t in s)}
    return before, after, max(verdict.seconds for verdict in verdicts)


def _drawing(check: Check, draws: int) -> Check:
    """The check with as many draws of twins; checks of other runners have none."""
    return structs.replace(check, script=check.script.replace(RUN_PYTEST, f"{RUN_PYTEST} --draws {draws}"))


def _statuses(verdict: Verdict) -> dict[str, str]:
    if verdict.problem:
        raise NoTask(verdict.problem)
    return {test.id: test.status for test in verdict.tests}


def _why_nothing_passes(verdict: Verdict) -> str:
    if any(test.passed for test in verdict.tests):
        return _NOTHING_TO_MEND
    if verdict.tests and all(test.status == "skipped" for test in verdict.tests):
        return "its tests skip themselves here"
    lines = [line.strip() for line in verdict.output.splitlines()]
    # What pytest says of an error, or the last that any other runner says.
    last = next((line for line in reversed(lines[:-1]) if line.startswith("E ")), lines[-1] if lines else "")
    return f"its tests do not pass after it{f': {last[:160]}' if last else ''}"


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that act on the terminal of whoever reads the task."""


def prompt_of(message: str) -> str:
    """A commit's message as a task: without its trailers."""
    text = _CONTROLS.sub("", _TRAILER.sub("", message)).strip()[:_LONGEST_PROMPT]
    subject, _, body = text.partition("\n")
    return f"Make this change to the project:\n\n{subject.strip()}\n{body.rstrip()}".rstrip() + (
        "\n\nHidden tests decide whether it is done. Change the code; tests that you change or add do not count."
    )


def write_task(made: MadeTask, folder: Path, repository: Repository, wishes: Wishes) -> Path:
    """Write a task's folder, and its files at the start into the repository beside it. Nothing else has to be there later."""
    repository.pack([made.commit.parent], folder / REPOSITORY)
    place = folder / made.name
    place.mkdir(parents=True, exist_ok=True)
    for pip in wishes.pip:
        source = repository.path / pip
        if source.is_file() and not (place / pip).exists():
            (place / pip).parent.mkdir(parents=True, exist_ok=True)
            (place / pip).write_bytes(source.read_bytes())
    for name, content in (("tests.patch", made.tests), ("solution.patch", made.solution), ("task.md", _task_file(made, wishes))):
        with atomic_writer(place / name) as file:
            file.write(content)
    return place


def _task_file(made: MadeTask, wishes: Wishes) -> bytes:
    fields: Mapping[str, Any] = {
        "title": made.commit.message.partition("\n")[0][:120],
        "repo": f"../{REPOSITORY}",
        "commit": made.commit.parent,
        "test_patch": "tests.patch",
        "solution_patch": "solution.patch",
        "fail_to_pass": list(made.fail_to_pass),
        "pass_to_pass": list(made.pass_to_pass),
        "verifier": {"timeout_sec": made.timeout_s},
        "limits": {"memory_mb": wishes.memory_mb},
        "python": wishes.python,
        "packages": {kind: list(names) for kind, names in (("pip", wishes.pip), ("npm", wishes.npm)) if names},
        "setup": wishes.setup,
    }
    front = yaml.safe_dump(
        {name: value for name, value in fields.items() if value}, sort_keys=False, allow_unicode=True, width=120
    )
    return f"---\n{front}---\n{made.prompt}\n".encode()


async def make_tasks(
    repository: Repository,
    commits: Iterable[Commit],
    wishes: Wishes,
    isolation: Isolation,
    *,
    at_once: int,
    tell: Callable[[Commit], None] = lambda _: None,
) -> AsyncIterator[Tried]:
    """Try commits, a few at once, and give what came of each in the order they were named. `tell` hears which one begins."""
    turns = asyncio.Semaphore(at_once)
    waiting: deque[asyncio.Task[Tried]] = deque()
    remaining = iter(commits)

    async def attempt(commit: Commit) -> Tried:
        async with turns:
            tell(commit)
            began = time.monotonic()
            try:
                outcome: MadeTask | NoTask = await make_task(repository, commit, wishes, isolation)
            except NoTask as reason:
                outcome = reason
            return Tried(commit, outcome, time.monotonic() - began)

    try:
        while True:
            # One that takes long holds up no other: those behind it are tried meanwhile.
            while len(waiting) < _AHEAD * at_once and (commit := next(remaining, None)) is not None:
                waiting.append(asyncio.create_task(attempt(commit)))
            if not waiting:
                return
            yield await waiting.popleft()
    finally:
        for trying in waiting:
            trying.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
