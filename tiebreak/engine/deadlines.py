"""Deadlines that count only the time this process was awake.

A laptop that slept, or a process that was stopped and continued, must not find its calls timed out.
So a deadline is not a timer: one ticker moves our own clock forward, by no more than it should have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tiebreak.core.clock import Clock

_T = TypeVar("_T")

_TICK_S = 0.1
_LONGEST_STEP_S = 1.0
"""A longer gap between two ticks is sleep, or a stopped process, and does not count."""


class _Deadline:
    __slots__ = ("at", "cancels", "expired", "task")

    def __init__(self, at: float, task: asyncio.Task[Any]) -> None:
        self.at = at
        self.task = task
        self.expired = False
        self.cancels = False

    def expire(self) -> None:
        """End the work."""
        self.expired = self.cancels = True
        self.task.cancel()

    def taken_back(self) -> int:
        """Take our own request to cancel back, once; how many others have asked for it."""
        if not self.cancels:
            return self.task.cancelling()
        # One that is left standing would later turn a deadline of the same task into a cancellation.
        self.cancels = False
        return self.task.uncancel()


class Deadlines:
    """Every deadline of a run, watched by one task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._awake = 0.0
        self._active: set[_Deadline] = set()

    @property
    def awake_s(self) -> float:
        """Seconds this process was awake, to the last tick."""
        return self._awake

    async def watch(self) -> None:
        """Tick for ever; run this as a task beside the work."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.tick()

    def tick(self) -> None:
        """Move our clock on and end what has run out."""
        now = self._clock.monotonic()
        self._awake += min(now - self._last, _LONGEST_STEP_S)
        self._last = now
        for deadline in [d for d in self._active if d.at <= self._awake]:
            self._active.discard(deadline)
            deadline.expire()

    async def within(self, seconds: float, work: Coroutine[Any, Any, _T]) -> _T:
        """Do the work in this task; TimeoutError when it takes longer. Work that ends all the same has ended in time."""
        task = asyncio.current_task()
        assert task is not None
        asked_before = task.cancelling()
        deadline = _Deadline(self._awake + seconds, task)
        self._active.add(deadline)
        try:
            return await work
        except asyncio.CancelledError:
            if deadline.taken_back() > asked_before or not deadline.expired:
                raise
            raise TimeoutError from None
        finally:
            self._active.discard(deadline)
            deadline.taken_back()
