"""Requests with images wait for room; one that fits nowhere goes alone, and a cancelled one gives its room back."""

from __future__ import annotations

import asyncio

from tiebreak.engine.media_room import MediaRoom


def test_no_more_is_held_than_there_is_room_for():
    """Twenty requests of 30 in a room of 100: three at a time."""

    async def scenario() -> int:
        room, inside, most = MediaRoom(100), 0, 0

        async def one() -> None:
            nonlocal inside, most
            async with room.held(30):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(20)))
        return most

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == 3


def test_what_is_larger_than_the_room_goes_alone_and_a_cancelled_one_leaves():
    """Nobody waits for ever."""

    async def scenario() -> None:
        room, entered = MediaRoom(100), asyncio.Event()

        async def stay() -> None:
            async with room.held(500):
                entered.set()
                await asyncio.Event().wait()

        staying = asyncio.create_task(stay())
        await entered.wait()
        waiting = asyncio.create_task(stay())
        await asyncio.sleep(0)
        waiting.cancel()
        staying.cancel()
        await asyncio.gather(staying, waiting, return_exceptions=True)
        async with room.held(100):
            pass

    asyncio.run(asyncio.wait_for(scenario(), 30))
