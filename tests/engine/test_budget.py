"""Budgets: spent and reserved never pass the cap, whatever happens in which order."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import StoreFull, UsageError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import ImagePart, Message, TextPart, Usage, user
from tiebreak.core.model import ModelRef, Price, Request
from tiebreak.engine.budget import Amount, Budget, Purse, characters, cost_of, refuse_unpriced, weight, worst_usage
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop

PRICED = ModelRef(provider="openai", name="m", label="m", price=Price(input_usd=1.0, output_usd=4.0, cached_usd=0.1))
LIMITED = replace(PRICED, settings={"max_tokens": 4096})
USAGE = Usage(input_tokens=1000, cached_tokens=500, output_tokens=100)


def budget_of(*, usd=None, tokens=None, spent=None):
    return Budget(max_cost_usd=usd, max_tokens=tokens, spent=spent or Amount(), stop=Stop())


def asking(letters, **settings):
    return Request(model="m", messages=(user(("x " * letters)[:letters]),), settings=settings)


async def reserve(purse, request):
    return await purse.reserve(characters(request), request.settings, quiet)


def quiet(*_):
    """Hears nothing."""


def test_cached_tokens_cost_their_own_price():
    assert cost_of(USAGE, PRICED) == pytest.approx((500 * 1.0 + 500 * 0.1 + 100 * 4.0) / 1e6)


def test_without_a_cached_price_all_input_costs_the_same():
    model = ModelRef(provider="openai", name="m", label="m", price=Price(input_usd=1.0, output_usd=4.0))
    assert cost_of(USAGE, model) == pytest.approx((1000 * 1.0 + 100 * 4.0) / 1e6)


def test_unknown_stays_unknown_and_local_costs_nothing_to_call():
    assert cost_of(USAGE, ModelRef(provider="openai", name="m", label="m")) is None
    assert cost_of(USAGE, ModelRef(provider="ollama", name="m", label="m", local=True, price=PRICED.price)) is None


def test_what_the_provider_says_it_cost_stands():
    assert cost_of(Usage(output_tokens=5, cost_usd=0.5), PRICED) == 0.5


def test_the_worst_case_counts_everything_that_is_sent():
    parts = (TextPart("four"), ImagePart(media_type="image/png", url="x"))
    request = Request(model="m", messages=(user("word"), Message(role="user", parts=parts)))
    assert characters(request) == 4 + 4 + 6000
    assert worst_usage(300, {}) == Usage(input_tokens=150, output_tokens=4096)
    assert worst_usage(300, {"max_tokens": 9}, attempts=2) == Usage(input_tokens=200, output_tokens=18)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Of each script, at least what a tokenizer of a large model makes of it: a character of Chinese is a token or more.
        ("东京是日本的首都" * 50, 8 * 50),
        ("도쿄는 일본의 수도이다 " * 50, 9 * 50),
        ("Столица Японии находится в Токио " * 50, 8 * 50),
        ("😀🎉" * 50, 3 * 50),
        ("3.14159, 2.71828; " * 50, 12 * 50),
        ("{[(<>)]}!?" * 50, 7 * 50),
        ("dGhpcyBpcyBhIHRlc3Qgb2YgYmFzZQ" * 20, 22 * 20),
        ("plain words of an English sentence " * 50, 6 * 50),
    ],
)
def test_no_script_takes_more_tokens_than_are_set_aside(text, tokens):
    assert tokens <= worst_usage(weight(text), {}, attempts=0).input_tokens < 5 * tokens


def test_a_lone_half_of_a_character_is_weighed_too():
    assert weight("\ud800") > 0


def test_a_cap_on_cost_needs_every_hosted_price():
    local = ModelRef(provider="ollama", name="l", label="l", local=True)
    refuse_unpriced([PRICED, local])
    with pytest.raises(UsageError, match=r"--max-cost needs the price of 'gpt-x': give it in models_config.yaml"):
        refuse_unpriced([PRICED, ModelRef(provider="openai", name="x", label="gpt-x")])


@pytest.mark.parametrize("seed", range(100))
async def test_no_interleaving_passes_the_cap(seed):
    """Twenty callers, random sizes, random turns, some of them giving no usage: the sum is checked at every step."""
    chance = random.Random(seed)
    budget = budget_of(usd=chance.uniform(0.0001, 0.01), tokens=chance.randint(1000, 50_000))
    ended = []

    def check():
        total = budget.spent + budget.reserved
        assert total.nano_usd <= budget._max_nano_usd
        assert total.tokens <= budget._max_tokens
        assert budget.reserved.nano_usd >= 0

    async def caller():
        purse = Purse(budget=budget, model=LIMITED, is_known=True)
        try:
            for _ in range(20):
                reserved = await reserve(purse, asking(chance.randint(0, 3000)))
                check()
                for _ in range(chance.randint(0, 3)):
                    await asyncio.sleep(0)
                share = chance.random()
                used = Usage(input_tokens=int(share * 50), output_tokens=int(share * 4096))
                purse.settle(reserved, None if chance.random() < 0.1 else used)
                check()
        except ContestantOver as over:
            ended.append(over.state)

    await asyncio.gather(*(caller() for _ in range(20)))
    check()
    assert budget.in_flight == 0
    assert budget.reserved == Amount()
    assert set(ended) <= {ContestantState.OUT_OF_BUDGET}


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1)), max_size=50), st.integers(0, 10**10))
def test_money_is_counted_exactly(requests, cap):
    """No sum of floats drifts past the cap."""
    budget = budget_of(usd=cap / 1e9)
    for nano, share in requests:
        amount = Amount(nano_usd=nano)
        if budget.passed_by(amount):
            continue
        budget.reserved += amount
        budget.in_flight += 1
        budget.settle(amount, Amount(nano_usd=int(nano * share)))
        assert budget.spent.nano_usd <= cap


async def test_what_does_not_fit_waits_for_others_to_settle():
    budget, told = budget_of(tokens=100), []
    first = await budget.reserve(Amount(tokens=80), quiet)
    second = asyncio.create_task(budget.reserve(Amount(tokens=80), lambda *words: told.append(words)))
    await asyncio.sleep(0)
    assert not second.done()
    assert told == [("budget", 1.0)]
    budget.settle(first, Amount(tokens=10))
    await second
    assert budget.spent.tokens == 10


async def test_with_nothing_in_flight_what_does_not_fit_ends_the_model():
    with pytest.raises(ContestantOver, match=r"--max-total-tokens 100 \(30 used\)"):
        await budget_of(tokens=100, spent=Amount(tokens=30)).reserve(Amount(tokens=80), quiet)
    with pytest.raises(ContestantOver, match=r"--max-cost 0.5 \(\$0.4000 spent\)"):
        await budget_of(usd=0.5, spent=Amount(nano_usd=4 * 10**8)).reserve(Amount(nano_usd=2 * 10**8), quiet)


async def test_a_stop_ends_the_waiting():
    budget = budget_of(tokens=100)
    first = await budget.reserve(Amount(tokens=80), quiet)
    second = asyncio.create_task(budget.reserve(Amount(tokens=80), quiet))
    await asyncio.sleep(0)
    budget._stop.ask()
    budget.settle(first, Amount(tokens=80))
    with pytest.raises(Interrupted):
        await second


async def test_a_request_is_reserved_by_its_own_limit():
    """An agent may ask for more than the model's usual answer."""
    purse = Purse(budget=budget_of(tokens=50_000), model=PRICED, is_known=True)
    assert (await reserve(purse, asking(300))).tokens == 150 + 4096
    assert (await reserve(purse, asking(300, max_tokens=32_000))).tokens == 150 + 32_000


async def test_the_cap_is_passed_by_one_request_at_most_where_nobody_limited_answers():
    """A model whose longest answer alone would cost more than the cap is asked one thing at a time."""
    budget = budget_of(usd=0.30)
    purse, most_at_once, asked = Purse(budget=budget, model=replace(PRICED, required={"max_tokens": 64_000})), 0, 0

    async def caller():
        nonlocal most_at_once, asked
        while True:
            reserved = await reserve(purse, asking(300))
            most_at_once, asked = max(most_at_once, budget.in_flight), asked + 1
            await asyncio.sleep(0)
            purse.settle(reserved, Usage(input_tokens=100, output_tokens=5_000))

    ended = await asyncio.gather(*(caller() for _ in range(5)), return_exceptions=True)
    cost = budget.spent.nano_usd / 1e9
    assert all(isinstance(over, ContestantOver) and "--max-tokens" in str(over) for over in ended)
    assert (most_at_once, asked) == (1, 13)
    assert 0.24 < cost <= 0.30 + 0.0201


async def test_a_limit_of_the_users_keeps_the_cap_exactly():
    purse = Purse(budget=budget_of(usd=0.01), model=replace(PRICED, settings={"max_tokens": 4096}))
    with pytest.raises(ContestantOver, match="--max-tokens limits what an answer may cost"):
        await reserve(purse, asking(300))


async def test_what_a_server_adds_to_a_prompt_is_learned_from_the_first_request():
    """A gateway's own prompt of 5,000 tokens: the first is sent alone, and from then on its size is set aside."""
    cap = budget_of(tokens=60_000)
    purse = Purse(budget=cap, model=LIMITED)
    first = await reserve(purse, asking(300, max_tokens=20))
    waiting = [asyncio.create_task(reserve(purse, asking(300, max_tokens=20))) for _ in range(40)]
    await asyncio.sleep(0)
    assert cap.in_flight == 1
    purse.learn()
    purse.settle(first, Usage(input_tokens=5100, output_tokens=20))
    for _ in range(100):
        await asyncio.sleep(0)
        for task in [task for task in waiting if task.done() and not task.exception()]:
            waiting.remove(task)
            purse.settle(task.result(), Usage(input_tokens=5100, output_tokens=20))
    assert 50_000 < cap.spent.tokens <= 60_000
    assert all(isinstance(task.exception(), ContestantOver) for task in waiting)


async def test_a_first_request_that_never_goes_out_holds_up_nobody():
    cap = budget_of(tokens=100)
    purse = Purse(budget=cap, model=LIMITED)
    tasks = [asyncio.create_task(reserve(purse, asking(300, max_tokens=2000))) for _ in range(3)]
    done, _ = await asyncio.wait(tasks, timeout=5)
    assert [type(task.exception()) for task in done] == [ContestantOver] * 3


async def test_a_first_request_that_hangs_or_fails_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("tiebreak.engine.budget._FIRST_ANSWER_S", 0.2)
    purse = Purse(budget=budget_of(tokens=1_000_000), model=LIMITED)
    failed = await reserve(purse, asking(300))
    purse.settle(failed, None)
    hanging = await reserve(purse, asking(300))
    others = [asyncio.create_task(reserve(purse, asking(300))) for _ in range(5)]
    await asyncio.sleep(0.05)
    assert purse.budget.in_flight == 1, "a failure has shown nothing"
    await asyncio.wait_for(asyncio.gather(*others), 10)
    assert purse.budget.in_flight == 6
    purse.settle(hanging, None)


async def test_no_more_is_ever_spent_than_was_written_down_before():
    """The most that may have been spent is kept before it is sent, in few steps, and exactly when all is over."""
    kept = []
    cap = Budget(max_cost_usd=1.0, max_tokens=None, spent=Amount(nano_usd=7), stop=Stop(), keep=kept.append)
    for _ in range(5000):
        amount = await cap.reserve(Amount(nano_usd=100_000, tokens=10), quiet)
        assert kept[-1].nano_usd >= (cap.spent + cap.reserved).nano_usd
        cap.settle(amount, Amount(nano_usd=50_000, tokens=5))
    assert len(kept) <= 64

    open_at_the_end = await cap.reserve(Amount(nano_usd=3), quiet)
    cap.close()
    assert kept[-1] == cap.spent + open_at_the_end


async def test_only_what_is_capped_makes_the_risk_be_written():
    kept = []
    cap = Budget(max_cost_usd=None, max_tokens=64_000, spent=Amount(), stop=Stop(), keep=kept.append)
    for _ in range(100):
        cap.settle(await cap.reserve(Amount(nano_usd=1000, tokens=10), quiet), Amount(nano_usd=1000, tokens=10))
    assert len(kept) == 1


async def test_a_disk_that_fails_is_told_before_anything_is_sent_and_not_when_all_is_over():
    def fail(risked):
        raise StoreFull("the disk is full")

    cap = Budget(max_cost_usd=1.0, max_tokens=None, spent=Amount(), stop=Stop(), keep=fail)
    with pytest.raises(StoreFull):
        await cap.reserve(Amount(nano_usd=1), quiet)
    cap.close()
