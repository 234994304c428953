"""A contestant's questions in batch jobs: written down, sent, waited for, and brought home.

A job is paid for when it is created, and creating it is not idempotent. So it is written down before, and its name at
the provider after; what lies between, a lost reply or a kill, is settled by looking at the provider's own list.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from tiebreak.core.batch import (
    BATCH_PRICE,
    FILES,
    Batches,
    End,
    Job,
    JobBook,
    JobLimits,
    LineResult,
    RemoteJob,
    Settled,
)
from tiebreak.core.clock import Clock
from tiebreak.core.contestant import DIRECT, Contestant
from tiebreak.core.errors import FailureKind, ProviderError, StoreFull, UsageError
from tiebreak.core.events import ContestantState
from tiebreak.core.redact import Redactor
from tiebreak.core.run import RunSpec
from tiebreak.core.trial import Trial
from tiebreak.engine.buckets import Tell
from tiebreak.engine.budget import CURE, Amount, Budget, characters, cost_of, worst_usage
from tiebreak.engine.context import first_request
from tiebreak.engine.deadlines import Deadlines
from tiebreak.engine.stop import Stop
from tiebreak.registry import provider_class

_LOOK_UP = 500
_BREATHE_EVERY = 100
"""Lines after which others have their turn."""
_SETTLE_AT_ONCE = 500
_FILE_S = 3600.0
"""Most seconds for a file on its way."""
SETTLE_S = 60.0
_LISTED_AFTER_POLLS = 2
"""A job that was created is in the provider's list after a minute and two looks, or was never created."""
_MOST_REFUSALS = 6
_LONGEST_HOLD_S = 3600.0
_OVERDUE_S = 72 * 3600.0
"""Providers promise an end within a day."""
_REQUEST_TIMEOUT = 408
_NO_SUCH_LIST = (404, 405, 501)
_ENCODER = msgspec.json.Encoder()
T = TypeVar("T")


def unbatched_because(contestant: Contestant) -> str:
    """Why a contestant is asked as usual in a run with batches; empty where its questions go into one."""
    if contestant.reference or contestant.model.local:
        return "a baseline" if contestant.reference else "a model on this machine"
    if contestant.agent != DIRECT:
        return f"the agent {contestant.agent.label} asks more than once"
    if not provider_class(contestant.model.provider).takes_batches:
        return f"{contestant.model.provider} has no batches that are known here"
    return ""


def in_batches(spec: RunSpec, contestant: Contestant) -> bool:
    """Whether a contestant's questions go into batches."""
    return spec.pace.batch and not unbatched_because(contestant)


def refuse_idle_batch(spec: RunSpec) -> None:
    """Raise for batches that could not be made, or that something else would get in the way of."""
    pace = spec.pace
    if not pace.batch:
        return
    given = {"--stream": pace.stream, "--record": pace.record_dir, "--replay": pace.replay_dir, "--cache": pace.cache_dir}
    if other := [flag for flag, value in given.items() if value]:
        raise UsageError(f"--batch: answers come in files, which {other[0]} knows nothing of; leave one of them out")
    if spec.protocol.races:
        raise UsageError(f"--batch asks everything at once, and --until {spec.protocol.until} as little as it can: leave one out")
    reasons = {c.label: unbatched_because(c) for c in spec.contestants if not c.reference}
    if all(reasons.values()):
        why = "; ".join(f"{label}: {reason}" for label, reason in reasons.items())
        raise UsageError(f"--batch: nobody here can be asked in batches ({why})")


@dataclass(frozen=True, slots=True)
class Batch:
    """What a contestant's jobs need besides the engine: its trials, as often as they are wanted, and the book."""

    trials: Callable[[], Iterator[Trial]]
    book: JobBook
    folder: Path
    """Where files are made before they are sent."""
    detach: bool
    """Do not wait for answers."""
    again: bool
    """Send again what nobody can tell about."""

    def ready(self) -> Iterator[Trial]:
        """The trials that can be finished now: those with a result, and those that are in no batch."""
        trials = self.trials()
        while some := list(islice(trials, _LOOK_UP)):
            asked = [trial.id for trial in some if goes_into_batch(trial)]
            done = self.book.with_result(asked)
            yield from [trial for trial in some if not goes_into_batch(trial) or trial.id in done]


def goes_into_batch(trial: Trial) -> bool:
    """Whether a trial is a question that nobody has answered."""
    return trial.sample.task is None and trial.kept is None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Why some of a contestant's trials have no result yet."""

    state: ContestantState
    message: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A question as it stands in a job's file."""

    trial: str
    data: bytes
    worst: Amount
    """The most its answer may cost."""


class _Lines:
    """Lines to be sent, the next of which can be looked at before it is taken."""

    def __init__(self, lines: Iterator[_Line]) -> None:
        self._lines = lines
        self.next = next(lines, None)

    def take(self) -> None:
        """Go on to the one after."""
        self.next = next(self._lines, None)


@dataclass(slots=True)
class _Draft:
    """A job's file while it is written."""

    key: str
    path: Path
    trials: list[str] = field(default_factory=list)
    size: int = 0
    worst: Amount = field(default_factory=Amount)

    def has_room(self, line: _Line, limits: JobLimits) -> bool:
        """Whether a line fits; one that fits nowhere is sent alone, and refused by whoever knows why."""
        return not self.trials or (len(self.trials) < limits.lines and self.size + len(line.data) <= limits.bytes)

    def add(self, line: _Line) -> None:
        """Count a line that was written."""
        self.trials.append(line.trial)
        self.size += len(line.data)
        self.worst += line.worst


class _Seen(Exception):
    """Enough was read of a job's results."""


@dataclass(slots=True, kw_only=True)
class Batcher:
    """Brings a contestant's questions to its provider and the answers home."""

    contestant: Contestant
    batch: Batch
    provider: Batches
    budget: Budget | None
    clock: Clock
    deadlines: Deadlines
    stop: Stop
    tell: Tell
    redact: Redactor
    poll_s: float
    request_timeout_s: float
    _foreign: set[str] = field(default_factory=set)
    """Jobs of unknown contents that turned out to be somebody else's."""
    _held: dict[str, Amount] = field(default_factory=dict)
    """What is set aside for each job."""
    _unsent: bool = True
    """Whether something may have to be sent."""
    _hold_until: float = -math.inf
    _refusals: int = 0
    _over_budget: str = ""

    @property
    def _book(self) -> JobBook:
        return self.batch.book

    def _open_jobs(self) -> Sequence[Job]:
        return self._book.open_jobs(self.contestant.label)

    async def collect(self) -> Unfinished | None:
        """Send what has to be sent and bring home what is answered, until all is; or say why not."""
        for job in self._open_jobs():
            self._hold(job.key, Amount(nano_usd=job.nano_usd, tokens=job.tokens))
        try:
            return await self._until_all_is_answered()
        except ProviderError as error:
            waiting = sum(job.lines for job in self._open_jobs())
            more = f"; {waiting:,} answers are still to come: resume the run to collect them" if waiting else ""
            return Unfinished(ContestantState.FAILED, self.redact(f"{error}{more}"))

    async def _until_all_is_answered(self) -> Unfinished | None:
        while True:
            done = sum([await self._look_at(job) for job in self._open_jobs()])
            sent = not self._unsent or await self._send_rest()
            waiting = self._open_jobs()
            if sent and not waiting:
                return Unfinished(ContestantState.OUT_OF_BUDGET, self._over_budget) if self._over_budget else None
            words = _waiting_words(waiting, done)
            if sent and self.batch.detach:
                return Unfinished(ContestantState.WAITING, f"{words}; resume the run to collect them")
            self.tell(words, self.poll_s)
            await self.stop.pause(self.poll_s)

    # --- sending

    async def _send_rest(self) -> bool:
        """Send everything that is in no job yet; False where that has to wait."""
        if self.clock.monotonic() < self._hold_until:
            return False
        self._over_budget = ""
        lines = _Lines(self._lines())
        while (draft := await self._draft(lines)) is not None:
            try:
                if not await self._submit(draft):
                    return False
            finally:
                draft.path.unlink(missing_ok=True)
        self._unsent = False
        return True

    def _lines(self) -> Iterator[_Line]:
        """Everything that is in no job and has no result."""
        trials, model = self.batch.trials(), self.contestant.model
        while some := list(islice(trials, _LOOK_UP)):
            ours = [trial for trial in some if goes_into_batch(trial)]
            known = self._book.in_hand([trial.id for trial in ours])
            for trial in (trial for trial in ours if trial.id not in known):
                request = first_request(trial)
                worst = worst_usage(characters(request), {**model.sent, **request.settings})
                yield _Line(trial.id, self.provider.line(trial.id, request), _at_batch_price(Amount.of(worst, model)))

    async def _draft(self, lines: _Lines) -> _Draft | None:
        """The next file, as full as a job and the budget may be; None when nothing is left that can be sent."""
        if lines.next is None or not self._fits_budget(lines.next):
            return None
        key = uuid4().hex
        draft = _Draft(key, self.batch.folder / f"{FILES}{key}.jsonl")
        with _writable(draft.path) as file:
            while (line := lines.next) and draft.has_room(line, self.provider.limits) and self._fits_budget(line):
                file.write(line.data)
                draft.add(line)
                self._hold(key, line.worst)
                lines.take()
                if len(draft.trials) % _BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
        return draft

    async def _submit(self, draft: _Draft) -> bool:
        """Write the job down and send it; False where it was not taken and has to wait."""
        try:
            previous = await self._newest()
        except ProviderError as error:
            self._give_back(draft.key)
            return self._hold_back(error)
        job = Job(
            key=draft.key,
            contestant=self.contestant.label,
            lines=len(draft.trials),
            planned_at=self.clock.now(),
            previous=previous,
            nano_usd=draft.worst.nano_usd,
            tokens=draft.worst.tokens,
        )
        self._book.plan(job, draft.trials)
        return await self._send(job, draft.path)

    async def _send(self, job: Job, path: Path) -> bool:
        """Have a job created that is written down; where nobody knows whether it was, it stays open and is looked for."""
        upload: str | None = None
        try:
            upload = await self._within(_FILE_S, self.provider.upload(job, path))
            identity = await self._within(_FILE_S, self.provider.create(job, path, upload, self.contestant.model.name))
        except ProviderError as error:
            if upload is None or _is_refusal(error):
                self._drop(job, str(error))
                return self._hold_back(_explained(error))
            self.tell(f"nobody knows whether a batch was created: {error}", self.poll_s)
            return True
        self._book.submitted(job, identity)
        self._refusals = 0
        return True

    async def _newest(self) -> str:
        """The provider's newest job; empty where there is none, or where it lists none."""

        async def first() -> str:
            async with contextlib.aclosing(self.provider.listed()) as jobs:
                return await anext((remote.id async for remote in jobs), "")

        try:
            return await self._within(self.request_timeout_s, first())
        except ProviderError as error:
            if not _lists_nothing(error):
                raise
        return ""

    def _drop(self, job: Job, message: str) -> None:
        self._book.drop(job, self.redact(message))
        self._give_back(job.key)
        self._unsent = True

    def _hold_back(self, error: ProviderError) -> bool:
        """Send nothing for a while: what is over a limit now is not later. Raises what will not pass."""
        self._refusals += 1
        if not error.kind.retryable or (self._refusals > _MOST_REFUSALS and not self._open_jobs()):
            raise error
        wait = min(_LONGEST_HOLD_S, max(error.retry_after or 0.0, self.poll_s * 2.0 ** min(self._refusals - 1, 16)))
        self._hold_until = self.clock.monotonic() + wait
        self._unsent = True
        self.tell(f"{error.kind.replace('_', ' ')}: {error}", wait)
        return False

    # --- waiting

    async def _look_at(self, job: Job) -> int:
        """How many answers a job has; an ended one is brought home."""
        try:
            found = job if job.id else await self._found(job)
            if found is None:
                return 0
            remote = await self._within(self.request_timeout_s, self.provider.look(found.id))
            if remote.end is not None:
                await self._bring_home(found, remote)
                return 0
        except ProviderError as error:
            if error.kind is FailureKind.NOT_FOUND and job.id:
                return self._gone(job)
            if not error.kind.retryable or self._age_s(job) > _OVERDUE_S:
                raise
            self.tell(f"{error.kind.replace('_', ' ')}: {error}", self.poll_s)
            return 0
        if self._age_s(job) > _OVERDUE_S:
            raise ProviderError(f"the batch {found.id} has not ended within three days", kind=FailureKind.BAD_REQUEST)
        return remote.done

    def _age_s(self, job: Job) -> float:
        return (self.clock.now() - job.planned_at).total_seconds()

    def _gone(self, job: Job) -> int:
        """A job that its provider does not know any more; its questions are asked again only on request."""
        message = f"the provider has no batch {job.id} any more"
        if not self.batch.again:
            raise ProviderError(f"{message}; --retry-failed asks its questions again", kind=FailureKind.NOT_FOUND)
        self._close(job, again=True, kind=FailureKind.TRANSIENT, message=message)
        return 0

    async def _found(self, job: Job) -> Job | None:
        """A job of which nobody knows whether it was created, found in the provider's list; None where it is not there.

        A job of unknown contents may be it: then nothing is decided before that one has ended and was looked into.
        """
        known, undecided = self._book.remote_ids() | self._foreign, False
        try:
            async with contextlib.aclosing(self.provider.listed()) as jobs:
                async for remote in jobs:
                    if remote.id == job.previous:
                        break
                    its = False if remote.id in known else await self._is(job, remote)
                    if its:
                        self._book.submitted(job, remote.id)
                        return dataclasses.replace(job, id=remote.id)
                    undecided = undecided or its is None
        except ProviderError as error:
            if not _lists_nothing(error):
                raise
            if not self.batch.again:
                raise _unlisted(job, error) from error
        if not undecided and self._age_s(job) >= max(SETTLE_S, _LISTED_AFTER_POLLS * self.poll_s):
            self._drop(job, "it was never created")
        return None

    async def _is(self, job: Job, remote: RemoteJob) -> bool | None:
        """Whether a listed job is this one; None where only its results will tell."""
        if remote.key:
            return remote.key == job.key
        if remote.lines and remote.lines != job.lines:
            return False
        if remote.end is None:
            return None
        ours = False

        def take(line: bytes) -> None:
            nonlocal ours
            if (result := self._read(line)) is not None:
                ours = self._book.holds(job, result.trial)
                raise _Seen

        with contextlib.suppress(_Seen):
            await self._within(_FILE_S, self.provider.results(remote, take))
        if not ours:
            self._foreign.add(remote.id)
        return ours

    # --- bringing home

    async def _bring_home(self, job: Job, remote: RemoteJob) -> None:
        """Every result of an ended job, on disk some at a time."""
        some: list[LineResult] = []

        def take(line: bytes) -> None:
            if (result := self._read(line)) is not None:
                some.append(result)
            if len(some) >= _SETTLE_AT_ONCE:
                self._settle(job, some)

        await self._within(_FILE_S, self.provider.results(remote, take))
        self._settle(job, some)
        if remote.error is not None and remote.error.kind is FailureKind.RATE_LIMIT:
            # Over a limit of the account: no fault of these questions, and nothing of it was run.
            self._drop(job, str(remote.error))
            self._hold_back(remote.error)
            return
        again, kind, message = _rest_of(remote)
        self._close(job, again=again, kind=kind, message=message)

    def _close(self, job: Job, *, again: bool, kind: FailureKind, message: str) -> None:
        self._book.collected(job, again=again, kind=kind, message=self.redact(message))
        self._give_back(job.key)
        self._hold_until = -math.inf  # What was over a limit may fit now.
        self._unsent = self._unsent or bool(self._over_budget) or self._book.has_unsent()

    def _settle(self, job: Job, some: list[LineResult]) -> None:
        """Write results down: what was answered, what failed for good, and what is asked again."""
        expected = self._book.expected(job, [result.trial for result in some])
        results = {result.trial: result for result in reversed(some) if result.trial in expected}
        settled = [self._settled(job, result) for result in results.values()]
        self._book.settle(job, settled)
        if self.budget is not None:
            self.budget.spent += sum((Amount(nano_usd=one.nano_usd, tokens=one.tokens) for one in settled), Amount())
        some.clear()

    def _settled(self, job: Job, result: LineResult) -> Settled:
        reply, error = result.reply, result.error
        if reply is None or error is not None:
            error = error or ProviderError("no answer", kind=FailureKind.MALFORMED)
            again = error.kind.retryable and error.kind is not FailureKind.MALFORMED
            return Settled(trial=result.trial, kind=error.kind, message=self.redact(str(error)), again=again)
        usage, model = reply.usage, self.contestant.model
        if usage is None:
            spent = Amount(nano_usd=job.nano_usd // job.lines, tokens=job.tokens // job.lines)
        else:
            if usage.cost_usd is None and (cost := cost_of(usage, model)) is not None:
                usage = replace(usage, cost_usd=cost * BATCH_PRICE)
                reply = replace(reply, usage=usage)
            spent = Amount.of(usage, model)
        data = self.redact(_ENCODER.encode(reply).decode()).encode()
        return Settled(trial=result.trial, reply=data, nano_usd=spent.nano_usd, tokens=spent.tokens)

    def _read(self, line: bytes) -> LineResult | None:
        """What a line says; one that nobody can read says nothing, and its question has no result."""
        try:
            return self.provider.read(line)
        except ProviderError:
            return None

    # --- time and money

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await self.deadlines.within(seconds, work)
        except TimeoutError:
            raise ProviderError(f"no answer within {seconds:g} s", kind=FailureKind.TIMEOUT) from None

    def _fits_budget(self, line: _Line) -> bool:
        """Whether a line may be sent as far as the caps go."""
        if self.budget is None or not (flag := self.budget.passed_by(line.worst)):
            return True
        self._over_budget = f"the next question may not fit into {flag}; {CURE}"
        return False

    def _hold(self, key: str, amount: Amount) -> None:
        """Set aside what a job may cost."""
        self._held[key] = self._held.get(key, Amount()) + amount
        if self.budget is not None:
            self.budget.reserved += amount

    def _give_back(self, key: str) -> None:
        held = self._held.pop(key, Amount())
        if self.budget is not None:
            self.budget.reserved -= held


@contextlib.contextmanager
def _writable(path: Path) -> Iterator[BinaryIO]:
    """A file to be sent; where the disk takes no more, nothing is left of it."""
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StoreFull(f"{path} cannot be written ({error.strerror}): nothing of it was sent; resume the run to go on") from None


def _at_batch_price(amount: Amount) -> Amount:
    return Amount(nano_usd=math.ceil(amount.nano_usd * BATCH_PRICE), tokens=amount.tokens)


def _is_refusal(error: ProviderError) -> bool:
    """Whether the server said no, so that nothing was created; all else leaves that open."""
    return error.status is not None and 400 <= error.status < 500 and error.status != _REQUEST_TIMEOUT


def _lists_nothing(error: ProviderError) -> bool:
    return error.status in _NO_SUCH_LIST


def _explained(error: ProviderError) -> ProviderError:
    """Why a job could not be sent; a server that knows no such address may have no batches."""
    if error.status not in _NO_SUCH_LIST:
        return error
    message = f"{error} (if this server has no batches, ask this model in a run without --batch)"
    return ProviderError(message, kind=FailureKind.NOT_FOUND, status=error.status)


def _unlisted(job: Job, error: ProviderError) -> ProviderError:
    message = (
        f"nobody knows whether a batch of {job.lines:,} questions was created, and the server lists none ({error}); "
        "look for it at the provider; where it is not, resume the run with --retry-failed to send its questions again"
    )
    return ProviderError(message, kind=FailureKind.BAD_REQUEST)


def _rest_of(remote: RemoteJob) -> tuple[bool, FailureKind, str]:
    """What becomes of requests without a result: whether they are asked again, and else how they failed."""
    if remote.end is End.EXPIRED:
        return True, FailureKind.TIMEOUT, "the batch expired before it was answered"
    if remote.end is End.CANCELLED:
        return False, FailureKind.TRANSIENT, "the batch was cancelled at the provider before it was answered"
    if remote.end is End.REFUSED:
        error = remote.error or ProviderError("no reason was given", kind=FailureKind.BAD_REQUEST)
        return False, error.kind, f"the provider refused the batch: {error}"
    return False, FailureKind.MALFORMED, "the batch's results have no answer to it that can be read"


def _waiting_words(jobs: Sequence[Job], done: int) -> str:
    lines = sum(job.lines for job in jobs)
    names = "batch" if len(jobs) == 1 else "batches"
    so_far = f", {done:,} answered so far" if done else ""
    return f"{lines:,} answers in {len(jobs)} {names} are still to come{so_far}"
