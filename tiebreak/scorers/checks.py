"""A coding task is judged by its own check, and by nothing the agent says."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score


class Checked:
    """Right when the task's check passes on a copy of the workspace."""

    version: ClassVar[int] = 1
    needs_workspace: ClassVar[bool] = True

    async def score(self, sample: Sample, output: Output, context: TaskContext) -> Score:
        """Run the check, or take what it said of the same work."""
        verdict = await context.verify()
        said = verdict.output.strip().splitlines()
        because = "the check passed" if verdict.passed else f"the check failed: {said[-1] if said else 'it said nothing'}"
        return Score.of(verdict.passed, answer="passed" if verdict.passed else "failed", because=because[:500])


class PartialCredit:
    """Partial credit: the share of tests to be mended that pass, times the share of the others that still pass."""

    version: ClassVar[int] = 1
    needs_workspace: ClassVar[bool] = True

    async def score(self, sample: Sample, output: Output, context: TaskContext) -> Score:
        """Count what the check said of each test."""
        verdict = await context.verify()
        groups = [[test.passed for test in verdict.tests if test.group == group] for group in ("fail_to_pass", "pass_to_pass")]
        mended, kept = groups
        value = (sum(mended) / len(mended) if mended else 0.0) * (sum(kept) / len(kept) if kept else 1.0)
        because = f"{sum(mended)} of {len(mended)} tests mended, {sum(kept)} of {len(kept)} still pass"
        return Score(value=value, because=because)
