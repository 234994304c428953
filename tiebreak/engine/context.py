"""A trial's way to its model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tiebreak.core.errors import ProviderError, ScorerError
from tiebreak.core.media import with_bytes
from tiebreak.core.message import Likelihood, Message, Reply, Tool, Usage
from tiebreak.core.model import Request
from tiebreak.core.protocols import Listener
from tiebreak.core.trial import Trial
from tiebreak.core.work import Finished
from tiebreak.engine.abilities import sent_schema
from tiebreak.engine.budget import priced
from tiebreak.engine.call import Caller, Meter
from tiebreak.engine.media_room import media_bytes, media_room
from tiebreak.engine.prompting import labels
from tiebreak.registry import provider_class

_VOTES_APART = 10_000
"""Votes of one trial are as far apart as no repeats are: each is remembered, recorded and seeded by itself."""
_MOST_STOPS = 4
"""So many a request may have, at most providers; the agent cuts at all of them."""


class TrialContext:
    """A trial's way to its model: every call is made and metered here. It is what questions get."""

    __slots__ = ("_caller", "_trial", "batched", "cached", "meter", "usage")

    def __init__(self, trial: Trial, caller: Caller) -> None:
        self._trial = trial
        self._caller = caller
        self.meter = Meter()
        self.usage: Usage | None = None
        self.cached = True
        self.batched = False

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        """Call the trial's model; what a batch has answered is not asked again."""
        if (reply := self._from_batch(vote)) is not None:
            return reply
        size = 0 if self._trial.sample.exchange is None else media_bytes(messages)
        if not size:
            return await self.call(self._request(tuple(messages), tools, vote))
        waiting = self._caller.clock.monotonic()
        async with media_room().held(size):
            self.meter.queue_s += self._caller.clock.monotonic() - waiting
            return await self.call(self._request(with_bytes(messages), tools, vote))

    def _request(self, messages: tuple[Message, ...], tools: Sequence[Tool], vote: int) -> Request:
        return _request_of(self._trial, messages, tools, vote=vote, stream=self._caller.stream)

    def _from_batch(self, vote: int) -> Reply | None:
        """The batch's reply to the trial's first request, where there is one."""
        if self._caller.collected is None or vote or self.meter.attempts:
            return None
        try:
            reply = self._caller.collected(self._trial.id)
        except ProviderError:
            self.batched, self.cached = True, False
            raise
        if reply is None:
            return None
        self.meter.attempts += 1
        self.batched, self.cached = True, False
        if reply.usage is not None:
            self.add_usage(priced(reply.usage, self._trial.model))
        return self._caller.without_secrets(reply)

    async def call(self, request: Request, listener: Listener | None = None) -> Reply:
        """Have a request answered, and count what that took."""
        reply = await self._caller.call_with_retries(request, self.meter, listener)
        self.cached = self.cached and reply.cached
        if reply.usage is not None and not reply.cached:
            self.add_usage(priced(reply.usage, self._trial.model))
        return reply

    def add_usage(self, usage: Usage) -> None:
        """Count what a call consumed."""
        self.usage = usage if self.usage is None else self.usage + usage

    async def likelihood(self, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """Have the trial's model weigh a continuation."""
        found = await self._caller.weigh(self._trial.model.name, messages, continuation, self.meter, raw=raw)
        self.cached = False
        usage = Usage(input_tokens=found.prompt_tokens, output_tokens=len(found.tokens))
        self.add_usage(priced(usage, self._trial.model))
        return found

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Only scorers that say so get a way to a judge: see `engine.judging`."""
        raise ScorerError("a scorer asks a judge without saying so: it needs `needs_judge = True`")

    async def run_code(self, code: str, *, timeout_s: float = 10.0) -> Finished:
        """Run a program in the sandbox."""
        return await run_code(code, timeout_s=timeout_s)

    async def run_tests(self, program: str, tests: str, *, timeout_s: float = 10.0) -> Finished:
        """Run assertions about a program, each in a sandbox of its own."""
        return await run_tests(program, tests, timeout_s=timeout_s)

    def note(self, kind: str, text: str, *, actor: str = "agent", **data: Any) -> None:
        """A question has no transcript but its answer."""


def first_request(trial: Trial) -> Request:
    """What the agent `direct` asks first, whole: images and files are in it."""
    sample = trial.sample
    exchange = sample.exchange
    messages = with_bytes(sample.messages) if exchange is not None and media_bytes(sample.messages) else tuple(sample.messages)
    return _request_of(trial, messages, () if exchange is None else exchange.tools)


def _request_of(
    trial: Trial, messages: tuple[Message, ...], tools: Sequence[Tool], *, vote: int = 0, stream: bool = False
) -> Request:
    repeat = trial.repeat + vote * _VOTES_APART
    settings, required = settings_of(trial, repeat), trial.model.required
    exchange = trial.sample.exchange
    return Request(
        model=trial.model.name,
        messages=messages,
        settings={**required, **settings} if required else settings,
        tools=tuple(tools),
        schema=None if exchange is None else sent_schema(exchange, trial.model),
        options=labels(trial.sample),
        stream=stream,
        repeat=repeat,
        nonce=trial.id,
    )


_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _code_slots() -> asyncio.Semaphore:
    """As many programs at once as there are processors, whichever models wrote them."""
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(os.cpu_count() or 1)
    return _slots[loop]


async def run_code(code: str, *, timeout_s: float) -> Finished:
    """Run a program in the sandbox, a few at a time: a crowd would only time each other out."""
    from tiebreak.sandbox.code import run_python
    from tiebreak.sandbox.isolation import detect_isolation

    async with _code_slots():
        return await run_python(code, isolation=await detect_isolation(), timeout_s=timeout_s)


async def run_tests(program: str, tests: str, *, timeout_s: float) -> Finished:
    """Run assertions about a program in the sandbox, a few at a time."""
    from tiebreak.sandbox import code
    from tiebreak.sandbox.isolation import detect_isolation

    async with _code_slots():
        return await code.run_tests(program, tests, isolation=await detect_isolation(), timeout_s=timeout_s)


def settings_of(trial: Trial, repeat: int | None = None) -> Mapping[str, Any]:
    """What the user has sent along; a repeat asks with another seed, or it would only repeat itself."""
    repeat = trial.repeat if repeat is None else repeat
    settings = trial.model.settings
    stop = trial.sample.stop
    if stop and "stop" not in settings and "stop" not in provider_class(trial.model.provider).unsupported:
        settings = {**settings, "stop": list(stop[:_MOST_STOPS])}
    if repeat and "seed" in settings:
        return {**settings, "seed": settings["seed"] + repeat}
    return settings
