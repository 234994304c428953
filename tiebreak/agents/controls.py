"""Agents that prove a task rather than a model: one must fail it, the other must pass it, no cheat may."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.errors import AgentError
from tiebreak.core.protocols import TaskContext
from tiebreak.core.sample import Sample
from tiebreak.core.task import Solution, TaskFile
from tiebreak.core.trial import Output


class Nothing:
    """Changes nothing. A task it passes is no task."""

    control: ClassVar[bool] = True

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Hand the workspace back as it was."""
        return Output(text="")


class Solved:
    """Does what the task's own solution does. A task it fails cannot be passed."""

    control: ClassVar[bool] = True
    does_solution: ClassVar[bool] = True

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Apply the reference solution."""
        task = sample.task
        if task is None or task.solution is None:
            raise AgentError(f"{sample.id} has no solution to apply")
        return await _applied(task.solution, context)


class Cheat:
    """Tries to pass without doing the work."""

    control: ClassVar[bool] = True
    script: ClassVar[str] = ""
    files: ClassVar[tuple[TaskFile, ...]] = ()

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Lay the trap, and hand the workspace back."""
        return await _applied(Solution(script=self.script, files=self.files), context)


class EarlyExit(Cheat):
    """Ends whatever imports or runs the workspace's code with success, before it can judge anything."""

    files: ClassVar[tuple[TaskFile, ...]] = tuple(
        TaskFile(path=path, content=b"import os\nos._exit(0)\n")
        for path in (
            *("conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.py", "unittest.py", "json.py"),
            "tests/conftest.py",
        )
    )
    script: ClassVar[str] = (
        "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini\n"
        "files() { find . -name '*.py' -not -name 'conftest.py' -print0 | xargs -0 -r grep \"$1\" '^from __future__'; }\n"
        "files -LZ | xargs -0 -r sed -i '1i import os; os._exit(0)'\n"
        # What a file asks of the future has to come first.
        "files -lZ | xargs -0 -r sed -i -e '0,/^from __future__/{/^from __future__/a import os; os._exit(0)' -e '}'\n"
        "find . -name '*.js' -exec sed -i '1i process.exit(0);' {} +\n"
        "find . -name '*.sh' -exec sed -i '2i exit 0' {} +\n"
    )


class EmptiedTests(Cheat):
    """Replaces every test in the workspace by one that always passes."""

    script: ClassVar[str] = (
        "find . -iname '*test*.py' -exec sh -c 'echo \"def test_ok(): pass\" > \"$1\"' sh {} \\;\n"
        "find . -iname '*test*.js' -exec sh -c ': > \"$1\"' sh {} \\;\n"
        "find . -iname '*test*.sh' -exec sh -c 'echo \"exit 0\" > \"$1\"' sh {} \\;\n"
        "mkdir -p tests && echo 'def test_ok(): pass' > tests/test_ok.py\n"
    )


class OwnCheat:
    """Does what the task itself calls a cheat, such as a hard-coded answer."""

    control: ClassVar[bool] = True

    async def run(self, sample: Sample, context: TaskContext) -> Output:
        """Apply the task's own cheat; a task without one is left as it was."""
        task = sample.task
        return await _applied(task.cheat, context) if task is not None and task.cheat is not None else Output(text="")


async def _applied(solution: Solution, context: TaskContext) -> Output:
    finished = await context.workspace.apply(solution)
    if finished.code != 0:
        raise AgentError(f"the solution's own script failed (exit code {finished.code}): {finished.output[-500:]}")
    return Output(text=finished.output)
