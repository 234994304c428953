"""How much of images and documents is in memory at once, whichever models they are for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from weakref import WeakKeyDictionary

from tiebreak.core.message import Message

ROOM_BYTES = 24 * 1024 * 1024
"""A request holds its media about three times: encoded, as its body, and on their way."""


class MediaRoom:
    """Room for the bytes of requests in flight. What is larger than the room goes alone."""

    def __init__(self, size_bytes: int = ROOM_BYTES) -> None:
        self._size = self._left = size_bytes
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def held(self, size_bytes: int) -> AsyncIterator[None]:
        """Wait until there is room, and take it meanwhile."""
        taken = min(size_bytes, self._size)
        async with self._changed:
            await self._changed.wait_for(lambda: self._left >= taken)
            self._left -= taken
        try:
            yield
        finally:
            # Given back before anything is awaited: also a task that is being cancelled gives it back.
            self._left += taken
            async with self._changed:
                self._changed.notify_all()


_rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, MediaRoom] = WeakKeyDictionary()


def media_room() -> MediaRoom:
    """The room of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _rooms:
        _rooms[loop] = MediaRoom()
    return _rooms[loop]


def media_bytes(messages: Sequence[Message]) -> int:
    """What the images and documents of some messages weigh."""
    return sum(part.size_bytes for message in messages for part in message.media)
