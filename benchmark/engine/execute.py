"""Runs every model's trials on this machine: some models at once, some trials of each at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from benchmark.core.clock import Clock, SystemClock
from benchmark.core.errors import BenchmarkError
from benchmark.core.events import Event, ModelFinished, ModelStarted, ModelState, ModelWaiting, TrialFinished
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Endpoint, Provider
from benchmark.core.redact import Redactor
from benchmark.core.run import RunSpec
from benchmark.core.trial import Trial, TrialResult
from benchmark.engine.attempt import Tools, attempt
from benchmark.engine.call import Caller
from benchmark.engine.deadlines import Deadlines
from benchmark.engine.stop import Interrupted, Stop
from benchmark.registry import make_agent, make_scorer, provider_class

log = logging.getLogger(__name__)

_HOSTED_CONNECTIONS = 20
_DRAIN_S = 8.0
"""How long what is in flight may still take after the first Ctrl-C."""
_HOPELESS = 20
"""So many trials failing one after another, each tried as often as it may be, mean that nobody is there."""
_LARGEST_BACKLOG = 500
"""Events not yet taken; workers pause above it, so that a slow disk cannot fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One model and what it still has to do."""

    model: ModelRef
    trials: Iterator[Trial]
    count: int


class Mailbox:
    """Events on their way from the workers to whoever reads the run."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)
        self._filled.set()
        if len(self._events) > _LARGEST_BACKLOG:
            self._room.clear()

    async def room(self) -> None:
        """Wait while too much is waiting to be taken."""
        await self._room.wait()

    def close(self) -> None:
        """No more events will come."""
        self._closed = True
        self._filled.set()

    async def take(self) -> AsyncIterator[Event]:
        """The events in order, until closed and empty."""
        while True:
            while self._events:
                yield self._events.popleft()
            self._room.set()
            if self._closed:
                return
            self._filled.clear()
            await self._filled.wait()


async def execute(
    lanes: Sequence[Lane], spec: RunSpec, *, stop: Stop | None = None, clock: Clock | None = None
) -> AsyncIterator[Event]:
    """Do the lanes' trials and tell what happens. Every model ends in exactly one ModelFinished."""
    mailbox = Mailbox()
    engine = _Engine(spec=spec, mailbox=mailbox, stop=stop or Stop(), clock=clock or SystemClock())
    work = asyncio.create_task(engine.run(lanes))
    work.add_done_callback(lambda _: mailbox.close())
    try:
        async for event in mailbox.take():
            yield event
        await work
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What became of a lane so far."""

    done: int = 0
    failed_in_a_row: int = 0
    state: ModelState = ModelState.FINISHED
    message: str = ""

    def count(self, result: TrialResult) -> None:
        """Take note of a result; the lane ends when all further ones would fail alike."""
        self.done += 1
        failure = result.failure
        if failure is None:
            self.failed_in_a_row = 0
            return
        self.failed_in_a_row += 1
        if self.state is not ModelState.FINISHED:
            return
        if failure.kind.ends_model:
            self.state, self.message = ModelState.FAILED, failure.message
        elif self.failed_in_a_row >= _HOPELESS:
            self.state = ModelState.FAILED
            self.message = f"{self.failed_in_a_row} trials in a row failed, the last with: {failure.message}"


@dataclass(slots=True, kw_only=True)
class _Engine:
    spec: RunSpec
    mailbox: Mailbox
    stop: Stop
    clock: Clock
    deadlines: Deadlines = field(init=False)
    redact: Redactor = field(default_factory=Redactor.from_environment)

    def __post_init__(self) -> None:
        self.deadlines = Deadlines(self.clock)

    async def run(self, lanes: Sequence[Lane]) -> None:
        """All lanes, no more than max_workers at once, until done or stopped."""
        slots = asyncio.Semaphore(self.spec.max_workers)
        ticker = asyncio.create_task(self.deadlines.watch())
        jobs = [
            asyncio.create_task(self._in_turn(slots, lane, position, len(lanes))) for position, lane in enumerate(lanes, start=1)
        ]
        enforcer = asyncio.create_task(self._enforce_stop(jobs))
        try:
            await asyncio.gather(*jobs)
        finally:
            for task in (*jobs, enforcer, ticker):
                task.cancel()
            await asyncio.gather(*jobs, enforcer, ticker, return_exceptions=True)

    async def _enforce_stop(self, jobs: Sequence[asyncio.Task[None]]) -> None:
        """After a first request to stop, give what is in flight a little time; after a second, none."""
        await self.stop.wanted()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wanted_at_once(), _DRAIN_S)
        for job in jobs:
            job.cancel()

    async def _in_turn(self, slots: asyncio.Semaphore, lane: Lane, position: int, lanes: int) -> None:
        started, progress = self.clock.monotonic(), _Progress()
        try:
            async with slots:
                started = self.clock.monotonic()
                if self.stop.draining:
                    raise Interrupted
                self.mailbox.put(ModelStarted(model=lane.model.label, position=position, models=lanes, trials=lane.count))
                await self._within_timeout(lane, progress)
        except (asyncio.CancelledError, Interrupted):
            progress.state, progress.message = ModelState.INTERRUPTED, "stopped on request; --resume goes on from here"
        except BenchmarkError as error:
            progress.state, progress.message = ModelState.FAILED, str(error)
        except Exception as error:
            # A bug in a plugin, or ours: loud, but no reason to lose the other models' work.
            log.exception("%s stopped on an error nobody expected", lane.model.label)
            progress.state, progress.message = ModelState.FAILED, f"unexpected {type(error).__name__}: {error}"
        self.mailbox.put(
            ModelFinished(
                model=lane.model.label,
                state=progress.state,
                message=self.redact(progress.message),
                seconds=self.clock.monotonic() - started,
                done=progress.done,
            )
        )

    async def _within_timeout(self, lane: Lane, progress: _Progress) -> None:
        if self.spec.timeout_s is None:
            return await self._serve(lane, progress)
        try:
            await self.deadlines.within(self.spec.timeout_s, self._serve(lane, progress))
        except TimeoutError:
            limit = f"{self.spec.timeout_s:g}"
            progress.state = ModelState.TIMED_OUT
            progress.message = f"timed out after {limit} seconds; raise --timeout, and --resume keeps what finished"

    async def _serve(self, lane: Lane, progress: _Progress) -> None:
        """Open the model's provider, let the workers work, close it whatever happens."""
        connections = self._connections(lane)
        provider = provider_class(lane.model.provider)(_endpoint(lane.model, connections))
        try:
            if lane.count:
                await provider.open(lane.model)
                await self._work(lane, provider, connections, progress)
        finally:
            await asyncio.shield(provider.close())

    def _connections(self, lane: Lane) -> int:
        suited = 1 if lane.model.local else _HOSTED_CONNECTIONS
        return max(1, min(self.spec.max_connections or suited, lane.count))

    async def _work(self, lane: Lane, provider: Provider, connections: int, progress: _Progress) -> None:
        tools = self._tools(lane, provider)
        workers = [asyncio.create_task(self._worker(lane, tools, progress)) for _ in range(connections)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if self.stop.draining:
            raise Interrupted

    async def _worker(self, lane: Lane, tools: Tools, progress: _Progress) -> None:
        """Take trials one after another until none is left or the model cannot go on."""
        for trial in lane.trials:
            if self.stop.draining or progress.state is not ModelState.FINISHED:
                return
            try:
                result = await attempt(trial, tools)
            except Interrupted:
                return
            self.mailbox.put(TrialFinished(result))
            progress.count(result)
            await self.mailbox.room()

    def _tools(self, lane: Lane, provider: Provider) -> Tools:
        def on_wait(reason: str, seconds: float) -> None:
            self.mailbox.put(ModelWaiting(model=lane.model.label, reason=self.redact(reason), seconds=seconds))

        caller = Caller(
            provider=provider,
            clock=self.clock,
            deadlines=self.deadlines,
            stop=self.stop,
            policy=self.spec.retry,
            request_timeout_s=self.spec.request_timeout_s,
            on_wait=on_wait,
        )
        return Tools(agent=make_agent(self.spec.agent), scorers=_Scorers(), caller=caller, redact=self.redact)


class _Scorers(dict):  # type: ignore[type-arg]
    """Scorers by name, each made when first needed."""

    def __missing__(self, name: str) -> object:
        self[name] = make_scorer(name)
        return self[name]


def _endpoint(model: ModelRef, connections: int) -> Endpoint:
    """Where the model is reached; the key is looked up here and goes nowhere else."""
    key = os.environ.get(model.key_variable, "") if model.key_variable else ""
    return Endpoint(base_url=model.base_url, api_key=key, max_connections=connections)
