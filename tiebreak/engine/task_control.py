"""Whether a task can be passed here at all: its own solution is tried before a failing check is held against anybody."""

from __future__ import annotations

import asyncio

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Task
from tiebreak.core.work import Isolation

_SHOWN = 300
FAILS_SOLUTION = "the task's own solution does not pass its check here"


class SolutionTrials:
    """Tries each task's own solution at most once."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._trials: dict[str, asyncio.Task[str]] = {}

    async def problem(self, task: Task) -> str:
        """Why the task's check fails its own solution here; empty when it passes, or when there is no solution."""
        if task.solution is None or task.check is None:
            return ""
        if task.digest not in self._trials:
            self._trials[task.digest] = asyncio.create_task(self._tried(task))
        # Shielded: others wait for the same trial.
        return await asyncio.shield(self._trials[task.digest])

    async def _tried(self, task: Task) -> str:
        from tiebreak.sandbox.workspace import Workspace

        assert task.solution is not None and task.check is not None
        try:
            async with Workspace.open(task, isolation=self._isolation) as workspace:
                applied = await workspace.apply(task.solution)
                verdict = await workspace.verify(task.check)
        except SandboxError as error:
            return f"the task's own solution cannot be tried here: {error}"
        if verdict.passed:
            return ""
        said = verdict.problem or (applied.output if applied.code else verdict.output)
        return fails_solution(said)


def fails_solution(said: str) -> str:
    """What there is to say of a check that fails the task's own solution."""
    return f"{FAILS_SOLUTION}: {said.strip()[-_SHOWN:]}"
