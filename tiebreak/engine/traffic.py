"""How much is sent at once: an account's limit is found by trying, a model's own limits and circuit are kept.

An account is what a provider counts by: its name, its address and the key. All models of a run that share one share
its limit. With nothing declared and nothing wrong, a request passes by a few comparisons: no lock, no task, no clock.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tiebreak.core.clock import Clock
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Usage
from tiebreak.core.model import Limits, ModelRef, Request
from tiebreak.engine.breaker import Breaker
from tiebreak.engine.buckets import Limiter, Tell
from tiebreak.engine.budget import Amount, Purse, characters
from tiebreak.engine.pace import Pace
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop

_START = 20
CEILING = 200
"""Most requests in flight of an account, unless asked for otherwise."""
_CUT = 0.8
_GROWTH = 0.05
_IN_USE = 0.8
_COOLDOWN_S = 15.0
_LOOK_S = 0.5
"""How soon a call that waits for a probe, or for a park to end, looks again."""
_LONGEST_PARK_S = 3600.0
_USUAL_ANSWER_TOKENS = 512
_SERVER_FAILS = frozenset({FailureKind.OVERLOADED, FailureKind.TRANSIENT, FailureKind.TIMEOUT, FailureKind.MALFORMED})


class Account:
    """The requests in flight of one account, and how many there may be.

    The limit doubles with every clean round until the first 429, is cut once per episode of them, and then grows
    slowly, as long as it is nearly used up. An account that refuses by rate is paced once its rate is known.
    """

    __slots__ = (
        *("_clock", "_cool_until", "_good", "_members", "_peak", "_per_model", "_slow_start", "_waiters"),
        *("ceiling", "growing", "in_flight", "limit", "pace"),
    )

    def __init__(self, clock: Callable[[], float], per_model: int | None = None) -> None:
        self._clock = clock
        self._per_model = per_model
        """A ceiling that was asked for: so many for each model at work; None lets the account find its own."""
        self._members = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._good = self._peak = 0
        self._cool_until = 0.0
        self._slow_start = True
        self.ceiling = CEILING
        self.limit = _START
        self.in_flight = 0
        self.growing: list[Callable[[int], None]] = []
        """Told when the limit has grown."""
        self.pace: Pace | None = None
        """Made by the first refusal."""

    def join(self) -> None:
        """One more model is at work."""
        self._members += 1
        if self._per_model is not None:
            self.ceiling = self._per_model * self._members
            self._set_limit(self.ceiling if self._members == 1 else self.limit + self._per_model)

    def part(self) -> None:
        """A model's work is over."""
        self._members -= 1
        if self._per_model is not None:
            self.ceiling = self._per_model * max(1, self._members)
            self.limit = min(self.limit, self.ceiling)

    def try_enter(self) -> bool:
        """Take a slot if one is free."""
        if self.in_flight >= self.limit:
            return False
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)
        return True

    async def enter(self) -> None:
        """Take a slot, first come first served."""
        if self.try_enter():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot back, to whoever waits first."""
        self.in_flight -= 1
        if self._waiters:
            self._wake()

    def answered(self) -> None:
        """An answer came; a whole round of them, with nearly all slots in use, lets the limit grow."""
        if self.pace is not None:
            self.pace.answered()
        if self._cool_until and self._clock() < self._cool_until:
            return
        self._good += 1
        if self._good >= self.limit:
            self._end_round()

    def rate_limited(self, retry_after_s: float) -> None:
        """The account was told to slow down: cut once, then let the cut take effect."""
        now = self._clock()
        self.pace = self.pace or Pace(self._clock)
        self.pace.refused()
        # An account whose rate is known is held to it: fewer requests at once would only leave some of it unused.
        if now >= self._cool_until and self.pace.rate is None:
            self._slow_start = False
            self.limit = max(1, int(self.limit * _CUT))
            self._cool_until = now + _COOLDOWN_S
        self._cool_until = max(self._cool_until, now + min(retry_after_s, _LONGEST_PARK_S))
        self._begin_round()

    def troubled(self) -> None:
        """The server has trouble of its own: no reason to send less, nor to send more."""
        self._begin_round()

    def _end_round(self) -> None:
        self._cool_until = 0.0
        if self._peak >= _IN_USE * self.limit and self.limit < self.ceiling:
            more = self.limit if self._slow_start else max(1, int(self.limit * _GROWTH))
            self._set_limit(min(self.ceiling, self.limit + more))
        self._begin_round()

    def _begin_round(self) -> None:
        self._good, self._peak = 0, self.in_flight

    def _set_limit(self, limit: int) -> None:
        self.limit = limit
        self._wake()
        for told in self.growing:
            told(limit)

    def _wake(self) -> None:
        while self._waiters and self.in_flight < self.limit:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.try_enter()
                waiter.set_result(None)


@dataclass(frozen=True, slots=True)
class Ticket:
    """What was set aside for one request."""

    tokens: int = 0
    """Of the declared tokens a minute."""
    reserved: Amount | None = None
    """Of the budget."""


_FREE = Ticket()


@dataclass(slots=True, kw_only=True)
class Gate:
    """What stands between one model's calls and its server: budget, circuit, declared limits, a slot."""

    account: Account
    stop: Stop
    awake: Callable[[], float]
    """Seconds this process was awake: a sleeping laptop neither waits nor gives up."""
    tell: Tell
    limiter: Limiter | None = None
    purse: Purse | None = None
    ends_at: float = math.inf
    """When the model's time is over, in seconds awake."""
    answers: int = 0
    """Answers so far."""
    breaker: Breaker = field(init=False)
    _over: tuple[ContestantState, str] | None = None
    _parked: tuple[float, str] | None = None
    _troubled: str = ""
    _clear: bool = field(init=False)
    """Nothing but a slot is needed."""

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.awake)
        self._update()

    @property
    def in_flight(self) -> int:
        """The account's requests that are with the server."""
        return self.account.in_flight

    def try_enter(self) -> Ticket | None:
        """Pass at once, if nothing is in the way."""
        account = self.account
        unpaced = account.pace is None or account.pace.rate is None
        return _FREE if self._clear and unpaced and account.try_enter() else None

    async def enter(self, request: Request) -> Ticket:
        """Wait until the request may be sent; ContestantOver when none ever will."""
        return await self.admit(characters(request) if self.limiter or self.purse else 0, request.settings)

    async def admit(self, size: int, settings: Mapping[str, Any]) -> Ticket:
        """The same for a request of which its size in characters and its settings are known."""
        reserved = await self.purse.reserve(size, settings, self.tell) if self.purse else None
        tokens, probe = 0, False
        try:
            probe = await self._until_open()
            if self.limiter:
                longest = int(settings.get("max_tokens") or _USUAL_ANSWER_TOKENS)
                tokens = await self.limiter.take(size // 4 + longest, self.tell)
            elif self.account.pace is not None and (wait := self.account.pace.wait_s()):
                await self.stop.pause(wait)
            await self._take_slot(probe)
        except BaseException:
            # A probe that is never sent leaves its place to another.
            self.breaker.probing = self.breaker.probing and not probe
            self._give_back(Ticket(tokens, reserved), Usage())
            raise
        return Ticket(tokens, reserved)

    def answered(self, ticket: Ticket, usage: Usage | None) -> None:
        """The server answered."""
        self.answers += 1
        self.account.leave()
        self.account.answered()
        self.breaker.answered()
        if ticket is not _FREE:
            if self.purse:
                self.purse.learn()
            self._give_back(ticket, usage)
            self._update()

    def failed(self, ticket: Ticket, error: ProviderError) -> None:
        """The server refused or failed. A refused request used nothing; of a failed one nobody knows."""
        self.account.leave()
        if error.kind is FailureKind.RATE_LIMIT:
            self.account.rate_limited(error.retry_after or 0.0)
        if error.kind in _SERVER_FAILS:
            self.account.troubled()
            self.breaker.failed()
            self._troubled = str(error)
        else:
            self.breaker.answered()
        self._give_back(ticket, None if may_have_cost(error) else Usage())
        self._update()

    def gave_up(self, ticket: Ticket) -> None:
        """The call was cancelled; nobody knows what it used."""
        self.account.leave()
        self.breaker.probing = False
        self._give_back(ticket, None)

    def park(self, seconds: float, reason: str) -> None:
        """Send nothing for so long; when that is longer than the model has, it is over."""
        until = self.awake() + seconds
        if seconds > _LONGEST_PARK_S or until > self.ends_at:
            self.end(ContestantState.FAILED, f"the server asks to wait {seconds:.0f} s: {reason}; resume the run to continue")
        elif self._parked is None or until > self._parked[0]:
            self._parked = (until, reason)
        self._update()

    def end(self, state: ContestantState, message: str) -> None:
        """Send nothing any more."""
        self._over = self._over or (state, message)
        self._update()

    def _update(self) -> None:
        if self.breaker.hopeless and self._over is None:
            minutes = self.breaker.open_s / 60
            self._over = ContestantState.FAILED, f"the server kept failing for {minutes:.0f} minutes, last with: {self._troubled}"
        obstacles = (self._over, self._parked, self.limiter, self.purse)
        self._clear = not self.breaker.is_open and all(obstacle is None for obstacle in obstacles)

    async def _until_open(self) -> bool:
        """Wait while the model is parked or its circuit open; True makes this call the probe."""
        while (obstacle := self._obstacle()) is not None:
            reason, wait = obstacle
            self.tell(reason, max(wait, _LOOK_S))
            await self.stop.pause(min(max(wait, 0.01), _LOOK_S))
        self.breaker.probing = self.breaker.is_open
        return self.breaker.probing

    def _obstacle(self) -> tuple[str, float] | None:
        """Why nothing may be sent now, and for how long; None when this call may go."""
        self._check()
        if self._parked is not None:
            wait = self._parked[0] - self.awake()
            if wait > 0:
                return self._parked[1], wait
            self._parked = None
            self._update()
        if self.breaker.probing or self.breaker.wait_s():
            return f"circuit open: {self._troubled}", self.breaker.wait_s()
        return None

    async def _take_slot(self, probe: bool) -> None:
        """A slot; what happened while we waited for it may send us back."""
        while True:
            try:
                await self.account.enter()
            except BaseException:
                self.breaker.probing = self.breaker.probing and not probe
                raise
            if not self.breaker.is_open or probe:
                break
            self.account.leave()
            probe = await self._until_open()
        try:
            self._check()
        except BaseException:
            self.account.leave()
            self.breaker.probing = False
            raise

    def _check(self) -> None:
        if self.stop.draining:
            raise Interrupted
        if self._over is not None:
            raise ContestantOver(*self._over)

    def _give_back(self, ticket: Ticket, usage: Usage | None) -> None:
        """Settle what was set aside; with no usage known, all of it counts as used."""
        if self.limiter and ticket.tokens and usage is not None:
            self.limiter.settle(ticket.tokens, usage.input_tokens + usage.output_tokens)
        if self.purse and ticket.reserved is not None:
            self.purse.settle(ticket.reserved, usage)


def may_have_cost(error: ProviderError) -> bool:
    """Whether a call that failed may have been paid for: a server that refuses asks for nothing."""
    return error.kind in _SERVER_FAILS or not error.status


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Every account of a run, each made when its first model comes."""

    clock: Clock
    stop: Stop
    max_connections: int | None
    machines: int = 1
    """Each may have a model of its own."""
    _accounts: dict[tuple[str, str, str], Account] = field(default_factory=dict)
    _limiters: dict[tuple[str, str, str, str], Limiter] = field(default_factory=dict)

    def account_of(self, model: ModelRef) -> Account:
        """The account the model is reached through."""
        key = (model.provider, model.base_url, model.key_variable)
        if key not in self._accounts:
            self._accounts[key] = Account(self.clock.monotonic, self.per_model(model))
        return self._accounts[key]

    def per_model(self, model: ModelRef) -> int | None:
        """The ceiling of each model: as asked for, or one request at a time on each machine."""
        return self.max_connections or (self.machines if model.local else None)

    def limiter_of(self, model: ModelRef) -> Limiter | None:
        """The model's declared limits, shared by its variants; None where none are declared."""
        if model.limits == Limits():
            return None
        key = (model.provider, model.base_url, model.key_variable, model.name)
        if key not in self._limiters:
            self._limiters[key] = Limiter(model.limits, self.clock.monotonic, self.stop)
        return self._limiters[key]
