"""Runs every model's trials on this machine: some models at once, some trials of each at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.core.clock import Clock, SystemClock
from benchmark.core.errors import BenchmarkError, FailureKind, ProviderError
from benchmark.core.events import Event, ModelFinished, ModelStarted, ModelState, ModelWaiting, TrialFinished
from benchmark.core.model import ModelRef
from benchmark.core.protocols import Attendant, Endpoint, Generates, Provider
from benchmark.core.redact import Redactor
from benchmark.core.run import RunSpec
from benchmark.core.trial import Trial, TrialResult
from benchmark.engine.attempt import Tools, attempt
from benchmark.engine.budget import Amount, Budget, Purse
from benchmark.engine.call import Caller
from benchmark.engine.context import Judge
from benchmark.engine.deadlines import Deadlines
from benchmark.engine.recording import Cache, Recorder, Replay
from benchmark.engine.stop import Interrupted, LaneOver, Stop
from benchmark.engine.traffic import CEILING, Account, Gate, Traffic
from benchmark.engine.workshop import Workshop
from benchmark.registry import make_agent, make_scorer, provider_class

log = logging.getLogger(__name__)

_DRAIN_S = 8.0
"""How long what is in flight may still take after the first Ctrl-C."""
_HOPELESS = 20
"""So many trials failing one after another, each tried as often as it may be, mean that nobody is there."""
_OPENINGS = 4
_JUDGED_AT_ONCE = 16
_TELL_EVERY_S = 1.0
"""A model says that it waits no more often than this."""
_NO_TIME_S = 1e-3
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

    @property
    def full(self) -> bool:
        """Whether too much is waiting to be taken."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Wait until enough was taken."""
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
    lanes: Sequence[Lane],
    spec: RunSpec,
    *,
    stop: Stop | None = None,
    clock: Clock | None = None,
    already_spent: Amount | None = None,
    attendant: Attendant | None = None,
) -> AsyncIterator[Event]:
    """Do the lanes' trials and tell what happens. Every model ends in exactly one ModelFinished."""
    mailbox = Mailbox()
    engine = _Engine(
        spec=spec,
        mailbox=mailbox,
        stop=stop or Stop(),
        clock=clock or SystemClock(),
        already_spent=already_spent or Amount(),
        attendant=attendant,
    )
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
        if failure.kind.ends_model:
            self.end(ModelState.FAILED, failure.message)
        elif self.failed_in_a_row >= _HOPELESS:
            message = f"{self.failed_in_a_row} trials in a row failed, the last with: {failure.message}"
            self.end(ModelState.FAILED, message)

    def end(self, state: ModelState, message: str) -> None:
        """The lane is over before its trials are; the first reason stands."""
        if self.state is ModelState.FINISHED:
            self.state, self.message = state, message

    @property
    def ended(self) -> bool:
        """Whether no further trial is to be asked."""
        return self.state is not ModelState.FINISHED


@dataclass(slots=True, kw_only=True)
class _Crew:
    """A lane's workers: as many as can have a slot, more as the account's limit grows."""

    group: asyncio.TaskGroup
    work: Callable[[], Coroutine[Any, Any, None]]
    most: int
    hired: int = 0
    at_work: int = 0

    def grow(self, limit: int) -> None:
        """Hire up to the limit."""
        while self.hired < min(limit, self.most):
            self.hired += 1
            self.at_work += 1
            self.group.create_task(self._worker())

    def follow(self, limit: int) -> None:
        """Hire more, unless the work is over: then the group takes nobody any more."""
        if self.at_work:
            self.grow(limit)

    async def _worker(self) -> None:
        try:
            await self.work()
        finally:
            self.at_work -= 1


@dataclass(slots=True, kw_only=True)
class _Engine:
    spec: RunSpec
    mailbox: Mailbox
    stop: Stop
    clock: Clock
    already_spent: Amount
    deadlines: Deadlines = field(init=False)
    traffic: Traffic = field(init=False)
    budget: Budget | None = field(init=False)
    redact: Redactor = field(default_factory=Redactor.from_environment)
    servers: dict[str, asyncio.Lock] = field(default_factory=dict)
    judge: Judge | None = None
    attendant: Attendant | None = None
    workshop: Workshop | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        spec = self.spec
        self.deadlines = Deadlines(self.clock)
        self.traffic = Traffic(clock=self.clock, stop=self.stop, max_connections=spec.max_connections)
        self.budget = None
        if spec.max_cost_usd is not None or spec.max_total_tokens is not None:
            self.budget = Budget(
                max_cost_usd=spec.max_cost_usd, max_tokens=spec.max_total_tokens, spent=self.already_spent, stop=self.stop
            )

    async def _open_workshop(self) -> Workshop | None:
        """Where coding tasks are worked on: as many at once as models may be. Refused where it cannot be safe."""
        settings = self.spec.work
        if settings is None:
            return None
        from benchmark.sandbox.isolation import detect_isolation

        return Workshop(
            settings=settings,
            isolation=await detect_isolation(allow_unsandboxed=settings.allow_unsandboxed),
            slots=asyncio.Semaphore(self.spec.max_workers),
            clock=self.clock,
            tell=self.mailbox.put,
            attendant=self.attendant,
        )

    async def run(self, lanes: Sequence[Lane]) -> None:
        """All lanes, no more than max_workers at once, until done or stopped."""
        async with self._judging():
            await self._run(lanes)

    @contextlib.asynccontextmanager
    async def _judging(self) -> AsyncIterator[None]:
        """The model that judges stands ready for as long as anything runs."""
        model = self.spec.judge
        if model is None:
            yield
            return
        provider = provider_class(model.provider)(_endpoint(model, self.spec.max_connections or _JUDGED_AT_ONCE))
        try:
            await self._open(provider, model)
            lane = Lane(model=model, trials=iter(()), count=0)
            with contextlib.ExitStack() as kept:
                answering = self._answering(provider, model, kept)
                account = self.traffic.account_of(model)
                account.join()
                kept.callback(account.part)
                self.judge = Judge(model=model, caller=self._caller(answering, self._gate(lane, account)))
                yield
        finally:
            await asyncio.shield(provider.close())

    async def _run(self, lanes: Sequence[Lane]) -> None:
        self.workshop = await self._open_workshop()
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
            # A local server has one model loaded at a time: its models take turns, or each would push the other out.
            async with self._server_of(lane.model), slots:
                started = self.clock.monotonic()
                self._check_before_start()
                self.mailbox.put(ModelStarted(model=lane.model.label, position=position, models=lanes, trials=lane.count))
                await self._within_timeout(lane, progress)
        except (asyncio.CancelledError, Interrupted):
            progress.state, progress.message = ModelState.INTERRUPTED, "stopped on request; --resume goes on from here"
        except LaneOver as over:
            progress.end(over.state, str(over))
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

    def _server_of(self, model: ModelRef) -> asyncio.Lock:
        alone = model.local and not model.reference and model.provider != "llama_cpp"
        server = f"{model.provider} {model.base_url}" if alone else model.label
        return self.servers.setdefault(server, asyncio.Lock())

    def _check_before_start(self) -> None:
        if self.stop.draining:
            raise Interrupted
        seconds, state, message = self._time_left()
        if seconds <= _NO_TIME_S:
            raise LaneOver(state, message)

    async def _within_timeout(self, lane: Lane, progress: _Progress) -> None:
        """Serve the lane for no longer than the model may take, and the run as a whole."""
        seconds, state, message = self._time_left()
        if seconds == math.inf:
            return await self._serve(lane, progress)
        try:
            await self.deadlines.within(seconds, self._serve(lane, progress))
        except TimeoutError:
            progress.state, progress.message = state, message

    def _time_left(self) -> tuple[float, ModelState, str]:
        """Seconds the next model has, and what is said when they are over."""
        spec = self.spec
        own = math.inf if spec.timeout_s is None else spec.timeout_s
        run = math.inf if spec.max_time_s is None else max(0.0, spec.max_time_s - self.deadlines.awake_s)
        if run < own:
            message = f"the run's time is over: --max-time {spec.max_time_s:g}; --resume goes on from here"
            return run, ModelState.OUT_OF_BUDGET, message
        message = f"timed out after {own:g} seconds; raise --timeout, and --resume keeps what finished"
        return own, ModelState.TIMED_OUT, message

    async def _serve(self, lane: Lane, progress: _Progress) -> None:
        """Open the model's provider, let the workers work, close it whatever happens."""
        most = max(1, min(self._at_once(lane.model), lane.count))
        provider = provider_class(lane.model.provider)(_endpoint(lane.model, most))
        try:
            if lane.count:
                if self.spec.replay_dir is None:
                    await self._open(provider, lane.model)
                with contextlib.ExitStack() as kept:
                    await self._work(lane, self._answering(provider, lane.model, kept), most, progress)
        finally:
            await asyncio.shield(provider.close())

    def _at_once(self, model: ModelRef) -> int:
        """Trials of a model at once: a coding task takes a part of this machine, a question hardly any."""
        if self.spec.work is not None:
            # Shared out: else the model that comes first would take every place, and the others only wait.
            share = max(1, self.spec.max_workers // min(len(self.spec.models), self.spec.max_workers))
            return 1 if model.local and not model.reference else share
        return self.traffic.per_model(model) or CEILING

    async def _open(self, provider: Provider, model: ModelRef) -> None:
        """Get the provider ready: what may pass is tried again, and nothing is waited for without end."""
        wait_s = self.spec.retry.first_wait_s
        for left in range(_OPENINGS - 1, -1, -1):
            try:
                return await self.deadlines.within(self.spec.request_timeout_s, provider.open(model))
            except TimeoutError:
                message = f"{model.spelled_out} was not ready in time; --request-timeout gives it longer"
                raise ProviderError(message, kind=FailureKind.TIMEOUT) from None
            except ProviderError as error:
                if not error.kind.retryable or not left:
                    raise
                await self.stop.pause(max(wait_s, error.retry_after or 0.0))
                wait_s *= 2
        return None

    def _answering(self, provider: Provider, model: ModelRef, kept: contextlib.ExitStack) -> Generates:
        """Who answers: the provider itself, or what stands before it or in its place."""
        spec = self.spec
        if spec.replay_dir is not None:
            return Replay(spec.replay_dir, model)
        answering: Generates = provider
        if spec.record_dir is not None:
            recorder = Recorder(answering, spec.record_dir, model, self.redact)
            kept.callback(recorder.close)
            answering = recorder
        if spec.cache_dir is not None:
            cache = Cache(answering, spec.cache_dir, model)
            kept.callback(cache.close)
            answering = cache
        return answering

    async def _work(self, lane: Lane, provider: Generates, most: int, progress: _Progress) -> None:
        """Have the trials done by a crew that grows with the account's limit."""
        account = self.traffic.account_of(lane.model)
        tools = self._tools(lane, provider, self._gate(lane, account))
        crew = _Crew(group=asyncio.TaskGroup(), work=lambda: self._worker(lane, tools, progress), most=most)
        account.join()
        account.growing.append(crew.follow)
        try:
            async with crew.group:
                crew.grow(account.limit)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            account.growing.remove(crew.follow)
            account.part()
        if self.stop.draining:
            raise Interrupted

    async def _worker(self, lane: Lane, tools: Tools, progress: _Progress) -> None:
        """Take trials one after another until none is left or the model cannot go on."""
        for trial in lane.trials:
            if self.stop.draining or progress.ended:
                return
            try:
                result = await attempt(trial, tools)
            except Interrupted:
                return
            except LaneOver as over:
                progress.end(over.state, str(over))
                return
            self.mailbox.put(TrialFinished(result))
            progress.count(result)
            if progress.ended:
                # Whoever waits for a slot, or before a further attempt, does not ask any more.
                tools.caller.gate.end(progress.state, progress.message)
            if self.mailbox.full:
                await self.mailbox.room()

    def _gate(self, lane: Lane, account: Account) -> Gate:
        return Gate(
            account=account,
            stop=self.stop,
            awake=lambda: self.deadlines.awake_s,
            tell=self._teller(lane),
            limiter=self.traffic.limiter_of(lane.model),
            purse=None if self.budget is None else Purse(budget=self.budget, model=lane.model),
            ends_at=self.deadlines.awake_s + self._time_left()[0],
        )

    def _teller(self, lane: Lane) -> Callable[[str, float], None]:
        """Tells that the model waits, at most once a second."""
        last = -math.inf

        def tell(reason: str, seconds: float) -> None:
            nonlocal last
            now = self.clock.monotonic()
            if now - last >= _TELL_EVERY_S:
                last = now
                self.mailbox.put(ModelWaiting(model=lane.model.label, reason=self.redact(reason), seconds=seconds))

        return tell

    def _tools(self, lane: Lane, provider: Generates, gate: Gate) -> Tools:
        caller = self._caller(provider, gate)
        return Tools(
            agents=_Made(make_agent),
            scorers=_Made(make_scorer),
            caller=caller,
            redact=self.redact,
            workshop=self.workshop,
            judge=self.judge,
        )

    def _caller(self, provider: Generates, gate: Gate) -> Caller:
        return Caller(
            provider=provider,
            clock=self.clock,
            deadlines=self.deadlines,
            stop=self.stop,
            gate=gate,
            policy=self.spec.retry,
            request_timeout_s=self.spec.request_timeout_s,
            on_wait=gate.tell,
            stream=self.spec.stream,
            redact=self.redact,
        )


class _Made(dict):  # type: ignore[type-arg]
    """Agents or scorers by name, each made when first needed."""

    def __init__(self, make: Callable[[str], object]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> object:
        self[name] = self._make(name)
        return self[name]


def _endpoint(model: ModelRef, connections: int) -> Endpoint:
    """Where the model is reached; the key is looked up here and goes nowhere else."""
    key = os.environ.get(model.key_variable, "") if model.key_variable else ""
    return Endpoint(base_url=model.base_url, api_key=key, max_connections=connections)
