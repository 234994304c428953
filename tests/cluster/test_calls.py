"""Calls of a worker at the gates of the run: whatever becomes of them, no slot is lost."""

import asyncio
import contextlib

import pytest

from tiebreak.cluster.calls import Calls
from tiebreak.cluster.messages import Admit, Answered, Ask, Refuse, Withdrawn, contestant_channel
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Usage
from tiebreak.engine.stop import Stop
from tiebreak.engine.traffic import Account, Gate, Ticket

CHANNEL = contestant_channel("openai/gpt-x")


def ask(call):
    return Ask(call=call, lease=call, channel=CHANNEL, size=1, settings={})


@pytest.fixture
def account():
    account = Account(lambda: 0.0)
    account.limit = 1
    return account


@pytest.fixture
def gate(account):
    return Gate(account=account, stop=Stop(), awake=lambda: 0.0, tell=lambda reason, seconds: None)


@pytest.fixture
def sent():
    return []


@pytest.fixture
def waiting():
    return []


@pytest.fixture
def calls(gate, sent, waiting):
    return Calls({CHANNEL: gate}, sent.append, lambda lease, more: waiting.append(more))


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("end", ["withdrawn", "given up"])
async def test_a_call_that_ends_in_the_moment_it_is_let_through_gives_its_slot_back(calls, account, sent, waiting, end):
    for call in (1, 2):
        calls.take(ask(call))
    await turns()
    calls.take(Answered(call=1, usage=Usage()))
    calls.take(Withdrawn(call=2)) if end == "withdrawn" else calls.give_up()
    await turns()
    assert account.in_flight == 0
    assert [order.call for order in sent if isinstance(order, Admit)] == [1]
    assert sum(waiting) == 0


@pytest.mark.parametrize("end", ["withdrawn", "given up"])
async def test_a_gate_that_lets_a_call_through_all_the_same_loses_no_slot(calls, account, sent, end, monkeypatch):
    """A wait that ends as it is cancelled may swallow the cancellation."""
    opened = asyncio.Event()

    async def admit(size, settings):
        with contextlib.suppress(asyncio.CancelledError):
            await opened.wait()
        assert account.try_enter()
        return Ticket()

    monkeypatch.setattr(Gate, "try_enter", lambda self: None)
    monkeypatch.setattr(Gate, "admit", lambda self, size, settings: admit(size, settings))
    monkeypatch.setattr(Gate, "gave_up", lambda self, ticket: account.leave())
    calls.take(ask(1))
    await turns()
    calls.take(Withdrawn(call=1)) if end == "withdrawn" else calls.give_up()
    await turns()
    assert account.in_flight == 0
    assert sent == []


async def test_nobody_is_let_through_once_the_worker_is_lost(calls, account, sent):
    calls.give_up()
    calls.take(ask(1))
    assert account.in_flight == 0
    assert [type(order) for order in sent] == [Refuse]


async def test_a_gate_that_breaks_is_told_to_whoever_waits(calls, sent, monkeypatch):
    """Else it would wait for a word that never comes."""

    async def breaks(self, size, settings):
        raise KeyError("odd")

    monkeypatch.setattr(Gate, "admit", breaks)
    monkeypatch.setattr(Gate, "try_enter", lambda self: None)
    calls.take(ask(1))
    await turns()
    assert [(order.call, order.state, order.message) for order in sent] == [
        (1, ContestantState.FAILED, "unexpected KeyError: 'odd'")
    ]


async def test_a_gate_that_breaks_at_the_end_keeps_no_other_call(calls, account, monkeypatch):
    account.limit = 3
    for call in (1, 2, 3):
        calls.take(ask(call))
    given = []

    def breaks_once(self, ticket, gave_up=Gate.gave_up):
        given.append(ticket)
        gave_up(self, ticket)
        if len(given) == 1:
            raise KeyError("odd")

    monkeypatch.setattr(Gate, "gave_up", breaks_once)
    calls.give_up()
    assert (len(given), account.in_flight) == (3, 0)
    assert calls.taken_by(2).unknown == 1
