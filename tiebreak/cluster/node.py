"""A worker as the run sees it: its orders go out, its words come in, and its trials are on lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from tiebreak.cluster.calls import Calls
from tiebreak.cluster.going_on import going_on
from tiebreak.cluster.leases import TRIALS, Broken, Lease, Lost, NotServed, Wish
from tiebreak.cluster.links import Link, LinkBroken, Member, Patience
from tiebreak.cluster.messages import (
    Answered,
    Ask,
    Attempt,
    Beat,
    CallFailed,
    Done,
    Farewell,
    GaveUp,
    Happened,
    Left,
    Order,
    Parcel,
    Parked,
    Recall,
    Unable,
    Waits,
    Withdrawn,
    Word,
    encode,
    words,
)
from tiebreak.cluster.parcels import Packer
from tiebreak.core.events import Event
from tiebreak.core.trial import Trial
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import ContestantOver
from tiebreak.engine.traffic import Gate
from tiebreak.engine.workshop import Service

log = logging.getLogger(__name__)

_BATCH_BYTES = 4 << 20


class Surroundings(Protocol):
    """What a node needs of the pool it is in."""

    @property
    def gates(self) -> Mapping[str, Gate]:
        """The gates calls go through, by their channels."""

    @property
    def deadlines(self) -> Deadlines:
        """The run's own clock."""

    @property
    def patience(self) -> Patience:
        """How long is waited for what."""

    def show(self, event: Event) -> None:
        """Tell whoever watches."""

    def freed(self, node: Node, lease: Lease) -> None:
        """A lease is over."""

    def unable(self, node: Node, word: Unable) -> None:
        """A contestant's model cannot be used there."""

    def lost(self, node: Node, reason: str, *, idle: bool) -> None:
        """The worker is gone."""


@dataclass(slots=True, eq=False)
class Node:
    """One worker, from its link to the link's end."""

    member: Member
    link: Link
    around: Surroundings
    free: dict[str, float]
    """What is left of the machine: places for trials and tasks, and its resources."""
    in_all: Mapping[str, float]
    leases: dict[int, Lease] = field(default_factory=dict)
    unable: dict[str, Unable] = field(default_factory=dict)
    """Contestants it cannot serve."""
    alone: bool = False
    """It is kept for a trial that is tried alone, or has one."""
    is_lost: bool = False
    calls: Calls = field(init=False)
    _packer: Packer = field(default_factory=Packer)
    _orders: deque[Order] = field(default_factory=deque)
    _something: asyncio.Event = field(default_factory=asyncio.Event)
    _batches: int = 0
    _loops: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calls = Calls(self.around.gates, self.send, self._waits)

    @property
    def name(self) -> str:
        """What people call the node."""
        return self.member.name

    def begin(self) -> None:
        """Tell and hear from now on."""
        self._loops = [asyncio.ensure_future(self._until_lost(loop)) for loop in (self._tell, self._hear)]

    def send(self, order: Order) -> None:
        """Give an order; orders are obeyed one after another."""
        self._orders.append(order)
        self._something.set()

    @property
    def busy(self) -> float:
        """How many trials it has, or has a place given to."""
        return self.in_all[TRIALS] - self.free[TRIALS]

    def lease(self, number: int, trial: Trial, service: Service, *, wish: Wish, quiet_s: float) -> Lease:
        """Give a trial away."""
        parcels, sample, digest = self._packer.pack(trial.sample)
        now = self.around.deadlines.awake_s
        lease = self.leases[number] = Lease(
            number=number,
            trial=trial,
            service=service,
            wish=wish,
            quiet_s=quiet_s,
            outcome=asyncio.get_running_loop().create_future(),
            heard_at=now,
        )
        for parcel in parcels:
            self.send(parcel)
        self.send(
            Attempt(
                lease=number,
                label=trial.contestant.label,
                sample=sample,
                parcel=digest,
                repeat=trial.repeat,
                asked=trial.asked,
                trial=trial.id,
                kept=trial.kept,
            )
        )
        return lease

    def recall(self, lease: Lease) -> None:
        """Have a trial left; its place is free once the worker has said so."""
        if lease.recalled_at is None and lease.number in self.leases:
            lease.recalled_at = self.around.deadlines.awake_s
            self.send(Recall(lease=lease.number))

    def look_after(self) -> None:
        """Take trials back of which nothing was heard for too long; where one cannot be ended, neither can the worker."""
        now, patience = self.around.deadlines.awake_s, self.around.patience
        for lease in list(self.leases.values()):
            if lease.recalled_at is not None and now - lease.recalled_at > 2 * patience.lost_s:
                return self.lose("a trial could not be ended there")
            if not lease.waiting and now - lease.heard_at > lease.quiet_s:
                lease.fail(Lost(f"nothing was heard of it for {lease.quiet_s:.0f} s", self.calls.taken_by(lease.number)))
                self.recall(lease)
        return None

    def lose(self, reason: str) -> None:
        """The worker is gone: its trials are for others, and whatever it still says is not heard."""
        if self.is_lost:
            return
        self.is_lost = True
        leases, self.leases = self.leases, {}
        for loop in self._loops:
            if loop is not asyncio.current_task():
                loop.cancel()
        # Whatever goes wrong on the way, its trials go to others.
        for step in (self.calls.give_up, self.link.end, partial(self.around.lost, self, reason, idle=not leases)):
            with going_on(f"the loss of {self.name}"):
                step()
        for lease in leases.values():
            lease.fail(Lost(reason, self.calls.taken_by(lease.number)))
            lease.ended.set()

    async def close(self) -> None:
        """The run is over: have the worker put everything away, and end it."""
        self.is_lost = True
        for loop in self._loops:
            loop.cancel()
        self.calls.give_up()
        try:
            with going_on(f"closing {self.name}"), contextlib.suppress(LinkBroken, TimeoutError):
                await asyncio.wait_for(self.link.close(), self.around.patience.close_s)
        finally:
            self.link.end()

    # --- telling and hearing

    async def _until_lost(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except TimeoutError:
            self.lose(f"nothing was heard from it for {self.around.patience.lost_s:g} s")
        except LinkBroken as error:
            self.lose(str(error))
        except asyncio.CancelledError:
            # Unless it is us who end: what carries the bytes gave up on them.
            self.lose("the way to it was given up")
            raise
        except Exception as error:
            log.exception("the way to %s broke on an error nobody expected", self.name)
            self.lose(f"unexpected {type(error).__name__}: {error}")

    async def _tell(self) -> None:
        """Send what there is, a batch at a time; a batch is obeyed before the next one goes."""
        within, patience = self.around.deadlines.within, self.around.patience
        while True:
            await self._something.wait()
            self._something.clear()
            while self._orders:
                await within(patience.lost_s, self.link.tell(encode(self._next_batch())))

    def _next_batch(self) -> list[Order]:
        """As much as goes in one piece: what is told must arrive before the node counts as lost."""
        self._batches += 1
        size, batch = 0, []
        while self._orders and size < _BATCH_BYTES:
            order = self._orders.popleft()
            batch.append(order)
            size += len(order.data) if isinstance(order, Parcel) else 0
            if isinstance(order, Attempt) and (lease := self.leases.get(order.lease)) is not None:
                lease.batch = self._batches
        return batch

    async def _hear(self) -> None:
        """Hear what there is, for ever; a worker says something every second."""
        within, patience = self.around.deadlines.within, self.around.patience
        while True:
            for word in words(await within(patience.lost_s, self.link.hear())):
                self._take(word)

    def _take(self, word: Word) -> None:
        if isinstance(word, Ask | Withdrawn | Answered | CallFailed | GaveUp):
            self.calls.take(word)
            if isinstance(word, Ask):
                self._sign_of(word.lease)
        elif isinstance(word, Done | Left):
            self._over(word)
        elif isinstance(word, Beat):
            self._beat(word)
        elif isinstance(word, Happened):
            self._show(word)
        elif isinstance(word, Waits | Parked):
            self._held_up(word)
        elif isinstance(word, Unable):
            self._cannot_serve(word)
        elif isinstance(word, Farewell):
            raise LinkBroken(word.message)

    def _show(self, word: Happened) -> None:
        self.around.show(word.step)
        for lease in self.leases.values():
            if lease.trial.sample.id == word.step.sample:
                self._sign_of(lease.number)

    def _held_up(self, word: Waits | Parked) -> None:
        """A server asks for a wait: of one call, or of all."""
        gate = self.around.gates.get(word.channel)
        if isinstance(word, Waits):
            self._sign_of(word.lease, word.seconds)
        if gate is not None:
            gate.tell(word.reason, word.seconds) if isinstance(word, Waits) else gate.park(word.seconds, word.reason)

    def _sign_of(self, number: int, later_s: float = 0.0) -> None:
        """Something was heard of a lease, and may be of it no sooner than later."""
        if (lease := self.leases.get(number)) is not None:
            lease.heard_at = self.around.deadlines.awake_s + later_s

    def _waits(self, number: int, more: int) -> None:
        if (lease := self.leases.get(number)) is not None:
            lease.waiting += more
            self._sign_of(number)

    # --- leases

    def _over(self, word: Done | Left) -> None:
        """A lease has come to its end. One that is not known any more was given to others: what it brought is not heard."""
        if (lease := self.leases.pop(word.lease, None)) is None:
            return
        lease.ended.set()
        taken = self.calls.taken_by(word.lease)
        if isinstance(word, Done):
            lease.bring(replace(word.result, trial=lease.trial))
        elif word.unexpected:
            lease.fail(Broken(word.message, taken))
        elif word.state is not None:
            lease.fail(ContestantOver(word.state, word.message))
        else:
            lease.fail(Broken("it was left there", taken))
        self.around.freed(self, lease)

    def _beat(self, beat: Beat) -> None:
        """A lease the worker has been given and does not work on was lost on its way."""
        held = set(beat.leases)
        told = [lease for lease in self.leases.values() if lease.batch and lease.batch <= beat.heard]
        for lease in [lease for lease in told if lease.number not in held]:
            self._take_back(lease, Lost("the worker does not know of it", self.calls.taken_by(lease.number)))

    def _cannot_serve(self, word: Unable) -> None:
        self.unable[word.label] = word
        for lease in [lease for lease in self.leases.values() if lease.trial.contestant.label == word.label]:
            self.calls.taken_by(lease.number)
            self._take_back(lease, NotServed(word.message))
        self.around.unable(self, word)

    def _take_back(self, lease: Lease, error: Exception) -> None:
        """The worker does not work on it: its place is free."""
        del self.leases[lease.number]
        lease.ended.set()
        lease.fail(error)
        self.around.freed(self, lease)
