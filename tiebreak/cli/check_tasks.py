"""`tiebreak check-tasks`: a task counts only once it is proven."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec import structs

from tiebreak.cli import exits
from tiebreak.cli.console import Console, counted
from tiebreak.cli.task_sets import task_set
from tiebreak.cli.terminal import harmless_json
from tiebreak.config import shipped
from tiebreak.contestants import cross
from tiebreak.core.contestant import PLAIN
from tiebreak.core.events import ContestantFinished, ContestantStarted, Event
from tiebreak.core.protocols import Dataset
from tiebreak.core.run import Pace, Protocol, RunSpec, Source, TaskRules
from tiebreak.core.sample import Sample
from tiebreak.core.work import WorkOutcome
from tiebreak.datasets.suites import RUN_PYTEST
from tiebreak.datasets.tasks import Tasks
from tiebreak.engine.task_control import FAILS_SOLUTION
from tiebreak.pipeline import Plan, loop_factory, make_plan, run_plan
from tiebreak.registry import agent_ref, load_dataset, make_ref, spelled_tasks
from tiebreak.report.summary import Summary
from tiebreak.report.work import Attempt
from tiebreak.report.work_files import attempts_by_trial
from tiebreak.store.reader import StoreReader

_CONTROLS, _FORGERIES = "tiebreak.agents.controls", "tiebreak.agents.forgeries"
CHEATS = {
    f"{_CONTROLS}:EarlyExit": "early exit",
    f"{_CONTROLS}:EmptiedTests": "emptied tests",
    f"{_CONTROLS}:OwnCheat": "its own cheat",
    f"{_FORGERIES}:Frames": "a secret read from the judge's frames",
    f"{_FORGERIES}:Links": "links to what is expected",
    f"{_FORGERIES}:PlantedLinks": "links planted while the check runs",
    f"{_FORGERIES}:Expected": "expected files, printed",
    f"{_FORGERIES}:Tracing": "the check's processes, ended by ptrace",
    f"{_FORGERIES}:StolenDescriptors": "descriptors taken from the check's processes",
    f"{_FORGERIES}:Everything": "an object equal to everything",
    f"{_FORGERIES}:Answering": "a process that says yes for the work",
    f"{_FORGERIES}:Background": "a process left behind by the work",
    f"{_FORGERIES}:Protected": "protected files changed behind a link",
    f"{_FORGERIES}:Leak": "hidden files shown to the agent",
}
"""What every task is attacked with, and what it is called in a report."""
_LEAST_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How tasks are proven, and how it is told."""

    data: Path | None = None
    """The copy of a public set that is named in place of paths."""
    max_workers: int | None = None
    """So many attempts at once; None: one for each processor, two at least."""
    as_json: bool = False
    allow_unsandboxed: bool = False


def prove(paths: Sequence[str], how: How | None = None) -> int:
    """Run the controls on every task; 0 when each behaves as it must, 2 when one does not."""
    how = how or How()
    console = Console(to_stderr=how.as_json)
    with tempfile.TemporaryDirectory(prefix="tiebreak-check-") as folder:
        spec = _spec(paths or [str(shipped("tasks"))], Path(folder), how)
        plan = make_plan(spec, dataset=_for_verdicts(task_set(spec.protocol, console) or load_dataset(spec.protocol.dataset)))
        for path, reason in plan.dataset.skipped:
            console.line(f"skipped {path}: {reason}", style="yellow")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            summary = runner.run(run_plan(plan, watch=_Progress(console, len(plan.dataset)).hear))
        tests = _tests_by_task(Path(folder)) if how.as_json else {}
    problems, suites = _all_problems(plan, summary), _suites(summary)
    tasks = list(dict.fromkeys(a.sample for c in summary.contestants if c.work for a in c.work.attempts))
    if how.as_json:
        click.echo(harmless_json(msgspec.json.encode(_as_data(tasks, problems, plan.dataset.skipped, tests))))
    for task in tasks:
        found = problems.get(task, [])
        words = [*found, *filter(None, [suites.get(task)])]
        console.line(f"{'✗' if found else '✓'} {task}{': ' if words else ''}{'; '.join(words)}", style="red" if found else "")
    console.line(f"{counted(len(tasks) - len(problems), 'task')} proven, {len(problems)} not.")
    return exits.PARTIAL if problems else exits.DONE


def _for_verdicts(tasks: Dataset) -> Dataset:
    """The tasks with checks that end as soon as their verdict is known: of an attack nothing else matters."""
    return cast(Dataset, Tasks(tasks.name, (_for_verdict(tasks[place]) for place in range(len(tasks))), tasks.skipped))


def _for_verdict(sample: Sample) -> Sample:
    task = sample.task
    if task is None or task.check is None:
        return sample
    check = structs.replace(task.check, script=task.check.script.replace(RUN_PYTEST, f"{RUN_PYTEST} --verdict"))
    return structs.replace(sample, task=structs.replace(task, check=check))


class _Progress:
    """Says which controls are done, one line each: with many tasks they take a while."""

    def __init__(self, console: Console, tasks: int) -> None:
        self._console, self._tasks, self._begun = console, tasks, time.monotonic()

    def hear(self, event: Event) -> None:
        """A control was tried on every task, or the first one begins."""
        if isinstance(event, ContestantStarted) and event.position == 1:
            attempts = counted(self._tasks * event.contestants, "attempt")
            words = f"{counted(self._tasks, 'task')}: doing nothing, the solution and {len(CHEATS)} attacks on each, {attempts}"
            self._console.line(words, style="dim")
        if isinstance(event, ContestantFinished):
            seconds = time.monotonic() - self._begun
            self._console.line(f"· {_control(event.contestant)}: tried on all ({seconds:.0f} s so far)", style="dim")


def _control(label: str) -> str:
    """What a control is called, by its contestant's label."""
    agent = label.rpartition(" · ")[2]
    return next((name for spelled, name in CHEATS.items() if agent.endswith(f":{spelled.rpartition(':')[2]}")), agent)


def _suites(summary: Summary) -> dict[str, str]:
    """By task, how many tests of its check its own solution passed."""
    solving = [c for c in summary.contestants if c.contestant.agent.name == "solution"]
    return {attempt.sample: attempt.tests for c in solving if c.work for attempt in c.work.attempts}


def _tests_by_task(folder: Path) -> dict[str, list[dict[str, str]]]:
    """By task, how each test of its check went with its own solution."""
    with StoreReader(folder) as reader:
        attempts = attempts_by_trial(reader).values()
    return {attempt["task_id"]: attempt["tests"] for attempt in attempts if attempt["agent"] == "solution"}


def _as_data(
    tasks: Sequence[str],
    problems: Mapping[str, Sequence[str]],
    skipped: Sequence[tuple[str, str]],
    tests: Mapping[str, Sequence[Mapping[str, str]]],
) -> dict[str, Any]:
    """What came of each task, for programs."""

    def told(task: str) -> dict[str, Any]:
        found = list(problems.get(task, ()))
        return {"id": task, "proven": not found, "problems": found, "tests": list(tests.get(task, ()))}

    return {
        "tasks": [told(task) for task in tasks],
        "skipped": [{"task": task, "reason": reason} for task, reason in skipped],
        "proven": len(tasks) - len(problems),
        "not_proven": len(problems),
    }


def _all_problems(plan: Plan, summary: Summary) -> dict[str, list[str]]:
    """What is wrong with each task: what the controls found, and what its check says."""
    problems = _problems(summary)
    for sample in (plan.dataset[place] for place in range(len(plan.dataset))):
        if sample.task and sample.task.check and (line := _line_that_cannot_fail(sample.task.check.script)):
            problems.setdefault(sample.id, []).append(f"under `bash -e` this line of its check cannot fail: {line}")
    return problems


def _spec(paths: Sequence[str], folder: Path, how: How) -> RunSpec:
    agents = [agent_ref(name) for name in ("nothing", "solution", *CHEATS)]
    return RunSpec(
        protocol=Protocol(
            dataset=spelled_tasks(paths, data=how.data is not None),
            source=Source(path=str(how.data.expanduser().absolute()) if how.data else ""),
            tasks=TaskRules(follow_ups=1, allow_unsandboxed=how.allow_unsandboxed),
        ),
        contestants=cross([make_ref("baseline", "constant")], [PLAIN], agents),
        pace=Pace(max_workers=how.max_workers or max(_LEAST_AT_ONCE, len(os.sched_getaffinity(0)))),
        results_dir=folder,
    )


def _line_that_cannot_fail(script: str) -> str:
    """A line that begins with `!` never ends a script; only as the last one does it decide."""
    lines = [line.strip() for line in script.strip().splitlines()]
    return next((line for line in lines[:-1] if line.startswith("! ") and "||" not in line), "")


def _problems(summary: Summary) -> dict[str, list[str]]:
    """What is wrong with each task that is not as it must be."""
    problems: dict[str, list[str]] = {}
    for contestant in summary.contestants:
        for attempt in contestant.work.attempts if contestant.work else ():
            problem = _problem(contestant.contestant.agent.name, attempt)
            if problem:
                problems.setdefault(attempt.sample, []).append(problem)
    return problems


def _problem(agent: str, attempt: Attempt) -> str:
    outcome, reason = attempt.outcome, attempt.reason
    if outcome is WorkOutcome.UNCHECKED:
        return "it has no check" if agent == "nothing" else ""
    if agent == "solution" and reason.startswith(FAILS_SOLUTION):
        return reason
    if outcome in (WorkOutcome.SANDBOX_ERROR, WorkOutcome.VERIFIER_ERROR):
        return f"{agent}: {outcome.replace('_', ' ')}: {reason}"
    if agent == "solution":
        return "" if attempt.solved else f"its own solution does not pass: {reason}"
    if outcome is WorkOutcome.AGENT_ERROR and agent in CHEATS:
        return f"a cheat could not be tried: {CHEATS[agent]}: {reason}"
    if attempt.solved:
        return "doing nothing passes" if agent == "nothing" else f"a cheat passes: {CHEATS[agent]}"
    return ""
