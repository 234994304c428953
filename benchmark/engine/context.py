"""A trial's way to its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from benchmark.core.errors import UsageError
from benchmark.core.message import Message, Reply, Tool, Usage
from benchmark.core.model import ModelRef, Request
from benchmark.core.protocols import Listener
from benchmark.core.trial import Trial
from benchmark.core.work import Gateway, Verdict, Workspace
from benchmark.engine.budget import cost_of
from benchmark.engine.call import Caller, Meter
from benchmark.engine.present import labels


class TrialContext:
    """A trial's way to its model: every call is made and metered here."""

    __slots__ = ("_caller", "_trial", "cached", "meter", "usage")

    def __init__(self, trial: Trial, caller: Caller) -> None:
        self._trial = trial
        self._caller = caller
        self.meter = Meter()
        self.usage: Usage | None = None
        self.cached = True

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> Reply:
        """Call the trial's model."""
        trial = self._trial
        request = Request(
            model=trial.model.name,
            messages=tuple(messages),
            settings=settings_of(trial),
            tools=tuple(tools),
            options=labels(trial.sample),
            stream=self._caller.stream,
            repeat=trial.repeat,
            nonce=trial.id,
        )
        return await self.call(request)

    async def call(self, request: Request, listener: Listener | None = None) -> Reply:
        """Have a request answered, and count what that took."""
        reply = await self._caller.call_with_retries(request, self.meter, listener)
        self.cached = self.cached and reply.cached
        if reply.usage is not None and not reply.cached:
            self.add_usage(_priced(reply.usage, self._trial.model))
        return reply

    def add_usage(self, usage: Usage) -> None:
        """Count what a call consumed."""
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def workspace(self) -> Workspace:
        """A question has no folder to work in."""
        raise UsageError(f"{self._trial.sample.id} is a question and has no workspace; this agent or scorer wants a coding task")

    @property
    def gateway(self) -> Gateway:
        """A question is asked from here."""
        raise UsageError(f"{self._trial.sample.id} is a question; this agent wants a coding task")

    async def review(self, said: str) -> str | None:
        """A question is answered once."""
        return None

    async def verify(self) -> Verdict:
        """A question has no check."""
        raise UsageError(f"{self._trial.sample.id} is a question and has no check; this scorer wants a coding task")

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """A question has no transcript but its answer."""


def _priced(usage: Usage, model: ModelRef) -> Usage:
    """The usage with what it costs, where that is known."""
    if model.price is None or (cost := cost_of(usage, model)) is None:
        return usage
    return replace(usage, cost_usd=cost)


def settings_of(trial: Trial) -> Mapping[str, Any]:
    """What is sent along; a repeat asks with the next seed, or it would only repeat itself."""
    settings = trial.model.settings
    if trial.repeat and "seed" in settings:
        return {**settings, "seed": settings["seed"] + trial.repeat}
    return settings
