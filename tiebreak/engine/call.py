"""One model call: within its deadline, tried again where that may help."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from tiebreak.core.clock import Clock
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Likelihood, Message, Reply, Usage
from tiebreak.core.model import Request
from tiebreak.core.protocols import Generates, Listener
from tiebreak.core.redact import Redactor
from tiebreak.core.run import RetryPolicy
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop
from tiebreak.engine.traffic import Ticket, may_have_cost

_DIGITS = re.compile(r"\d+")


@dataclass(slots=True, kw_only=True)
class Meter:
    """What the calls of one trial took; written by the caller, read by the trial."""

    attempts: int = 0
    unknown: int = 0
    """Those of which nobody knows what they cost: answered without a usage, failed, or given up."""
    model_s: float = 0.0
    retry_s: float = 0.0
    first_token_s: float | None = None
    """Of the first answer that was streamed."""
    first_answer_s: float | None = None
    in_flight: int = 0
    """The most requests that were with the server when one of the calls was sent."""
    queue_s: float = 0.0
    """Waiting for a slot, a limit, the circuit or the budget."""


class CallGate(Protocol):
    """What stands before one model's calls: a gate of this process, or the way to one far away."""

    @property
    def answers(self) -> int:
        """Answers so far, as far as they are known here."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests that are with the account's server, as far as they are known here."""
        ...

    def tell(self, reason: str, seconds: float, /) -> None:
        """Say that a call waits."""
        ...

    def try_enter(self) -> Ticket | None:
        """Pass at once, if that can be."""
        ...

    async def enter(self, request: Request) -> Ticket:
        """Wait until the request may be sent; ContestantOver when none ever will."""
        ...

    def answered(self, ticket: Ticket, usage: Usage | None) -> None:
        """The server answered."""
        ...

    def failed(self, ticket: Ticket, error: ProviderError) -> None:
        """The server refused or failed."""
        ...

    def gave_up(self, ticket: Ticket) -> None:
        """The call was cancelled."""
        ...

    def park(self, seconds: float, reason: str) -> None:
        """Send nothing for so long."""
        ...


@dataclass(slots=True, kw_only=True)
class Caller:
    """Calls one model. Shared by all its trials."""

    provider: Generates
    clock: Clock
    deadlines: Deadlines
    stop: Stop
    gate: CallGate
    policy: RetryPolicy
    request_timeout_s: float
    on_wait: Callable[[str, float], None]
    redact: Redactor = field(default_factory=lambda: Redactor(()))
    stream: bool = False
    """Have the answers streamed."""
    collected: Callable[[str], Reply | None] | None = None
    """The reply that a batch brought for a trial, by its id."""
    random: random.Random = field(default_factory=random.Random)

    async def call_with_retries(self, request: Request, meter: Meter, listener: Listener | None = None) -> Reply:
        """Call until it works, cannot work, or was tried often enough."""
        tries, failed = _Tries(answers=self.gate.answers), None
        while True:
            started, queued = self.clock.monotonic(), meter.queue_s
            try:
                return await self.call_within_limits(request, meter, listener)
            except ContestantOver as over:
                # It was asked, and failed: no later attempt will tell more.
                if failed is not None and over.state is ContestantState.FAILED:
                    raise failed from None
                raise
            except ProviderError as error:
                failed = error
                if listener is not None and listener.begun:
                    raise
                tries.count(error, self.gate.answers)
                wait = self._wait_or_raise(error, tries)
                self.on_wait(_reason(error), wait)
                await self.stop.pause(wait)
                tries.waited_s += wait
                meter.retry_s += self.clock.monotonic() - started - (meter.queue_s - queued)

    async def call_within_limits(self, request: Request, meter: Meter, listener: Listener | None = None) -> Reply:
        """Call once there is room: in the budget, in the declared limits, in the account."""
        gate = self.gate
        self._refuse_when_silent()
        ticket = gate.try_enter() or await self._queued(request, meter)
        meter.in_flight = max(meter.in_flight, gate.in_flight)
        try:
            reply = await self.call(request, meter, listener)
        except ProviderError as error:
            gate.failed(ticket, error)
            meter.unknown += may_have_cost(error)
            raise
        except BaseException:
            gate.gave_up(ticket)
            meter.unknown += 1
            raise
        meter.unknown += reply.usage is None and not reply.cached
        gate.answered(ticket, Usage() if reply.cached else reply.usage)
        return reply

    async def call(self, request: Request, meter: Meter, listener: Listener | None = None) -> Reply:
        """Call once, for no longer than one attempt may take."""
        meter.attempts += 1
        started = self.clock.monotonic()
        try:
            # A provider that was written before there were listeners still answers whoever does not listen.
            answer = self.provider.generate(request, listener) if listener else self.provider.generate(request)
            reply = await self.deadlines.within(self.request_timeout_s, answer)
        except TimeoutError:
            message = f"no answer within {self.request_timeout_s:g} s"
            raise ProviderError(message, kind=FailureKind.TIMEOUT) from None
        reply = self.without_secrets(reply)
        if not reply.cached:
            meter.model_s += reply.model_seconds or self.clock.monotonic() - started
            if meter.first_token_s is None:
                meter.first_token_s, meter.first_answer_s = reply.first_token_seconds, reply.first_answer_seconds
        return reply

    async def weigh(
        self, model: str, messages: Sequence[Message], continuation: str, meter: Meter, *, raw: bool = False
    ) -> Likelihood:
        """How likely a continuation is to the model; only some providers can tell."""
        self._refuse_when_silent()
        meter.attempts += 1
        started = self.clock.monotonic()
        try:
            asked = self.provider.likelihood(model, messages, continuation, raw=raw)
            likelihood = await self.deadlines.within(self.request_timeout_s, asked)
        except TimeoutError:
            message = f"no answer within {self.request_timeout_s:g} s"
            raise ProviderError(message, kind=FailureKind.TIMEOUT) from None
        meter.model_s += self.clock.monotonic() - started
        return likelihood

    def _refuse_when_silent(self) -> None:
        if self.stop.silent:
            raise Interrupted

    def without_secrets(self, reply: Reply) -> Reply:
        """A gateway may repeat the key it was sent: it goes no further than here."""
        text, thinking = self.redact(reply.text), self.redact(reply.thinking) if reply.thinking else ""
        if text == reply.text and thinking == reply.thinking:
            return reply
        return replace(reply, text=text, thinking=thinking)

    async def _queued(self, request: Request, meter: Meter) -> Ticket:
        started = self.clock.monotonic()
        try:
            return await self.gate.enter(request)
        finally:
            meter.queue_s += self.clock.monotonic() - started

    def _wait_or_raise(self, error: ProviderError, tries: _Tries) -> float:
        """How long to wait before the next attempt; the error itself when there is to be none."""
        if not error.kind.retryable or tries.counted >= self.policy.max_attempts:
            raise error
        if tries.same >= self.policy.same_failures:
            message = f"{error} (the same failure {tries.same} times running)"
            raise ProviderError(message, kind=error.kind, retry_after=error.retry_after, status=error.status) from error
        left = self.policy.max_wait_s - tries.waited_s
        if (error.retry_after or 0.0) > left:
            # Longer than any call may wait: nothing is gained by asking for the next sample meanwhile.
            self.gate.park(error.retry_after or 0.0, _reason(error))
            raise error
        wait = self.wait_before_retry(error, tries.made)
        if wait > left:
            raise error
        return wait

    def wait_before_retry(self, error: ProviderError, attempts: int) -> float:
        """Full jitter under an exponential ceiling, never less than the server asks for."""
        ceiling = min(self.policy.longest_wait_s, self.policy.first_wait_s * 2.0 ** min(attempts - 1, 32))
        return max(error.retry_after or 0.0, self.random.uniform(0.0, ceiling))


@dataclass(slots=True, kw_only=True)
class _Tries:
    """What the failed attempts of one call have come to."""

    answers: int
    """Answers the model had given when the last attempt failed."""
    made: int = 0
    counted: int = 0
    """All but those that were only out of turn: told to slow down while others were answered."""
    same: int = 0
    """How often running the last failure has come, whatever its numbers."""
    last: str = ""
    waited_s: float = 0.0

    def count(self, error: ProviderError, answers: int) -> None:
        """Take note of a failed attempt."""
        self.made += 1
        out_of_turn = error.kind is FailureKind.RATE_LIMIT and answers > self.answers
        self.answers = answers
        if out_of_turn:
            self.same = 0
            return
        self.counted += 1
        masked = _DIGITS.sub("#", f"{error.kind}: {error}")
        self.same = self.same + 1 if masked == self.last else 1
        self.last = masked


def _reason(error: ProviderError) -> str:
    return f"{error.kind.replace('_', ' ')}: {error}"
