"""Whose limit of seconds and model calls holds for a task: its own, unless one was asked for."""

from pathlib import Path

import pytest

from tiebreak.core.clock import SystemClock
from tiebreak.core.run import TaskRules
from tiebreak.core.work import Isolation
from tiebreak.datasets.tasks import load
from tiebreak.engine.task_context import TaskSetup
from tiebreak.registry import spelled_tasks
from tiebreak.spec.flags import Flags

TASK = "---\nagent: {timeout_sec: 300, max_model_calls: 8}\n---\nDo it.\n\n## Verify\n\n```bash\ntrue\n```\n"


@pytest.mark.parametrize(
    ("flags", "seconds", "calls"),
    [
        (Flags(), 300, 8),
        (Flags(task_timeout=900), 900, 8),
        (Flags(task_timeout=20), 20, 8),
        (Flags(max_model_calls=40), 300, 40),
        (Flags(max_model_calls=2), 300, 2),
        (Flags(door="batch", timeout=1200, max_model_calls=100), 1200, 100),
        (Flags(door="run", timeout=1200), 300, 8),
    ],
)
def test_flags_raise_and_lower_the_limits_of_a_task(tmp_path: Path, flags: Flags, seconds: float, calls: int) -> None:
    """As their messages say; and what was asked for is kept when the run is resumed."""
    (tmp_path / "task.md").write_text(TASK)
    sample = load(spelled_tasks([str(tmp_path / "task.md")]))[0]
    assert sample.task is not None
    rules = flags.task_rules(TaskRules())
    setup = TaskSetup(rules=rules, isolation=Isolation(level="none"), clock=SystemClock(), tell=lambda event: None)
    assert (setup.seconds_for(sample.task), setup.calls_for(sample.task)) == (seconds, calls)
    assert Flags().task_rules(rules) == rules
