"""The contestants a worker serves, and the trials it has on lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from tiebreak.cluster.messages import Attempt, Done, Left, Serve, Unable, Word, contestant_channel
from tiebreak.cluster.parcels import Depot
from tiebreak.cluster.remote_gate import LEASE, RemoteGate, Switchboard
from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import BenchmarkError, FailureKind, ProviderError
from tiebreak.core.events import ContestantState
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial, TrialResult, make_trial
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.engine.workshop import Attempting, Service, Workshop

log = logging.getLogger(__name__)

_STUB = make_trial(Sample(id="", messages=()), Contestant(label="", model=ModelRef(provider="", name="", label="")))
"""Stands for the trial in results on their way: the run knows it by its lease."""


class _Unserved(Exception):
    """The contestant's model could not be opened here; it has been said."""


@dataclass(slots=True)
class _Serving:
    contestant: Contestant
    ready: asyncio.Future[Attempting]
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Servings:
    """Models that stand open, each from its order to its release, and the trials under way."""

    def __init__(self, workshop: Workshop, *, board: Switchboard, depot: Depot, say: Callable[[Word], None]) -> None:
        self._workshop = workshop
        self._board = board
        self._depot = depot
        self._say = say
        self._redact = workshop.conditions.redact
        self._servings: dict[str, _Serving] = {}
        self._open: set[asyncio.Task[None]] = set()
        self._trials: dict[int, asyncio.Task[Word | None]] = {}
        self._lease_of: dict[str, int] = {}
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The workshop stands open."""

    @property
    def leases(self) -> tuple[int, ...]:
        """The leases under way."""
        return tuple(self._trials)

    def serve(self, order: Serve) -> None:
        """Trials of a contestant will come: open its model."""
        serving = _Serving(order.contestant, asyncio.get_running_loop().create_future())
        # Whoever waits for it hears of its failure; there may be nobody.
        serving.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._servings[order.contestant.label] = serving
        task = asyncio.ensure_future(self._keep_open(order, serving))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def release(self, label: str) -> None:
        """No more trials of a contestant will come: close its model."""
        if (serving := self._servings.pop(label, None)) is not None:
            serving.released.set()

    def attempt(self, order: Attempt) -> None:
        """Attempt a trial."""
        self._lease_of[order.trial] = order.lease
        task = self._trials[order.lease] = asyncio.ensure_future(self._attempt(order))
        # Not said by the task itself: one that is recalled before it began never runs.
        task.add_done_callback(partial(self._over, order))

    def recall(self, lease: int) -> None:
        """Leave a trial."""
        if (task := self._trials.get(lease)) is not None:
            task.cancel()

    async def close(self, *, within_s: float) -> None:
        """Leave all trials and close all models, for no longer than so many seconds."""
        trials = list(self._trials.values())
        for task in trials:
            task.cancel()
        for label in list(self._servings):
            self.release(label)
        if waiting := {*trials, *self._open}:
            await asyncio.wait(waiting, timeout=within_s)
        for task in waiting:
            task.cancel()

    async def _keep_open(self, order: Serve, serving: _Serving) -> None:
        label = order.contestant.label
        service = Service(
            contestant=order.contestant,
            gate=RemoteGate(contestant_channel(label), self._board),
            connections=order.connections,
            tasks_at_once=order.tasks_at_once,
            asks=order.asks,
            rescue=self._rescue,
        )
        try:
            await asyncio.shield(self.ready)
            async with self._workshop.serving(service) as attempting:
                serving.ready.set_result(attempting)
                await serving.released.wait()
        except Exception as error:
            if serving.ready.done():
                log.exception("a model could not be closed")
                return
            kind = error.kind if isinstance(error, ProviderError) else FailureKind.OURS
            self._say(Unable(label=label, message=self._in_words(error), kind=kind))
            serving.ready.set_exception(_Unserved())

    async def _attempt(self, order: Attempt) -> Word | None:
        """One trial on lease: what is to be said of it."""
        LEASE.set(order.lease)
        try:
            return Done(lease=order.lease, result=replace(await self._result(order), trial=_STUB))
        except ContestantOver as over:
            return Left(lease=order.lease, state=over.state, message=str(over))
        except (Interrupted, asyncio.CancelledError):
            # Asked for by the run, or else by nobody; the run knows.
            return Left(lease=order.lease)
        except _Unserved:
            return None
        except BenchmarkError as error:
            return Left(lease=order.lease, state=ContestantState.FAILED, message=self._in_words(error))
        except Exception as error:
            log.exception("a trial stopped on an error nobody expected")
            return Left(lease=order.lease, message=self._in_words(error), unexpected=True)

    def _over(self, order: Attempt, task: asyncio.Task[Word | None]) -> None:
        """Say what became of a trial; only then it is no longer under way."""
        said = Left(lease=order.lease) if task.cancelled() else task.result()
        if said is not None:
            self._say(said)
        del self._trials[order.lease]
        if self._lease_of.get(order.trial) == order.lease:
            del self._lease_of[order.trial]

    async def _result(self, order: Attempt) -> TrialResult:
        if (serving := self._servings.get(order.label)) is None:
            raise Interrupted
        attempting = await asyncio.shield(serving.ready)
        trial = Trial(
            sample=self._depot.unpack(order.sample, order.parcel),
            contestant=serving.contestant,
            repeat=order.repeat,
            asked=order.asked,
            id=order.trial,
            kept=order.kept,
        )
        return await attempting(trial)

    def _rescue(self, result: TrialResult) -> None:
        """An answer that nobody has judged when its trial is left was paid for, and is kept."""
        if (lease := self._lease_of.get(result.trial.id)) is not None:
            self._say(Done(lease=lease, result=replace(result, trial=_STUB)))

    def _in_words(self, error: BaseException) -> str:
        text = str(error) if isinstance(error, BenchmarkError) else f"unexpected {type(error).__name__}: {error}"
        return self._redact(text)
