"""Time, injected: durations from a monotonic clock, dates only as labels."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds for measuring durations; never goes back."""
        ...

    def now(self) -> datetime:
        """The date and time, in UTC, as a label."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    def now(self) -> datetime:
        """Now, in UTC."""
        return datetime.now(UTC)
