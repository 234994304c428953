"""Calls of a worker at the gates of the run: none is sent unasked, and every one that was let through is settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tiebreak.cluster.going_on import going_on
from tiebreak.cluster.messages import Admit, Answered, Ask, CallFailed, GaveUp, Refuse, Withdrawn, is_contestants
from tiebreak.core.errors import ProviderError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Usage
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.engine.traffic import Gate, Ticket, may_have_cost

log = logging.getLogger(__name__)

CallWord = Ask | Withdrawn | Answered | CallFailed | GaveUp


@dataclass(slots=True)
class Taken:
    """What the calls of one trial took so far: of its own model, not of judges."""

    answered: int = 0
    usage: Usage = field(default_factory=lambda: Usage(cost_usd=0.0))
    """Of those that were answered."""
    unknown: int = 0
    """Calls that may have been paid for, and nobody knows."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    """A call that was let through and is not settled."""

    gate: Gate
    ticket: Ticket
    taken: Taken
    """Where it is noted down."""


@dataclass(slots=True)
class Calls:
    """The calls of one worker, from the question to the settlement."""

    gates: Mapping[str, Gate]
    send: Callable[[Admit | Refuse], None]
    waits: Callable[[int, int], None]
    """Told by how many the calls of a lease that wait have changed."""
    _waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _sent: dict[int, _Sent] = field(default_factory=dict)
    _taken: dict[int, Taken] = field(default_factory=dict)
    """By lease."""
    _over: bool = False
    """The worker is lost."""

    def take(self, word: CallWord) -> None:
        """What the worker says of a call."""
        if isinstance(word, Ask):
            return self._ask(word)
        if isinstance(word, Withdrawn) and (waiting := self._waiting.pop(word.call, None)) is not None:
            waiting.cancel()
            return None
        # What is not known was given up already.
        if (found := self._sent.pop(word.call, None)) is None:
            return None
        self._settle(found, word)
        return None

    def _settle(self, sent: _Sent, word: CallWord) -> None:
        gate, ticket, taken = sent.gate, sent.ticket, sent.taken
        if isinstance(word, Answered):
            gate.answered(ticket, word.usage)
            if word.usage is None:
                taken.unknown += 1
            else:
                taken.answered += 1
                taken.usage += word.usage
        elif isinstance(word, CallFailed):
            error = ProviderError(word.message, kind=word.kind, retry_after=word.retry_after, status=word.status)
            gate.failed(ticket, error)
            taken.unknown += may_have_cost(error)
        else:
            gate.gave_up(ticket)
            taken.unknown += 1

    def taken_by(self, lease: int) -> Taken:
        """What a lease that is over took; it is forgotten here."""
        return self._taken.pop(lease, Taken())

    def give_up(self) -> None:
        """The worker is lost: what waits is not sent any more; of what was sent, nobody knows what it used."""
        self._over = True
        for waiting in self._waiting.values():
            waiting.cancel()
        sent, self._sent = self._sent, {}
        for one in sent.values():
            one.taken.unknown += 1
            with going_on("a call that was given up"):
                one.gate.gave_up(one.ticket)

    def _ask(self, ask: Ask) -> None:
        gate = self.gates.get(ask.channel)
        if gate is None or self._over:
            return self.send(Refuse(call=ask.call))
        if (ticket := gate.try_enter()) is not None:
            return self._admit(ask, gate, ticket)
        task = self._waiting[ask.call] = asyncio.ensure_future(self._enter(ask, gate))
        task.add_done_callback(lambda _: self._waiting.pop(ask.call, None))
        return None

    async def _enter(self, ask: Ask, gate: Gate) -> None:
        self.waits(ask.lease, 1)
        try:
            ticket = await gate.admit(ask.size, ask.settings)
        except ContestantOver as over:
            self.send(Refuse(call=ask.call, state=over.state, message=str(over)))
        except Interrupted:
            self.send(Refuse(call=ask.call))
        except Exception as error:
            log.exception("a call could not be let through")
            message = f"unexpected {type(error).__name__}: {error}"
            self.send(Refuse(call=ask.call, state=ContestantState.FAILED, message=message))
        else:
            if ask.call in self._waiting and not self._over:
                self._admit(ask, gate, ticket)
            else:
                # Given up in the very moment it was let through: nobody is there to send it.
                gate.gave_up(ticket)
        finally:
            self.waits(ask.lease, -1)

    def _admit(self, ask: Ask, gate: Gate, ticket: Ticket) -> None:
        taken = self._taken.setdefault(ask.lease, Taken()) if is_contestants(ask.channel) else Taken()
        self._sent[ask.call] = _Sent(gate=gate, ticket=ticket, taken=taken)
        self.send(Admit(call=ask.call, answers=gate.answers, in_flight=gate.in_flight))
