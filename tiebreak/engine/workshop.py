"""Makes attempts in this process: models are opened, judges stand ready, coding tasks have their sandbox.

The engine decides what is attempted and when; an executor makes the attempts. This is the executor of one machine. A node
of a cluster makes its attempts with it too, asking the engine far away before every call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from tiebreak.core.clock import Clock
from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import FailureKind, JudgeError, ProviderError
from tiebreak.core.events import Event
from tiebreak.core.message import Reply
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import Attendant, Endpoint, Generates, Provider, Scorer
from tiebreak.core.redact import Redactor
from tiebreak.core.run import Pace, TaskRules
from tiebreak.core.trial import Trial, TrialResult
from tiebreak.engine.attempt import Agents, Tools, attempt
from tiebreak.engine.call import Caller, CallGate
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.judging import JudgeModel
from tiebreak.engine.recording import Cache, Recorder, Replay
from tiebreak.engine.stop import Stop
from tiebreak.engine.task_context import TaskSetup
from tiebreak.engine.task_control import SolutionTrials
from tiebreak.registry import make_scorer, provider_class

JUDGED_AT_ONCE = 16
_OPENINGS = 4

Attempting = Callable[[Trial], Awaitable[TrialResult]]
"""Attempts a trial of one contestant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What holds for every attempt of a run, and how it is told what happens meanwhile."""

    pace: Pace
    rules: TaskRules
    kinds: frozenset[str]
    """What the samples are: questions, tasks, or both."""
    clock: Clock
    deadlines: Deadlines
    stop: Stop
    redact: Redactor
    tell: Callable[[Event], None]
    attendant: Attendant | None = None
    container_engine: str = ""
    """What makes the images of coding tasks; empty for none."""
    keys: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """The keys of models by the variable they are usually in; never stored, never shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A model that judges, and what stands before its calls."""

    model: ModelRef
    gate: CallGate


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the attempts of one contestant need."""

    contestant: Contestant
    gate: CallGate
    connections: int
    """Most requests in flight."""
    tasks_at_once: int = 1
    """Coding tasks at once on each machine."""
    asks: bool = True
    """Some trial has to be asked. Where all answers are there and only wait for a judge, no model is opened."""
    collected: Callable[[str], Reply | None] | None = None
    """By the trial's id, the reply that a batch brought home; it is not asked for again."""
    rescue: Callable[[TrialResult], None] = lambda result: None
    """Where an answer goes that nobody has judged when its trial is cancelled."""


class Executor(Protocol):
    """Makes the attempts: in this process, or on the nodes of a cluster."""

    @property
    def machines(self) -> int:
        """How many machines make attempts."""
        ...

    def opened(self, judges: Sequence[Seat]) -> contextlib.AbstractAsyncContextManager[None]:
        """Ready for attempts, for as long as the context lasts; raises where they cannot be made."""
        ...

    def serving(self, service: Service) -> contextlib.AbstractAsyncContextManager[Attempting]:
        """Attempts of one contestant, for as long as the context lasts."""
        ...


@dataclass(slots=True)
class Workshop:
    """The executor of this process."""

    conditions: Conditions
    judges: list[JudgeModel] = field(default_factory=list)
    machines: int = 1
    _task_setup: TaskSetup | None = None

    @contextlib.asynccontextmanager
    async def opened(self, judges: Sequence[Seat]) -> AsyncIterator[None]:
        """The models that judge stand ready, and the sandbox of coding tasks is known."""
        async with contextlib.AsyncExitStack() as opened:
            for seat in judges:
                self.judges.append(await self._open_judge(seat, opened))
            self._task_setup = await self._prepare_tasks()
            yield

    @contextlib.asynccontextmanager
    async def serving(self, service: Service) -> AsyncIterator[Attempting]:
        """Open the model's provider; close it whatever happens."""
        model = service.contestant.model
        provider = provider_class(model.provider)(self._endpoint(model, service.connections))
        try:
            if service.asks and not self.conditions.pace.replay_dir:
                await self._open(provider, model)
            with contextlib.ExitStack() as opened:
                tools = self._tools(service, self._answering(provider, model, opened))
                yield partial(attempt, tools=tools)
        finally:
            await asyncio.shield(provider.close())

    async def _prepare_tasks(self) -> TaskSetup | None:
        """Where coding tasks are worked on. Refused where it cannot be safe."""
        given = self.conditions
        if "task" not in given.kinds:
            return None
        from tiebreak.sandbox.images import engine
        from tiebreak.sandbox.isolation import detect_isolation

        isolation = await detect_isolation(allow_unsandboxed=given.rules.allow_unsandboxed)
        if given.container_engine:
            await asyncio.to_thread(engine, given.container_engine)
        return TaskSetup(
            rules=given.rules,
            isolation=isolation,
            clock=given.clock,
            tell=given.tell,
            attendant=given.attendant,
            solutions=SolutionTrials(isolation),
        )

    async def _open_judge(self, seat: Seat, opened: contextlib.AsyncExitStack) -> JudgeModel:
        """A judge ready to be asked; one that cannot be reached leaves answers unjudged, and nobody unasked."""
        model, pace = seat.model, self.conditions.pace
        provider = provider_class(model.provider)(self._endpoint(model, pace.max_connections or JUDGED_AT_ONCE))
        opened.push_async_callback(lambda: asyncio.shield(provider.close()))
        judge = JudgeModel(model=model, caller=self._caller(self._answering(provider, model, opened), seat.gate))
        try:
            if not pace.replay_dir:
                await self._open(provider, model)
        except ProviderError as error:
            judge.over = JudgeError(f"the judge {model.label} failed: {error}", kind=error.kind)
        return judge

    async def _open(self, provider: Provider, model: ModelRef) -> None:
        """Get the provider ready: what may pass is tried again, and nothing is waited for without end."""
        given = self.conditions
        wait_s = given.pace.retry.first_wait_s
        for left in range(_OPENINGS - 1, -1, -1):
            try:
                return await given.deadlines.within(given.pace.request_timeout_s, provider.open(model))
            except TimeoutError:
                message = f"{model.spelled_out} was not ready in time; --request-timeout gives it longer"
                raise ProviderError(message, kind=FailureKind.TIMEOUT) from None
            except ProviderError as error:
                if not error.kind.retryable or not left:
                    raise
                await given.stop.pause(max(wait_s, error.retry_after or 0.0))
                wait_s *= 2
        return None

    def _answering(
        self, provider: Provider, model: ModelRef, opened: contextlib.ExitStack | contextlib.AsyncExitStack
    ) -> Generates:
        """Who answers: the provider itself, or what stands before it or in its place."""
        pace, redact = self.conditions.pace, self.conditions.redact
        if pace.replay_dir:
            return Replay(Path(pace.replay_dir), model)
        answering: Generates = provider
        if pace.record_dir:
            recorder = Recorder(answering, Path(pace.record_dir), model, redact)
            opened.callback(recorder.close)
            answering = recorder
        if pace.cache_dir:
            cache = Cache(answering, Path(pace.cache_dir), model, redact)
            opened.callback(cache.close)
            answering = cache
        return answering

    def _tools(self, service: Service, provider: Generates) -> Tools:
        return Tools(
            agents=Agents(service.contestant.agent),
            scorers=_Scorers(),
            caller=self._caller(provider, service.gate, service.collected),
            redact=self.conditions.redact,
            task_setup=self._task_setup,
            task_slots=asyncio.Semaphore(service.tasks_at_once),
            judges=self.judges,
            rescue=service.rescue,
        )

    def _caller(self, provider: Generates, gate: CallGate, collected: Callable[[str], Reply | None] | None = None) -> Caller:
        given = self.conditions
        return Caller(
            provider=provider,
            clock=given.clock,
            deadlines=given.deadlines,
            stop=given.stop,
            gate=gate,
            policy=given.pace.retry,
            request_timeout_s=given.pace.request_timeout_s,
            on_wait=gate.tell,
            stream=given.pace.stream,
            redact=given.redact,
            collected=collected,
        )

    def _endpoint(self, model: ModelRef, connections: int) -> Endpoint:
        return endpoint_of(model, connections, self.conditions.keys)


def endpoint_of(model: ModelRef, connections: int, keys: Mapping[str, str] | None = None) -> Endpoint:
    """Where the model is reached; the key is looked up here and goes nowhere else."""
    key = (os.environ if keys is None else keys).get(model.key_variable, "") if model.key_variable else ""
    return Endpoint(base_url=model.base_url, api_key=key, max_connections=connections)


class _Scorers(dict[str, Scorer]):
    """Scorers by name, each made when first needed."""

    def __missing__(self, name: str) -> Scorer:
        self[name] = make_scorer(name)
        return self[name]
