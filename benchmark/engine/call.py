"""One model call: within its deadline, tried again where that may help."""

from __future__ import annotations

import random
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


@dataclass(slots=True, kw_only=True)
class Meter:
    """What the calls of one trial took; written by the caller, read by the trial."""

    attempts: int = 0
    model_s: float = 0.0
    retry_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Caller:
    """Calls one model. Shared by all its trials."""

    provider: Provider
    clock: Clock
    deadlines: Deadlines
    stop: Stop
    policy: RetryPolicy
    request_timeout_s: float
    on_wait: Callable[[str, float], None]
    random: random.Random = field(default_factory=random.Random)

    async def call_with_retries(self, request: Request, meter: Meter) -> Reply:
        """Call until it works, cannot work, or was tried often enough."""
        waited = 0.0
        for attempt in count(1):
            started = self.clock.monotonic()
            try:
                return await self.call(request, meter)
            except ProviderError as error:
                if not error.kind.retryable or attempt >= self.policy.max_attempts:
                    raise
                wait = self.wait_before_retry(error, attempt)
                if waited + wait > self.policy.max_wait_s:
                    raise
                self.on_wait(str(error), wait)
                await self.stop.pause(wait)
                waited += wait
                meter.retry_s += self.clock.monotonic() - started
        raise AssertionError("unreachable: count() does not end")

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

    def wait_before_retry(self, error: ProviderError, attempts: int) -> float:
        """Full jitter under an exponential ceiling, never less than the server asks for."""
        ceiling = min(self.policy.longest_wait_s, self.policy.first_wait_s * 2.0 ** min(attempts - 1, 32))
        return max(error.retry_after or 0.0, self.random.uniform(0.0, ceiling))
