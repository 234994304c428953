"""One model call: within its deadline, tried again where that may help."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from benchmark.core.clock import Clock
from benchmark.core.errors import FailureKind, ProviderError
from benchmark.core.message import Reply
from benchmark.core.model import Request
from benchmark.core.protocols import Provider
from benchmark.core.run import RetryPolicy
from benchmark.engine.deadlines import Deadlines
from benchmark.engine.stop import Stop
from benchmark.engine.traffic import Gate, Ticket

_DIGITS = re.compile(r"\d+")


@dataclass(slots=True, kw_only=True)
class Meter:
    """What the calls of one trial took; written by the caller, read by the trial."""

    attempts: int = 0
    model_s: float = 0.0
    retry_s: float = 0.0
    queue_s: float = 0.0
    """Waiting for a slot, a limit, the circuit or the budget."""


@dataclass(slots=True, kw_only=True)
class Caller:
    """Calls one model. Shared by all its trials."""

    provider: Provider
    clock: Clock
    deadlines: Deadlines
    stop: Stop
    gate: Gate
    policy: RetryPolicy
    request_timeout_s: float
    on_wait: Callable[[str, float], None]
    random: random.Random = field(default_factory=random.Random)

    async def call_with_retries(self, request: Request, meter: Meter) -> Reply:
        """Call until it works, cannot work, or was tried often enough."""
        waited = 0.0
        failures: list[str] = []
        for attempt in count(1):
            started, queued = self.clock.monotonic(), meter.queue_s
            try:
                return await self.call_within_limits(request, meter)
            except ProviderError as error:
                self._give_up_on_the_same(error, failures)
                wait = self._wait_or_raise(error, attempt, waited)
                self.on_wait(f"{error.kind.replace('_', ' ')}: {error}", wait)
                await self.stop.pause(wait)
                waited += wait
                meter.retry_s += self.clock.monotonic() - started - (meter.queue_s - queued)
        raise AssertionError("unreachable: count() does not end")

    async def call_within_limits(self, request: Request, meter: Meter) -> Reply:
        """Call once there is room: in the budget, in the declared limits, in the account."""
        gate = self.gate
        ticket = gate.try_enter() or await self._queued(request, meter)
        try:
            reply = await self.call(request, meter)
        except ProviderError as error:
            gate.failed(ticket, error)
            raise
        except BaseException:
            gate.gave_up(ticket)
            raise
        gate.answered(ticket, reply.usage)
        return reply

    async def call(self, request: Request, meter: Meter) -> Reply:
        """Call once, for no longer than one attempt may take."""
        meter.attempts += 1
        started = self.clock.monotonic()
        try:
            reply = await self.deadlines.within(self.request_timeout_s, self.provider.generate(request))
        except TimeoutError:
            message = f"no answer within {self.request_timeout_s:g} s"
            raise ProviderError(message, kind=FailureKind.TIMEOUT) from None
        meter.model_s += reply.model_seconds or self.clock.monotonic() - started
        return reply

    async def _queued(self, request: Request, meter: Meter) -> Ticket:
        started = self.clock.monotonic()
        try:
            return await self.gate.enter(request)
        finally:
            meter.queue_s += self.clock.monotonic() - started

    def _give_up_on_the_same(self, error: ProviderError, failures: list[str]) -> None:
        """A failure that comes again word for word, whatever its numbers, will come once more."""
        mask = _DIGITS.sub("#", f"{error.kind}: {error}")
        if failures and failures[-1] != mask:
            failures.clear()
        failures.append(mask)
        if error.kind.retryable and len(failures) >= self.policy.same_failures:
            message = f"{error} (the same failure {len(failures)} times running)"
            raise ProviderError(message, kind=error.kind, retry_after=error.retry_after, status=error.status) from error

    def _wait_or_raise(self, error: ProviderError, attempts: int, waited: float) -> float:
        """How long to wait before the next attempt; the error itself when there is to be none."""
        if not error.kind.retryable or attempts >= self.policy.max_attempts:
            raise error
        left = self.policy.max_wait_s - waited
        if (error.retry_after or 0.0) > left:
            # Longer than any call may wait: nothing is gained by asking for the next sample meanwhile.
            self.gate.park(error.retry_after or 0.0, f"{error.kind.replace('_', ' ')}: {error}")
            raise error
        wait = self.wait_before_retry(error, attempts)
        if wait > left:
            raise error
        return wait

    def wait_before_retry(self, error: ProviderError, attempts: int) -> float:
        """Full jitter under an exponential ceiling, never less than the server asks for."""
        ceiling = min(self.policy.longest_wait_s, self.policy.first_wait_s * 2.0 ** min(attempts - 1, 32))
        return max(error.retry_after or 0.0, self.random.uniform(0.0, ceiling))
