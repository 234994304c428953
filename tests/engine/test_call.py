"""One call: retried where that may help, for so long and no longer."""

import asyncio
import contextlib

import pytest
from engine.conftest import FakeClock, FakeProvider
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import FailureKind, ProviderError, RateLimitError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Reply, user
from tiebreak.core.model import Request
from tiebreak.core.run import RetryPolicy
from tiebreak.engine.call import Caller, Meter
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop
from tiebreak.engine.traffic import Account, Gate

REQUEST = Request(model="m", messages=(user("Hi"),))
HELLO = Reply(text="Hello")


class NoPause(Stop):
    """Waits take no time and are written down."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.waits = []

    async def pause(self, seconds):
        self.waits.append(seconds)
        self.clock.seconds += seconds
        if self.draining:
            raise Interrupted


@pytest.fixture
def caller_of(clock, fake_provider):
    """A function that makes a caller of a provider with these replies."""

    def _caller_of(*replies, **policy):
        told = []
        stop = NoPause(clock)
        caller = Caller(
            provider=fake_provider(*replies),
            clock=clock,
            deadlines=Deadlines(clock),
            stop=stop,
            gate=Gate(account=Account(clock.monotonic), stop=stop, awake=clock.monotonic, tell=lambda *_: None),
            policy=RetryPolicy(**policy),
            request_timeout_s=10.0,
            on_wait=lambda reason, seconds: told.append((reason, seconds)),
        )
        return caller, told

    return _caller_of


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind.retryable])
async def test_what_may_pass_is_tried_again(caller_of, kind):
    """Two failures, then the answer; every wait is told."""
    error = ProviderError("busy", kind=kind)
    caller, told = caller_of(error, error, HELLO)
    meter = Meter()
    assert await caller.call_with_retries(REQUEST, meter) == HELLO
    assert (meter.attempts, caller.provider.calls, len(told)) == (3, 3, 2)
    assert meter.retry_s == pytest.approx(sum(caller.stop.waits))


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if not kind.retryable])
async def test_what_cannot_pass_is_never_tried_again(caller_of, kind):
    """A rejected key is rejected a second time too."""
    caller, told = caller_of(ProviderError("no", kind=kind))
    with pytest.raises(ProviderError, match="no"):
        await caller.call_with_retries(REQUEST, Meter())
    assert (caller.provider.calls, told) == (1, [])


async def test_attempts_have_a_cap(caller_of):
    """After so many the last error stands."""
    caller, _ = caller_of(ProviderError("busy"), max_attempts=4)
    with pytest.raises(ProviderError, match="busy"):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.provider.calls == 4


async def test_waiting_has_a_cap(caller_of):
    """A wait that would go beyond it is not begun."""
    caller, _ = caller_of(RateLimitError("slow", retry_after=40), max_wait_s=100, max_attempts=99)
    with pytest.raises(RateLimitError):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.stop.waits == [40, 40]


async def test_the_servers_hint_is_the_least_wait(caller_of):
    """We never knock sooner than we were asked to, nor cut a hint down to our own ceiling."""
    caller, _ = caller_of(RateLimitError("slow", retry_after=75), HELLO, longest_wait_s=5)
    await caller.call_with_retries(REQUEST, Meter())
    assert caller.stop.waits == [75]


def test_waits_grow_and_are_spread(caller_of):
    """Anything up to a ceiling that doubles, and never above the longest wait."""
    caller, _ = caller_of(HELLO, first_wait_s=1, longest_wait_s=8)
    for attempts, ceiling in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (60, 8)):
        waits = [caller.wait_before_retry(ProviderError("x"), attempts) for _ in range(200)]
        assert 0 <= min(waits) < ceiling * 0.2
        assert ceiling * 0.8 < max(waits) <= ceiling


async def test_a_silent_server_is_a_timeout(caller_of, clock):
    """Each attempt has its own deadline."""
    caller, _ = caller_of(None, max_attempts=1)
    task = asyncio.create_task(caller.call_with_retries(REQUEST, Meter()))
    for _ in range(11):
        await asyncio.sleep(0)
        clock.seconds += 1
        caller.deadlines.tick()
    with pytest.raises(ProviderError, match="no answer within 10 s") as caught:
        await task
    assert caught.value.kind is FailureKind.TIMEOUT


async def test_a_stop_ends_the_waiting(caller_of):
    """A run being stopped does not sit out its waits."""
    caller, _ = caller_of(ProviderError("busy"))
    caller.stop.ask()
    with pytest.raises(Interrupted):
        await caller.call_with_retries(REQUEST, Meter())


async def test_unknown_errors_surface(caller_of):
    """A bug is not retried away."""
    caller, _ = caller_of(KeyError("oops"))
    with pytest.raises(KeyError):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.provider.calls == 1


async def test_the_servers_own_time_goes_before_ours(caller_of):
    """Where it tells."""
    caller, _ = caller_of(Reply(text="x", model_seconds=2.5))
    meter = Meter()
    await caller.call_with_retries(REQUEST, meter)
    assert meter.model_s == 2.5


async def test_the_same_failure_five_times_running_is_no_accident(caller_of):
    """Whatever its numbers."""
    errors = [ProviderError(f"worker {n} broke") for n in range(9)]
    caller, _ = caller_of(*errors, max_attempts=99)
    with pytest.raises(ProviderError, match=r"worker 4 broke \(the same failure 5 times running\)"):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.provider.calls == 5


async def test_different_failures_are_tried_to_the_cap(caller_of):
    errors = [ProviderError(word) for word in ("a", "b") * 5]
    caller, _ = caller_of(*errors, max_attempts=9)
    with pytest.raises(ProviderError):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.provider.calls == 9


async def test_a_hint_beyond_all_waiting_fails_the_trial_and_parks_the_model(caller_of, clock):
    """The next call waits as long as the server asked; this one does not."""
    caller, _ = caller_of(RateLimitError("come back", retry_after=1000), HELLO)
    with pytest.raises(RateLimitError):
        await caller.call_with_retries(REQUEST, Meter())
    assert caller.stop.waits == []
    meter = Meter()
    assert await caller.call_with_retries(REQUEST, meter) == HELLO
    assert clock.seconds >= 1000
    assert meter.queue_s == pytest.approx(clock.seconds)


_ERRORS = st.builds(
    lambda kind, hint, text: ProviderError(text, kind=kind, retry_after=hint),
    st.sampled_from(list(FailureKind)),
    st.none() | st.floats(0, 2000),
    st.text(max_size=3),
)


@given(st.lists(_ERRORS, min_size=1, max_size=12), st.integers(1, 10), st.floats(0, 1000), st.floats(1, 90))
def test_no_errors_make_a_call_wait_longer_than_it_may(errors, attempts, budget, longest):
    """Each wait is at least the hint and otherwise under the ceiling; together they keep to the budget."""
    clock = FakeClock()
    stop = NoPause(clock)
    caller = Caller(
        provider=FakeProvider(*errors, HELLO),
        clock=clock,
        deadlines=Deadlines(clock),
        stop=stop,
        gate=Gate(account=Account(clock.monotonic), stop=stop, awake=clock.monotonic, tell=lambda *_: None),
        policy=RetryPolicy(max_attempts=attempts, max_wait_s=budget, longest_wait_s=longest),
        request_timeout_s=10.0,
        on_wait=lambda *_: None,
    )
    meter = Meter()
    with contextlib.suppress(ProviderError):
        asyncio.run(caller.call_with_retries(REQUEST, meter))
    assert sum(stop.waits) <= budget + 1e-6
    assert meter.attempts <= attempts
    for number, (error, wait) in enumerate(zip(errors, stop.waits, strict=False)):
        assert (error.retry_after or 0.0) <= wait <= max(error.retry_after or 0.0, min(longest, 2.0**number))
        assert error.kind.retryable


async def test_a_rate_limit_while_others_are_answered_is_no_failed_attempt(caller_of):
    """It was only not our turn; the waits grow all the same."""
    caller, _ = caller_of(*[RateLimitError("slow") for _ in range(20)], HELLO, max_attempts=3)
    generate = caller.provider.generate

    async def answering_others(request):
        caller.gate.answers += 1
        return await generate(request)

    caller.provider.generate = answering_others
    assert await caller.call_with_retries(REQUEST, Meter()) == HELLO
    assert caller.provider.calls == 21


@pytest.mark.parametrize(
    ("state", "raised"), [(ContestantState.FAILED, ProviderError), (ContestantState.OUT_OF_BUDGET, ContestantOver)]
)
async def test_what_was_asked_and_failed_is_a_failure_when_its_model_is_given_up(caller_of, monkeypatch, state, raised):
    """Not one of those that were never asked; a budget that is over says nothing of the model."""
    caller, _ = caller_of(ProviderError("HTTP 500: broken", kind=FailureKind.TRANSIENT), HELLO)

    async def pause(seconds):
        caller.gate.end(state, "it is over")

    monkeypatch.setattr(caller.stop, "pause", pause)
    meter = Meter()
    with pytest.raises(raised):
        await caller.call_with_retries(REQUEST, meter)
    assert (meter.attempts, meter.unknown) == (1, 1)
