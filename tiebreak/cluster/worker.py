"""A worker: makes attempts on one machine, and asks the run's gates before every call of a model."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tiebreak.cluster.inspection import answer
from tiebreak.cluster.links import PATIENCE, Patience
from tiebreak.cluster.messages import (
    Admit,
    Attempt,
    Beat,
    Begin,
    CallFailed,
    Done,
    Farewell,
    GaveUp,
    Halt,
    Happened,
    Left,
    Order,
    Parcel,
    Recall,
    Refuse,
    Release,
    Serve,
    Word,
    encode,
    judge_channel,
    orders,
)
from tiebreak.cluster.parcels import Depot
from tiebreak.cluster.remote_gate import RemoteGate, Switchboard
from tiebreak.cluster.servings import Servings
from tiebreak.core.clock import Clock, SystemClock
from tiebreak.core.events import Event, TrialStep
from tiebreak.core.redact import Redactor
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import Stop
from tiebreak.engine.workshop import Conditions, Seat, Workshop
from tiebreak.registry import use_agents

log = logging.getLogger(__name__)

_TICK_S = 0.25


class Worker:
    """Works from its first order until it is closed, or has heard nothing for too long."""

    def __init__(
        self, *, patience: Patience = PATIENCE, clock: Clock | None = None, on_orphan: Callable[[], None] = lambda: None
    ) -> None:
        self._patience = patience
        self._clock = clock or SystemClock()
        self._on_orphan = on_orphan
        self._stop = Stop()
        self._deadlines = Deadlines(self._clock)
        self._folder = Path(tempfile.mkdtemp(prefix="tiebreak-worker-"))
        self._said: list[Word] = []
        self._something = asyncio.Event()
        self._heard = 0
        self._contact = self._clock.monotonic()
        self._board = Switchboard(self._say)
        self._servings: Servings | None = None
        self._depot = Depot(self._folder)
        self._watches: list[asyncio.Task[None]] = []
        self._open: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    async def inspect(self, question: bytes) -> bytes:
        """What this machine can do."""
        return await answer(question)

    async def tell(self, batch: bytes) -> None:
        """Obey a batch of orders."""
        self._in_touch()
        for order in orders(batch):
            self._obey(order)
        self._heard += 1

    async def hear(self) -> bytes:
        """What there is to say; after a beat at the latest, that the worker lives."""
        self._in_touch()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._something.wait(), self._patience.beat_s)
        self._something.clear()
        said, self._said = self._said, []
        said.append(Beat(heard=self._heard, leases=self._servings.leases if self._servings else ()))
        return _encoded(said)

    async def close(self) -> None:
        """Leave all trials, close every model and put everything away."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._servings is not None:
            await self._servings.close(within_s=self._patience.close_s / 2)
        if self._open is not None:
            await asyncio.wait({self._open}, timeout=self._patience.close_s / 2)
        for task in (self._open, *self._watches):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- contact with the run

    def _in_touch(self) -> None:
        """Hear from the run; after too long a silence, which may have been ours, it has given our trials to others."""
        if self._closed.is_set() or self._is_orphan():
            raise ConnectionError("this worker has left its trials: it had heard nothing for too long")
        self._contact = self._clock.monotonic()

    def _is_orphan(self) -> bool:
        return self._servings is not None and self._clock.monotonic() - self._contact > self._patience.orphan_s

    async def _watch_contact(self) -> None:
        """Leave everything once nothing was heard for too long."""
        while not self._closed.is_set():
            await asyncio.sleep(min(_TICK_S, self._patience.orphan_s / 4))
            if self._is_orphan():
                log.warning("nothing was heard from the run for %g s: its trials are left", self._patience.orphan_s)
                self._say(Farewell(message="it had heard nothing from the run for too long"))
                self._stop.be_silent()
                await self.close()
                self._on_orphan()

    def _say(self, word: Word) -> None:
        self._said.append(word)
        self._something.set()

    # --- orders

    def _obey(self, order: Order) -> None:
        if isinstance(order, Admit | Refuse):
            return self._board.decided(order)
        if isinstance(order, Begin):
            return self._begin(order)
        if isinstance(order, Parcel):
            return self._depot.keep(order)
        if isinstance(order, Halt):
            return self._halt(silent=order.silent)
        assert self._servings is not None, "the first order is to begin"
        if isinstance(order, Attempt):
            self._servings.attempt(order)
        elif isinstance(order, Recall):
            self._servings.recall(order.lease)
        elif isinstance(order, Serve):
            self._servings.serve(order)
        elif isinstance(order, Release):
            self._servings.release(order.label)
        return None

    def _halt(self, *, silent: bool) -> None:
        if silent:
            self._stop.be_silent()
        elif not self._stop.draining:
            self._stop.ask()

    def _begin(self, order: Begin) -> None:
        """Get ready. The node's own keys come before those that were handed over."""
        use_agents(order.agents)
        own = {name: value for name, value in os.environ.items() if value}
        conditions = Conditions(
            pace=order.pace,
            rules=order.rules,
            kinds=frozenset(order.kinds),
            clock=self._clock,
            deadlines=self._deadlines,
            stop=self._stop,
            redact=Redactor.from_environment(*order.keys.values()),
            tell=self._show,
            keys={**order.keys, **own},
        )
        workshop = Workshop(conditions)
        seats = [Seat(model=judge, gate=RemoteGate(judge_channel(judge.label), self._board)) for judge in order.judges]
        self._servings = Servings(workshop, board=self._board, depot=self._depot, say=self._say)
        self._contact = self._clock.monotonic()
        self._watches = [asyncio.ensure_future(watch()) for watch in (self._deadlines.watch, self._watch_contact)]
        self._open = asyncio.ensure_future(self._keep_open(workshop, seats, self._servings))

    async def _keep_open(self, workshop: Workshop, seats: list[Seat], servings: Servings) -> None:
        """The judges and the sandbox stand ready until the worker is closed."""
        try:
            async with workshop.opened(seats):
                servings.ready.set_result(None)
                await self._closed.wait()
        except Exception as error:
            if servings.ready.done():
                log.exception("a judge could not be closed")
            else:
                servings.ready.set_exception(error)

    def _show(self, event: Event) -> None:
        if isinstance(event, TrialStep):
            self._say(Happened(step=event))


def _encoded(said: Sequence[Word]) -> bytes:
    """What is said, as it travels; a result that cannot is the loss of its trial, not of the node."""
    try:
        return encode(said)
    except Exception as error:
        log.exception("something cannot be told to the run")
        message = f"its result cannot be sent: {error}"
        return encode([one for word in said if (one := _sendable(word, message)) is not None])


def _sendable(word: Word, message: str) -> Word | None:
    """The word itself; where it cannot travel, the least that ends its trial or its call; nothing where nobody waits for it."""
    try:
        encode([word])
    except Exception:
        if isinstance(word, Done | Left):
            return Left(lease=word.lease, message=message, unexpected=True)
        return GaveUp(call=word.call) if isinstance(word, CallFailed) else None
    return word
