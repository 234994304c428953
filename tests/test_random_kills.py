"""Killed at a random moment, once, in its resume too, or five times, a run ends with the results of one never killed.

A few kills each time; `make kills` does 300 kills and 30 chains of five.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support.random_kills import Killing, answer
from support.server import FakeServer

KILLS = int(os.environ.get("RANDOM_KILLS", "4"))
CHAINS = int(os.environ.get("KILL_CHAINS", "1"))
CHAIN_LENGTH = 5
SEED = os.environ.get("KILL_SEED", "7")


def _share(total: int, tasks: bool) -> int:
    """A third of all, and the only one, have coding tasks beside the questions."""
    with_tasks = -(-total // 3)
    return with_tasks if tasks else total - with_tasks


@pytest.mark.parametrize("tasks", [False, pytest.param(True, marks=pytest.mark.needs("bubblewrap"))], ids=["questions", "tasks"])
def test_killed_at_any_moment_a_run_ends_as_if_never_killed(tmp_path: Path, tasks: bool) -> None:
    """The server was not asked again for what was committed, and nothing else is left behind."""
    lengths = [1 + number % 2 for number in range(_share(KILLS, tasks))] + [CHAIN_LENGTH] * _share(CHAINS, tasks)
    with FakeServer(answer) as server:
        killing = Killing(home=tmp_path, server=server, tasks=tasks, chance=random.Random(f"{SEED} {tasks}"))
        found = {f"run{number}": killing.chain(f"run{number}", length) for number, length in enumerate(lengths)}

    print(f"{killing.kills.total()} kills of {len(lengths)} runs: {dict(killing.kills)}; {dict(killing.landed)}")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert killing.kills.total() > 0
