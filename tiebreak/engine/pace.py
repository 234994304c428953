"""The rate an account really has, learned from being refused.

Concurrency alone cannot hold a rate: what is too much for a second is sent in the next one again. But while some of
what is sent is refused, the rate of what is not is the account's allowance, and can be kept to from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_SECONDS = 3
"""Seconds running in which there must be both answers and refusals, before a rate is believed: a server that takes
all it gets and then nothing for the rest of a minute teaches no rate."""
_LEAST_ANSWERS = 6
_BELOW = 0.97
_CUT = 0.96
_CUT_EVERY_S = 3.0
_GROWTH = 1.02
_GROW_EVERY_S = 5.0
_FASTEST = 500.0
"""Nothing is gained by pacing what is faster than this."""


@dataclass(slots=True)
class _Second:
    number: int
    answers: int = 0
    refusals: int = 0


class Pace:
    """Begins with the first refusal. Without a rate learned it holds nobody up."""

    __slots__ = ("_changed_at", "_clock", "_next_at", "_seconds", "rate")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds: deque[_Second] = deque(maxlen=_SECONDS + 1)
        self._next_at = self._changed_at = 0.0
        self.rate: float | None = None
        """Requests a second."""

    def answered(self) -> None:
        """A request was not refused."""
        if self.rate is None:
            self._now().answers += 1

    def refused(self) -> None:
        """A request was refused: learn the rate, or having one, go a little below it."""
        now = self._clock()
        if self.rate is None:
            self._now().refusals += 1
            self._learn(now)
        elif now - self._changed_at >= _CUT_EVERY_S:
            self.rate *= _CUT
            self._changed_at = now

    def wait_s(self) -> float:
        """How long the next request waits for its turn, which is taken by asking."""
        if self.rate is None:
            return 0.0
        now = self._clock()
        if now - self._changed_at >= _GROW_EVERY_S:
            self.rate *= _GROWTH
            self._changed_at = now
        at = max(now, self._next_at)
        self._next_at = at + 1 / self.rate
        return at - now

    def _now(self) -> _Second:
        number = int(self._clock())
        if not self._seconds or self._seconds[-1].number != number:
            self._seconds.append(_Second(number))
        return self._seconds[-1]

    def _learn(self, now: float) -> None:
        """Believe a rate once some seconds running had both answers and refusals."""
        whole = [second for second in self._seconds if second.number < int(now)]
        running = len(whole) == _SECONDS and whole[-1].number - whole[0].number == _SECONDS - 1
        if not running or not all(second.answers and second.refusals for second in whole):
            return
        answers = sum(second.answers for second in whole)
        if _LEAST_ANSWERS <= answers < _FASTEST * _SECONDS:
            self.rate = answers / _SECONDS * _BELOW
            self._changed_at = self._next_at = now
