"""Traffic: how much an account is sent at once, what a model's limits and circuit let through."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import FailureKind, ProviderError, RateLimitError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Usage, user
from tiebreak.core.model import Limits, ModelRef, Request
from tiebreak.engine.breaker import Breaker
from tiebreak.engine.buckets import Bucket
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop
from tiebreak.engine.traffic import CEILING, Account, Gate, Traffic

REQUEST = Request(model="m", messages=(user("Hi" * 20),))
BROKEN = ProviderError("HTTP 500: broken", status=500)


class Time:
    """Moves when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    monotonic = __call__


class Patient(Stop):
    """Waits take no time of ours."""

    def __init__(self, time):
        super().__init__()
        self.time = time

    async def pause(self, seconds):
        if self.draining:
            raise Interrupted
        self.time.now += seconds
        await asyncio.sleep(0)


def clean_round(account, in_use=1.0):
    """As many answers as the limit, with so much of it in use."""
    limit = account.limit
    for _ in range(int(limit * in_use)):
        assert account.try_enter()
    for _ in range(limit):
        account.answered()
    while account.in_flight:
        account.leave()


def test_limit_doubles_until_the_ceiling():
    account, limits = Account(Time()), []
    for _ in range(5):
        limits.append(account.limit)
        clean_round(account)
    assert limits == [20, 40, 80, 160, 200]


def test_first_429_ends_the_doubling_and_cuts_once():
    """Twenty rejections of one moment are one episode."""
    time = Time()
    account = Account(time)
    for _ in range(20):
        account.rate_limited(0.0)
    assert account.limit == 16
    clean_round(account)
    assert account.limit == 16, "answers during the cooldown do not count"
    time.now += 15.0
    clean_round(account)
    assert account.limit == 17
    account.rate_limited(0.0)
    assert account.limit == 13


def test_retry_after_extends_the_cooldown():
    time = Time()
    account = Account(time)
    account.rate_limited(60.0)
    time.now += 59.0
    account.rate_limited(0.0)
    clean_round(account)
    assert account.limit == 16


def test_trouble_of_the_server_pauses_growth_without_a_cut():
    account = Account(Time())
    for _ in range(19):
        account.answered()
    account.troubled()
    account.answered()
    assert account.limit == 20


def test_no_growth_without_use():
    account = Account(Time())
    for _ in range(10):
        clean_round(account, in_use=0.7)
    assert account.limit == 20


@given(st.lists(st.sampled_from(["enter", "leave", "answer", "429", "500", "wait"]), max_size=400), st.integers(1, 300))
def test_limit_stays_within_its_bounds(steps, ceiling):
    """Whatever happens: 1 ≤ limit ≤ ceiling, one cut per cooldown, growth only where ≥ 80 % was in use."""
    time = Time()
    account = Account(time, per_model=ceiling)
    account.join()
    cut_at, peak = -1e9, 0
    for step in steps:
        before = account.limit
        if step == "enter":
            account.try_enter()
        elif step == "leave" and account.in_flight:
            account.leave()
        elif step == "answer":
            account.answered()
        elif step == "429":
            account.rate_limited(0.0)
        elif step == "500":
            account.troubled()
        else:
            time.now += 4.0
        peak = max(peak, account.in_flight)
        assert 1 <= account.limit <= ceiling
        if account.limit < before:
            assert time.now - cut_at >= 15.0
            cut_at = time.now
        if account.limit > before:
            assert peak >= 0.8 * before
            assert time.now - cut_at >= 15.0


async def test_slots_go_to_who_came_first_and_survive_cancellation():
    account = Account(Time(), per_model=1)
    account.join()
    assert account.try_enter()
    order = []

    async def work(name):
        await account.enter()
        order.append(name)
        account.leave()

    first, lost, last = (asyncio.create_task(work(name)) for name in "abc")
    await asyncio.sleep(0)
    account.leave()
    lost.cancel()
    await asyncio.gather(first, lost, last, return_exceptions=True)
    assert order == ["a", "c"]
    assert account.in_flight == 0


async def test_a_slot_granted_to_a_cancelled_call_is_given_on():
    account = Account(Time(), per_model=1)
    account.join()
    assert account.try_enter()
    waiting = asyncio.create_task(account.enter())
    await asyncio.sleep(0)
    account.leave()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert account.in_flight == 0


def test_models_with_one_key_share_an_account_and_a_ceiling_asked_for_is_each_ones_own():
    traffic = Traffic(clock=Time(), stop=None, max_connections=3)
    a, b = (ModelRef(provider="openai", name=name, label=name, key_variable="K") for name in "ab")
    other = ModelRef(provider="openai", name="a", label="c", key_variable="OTHER")
    account = traffic.account_of(a)
    assert account is traffic.account_of(b) is not traffic.account_of(other)
    account.join()
    assert account.limit == 3
    account.join()
    assert account.limit == account.ceiling == 6
    account.part()
    assert account.limit == 3


def test_local_models_are_asked_one_at_a_time():
    traffic = Traffic(clock=Time(), stop=None, max_connections=None)
    assert traffic.per_model(ModelRef(provider="ollama", name="a", label="a", local=True)) == 1
    assert traffic.per_model(ModelRef(provider="openai", name="a", label="a")) is None
    assert CEILING == 200


# --- declared limits ---------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.sampled_from([1.0, 3.0]), st.lists(st.floats(0, 3), min_size=1, max_size=300))
def test_no_minute_gets_more_than_declared(per_minute, at_once_s, gaps):
    """Over any window the bucket gives what fills in it and what it holds; over a minute never more than declared."""
    time = Time()
    bucket, taken = Bucket(per_minute, at_once_s, time), []
    for gap in gaps:
        time.now += gap
        for _ in range(5):
            if bucket.wait_s(1) == 0.0:
                bucket.take(1)
                taken.append(time.now)
    for i, start in enumerate(taken):
        within = [t for t in taken[i:] if t - start < 59.999]
        assert len(within) <= per_minute
        for window in (0.5, 5.0):
            assert len([t for t in taken[i:] if t - start < window]) <= bucket.size + bucket.per_s * window + 1e-6


def test_a_bucket_is_used_up_to_its_rate():
    """Who waits as told gets nearly all that was declared."""
    time = Time()
    bucket, taken, end = Bucket(600, 1.0, time), 0, time.now + 60.0
    while time.now < end:
        if wait := bucket.wait_s(1):
            time.now += wait
        else:
            bucket.take(1)
            taken += 1
    assert 0.97 * 600 <= taken <= 601


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 4000)), min_size=5, max_size=60))
def test_tokens_really_used_keep_to_the_rate(requests):
    """Reserved more or less than was used: it is corrected, and the rate holds but for the largest request."""
    time = Time()
    bucket, used, began = Bucket(60_000, 3.0, time), 0, time.now
    for reserved, real in requests:
        while wait := bucket.wait_s(reserved):
            time.now += wait
        bucket.take(reserved)
        bucket.give_back(reserved - real)
        used += real
        assert used <= bucket.size + bucket.per_s * (time.now - began) + 2 * 4000


# --- the circuit --------------------------------------------------------------------------------------


def opened(time):
    breaker = Breaker(time)
    for _ in range(10):
        breaker.answered()
    for _ in range(10):
        assert not breaker.is_open
        breaker.failed()
    assert breaker.is_open
    return breaker


def test_half_of_twenty_failures_open_the_circuit_for_growing_pauses():
    time = Time()
    breaker, pauses = opened(time), []
    while not breaker.hopeless:
        pauses.append(breaker.wait_s())
        time.now += breaker.wait_s()
        breaker.probing = True
        breaker.failed()
    assert pauses == [5, 10, 20, 40, 60, 60, 60, 60]


def test_one_good_probe_closes_the_circuit():
    time = Time()
    breaker = opened(time)
    time.now += 5.0
    breaker.answered()
    assert not breaker.is_open
    breaker.failed()
    assert not breaker.is_open


def test_a_server_that_never_answered_opens_no_circuit():
    """There is nothing to wait for: its trials fail and end it soon."""
    breaker = Breaker(Time())
    for _ in range(100):
        breaker.failed()
    assert not breaker.is_open


def gate_of(time, **more):
    told = []
    gate = Gate(account=Account(time), stop=Patient(time), awake=time, tell=lambda *words: told.append(words), **more)
    return gate, told


def fail_open(gate):
    """Ten answers, ten failures: the circuit opens."""
    tickets = [gate.try_enter() for _ in range(20)]
    for ticket in tickets[:10]:
        gate.answered(ticket, None)
    for ticket in tickets[10:]:
        gate.failed(ticket, BROKEN)


async def test_while_the_circuit_is_open_one_probe_goes_and_the_others_wait():
    time = Time()
    gate, told = gate_of(time)
    fail_open(gate)
    assert gate.try_enter() is None
    calls = [asyncio.create_task(gate.enter(REQUEST)) for _ in range(5)]
    while not (done := [call for call in calls if call.done()]):
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(done) == len([call for call in calls if call.done()]) == gate.account.in_flight == 1
    assert time.now >= 105.0
    assert told[0][0] == "circuit open: HTTP 500: broken"
    gate.answered(done[0].result(), None)
    await asyncio.gather(*calls)
    assert gate.account.in_flight == 4


async def test_a_circuit_open_for_too_long_ends_the_model():
    time = Time()
    gate, _ = gate_of(time)
    fail_open(gate)
    with pytest.raises(ContestantOver, match="kept failing for 5 minutes, last with: HTTP 500: broken") as caught:
        for _ in range(20):
            gate.failed(await gate.enter(REQUEST), BROKEN)
    assert caught.value.state is ContestantState.FAILED
    assert gate.account.in_flight == 0


async def test_refused_requests_open_no_circuit():
    gate, _ = gate_of(Time())
    for _ in range(50):
        gate.failed(gate.try_enter(), ProviderError("no", kind=FailureKind.BAD_REQUEST, status=400))
        gate.answered(gate.try_enter(), None)
    assert gate.try_enter()


async def test_a_parked_model_sends_nothing_for_so_long():
    time = Time()
    gate, told = gate_of(time)
    gate.park(1000.0, "rate limit: slow down")
    assert gate.try_enter() is None
    await gate.enter(REQUEST)
    assert time.now >= 1100.0
    assert told[0] == ("rate limit: slow down", 1000.0)
    gate.account.leave()


@pytest.mark.parametrize(("seconds", "ends_at"), [(86_400.0, float("inf")), (1000.0, 500.0)])
async def test_a_park_longer_than_the_model_has_ends_it(seconds, ends_at):
    gate, _ = gate_of(Time(), ends_at=ends_at)
    gate.park(seconds, "rate limit: come back tomorrow")
    with pytest.raises(ContestantOver, match="come back tomorrow"):
        await gate.enter(REQUEST)


async def test_who_waits_for_a_slot_does_not_ask_once_the_model_is_over():
    time = Time()
    gate, _ = gate_of(time)
    tickets = [gate.try_enter() for _ in range(20)]
    waiting = asyncio.create_task(gate.enter(REQUEST))
    await asyncio.sleep(0)
    gate.end(ContestantState.FAILED, "the key was rejected")
    gate.answered(tickets[0], None)
    with pytest.raises(ContestantOver, match="the key was rejected"):
        await waiting
    assert gate.account.in_flight == 19


async def test_declared_limits_are_waited_for_and_told():
    time = Time()
    traffic = Traffic(clock=time, stop=Patient(time), max_connections=None)
    model = ModelRef(provider="openai", name="a", label="a", limits=Limits(rpm=60, tpm=60_000))
    gate, told = gate_of(time, limiter=traffic.limiter_of(model))
    for _ in range(5):
        gate.answered(await gate.enter(REQUEST), Usage(input_tokens=10, output_tokens=10))
    assert 3.9 <= time.now - 100.0 <= 4.3
    assert {reason for reason, _ in told} == {"rpm limit"}


async def test_a_429_lets_the_model_go_on():
    gate, _ = gate_of(Time())
    gate.failed(gate.try_enter(), RateLimitError("slow", retry_after=1))
    assert gate.account.limit == 16
    assert gate.try_enter()
