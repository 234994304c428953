"""Functions of the user's: one thread for those that must not meet, another where one is stuck, none where none is needed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tiebreak.core import own_thread
from tiebreak.core.own_thread import OwnThread, TookTooLong, in_thread


async def test_work_is_done_in_turn_in_one_thread() -> None:
    thread, seen, inside = OwnThread(), [], []

    def work(number: int) -> int:
        inside.append(number)
        assert len(inside) == 1
        seen.append(threading.get_ident())
        time.sleep(0.001)
        inside.remove(number)
        return number

    found = await asyncio.gather(*(thread.call(lambda n=n: work(n), 30) for n in range(50)))
    assert found == list(range(50))
    assert len(set(seen)) == 1 and seen[0] != threading.get_ident()


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), StopIteration(), KeyboardInterrupt(), TimeoutError("mine")])
async def test_what_it_raises_is_told(raised: BaseException) -> None:
    def work() -> None:
        raise raised

    for call in (OwnThread().call(work, 30), in_thread(work)):
        with pytest.raises((type(raised), RuntimeError)) as told:
            await call
        assert isinstance(told.value, Exception)


async def test_one_that_is_stuck_is_left_behind_and_the_others_are_done() -> None:
    thread, ends, began = OwnThread(), threading.Event(), time.monotonic()
    stuck = asyncio.create_task(thread.call(lambda: ends.wait(60), 0.3))
    others = [asyncio.create_task(thread.call(lambda n=n: n, 0.3)) for n in range(20)]
    with pytest.raises(TookTooLong):
        await stuck
    assert await asyncio.gather(*others) == list(range(20))
    assert time.monotonic() - began < 20
    ends.set()
    assert await thread.call(lambda: "after", 30) == "after"


async def test_waiting_for_its_turn_is_not_counted() -> None:
    thread = OwnThread()
    slow = [asyncio.create_task(thread.call(lambda: time.sleep(0.2), 1.0)) for _ in range(10)]
    await asyncio.gather(*slow)


async def test_whoever_leaves_is_no_trouble() -> None:
    thread, ends = OwnThread(), threading.Event()
    left = asyncio.create_task(thread.call(lambda: ends.wait(30), 60))
    await asyncio.sleep(0.05)
    left.cancel()
    ends.set()
    assert await thread.call(lambda: 1, 30) == 1


def test_an_idle_thread_ends_and_another_loop_gets_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_thread, "_IDLE_S", 0.05)
    thread = OwnThread()
    first = asyncio.run(thread.call(threading.current_thread, 30))
    first.join(timeout=30)
    assert not first.is_alive()
    assert asyncio.run(thread.call(threading.get_ident, 30)) != threading.get_ident()
