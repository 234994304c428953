"""Runs every contestant's trials: some contestants at once, some trials of each at once; an executor attempts them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tiebreak.core.clock import Clock, SystemClock
from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import BenchmarkError, FailureKind
from tiebreak.core.events import (
    ContestantFinished,
    ContestantStarted,
    ContestantState,
    ContestantWaiting,
    Event,
    PairJudged,
    TrialFinished,
)
from tiebreak.core.model import ModelRef
from tiebreak.core.preference import AnswerPair
from tiebreak.core.protocols import Attendant, ComparesAnswers
from tiebreak.core.redact import Redactor
from tiebreak.core.run import RunSpec
from tiebreak.core.trial import Outcome, Trial, TrialResult
from tiebreak.engine.batches import Batch, Batcher, Unfinished
from tiebreak.engine.budget import Amount, Budget, Purse
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.judging import JudgeModel, prefer_answer
from tiebreak.engine.race import Race
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop
from tiebreak.engine.traffic import CEILING, Account, Gate, Traffic
from tiebreak.engine.workshop import JUDGED_AT_ONCE, Attempting, Conditions, Executor, Seat, Service, Workshop, endpoint_of
from tiebreak.registry import make_scorer, provider_class

log = logging.getLogger(__name__)

_DRAIN_S = 8.0
"""How long what is in flight may still take after the first Ctrl-C."""
_HOPELESS = 20
"""So many trials failing one after another, each tried as often as it may be, mean that nobody is there."""
_TELL_EVERY_S = 1.0
"""A model says that it waits no more often than this."""
_NO_TIME_S = 1e-3
_LARGEST_BACKLOG = 500
"""Events not yet taken; workers pause above it, so that a slow disk cannot fill the memory."""
_FOR_BATCHES = 4
"""Connections for jobs: they are few, and wait for hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One contestant and what it still has to do."""

    contestant: Contestant
    trials: Iterator[Trial]
    count: int
    kept: int = 0
    """Of these, the ones whose answer is there and has only to be judged."""
    batch: Batch | None = None
    """Its questions go into batches: `trials` are then the ones whose answers are home."""

    @property
    def model(self) -> ModelRef:
        """The contestant's model."""
        return self.contestant.model

    @property
    def label(self) -> str:
        """The contestant's label."""
        return self.contestant.label


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
    assignments: Sequence[Assignment],
    spec: RunSpec,
    *,
    kinds: frozenset[str] = frozenset({"question"}),
    stop: Stop | None = None,
    clock: Clock | None = None,
    already_spent: Amount | None = None,
    keep_risked: Callable[[Amount], None] = lambda risked: None,
    attendant: Attendant | None = None,
    race: Race | None = None,
    executor_of: Callable[[Conditions], Executor] = Workshop,
) -> AsyncIterator[Event]:
    """Do the trials and tell what happens. Every contestant ends in exactly one ContestantFinished.

    `kinds` says what the samples are: questions, tasks, or both. `executor_of` makes whoever makes the attempts: this
    process, unless told otherwise. `keep_risked` has on disk what may have been spent, before it is.
    """
    mailbox = Mailbox()
    engine = _Engine(
        spec=spec,
        kinds=kinds,
        mailbox=mailbox,
        stop=stop or Stop(),
        clock=clock or SystemClock(),
        already_spent=already_spent or Amount(),
        keep_risked=keep_risked,
        attendant=attendant,
        race=race,
        executor_of=executor_of,
    )
    async with contextlib.aclosing(_told(mailbox, engine.run(assignments))) as events:
        async for event in events:
            yield event


async def execute_pairs(
    pairs: Iterator[AnswerPair], scorer: str, spec: RunSpec, *, stop: Stop | None = None, already_spent: Amount | None = None
) -> AsyncIterator[Event]:
    """Have the judges of a spec compare pairs of answers, within its limits and its budget, and tell each verdict."""
    mailbox = Mailbox()
    engine = _Engine(
        spec=spec,
        kinds=frozenset({"question"}),
        mailbox=mailbox,
        stop=stop or Stop(),
        clock=SystemClock(),
        already_spent=already_spent or Amount(),
    )
    async with contextlib.aclosing(_told(mailbox, engine.compare(pairs, scorer))) as events:
        async for event in events:
            yield event


async def _told(mailbox: Mailbox, working: Coroutine[Any, Any, None]) -> AsyncGenerator[Event]:
    """What happens while work is done, until it is done; who stops listening ends it."""
    work = asyncio.create_task(working)
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
    """What became of a contestant so far."""

    patient: bool = False
    """Failures one after another say nothing of those to come."""
    done: int = 0
    failed_in_a_row: int = 0
    state: ContestantState = ContestantState.FINISHED
    message: str = ""

    def count(self, result: TrialResult) -> None:
        """Take note of a result; the contestant is over when all further ones would fail alike."""
        self.done += 1
        failure = result.failure
        # An answer that a judge failed on is an answer: the contestant goes on.
        if self.patient or failure is None or result.outcome is not Outcome.FAILED or failure.kind is FailureKind.UNJUDGED:
            self.failed_in_a_row = 0
            return
        self.failed_in_a_row += 1
        if failure.kind.ends_model:
            self.end(ContestantState.FAILED, failure.message)
        elif self.failed_in_a_row >= _HOPELESS:
            message = f"{self.failed_in_a_row} trials in a row failed, the last with: {failure.message}"
            self.end(ContestantState.FAILED, message)

    def end(self, state: ContestantState, message: str) -> None:
        """The contestant is over before its trials are; the first reason stands."""
        if self.state is ContestantState.FINISHED:
            self.state, self.message = state, message

    @property
    def ended(self) -> bool:
        """Whether no further trial is to be asked."""
        return self.state is not ContestantState.FINISHED


@dataclass(slots=True, kw_only=True)
class _Crew:
    """A contestant's workers: as many as can have a slot, more as the account's limit grows."""

    group: asyncio.TaskGroup
    work: Callable[[], Coroutine[Any, Any, None]]
    most: int
    hired: int = 0
    at_work: int = 0

    def grow(self, limit: int) -> None:
        """Hire up to the limit."""
        while self.hired < min(limit, self.most):
            self._hire()

    def follow(self, limit: int) -> None:
        """Hire more, unless the work is over or given up: who grows the limit may be another contestant's answer."""
        if self.at_work:
            with contextlib.suppress(RuntimeError):  # the group takes nobody any more
                self.grow(limit)

    def _hire(self) -> None:
        worker = self._worker()
        try:
            self.group.create_task(worker)
        except RuntimeError:
            worker.close()
            raise
        self.hired += 1
        self.at_work += 1

    async def _worker(self) -> None:
        try:
            await self.work()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                # A group takes it for a worker that was sent away, and its trial would end in no state at all.
                raise RuntimeError("a trial was cancelled, and nobody had asked for that") from None
            raise
        finally:
            self.at_work -= 1


@dataclass(slots=True, kw_only=True)
class _Engine:
    spec: RunSpec
    kinds: frozenset[str]
    mailbox: Mailbox
    stop: Stop
    clock: Clock
    already_spent: Amount
    keep_risked: Callable[[Amount], None] = lambda risked: None
    deadlines: Deadlines = field(init=False)
    traffic: Traffic = field(init=False)
    budget: Budget | None = field(init=False)
    redact: Redactor = field(default_factory=Redactor.from_environment)
    servers: dict[str, asyncio.Lock] = field(default_factory=dict)
    attendant: Attendant | None = None
    race: Race | None = None
    executor_of: Callable[[Conditions], Executor] = Workshop
    conditions: Conditions = field(init=False)
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        pace = self.spec.pace
        self.deadlines = Deadlines(self.clock)
        self.traffic = Traffic(clock=self.clock, stop=self.stop, max_connections=pace.max_connections)
        self.budget = None
        if pace.max_cost_usd is not None or pace.max_total_tokens is not None:
            self.budget = Budget(
                max_cost_usd=pace.max_cost_usd,
                max_tokens=pace.max_total_tokens,
                spent=self.already_spent,
                stop=self.stop,
                keep=self.keep_risked,
            )
        self.conditions = Conditions(
            pace=pace,
            rules=self.spec.protocol.tasks,
            kinds=self.kinds,
            container_engine=self.spec.protocol.source.sandbox,
            clock=self.clock,
            deadlines=self.deadlines,
            stop=self.stop,
            redact=self.redact,
            tell=self.mailbox.put,
            attendant=self.attendant,
        )
        self.executor = self.executor_of(self.conditions)

    async def run(self, assignments: Sequence[Assignment]) -> None:
        """All contestants, no more than max_workers at once, until done or stopped."""
        async with self._opened():
            # Who races is asked together.
            slots = asyncio.Semaphore(len(assignments) if self.race else self.spec.pace.max_workers)
            count = len(assignments)
            await self._until_stopped(
                [self._in_turn(slots, assignment, position, count) for position, assignment in enumerate(assignments, start=1)]
            )

    async def compare(self, pairs: Iterator[AnswerPair], scorer: str) -> None:
        """Have the judges compare pairs, some at once, until all are compared, no judge is left or the work is stopped."""
        made = make_scorer(scorer)
        version = made.version
        assert isinstance(made, ComparesAnswers), scorer
        # Where the answers are, there they are compared.
        workshop = self.executor = Workshop(self.conditions)
        async with self._opened():
            at_once = self.spec.pace.max_connections or JUDGED_AT_ONCE
            comparing = partial(self._compare_in_turn, pairs, f"{scorer}/{version}", made, workshop.judges)
            await self._until_stopped([comparing() for _ in range(at_once)])

    async def _compare_in_turn(
        self, pairs: Iterator[AnswerPair], name: str, scorer: ComparesAnswers, all_judges: Sequence[JudgeModel]
    ) -> None:
        for pair in pairs:
            judges = [judge for judge in all_judges if judge.label in pair.judges and judge.over is None]
            if self.stop.draining or all(judge.over is not None for judge in all_judges):
                return
            for preference in await asyncio.gather(*(prefer_answer(name, scorer, judge, pair) for judge in judges)):
                self.mailbox.put(PairJudged(preference))
            if self.mailbox.full:
                await self.mailbox.room()

    async def _until_stopped(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Do all of it at once; what is in flight when a stop is asked for has a little time left."""
        ticker = asyncio.create_task(self.deadlines.watch())
        jobs = [asyncio.create_task(one) for one in work]
        enforcer = asyncio.create_task(self._enforce_stop(jobs))
        try:
            await asyncio.gather(*jobs)
        finally:
            for task in (*jobs, enforcer, ticker):
                task.cancel()
            await asyncio.gather(*jobs, enforcer, ticker, return_exceptions=True)
            if self.budget is not None:
                self.budget.close()

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        """The executor stands ready for as long as anything runs, and with it the models that judge."""
        async with contextlib.AsyncExitStack() as opened:
            seats = []
            for model in self.spec.protocol.judges:
                account = self.traffic.account_of(model)
                account.join()
                opened.callback(account.part)
                seats.append(Seat(model=model, gate=self._gate(model, model.label, account)))
            await opened.enter_async_context(self.executor.opened(seats))
            self.traffic.machines = self.executor.machines
            yield

    async def _enforce_stop(self, jobs: Sequence[asyncio.Task[None]]) -> None:
        """After a first request to stop, give what is in flight a little time; after a second, none."""
        await self.stop.wanted()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wanted_at_once(), _DRAIN_S)
        for job in jobs:
            job.cancel()

    async def _in_turn(self, slots: asyncio.Semaphore, assignment: Assignment, position: int, count: int) -> None:
        started, progress = self.clock.monotonic(), _Progress(patient=assignment.batch is not None)
        # Who waits for a batch keeps nobody from being asked.
        slot = slots if assignment.batch is None else contextlib.nullcontext()
        try:
            # A local server has one model loaded at a time: its models take turns, or each would push the other out.
            async with self._server_of(assignment), slot:
                started = self.clock.monotonic()
                if assignment.count:
                    self._check_before_start()
                self.mailbox.put(
                    ContestantStarted(contestant=assignment.label, position=position, contestants=count, trials=assignment.count)
                )
                await self._within_timeout(assignment, progress)
        except (asyncio.CancelledError, Interrupted):
            if progress.done < assignment.count:
                progress.state = ContestantState.INTERRUPTED
                progress.message = "stopped on request; resume the run to continue"
        except ContestantOver as over:
            progress.end(over.state, str(over))
        except BenchmarkError as error:
            progress.state, progress.message = ContestantState.FAILED, str(error)
        except Exception as error:
            # A bug in a plugin, or ours: loud, but no reason to lose the other contestants' work.
            log.exception("%s stopped on an error nobody expected", assignment.label)
            progress.state, progress.message = ContestantState.FAILED, f"unexpected {type(error).__name__}: {error}"
        if self.race is not None and progress.state is not ContestantState.FINISHED:
            self.race.leave(assignment.label)
        self.mailbox.put(
            ContestantFinished(
                contestant=assignment.label,
                state=progress.state,
                message=self.redact(progress.message),
                seconds=self.clock.monotonic() - started,
                done=progress.done,
            )
        )

    def _server_of(self, assignment: Assignment) -> asyncio.Lock:
        model = assignment.model
        alone = model.local and not model.reference and model.provider != "llama_cpp"
        server = f"{model.provider} {model.base_url}" if alone else assignment.label
        return self.servers.setdefault(server, asyncio.Lock())

    def _check_before_start(self) -> None:
        if self.stop.draining:
            raise Interrupted
        seconds, state, message = self._time_left()
        if seconds <= _NO_TIME_S:
            raise ContestantOver(state, message)

    async def _within_timeout(self, assignment: Assignment, progress: _Progress) -> None:
        """Serve the contestant for no longer than it may take, and the run as a whole."""
        seconds, state, message = self._time_left()
        if seconds == math.inf:
            return await self._serve(assignment, progress)
        try:
            await self.deadlines.within(seconds, self._serve(assignment, progress))
        except TimeoutError:
            # Where every trial has ended the contestant has too, however long it takes to put its model away.
            if progress.done < assignment.count:
                progress.end(state, message)

    def _time_left(self) -> tuple[float, ContestantState, str]:
        """Seconds the next contestant has, and what is said when they are over."""
        pace = self.spec.pace
        own = math.inf if pace.timeout_s is None else pace.timeout_s
        run = math.inf if pace.max_time_s is None else max(0.0, pace.max_time_s - self.deadlines.awake_s)
        if run < own:
            message = f"the run's time is over: --max-time {pace.max_time_s:g}; resume the run to continue"
            return run, ContestantState.OUT_OF_BUDGET, message
        message = f"timed out after {own:g} seconds; raise --timeout and resume the run: what finished is kept"
        return own, ContestantState.TIMED_OUT, message

    async def _serve(self, assignment: Assignment, progress: _Progress) -> None:
        """Have the contestant's trials attempted by a crew that grows with the account's limit."""
        model = assignment.model
        # A coding task takes a part of a machine, a question hardly any.
        tasks_at_once = self._tasks_at_once(model)
        at_once = tasks_at_once * self.executor.machines
        at_once = at_once if self.kinds == {"task"} else self.traffic.per_model(model) or CEILING
        most = max(1, min(at_once, assignment.count))
        account = self.traffic.account_of(model)
        gate = self._gate(model, assignment.label, account)
        unfinished = None if assignment.batch is None else await self._collect(assignment, assignment.batch)
        service = Service(
            contestant=assignment.contestant,
            gate=gate,
            connections=most,
            tasks_at_once=tasks_at_once,
            asks=assignment.count > assignment.kept,
            rescue=lambda result: self._finish(result, progress),
            collected=assignment.batch.book.result_of if assignment.batch else None,
        )
        async with self.executor.serving(service) as attempting:
            if assignment.count:
                work = partial(self._worker, assignment, attempting, gate, progress)
                await self._work(_Crew(group=asyncio.TaskGroup(), work=work, most=most), account)
        if unfinished is not None:
            progress.end(unfinished.state, unfinished.message)

    async def _collect(self, assignment: Assignment, batch: Batch) -> Unfinished | None:
        """Have the provider answer in batches; why some answers are not home."""
        model = assignment.model
        provider = provider_class(model.provider)(endpoint_of(model, _FOR_BATCHES))
        batches = provider.batches()
        batcher = Batcher(
            contestant=assignment.contestant,
            batch=batch,
            provider=batches,
            budget=self.budget,
            clock=self.clock,
            deadlines=self.deadlines,
            stop=self.stop,
            tell=self._teller(assignment.label),
            redact=self.redact,
            poll_s=self.spec.pace.poll_s,
            request_timeout_s=self.spec.pace.request_timeout_s,
        )
        try:
            return await batcher.collect()
        finally:
            await asyncio.shield(batches.close())
            await asyncio.shield(provider.close())

    def _tasks_at_once(self, model: ModelRef) -> int:
        """A contestant's share of a machine's places: else the first would take them all, and the others only wait."""
        places = self.spec.pace.max_workers
        return 1 if model.local and not model.reference else max(1, places // min(len(self.spec.contestants), places))

    async def _work(self, crew: _Crew, account: Account) -> None:
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

    async def _worker(self, assignment: Assignment, attempting: Attempting, gate: Gate, progress: _Progress) -> None:
        """Take trials one after another until none is left or the contestant cannot go on."""
        for trial in assignment.trials:
            if self.stop.draining or progress.ended:
                return
            if self.race is not None and not await self._is_in_race(assignment.label, trial, progress):
                return
            try:
                result = await attempting(trial)
            except Interrupted:
                return
            except ContestantOver as over:
                progress.end(over.state, str(over))
                return
            self._finish(result, progress)
            if progress.ended:
                # Whoever waits for a slot, or before a further attempt, does not ask any more.
                gate.end(progress.state, progress.message)
            if self.mailbox.full:
                await self.mailbox.room()

    async def _is_in_race(self, label: str, trial: Trial, progress: _Progress) -> bool:
        """Wait for the others; False, and the contestant is over, when its place is known."""
        assert self.race is not None
        asked = await self._unless_stopped(self.race.may_ask(label, trial.place))
        if not asked and not self.stop.draining:
            progress.end(ContestantState.DECIDED, self.race.reason(label))
        return asked

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, bool]) -> bool:
        """What is waited for; False as soon as the run is being stopped."""
        task, stopped = asyncio.ensure_future(waiting), asyncio.ensure_future(self.stop.wanted())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            return task.done() and task.result()
        finally:
            task.cancel()
            stopped.cancel()

    def _finish(self, result: TrialResult, progress: _Progress) -> None:
        self.mailbox.put(TrialFinished(result))
        progress.count(result)
        if self.race is not None:
            self.race.observe(result)

    def _gate(self, model: ModelRef, label: str, account: Account) -> Gate:
        return Gate(
            account=account,
            stop=self.stop,
            awake=lambda: self.deadlines.awake_s,
            tell=self._teller(label),
            limiter=self.traffic.limiter_of(model),
            purse=None if self.budget is None else Purse(budget=self.budget, model=model),
            ends_at=self.deadlines.awake_s + self._time_left()[0],
        )

    def _teller(self, label: str) -> Callable[[str, float], None]:
        """Tells that calls wait, at most once a second."""
        last = -math.inf

        def tell(reason: str, seconds: float) -> None:
            nonlocal last
            now = self.clock.monotonic()
            if now - last >= _TELL_EVERY_S:
                last = now
                self.mailbox.put(ContestantWaiting(contestant=label, reason=self.redact(reason), seconds=seconds))

        return tell
