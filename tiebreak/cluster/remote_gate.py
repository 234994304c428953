"""The way to a gate that is with the run: every call of a worker asks before it is sent, and says what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count

from tiebreak.cluster.messages import (
    Admit,
    Answered,
    Ask,
    CallFailed,
    GaveUp,
    Parked,
    Refuse,
    Waits,
    Withdrawn,
    Word,
)
from tiebreak.core.errors import ProviderError
from tiebreak.core.message import Usage
from tiebreak.core.model import Request
from tiebreak.engine.budget import characters
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.engine.traffic import Ticket

LEASE: ContextVar[int] = ContextVar("lease", default=0)
"""The lease a call is made for."""


@dataclass(frozen=True, slots=True)
class RemoteTicket(Ticket):
    """A call that was let through far away."""

    call: int = 0


@dataclass(slots=True)
class Switchboard:
    """Calls of one worker by their numbers, so that an answer finds who waits for it."""

    say: Callable[[Word], None]
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _waiting: dict[int, asyncio.Future[Admit]] = field(default_factory=dict)

    def decided(self, order: Admit | Refuse) -> None:
        """The run's word on a call that waits."""
        waiting = self._waiting.pop(order.call, None)
        if waiting is None or waiting.done():
            # Whoever wanted it has gone: it was said that nothing is sent.
            return
        if isinstance(order, Admit):
            waiting.set_result(order)
        else:
            waiting.set_exception(Interrupted() if order.state is None else ContestantOver(order.state, order.message))

    async def ask(self, channel: str, request: Request) -> tuple[int, Admit]:
        """Ask for a call and wait for the word; what waits is given up with its lease."""
        call = next(self._numbers)
        waiting = self._waiting[call] = asyncio.get_running_loop().create_future()
        longest = {name: value for name, value in request.settings.items() if name == "max_tokens"}
        self.say(Ask(call=call, lease=LEASE.get(), channel=channel, size=characters(request), settings=longest))
        try:
            return call, await waiting
        except asyncio.CancelledError:
            self._waiting.pop(call, None)
            self.say(Withdrawn(call=call))
            raise


@dataclass(slots=True)
class RemoteGate:
    """The gate of one model, as calls on a worker see it."""

    channel: str
    board: Switchboard
    answers: int = 0
    in_flight: int = 0

    def tell(self, reason: str, seconds: float, /) -> None:
        """Say that a call waits before it is tried again."""
        self.board.say(Waits(lease=LEASE.get(), channel=self.channel, reason=reason, seconds=seconds))

    def try_enter(self) -> Ticket | None:
        """Nothing passes unasked."""
        return None

    async def enter(self, request: Request) -> Ticket:
        """Ask the run, and wait."""
        call, word = await self.board.ask(self.channel, request)
        self.answers, self.in_flight = max(self.answers, word.answers), word.in_flight
        return RemoteTicket(call=call)

    def answered(self, ticket: Ticket, usage: Usage | None) -> None:
        """The server answered."""
        self.answers += 1
        self.board.say(Answered(call=_number(ticket), usage=usage))

    def failed(self, ticket: Ticket, error: ProviderError) -> None:
        """The server refused or failed."""
        self.board.say(
            CallFailed(
                call=_number(ticket),
                kind=error.kind,
                message=str(error),
                retry_after=error.retry_after,
                status=error.status,
            )
        )

    def gave_up(self, ticket: Ticket) -> None:
        """The call was cancelled; nobody knows what it used."""
        self.board.say(GaveUp(call=_number(ticket)))

    def park(self, seconds: float, reason: str) -> None:
        """Have nothing sent for so long."""
        self.board.say(Parked(channel=self.channel, seconds=seconds, reason=reason))


def _number(ticket: Ticket) -> int:
    assert isinstance(ticket, RemoteTicket)
    return ticket.call
