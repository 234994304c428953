"""A run with batches that is killed anywhere pays nothing twice and loses nothing, by the provider's own ledger.

A sample of the moments each time; `make batch-kills` takes all of them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.batch_kills import Driver, Killing, driver, fails_first, write_questions
from support.batch_server import CREATES, MOMENTS, RESULTS, BatchServer, Kill
from support.command import ROOT, clean_environment
from support.server import KEY

EVERY = int(os.environ.get("BATCH_KILLS_EVERY", "30"))
WORLDS = {
    "chat": ("chat", {}),
    "chat without metadata": ("chat", {"metadata": False}),
    "responses": ("responses", {}),
    "messages": ("messages", {}),
    "gemini": ("gemini", {}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[BatchServer]:
    with BatchServer() as served:
        yield served


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The library that counts durable acts, and ends the program at one of them."""
    library = tmp_path / "faulty.so"
    source = ROOT / "tests" / "support" / "faulty_disk.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
    return library


def _killing(home: Path, server: BatchServer, program: Driver, world: str) -> Killing:
    write_questions(home)
    dialect, how = WORLDS[world]
    slow: dict[str, Any] = {"delay_s": 0.15, "lag_s": 0.05, "fate": fails_first, **how}
    return Killing(home=home, server=server, program=program, dialect=dialect, how=slow, key=KEY)


def _moments(steps: list[str]) -> list[Kill]:
    """Every moment of every request of a run."""
    requests = enumerate(steps, start=1)
    return [Kill(number, moment) for number, step in requests for moment in (*MOMENTS, *(["half"] if step in RESULTS else []))]


def _sampled(moments: list[Kill], steps: list[str]) -> list[Kill]:
    """All moments of the request that is paid for, and some of the others."""
    paid = next(number for number, step in enumerate(steps, start=1) if step in CREATES)
    return [kill for place, kill in enumerate(moments) if place % EVERY == 0 or kill.request == paid]


@pytest.mark.parametrize("world", WORLDS)
def test_killed_at_any_moment_of_a_request_nothing_is_paid_twice_or_lost(server: BatchServer, tmp_path: Path, world: str) -> None:
    with driver(tmp_path, clean_environment(**server.environment())) as program:
        killing = _killing(tmp_path, server, program, world)
        steps, _ = killing.calm()
        moments = _moments(steps)
        some = _sampled(moments, steps)
        wrong = {kill: found for kill in some if (found := killing.killed(kill))}
        # Killed again in the resume, wherever that has got to by then.
        twice = list(zip(some[::3], moments[::-EVERY], strict=False))
        wrong |= {pair: found for pair in twice if (found := killing.killed(*pair))}
        print(f"{world}: {killing.kills} kills")

    assert wrong == {}
    assert killing.kills >= len(some) - 3


@pytest.mark.needs("cc")
@pytest.mark.parametrize("world", ["chat without metadata", "messages"])
def test_killed_at_any_durable_step_nothing_is_paid_twice_or_lost(
    server: BatchServer, disk: Path, tmp_path: Path, world: str
) -> None:
    with driver(tmp_path, clean_environment(**server.environment(), LD_PRELOAD=str(disk))) as program:
        killing = _killing(tmp_path, server, program, world)
        _, steps = killing.calm()
        assert steps > 30
        tries = [(step, mode) for step in range(1, steps + 1) for mode in ("kill before", "kill after")][:: 4 * EVERY]
        wrong = {one: found for one in tries if (found := killing.killed(step=one[0], mode=one[1]))}
        print(f"{world}: {killing.kills} kills at durable steps of {steps}")

    assert wrong == {}
    assert killing.kills >= len(tries) // 2
