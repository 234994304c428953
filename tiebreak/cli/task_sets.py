"""Public sets of coding tasks on the command line: their first use takes a while, and says how far it is."""

from __future__ import annotations

from tiebreak.cli.console import Console, counted
from tiebreak.core.protocols import Dataset
from tiebreak.core.run import Protocol
from tiebreak.registry import is_task_set, proven_tasks

_EVERY = 10


def task_set(protocol: Protocol, console: Console, *, quiet: bool = False) -> Dataset | None:
    """The public set of tasks that is named, each tried here; None when something else is named."""
    if not is_task_set(protocol.dataset):
        return None

    def tell(task: str, done: int, count: int) -> None:
        if quiet:
            return
        if not task:
            left = counted(count - done, "task")
            console.line(f"{left} of {protocol.dataset} to be tried here first; what comes of each is kept for the next time.")
        elif done % _EVERY == 0 or done == count:
            console.line(f"{done} of {count} tried, {task} last", style="dim")

    return proven_tasks(protocol.dataset, protocol.source, tell)
