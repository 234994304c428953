"""Stopping a run from outside: first gently, then at once."""

from __future__ import annotations

import asyncio

from tiebreak.core.events import ContestantState


class ContestantOver(Exception):
    """No further trial of the model can be asked; the one at hand has no result and will be asked again."""

    def __init__(self, state: ContestantState, message: str) -> None:
        super().__init__(message)
        self.state = state


class Interrupted(Exception):
    """The trial was given up because the run is being stopped; it has no result and will be asked again."""


class Stop:
    """Asked once, a run finishes what is in flight; asked twice, it lets go of everything."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()
        self._at_once = asyncio.Event()
        self.silent = False
        """Whether nothing more may be sent, not even for a trial that has begun."""

    @property
    def draining(self) -> bool:
        """Whether nothing new may be started."""
        return self._draining.is_set()

    def ask(self) -> None:
        """Stop: gently the first time, at once the second."""
        (self._at_once if self.draining else self._draining).set()

    def be_silent(self) -> None:
        """Stop gently, and send nothing more: a trial that would need another call is given up."""
        self.silent = True
        self._draining.set()

    async def pause(self, seconds: float) -> None:
        """Wait, or raise Interrupted as soon as the run is being stopped."""
        try:
            await asyncio.wait_for(self._draining.wait(), seconds)
        except TimeoutError:
            return
        raise Interrupted

    async def wanted(self) -> None:
        """Return once a stop was asked for."""
        await self._draining.wait()

    async def wanted_at_once(self) -> None:
        """Return once a stop was asked for twice."""
        await self._at_once.wait()
