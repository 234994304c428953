"""Deadlines count only the time this process was awake."""

import asyncio

import pytest

from tiebreak.engine.deadlines import Deadlines


@pytest.fixture
def deadlines(clock):
    """Deadlines on the fake clock."""
    return Deadlines(clock)


async def started(work):
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    return task


async def test_work_done_in_time_is_returned(deadlines):
    """A deadline costs nothing when it is kept."""
    assert await deadlines.within(10, asyncio.sleep(0, "done")) == "done"


async def test_an_hour_of_sleep_does_not_end_ten_seconds(deadlines, clock):
    """A gap between two ticks is sleep and hardly counts."""
    task = await started(deadlines.within(10, asyncio.Event().wait()))
    clock.seconds += 3600
    deadlines.tick()
    await asyncio.sleep(0)
    assert not task.done()
    assert deadlines.awake_s <= 1.0
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_ten_seconds_awake_are_ten_seconds(deadlines, clock):
    """Tick by tick the deadline comes, and not before."""
    task = await started(deadlines.within(10, asyncio.Event().wait()))
    for _ in range(99):
        clock.seconds += 0.1
        deadlines.tick()
    await asyncio.sleep(0)
    assert not task.done()
    clock.seconds += 0.2
    deadlines.tick()
    with pytest.raises(TimeoutError):
        await task


async def test_a_cancelled_task_is_not_timed_out(deadlines):
    """Whoever cancels gets a cancellation, not a timeout."""
    task = await started(deadlines.within(10, asyncio.Event().wait()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_deadlines_ends_alone(deadlines, clock):
    """A call that runs out does not end the model's time."""

    async def outer():
        with pytest.raises(TimeoutError):
            await deadlines.within(1, asyncio.Event().wait())
        return "went on"

    task = await started(deadlines.within(100, outer()))
    clock.seconds += 1
    deadlines.tick()
    assert await task == "went on"


async def test_work_that_ends_as_its_deadline_comes_is_returned_and_leaves_nothing_behind(deadlines, clock):
    """Work that is done when it is cancelled has its result, and the task's next deadline is a timeout like any other."""

    async def done_all_the_same():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"

    async def twice():
        first = await deadlines.within(1, done_all_the_same())
        assert asyncio.current_task().cancelling() == 0
        with pytest.raises(TimeoutError):
            await deadlines.within(1, asyncio.Event().wait())
        return first

    task = await started(twice())
    for _ in range(2):
        clock.seconds += 1
        deadlines.tick()
        await asyncio.sleep(0)
    assert await task == "done"


async def test_work_that_fails_as_its_deadline_comes_fails_in_its_own_words(deadlines, clock):
    async def fails():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("broken") from None

    async def failing():
        with pytest.raises(ValueError, match="broken"):
            await deadlines.within(1, fails())
        return asyncio.current_task().cancelling()

    task = await started(failing())
    clock.seconds += 1
    deadlines.tick()
    assert await task == 0


async def test_two_deadlines_at_once_are_a_timeout_of_the_outer_one(deadlines, clock):
    async def inner():
        await deadlines.within(1, asyncio.Event().wait())

    task = await started(deadlines.within(1, inner()))
    clock.seconds += 1
    deadlines.tick()
    with pytest.raises(TimeoutError):
        await task


async def test_a_deadline_inside_what_was_cancelled_before_is_a_timeout(deadlines, clock):
    """Putting away after a cancellation has deadlines of its own."""
    ends = []

    async def put_away():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await deadlines.within(1, asyncio.Event().wait())
            except BaseException as error:
                ends.append(type(error))
            raise

    task = await started(put_away())
    task.cancel()
    await asyncio.sleep(0)
    clock.seconds += 1
    deadlines.tick()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == [TimeoutError]
