"""`tiebreak check-tasks`: a task counts only once it is proven."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmark.cli import exits
from benchmark.cli.console import Console, counted
from benchmark.core.events import Event
from benchmark.core.run import RunSpec, WorkSettings
from benchmark.core.work import WorkOutcome
from benchmark.pipeline import Plan, loop_factory, make_plan, read_batch, run_plan
from benchmark.registry import make_ref, spelled_tasks
from benchmark.report.batch import Attempt

SHIPPED_TASKS = Path(__file__).parents[1] / "tasks"
_CONTROLS = "benchmark.agents.controls"
CHEATS = {
    f"{_CONTROLS}:EarlyExit": "early exit",
    f"{_CONTROLS}:EmptiedTests": "emptied tests",
    f"{_CONTROLS}:OwnCheat": "its own cheat",
}
_AT_ONCE = 2


def prove(paths: Sequence[str], *, allow_unsandboxed: bool = False) -> int:
    """Run the controls on every task; 0 when each behaves as it must, 2 when one does not."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tiebreak-check-") as folder:
        plan = _plan(paths or [str(SHIPPED_TASKS)], Path(folder), allow_unsandboxed=allow_unsandboxed)
        for path, reason in getattr(plan.dataset, "skipped", ()):
            console.line(f"skipped {path}: {reason}", style="yellow")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(run_plan(plan, watch=_ignore))
        attempts = read_batch(Path(folder)).attempts
    problems = _problems(attempts)
    tasks = list(dict.fromkeys(attempt.sample for attempt in attempts))
    for task in tasks:
        found = problems.get(task, [])
        console.line(f"{'✗' if found else '✓'} {task}{': ' if found else ''}{'; '.join(found)}", style="red" if found else "")
    console.line(f"{counted(len(tasks) - len(problems), 'task')} proven, {len(problems)} not.")
    return exits.PARTIAL if problems else exits.DONE


def _ignore(event: Event) -> None:
    """Nothing is shown while the controls run."""


def _plan(paths: Sequence[str], folder: Path, *, allow_unsandboxed: bool) -> Plan:
    spec = RunSpec(
        models=(make_ref("baseline", "constant"),),
        dataset=spelled_tasks(paths),
        results_dir=folder,
        agents=("nothing", "solution", *CHEATS),
        max_workers=_AT_ONCE,
        work=WorkSettings(follow_ups=0, allow_unsandboxed=allow_unsandboxed),
    )
    return make_plan(spec)


def _problems(attempts: Sequence[Attempt]) -> Mapping[str, list[str]]:
    """What is wrong with each task that is not as it must be."""
    found: dict[str, list[str]] = {}
    for attempt in attempts:
        problem = _problem(attempt)
        if problem:
            found.setdefault(attempt.sample, []).append(problem)
    return found


def _problem(attempt: Attempt) -> str:
    outcome, said = attempt.work.outcome, attempt.failure or attempt.work.check_output.strip()[-300:]
    if outcome is WorkOutcome.UNCHECKED:
        return "it has no check" if attempt.agent == "nothing" else ""
    if outcome in (WorkOutcome.SANDBOX_ERROR, WorkOutcome.VERIFIER_ERROR):
        return f"{attempt.agent}: {outcome.replace('_', ' ')}: {said}"
    if attempt.agent == "solution":
        return "" if attempt.solved else f"its own solution does not pass: {said}"
    if attempt.solved:
        return "doing nothing passes" if attempt.agent == "nothing" else f"a cheat passes: {CHEATS[attempt.agent]}"
    return ""
