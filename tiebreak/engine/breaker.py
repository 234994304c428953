"""A model whose server fails is left alone for a while, then tried with one request."""

from __future__ import annotations

from collections.abc import Callable

_WINDOW = 20
_MASK = (1 << _WINDOW) - 1
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0
_GIVE_UP_S = 300.0
_RECOVERED = 200
"""So many answers since the last opening, and it is forgotten."""


class Breaker:
    """Opens when at least half of the last twenty requests failed; one probe at a time decides whether it closes.

    A model that never answered is no case for waiting: its trials fail one by one, and soon end it.
    """

    __slots__ = (
        *("_answered", "_at_opening", "_bits", "_clock", "_failed", "_opened_at", "_pause_s"),
        *("is_open", "open_s", "probing"),
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answered = self._failed = self._at_opening = 0
        self._bits = 0
        """The last requests, newest in the lowest bit: 1 for a failure."""
        self._pause_s = _FIRST_PAUSE_S
        self._opened_at = 0.0
        self.is_open = False
        self.probing = False
        self.open_s = 0.0
        """Seconds it has been open in all."""

    @property
    def hopeless(self) -> bool:
        """Whether it has been open for too long."""
        return self.open_s >= _GIVE_UP_S

    def wait_s(self) -> float:
        """Seconds until the next probe may go; 0 when it may go now, or when nothing is in the way."""
        return max(0.0, self._opened_at + self._pause_s - self._clock()) if self.is_open else 0.0

    def answered(self) -> None:
        """The server answered, if only to refuse."""
        self._answered += 1
        if self._bits:
            self._bits = self._bits << 1 & _MASK
        if self.is_open:
            self._count_open()
            self.is_open = self.probing = False
            self._bits = self._failed = 0

    def failed(self) -> None:
        """The server failed."""
        self._failed += 1
        self._bits = (self._bits << 1 | 1) & _MASK
        if self.is_open:
            if self.probing:
                self._count_open()
                self._opened_at, self.probing = self._clock(), False
                self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        elif self._answered and self._answered + self._failed >= _WINDOW and self._bits.bit_count() * 2 >= _WINDOW:
            self._open()

    def _open(self) -> None:
        if self._answered - self._at_opening >= _RECOVERED:
            self.open_s = 0.0
        self._at_opening = self._answered
        self._pause_s = _FIRST_PAUSE_S
        self._opened_at, self.is_open = self._clock(), True

    def _count_open(self) -> None:
        self.open_s += self._clock() - self._opened_at
