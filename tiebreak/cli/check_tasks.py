"""`tiebreak check-tasks`: a task counts only once it is proven."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tiebreak.cli import exits
from tiebreak.cli.console import Console, counted
from tiebreak.config import shipped
from tiebreak.contestants import cross
from tiebreak.core.contestant import PLAIN
from tiebreak.core.run import Pace, Protocol, RunSpec, TaskRules
from tiebreak.core.work import WorkOutcome
from tiebreak.pipeline import Plan, loop_factory, make_plan, run_plan
from tiebreak.registry import agent_ref, make_ref, spelled_tasks
from tiebreak.report.summary import Summary
from tiebreak.report.work import Attempt

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
_AT_ONCE = 2


def prove(paths: Sequence[str], *, allow_unsandboxed: bool = False) -> int:
    """Run the controls on every task; 0 when each behaves as it must, 2 when one does not."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tiebreak-check-") as folder:
        plan = _plan(paths or [str(shipped("tasks"))], Path(folder), allow_unsandboxed=allow_unsandboxed)
        for path, reason in plan.dataset.skipped:
            console.line(f"skipped {path}: {reason}", style="yellow")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            summary = runner.run(run_plan(plan))
    problems = _problems(summary)
    for sample in (plan.dataset[place] for place in range(len(plan.dataset))):
        if sample.task and sample.task.check and (line := _line_that_cannot_fail(sample.task.check.script)):
            problems.setdefault(sample.id, []).append(f"under `bash -e` this line of its check cannot fail: {line}")
    tasks = list(dict.fromkeys(a.sample for c in summary.contestants if c.work for a in c.work.attempts))
    for task in tasks:
        found = problems.get(task, [])
        console.line(f"{'✗' if found else '✓'} {task}{': ' if found else ''}{'; '.join(found)}", style="red" if found else "")
    console.line(f"{counted(len(tasks) - len(problems), 'task')} proven, {len(problems)} not.")
    return exits.PARTIAL if problems else exits.DONE


def _plan(paths: Sequence[str], folder: Path, *, allow_unsandboxed: bool) -> Plan:
    agents = [agent_ref(name) for name in ("nothing", "solution", *CHEATS)]
    spec = RunSpec(
        protocol=Protocol(dataset=spelled_tasks(paths), tasks=TaskRules(follow_ups=1, allow_unsandboxed=allow_unsandboxed)),
        contestants=cross([make_ref("baseline", "constant")], [PLAIN], agents),
        pace=Pace(max_workers=_AT_ONCE),
        results_dir=folder,
    )
    return make_plan(spec)


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
    if outcome in (WorkOutcome.SANDBOX_ERROR, WorkOutcome.VERIFIER_ERROR):
        return f"{agent}: {outcome.replace('_', ' ')}: {reason}"
    if agent == "solution":
        return "" if attempt.solved else f"its own solution does not pass: {reason}"
    if outcome is WorkOutcome.AGENT_ERROR and agent in CHEATS:
        return f"a cheat could not be tried: {CHEATS[agent]}: {reason}"
    if attempt.solved:
        return "doing nothing passes" if agent == "nothing" else f"a cheat passes: {CHEATS[agent]}"
    return ""
