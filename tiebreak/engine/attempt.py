"""One trial from start to end: the agent works, the scorers judge, a known error becomes a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from tiebreak.core.contestant import AgentRef
from tiebreak.core.endings import FAILURES, Counts
from tiebreak.core.errors import BenchmarkError, FailureKind, ProviderError, SandboxError, ScorerError, exhausted
from tiebreak.core.protocols import Agent, Scorer
from tiebreak.core.record import Record
from tiebreak.core.redact import Redactor
from tiebreak.core.sample import Sample
from tiebreak.core.task import Task
from tiebreak.core.trial import Failure, Judgement, Outcome, Output, Score, Timing, Trial, TrialResult
from tiebreak.core.work import Isolation, Work, WorkOutcome
from tiebreak.engine.agent_work import output_of
from tiebreak.engine.call import Caller
from tiebreak.engine.context import TrialContext
from tiebreak.engine.gateway_calls import context_of, gateway_name
from tiebreak.engine.judging import JudgeModel, combined, judge_answer
from tiebreak.engine.plan import agent_for
from tiebreak.engine.stop import Interrupted
from tiebreak.engine.task_context import TaskSetup, TaskTrialContext, failure_of
from tiebreak.engine.turns import score_of
from tiebreak.registry import make_agent

if TYPE_CHECKING:
    from tiebreak.gateway.gateway import Gateway

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)


class Agents:
    """A contestant's agent; for samples it does not work on, the one that does."""

    def __init__(self, agent: AgentRef) -> None:
        self._agent = agent
        self._by_kind: dict[bool, Agent] = {}

    def working_on(self, sample: Sample) -> Agent:
        """The agent for a question, or for a task; each is made once."""
        is_task = sample.task is not None
        if is_task not in self._by_kind:
            self._by_kind[is_task] = make_agent(agent_for(self._agent, sample))
        return self._by_kind[is_task]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every trial of a contestant is done with."""

    agents: Agents
    scorers: Mapping[str, Scorer]
    caller: Caller
    redact: Redactor
    task_setup: TaskSetup | None = None
    task_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Coding tasks at once: each takes a part of this machine."""
    judges: Sequence[JudgeModel] = ()
    rescue: Callable[[TrialResult], None] = lambda result: None
    """Where an answer goes that nobody has judged when the trial is cancelled: it was paid for, and is kept."""


class Verdicts(Record, frozen=True, kw_only=True):
    """What the scorers made of an answer."""

    scores: dict[str, Score] = msgspec.field(default_factory=dict)
    judgements: tuple[Judgement, ...] = ()
    unjudged: str = ""
    """Why some judge has not given its verdict; empty when all have."""


async def attempt(trial: Trial, tools: Tools) -> TrialResult:
    """Attempt a trial. Errors we know become its failure; others surface."""
    if trial.kept is not None:
        return await _attempt_judging(trial, trial.kept.output, TrialContext(trial, tools.caller), tools)
    if trial.sample.task is not None:
        return await attempt_task(trial, trial.sample.task, tools)
    context = TrialContext(trial, tools.caller)
    # One that works on questions asks for no more than this context has.
    agent = cast(Any, tools.agents.working_on(trial.sample))
    try:
        output = _metered(await output_of(trial.contestant.agent.name, agent, trial.sample, context), context)
    except BenchmarkError as error:
        return _failed(trial, error, context, tools)
    return await _attempt_judging(trial, output, context, tools)


async def _attempt_judging(trial: Trial, output: Output, context: TrialContext, tools: Tools) -> TrialResult:
    """Have an answer scored. One that waits for a judge outlives whatever ends the wait."""
    try:
        verdicts = await _verdicts(trial, output, context, tools) if output.outcome in _SCORED else Verdicts()
    except BenchmarkError as error:
        if trial.kept is not None:
            return _result(trial, output, Verdicts(unjudged=str(error)), tools)
        return _failed(trial, error, context, tools)
    except asyncio.CancelledError:
        if any(tools.scorers[name].needs_judge for name in trial.sample.scorers):
            tools.rescue(_result(trial, output, Verdicts(unjudged="the run was stopped before a judge had answered"), tools))
        raise
    return _result(trial, output, verdicts, tools)


def _result(trial: Trial, output: Output, verdicts: Verdicts, tools: Tools) -> TrialResult:
    """How a trial ended; one without its ranking score waits for a judge, with its answer kept."""
    now = tools.caller.clock.now()
    result = TrialResult(
        trial=trial,
        outcome=output.outcome,
        output=output,
        scores=verdicts.scores,
        judgements=verdicts.judgements,
        unjudged=bool(verdicts.unjudged),
        finished_at=now,
    )
    if not verdicts.unjudged or result.primary is not None:
        return result
    failure = Failure(kind=FailureKind.UNJUDGED, message=verdicts.unjudged, at=now, attempts=output.attempts)
    return replace(result, outcome=Outcome.FAILED, failure=failure)


async def attempt_task(trial: Trial, task: Task, tools: Tools) -> TrialResult:
    """Attempt a coding task in a workspace of its own, which is gone afterwards."""
    from tiebreak.sandbox.workspace import Workspace

    setup = tools.task_setup
    assert setup is not None, "a run that has coding tasks says so when it begins"
    async with tools.task_slots:
        if tools.caller.stop.draining:
            raise Interrupted
        try:
            agent = tools.agents.working_on(trial.sample)
            async with (
                _machine_to_blame(),
                _gateway(trial, agent, setup.isolation) as gateway,
                Workspace.open(task, isolation=setup.isolation, gateway=gateway.address if gateway else None) as workspace,
            ):
                context = TaskTrialContext(trial, tools.caller, setup=setup, task=task, workspace=workspace)
                if gateway is not None:
                    gateway.answers, context.gateway_key = context.gateway_calls, gateway.key
                try:
                    error = await context.work(agent)
                    if gateway is not None:
                        await gateway.hang_up()
                        await context.gateway_calls.settle()
                finally:
                    await context.gateway_calls.give_up()
                work = await context.judged(error)
                return await _task_result(trial, work, error, context, tools)
        except SandboxError as error:
            work = Work(outcome=WorkOutcome.SANDBOX_ERROR, seconds=0.0, isolation=setup.isolation)
            return replace(_failed(trial, error, TrialContext(trial, tools.caller), tools), work=work)


@contextlib.asynccontextmanager
async def _machine_to_blame() -> AsyncIterator[None]:
    """Out of processes, memory or files, nobody is to blame but this machine: the attempt can be made again."""
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        reason = exhausted(error)
        if not reason:
            raise
        raise SandboxError(f"the attempt could not go on: {reason}") from error


@contextlib.asynccontextmanager
async def _gateway(trial: Trial, agent: Agent, isolation: Isolation) -> AsyncIterator[Gateway | None]:
    """The trial's own endpoint, for an agent that needs one."""
    if not agent.uses_gateway:
        yield None
        return
    from tiebreak.gateway.gateway import Gateway

    gateway = Gateway(model=gateway_name(trial.model), context_window=context_of(trial.model))
    # A sandbox without a network of its own can be led to a port of this machine only.
    async with gateway.open(on_port=bool({"network", "udp"} & set(isolation.missing))):
        yield gateway


async def _task_result(
    trial: Trial, work: Work, error: BenchmarkError | None, context: TaskTrialContext, tools: Tools
) -> TrialResult:
    transcript = tuple(context.transcript)
    output = _metered(Output(text=context.said), context)
    failure = failure_of(work, error)
    verdicts = Verdicts()
    if failure is None:
        try:
            verdicts = await _verdicts(trial, output, context, tools)
        except ScorerError as unjudged:
            failure = FailureKind.VERIFIER, str(unjudged)
    if failure is not None:
        kind, message = failure
        failed = _failed(trial, BenchmarkError(message), context, tools, kind=kind)
        return replace(failed, work=work, transcript=transcript)
    return replace(_result(trial, output, verdicts, tools), work=work, transcript=transcript)


async def _verdicts(trial: Trial, output: Output, context: TrialContext, tools: Tools) -> Verdicts:
    """Every scorer's word. Rules come before judges: where a rule cannot judge, nobody is paid for judging."""
    names, known = trial.sample.scorers, trial.kept.scores if trial.kept else {}
    judging: list[str] = []
    scores: dict[str, Score] = {}
    for name in names:
        if tools.scorers[name].needs_judge:
            judging.append(name)
        else:
            scores[name] = known[name] if name in known else await _score(name, trial, output, context, tools)
    if not judging:
        return Verdicts(scores=scores)
    said: list[Judgement] = []
    for name in judging:
        judgements = await _judged(name, trial, output, context, tools)
        said += judgements
        score = combined(judgements, majority=tools.scorers[name].majority)
        scores |= {} if score is None else {name: score}
    failures = [one.failure.message for one in said if one.failure is not None]
    earlier = trial.kept.judgements if trial.kept else ()
    return Verdicts(
        scores={name: scores[name] for name in names if name in scores},
        judgements=tuple(one for one in said if one not in earlier),
        unjudged=failures[0] if failures else "",
    )


async def _judged(name: str, trial: Trial, output: Output, context: TrialContext, tools: Tools) -> tuple[Judgement, ...]:
    scorer = tools.scorers[name]
    try:
        return await judge_answer(name, scorer, trial=trial, output=output, context=context, judges=tools.judges)
    except (BenchmarkError, Interrupted):
        raise
    except Exception as error:
        raise _raised(name, error) from error


async def _score(name: str, trial: Trial, output: Output, context: TrialContext, tools: Tools) -> Score:
    """One scorer's verdict. Whatever it raises is its own fault: the trial then has no score."""
    try:
        return await score_of(tools.scorers[name], trial.sample, output, context)
    except (BenchmarkError, Interrupted):
        raise
    except Exception as error:
        raise _raised(name, error) from error


def _raised(name: str, error: Exception) -> ScorerError:
    return ScorerError(f"the scorer {name!r} raised {type(error).__name__}: {error}")


def _metered(output: Output, context: TrialContext) -> Output:
    meter = context.meter
    timing = Timing(
        model_s=meter.model_s,
        first_token_s=meter.first_token_s,
        first_answer_s=meter.first_answer_s,
        queue_s=meter.queue_s,
        retry_s=meter.retry_s,
        in_flight=meter.in_flight or None,
    )
    cached = context.cached and meter.attempts > 0
    calls = {"attempts": meter.attempts, "unknown_calls": meter.unknown}
    return replace(output, usage=context.usage, timing=timing, cached=cached, batched=context.batched, **calls)


def _failed(
    trial: Trial, error: BenchmarkError, context: TrialContext, tools: Tools, *, kind: FailureKind | None = None
) -> TrialResult:
    now, kind = tools.caller.clock.now(), kind or _kind_of(error)
    failure = Failure(kind=kind, message=tools.redact(str(error)), at=now, attempts=context.meter.attempts)
    outcome = Outcome.EXHAUSTED if FAILURES[kind] is Counts.WRONG else Outcome.FAILED
    # What the calls before the failing one consumed was consumed all the same.
    output = replace(_metered(Output(text="", outcome=outcome), context), cached=False)
    return TrialResult(trial=trial, outcome=outcome, output=output, failure=failure, finished_at=now)


def _kind_of(error: BenchmarkError) -> FailureKind:
    """Who is to blame for an error."""
    if isinstance(error, ProviderError):
        return error.kind
    if isinstance(error, ScorerError):
        return FailureKind.VERIFIER
    return FailureKind.SANDBOX if isinstance(error, SandboxError) else FailureKind.OURS
