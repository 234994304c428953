"""Declared limits: so many requests and tokens a minute, spread evenly, never more in any minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tiebreak.core.model import Limits
from tiebreak.engine.stop import Interrupted, Stop

_MINUTE_S = 60.0
_REQUESTS_AT_ONCE_S = 1.0
_TOKENS_AT_ONCE_S = 3.0
"""How much of a minute's allowance may go at once; tokens more, because they are held until the answer is there."""
_LOOK_S = 0.05
"""How soon the next in line looks again: what is given back may let it go before its time."""

Tell = Callable[[str, float], None]


class Bucket:
    """Fills smoothly, holds a little, and never gives more than the allowance in any minute."""

    __slots__ = ("_at", "_clock", "_level", "per_s", "size")

    def __init__(self, per_minute: int, at_once_s: float, clock: Callable[[], float]) -> None:
        self.size = max(1.0, float(int(per_minute * at_once_s / _MINUTE_S)))
        # What may go at once is part of the minute's allowance, so it fills that much slower.
        self.per_s = (per_minute - (self.size - 1.0)) / _MINUTE_S
        self._clock = clock
        self._at = clock()
        self._level = self.size

    def wait_s(self, amount: float) -> float:
        """Seconds until so much may be taken; 0 means now. What is larger than the bucket needs it full."""
        now = self._clock()
        self._level = min(self.size, self._level + (now - self._at) * self.per_s)
        self._at = now
        missing = min(amount, self.size) - self._level
        return missing / self.per_s if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Take it; more than there is leaves a debt."""
        self._level -= amount

    def give_back(self, amount: float) -> None:
        """Correct what was taken: less was used, or (negative) more."""
        self._level = min(self.size, self._level + amount)


class Limiter:
    """The declared limits of one model on one account: requests go through one by one, in order."""

    def __init__(self, limits: Limits, clock: Callable[[], float], stop: Stop) -> None:
        self._rpm = Bucket(limits.rpm, _REQUESTS_AT_ONCE_S, clock) if limits.rpm else None
        self._tpm = Bucket(limits.tpm, _TOKENS_AT_ONCE_S, clock) if limits.tpm else None
        self._line = asyncio.Lock()
        self._stop = stop

    async def take(self, tokens: int, tell: Tell) -> int:
        """Wait for one request and its tokens; returns how many tokens were reserved."""
        async with self._line:
            if self._stop.draining:
                raise Interrupted
            await self._until(self._rpm, 1, "rpm limit", tell)
            await self._until(self._tpm, tokens, "tpm limit", tell)
            if self._rpm:
                self._rpm.take(1)
            if self._tpm:
                self._tpm.take(tokens)
        return tokens if self._tpm else 0

    def settle(self, reserved: int, used: int) -> None:
        """Correct a reservation by what was really used."""
        if self._tpm:
            self._tpm.give_back(reserved - used)

    async def _until(self, bucket: Bucket | None, amount: int, reason: str, tell: Tell) -> None:
        while bucket is not None and (wait := bucket.wait_s(amount)):
            tell(reason, wait)
            await self._stop.pause(min(wait, _LOOK_S))
