"""Trials on lease: what each needs of its node, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from tiebreak.cluster.calls import Taken
from tiebreak.core.trial import Trial, TrialResult
from tiebreak.engine.workshop import Service

TRIALS, TASKS = "trials", "coding tasks"
"""What every node has so many places for; every trial takes one, a coding task one of each."""


class Lost(Exception):
    """The node a trial was on is lost, or the trial with it."""

    def __init__(self, reason: str, taken: Taken) -> None:
        super().__init__(reason)
        self.taken = taken
        """What its calls took there."""


class Broken(Lost):
    """The trial ended on its node by an error nobody expected, or was left there."""


class NotServed(Exception):
    """The trial cannot be done on this machine."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a trial needs of its node."""

    label: str
    """The contestant's."""
    demand: tuple[tuple[str, float], ...]
    """Places and resources it takes while it lasts."""
    alone: bool = False
    """Nothing else may be on the node meanwhile."""
    elsewhere: str = ""
    """Not on this node, by its id."""


def wish_for(trial: Trial, needs: Mapping[str, float], *, alone: bool) -> Wish:
    """The wish of a trial that also needs some resources."""
    demand = {**needs, TRIALS: 1.0} if trial.sample.task is None else {**needs, TRIALS: 1.0, TASKS: 1.0}
    return Wish(trial.contestant.label, tuple(sorted(demand.items())), alone)


@dataclass(slots=True, eq=False, kw_only=True)
class Lease:
    """A trial on a node, until a result is there or the node is lost."""

    number: int
    trial: Trial
    service: Service
    wish: Wish
    quiet_s: float
    """Longest silence about it."""
    outcome: asyncio.Future[TrialResult]
    heard_at: float
    batch: int = 0
    """The batch of orders that gave it away; 0 until it has gone."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """The worker has let go of it, or is lost."""
    waiting: int = 0
    """Calls that wait at a gate of the run: then nothing is to be heard of it."""
    recalled_at: float | None = None

    def fail(self, error: BaseException) -> None:
        """Whoever waits for the result hears why there is none here."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def bring(self, result: TrialResult) -> None:
        """The result is there. Of a trial that was cancelled, only an answer that nobody has judged is kept."""
        if not self.outcome.done():
            self.outcome.set_result(result)
        elif self.outcome.cancelled() and result.unjudged:
            self.service.rescue(result)
