"""One trial from start to end: the agent works, the scorers judge, a known error becomes a failure."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from benchmark.core.errors import BenchmarkError, FailureKind, ProviderError, SandboxError
from benchmark.core.protocols import Agent, Scorer
from benchmark.core.redact import Redactor
from benchmark.core.task import Task
from benchmark.core.trial import Failure, Outcome, Output, Score, Timing, Trial, TrialResult
from benchmark.core.work import Isolation, Work, WorkOutcome
from benchmark.engine.call import Caller
from benchmark.engine.context import Judge, TrialContext
from benchmark.engine.outside import context_of, gateway_name
from benchmark.engine.workshop import TaskContext, Workshop, failure_of

if TYPE_CHECKING:
    from benchmark.gateway.gateway import Gateway

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every trial of a model is done with."""

    agents: Mapping[str, Agent]
    scorers: Mapping[str, Scorer]
    caller: Caller
    redact: Redactor
    workshop: Workshop | None = None
    judge: Judge | None = None


async def attempt(trial: Trial, tools: Tools) -> TrialResult:
    """Attempt a trial. Errors we know become its failure; others surface."""
    if trial.sample.task is not None and tools.workshop is not None:
        return await attempt_task(trial, trial.sample.task, tools, tools.workshop)
    context = TrialContext(trial, tools.caller, tools.judge)
    try:
        output = _metered(await tools.agents[trial.agent].run(trial.sample, context), context)
        scores = await _scores(trial, output, context, tools) if output.outcome in _SCORED else {}
    except BenchmarkError as error:
        kind = FailureKind.SANDBOX if isinstance(error, SandboxError) else FailureKind.OURS
        return _failed(trial, error, context, tools, kind=kind)
    return TrialResult(trial=trial, outcome=output.outcome, output=output, scores=scores, finished_at=tools.caller.clock.now())


async def attempt_task(trial: Trial, task: Task, tools: Tools, workshop: Workshop) -> TrialResult:
    """Attempt a coding task in a workspace of its own, which is gone afterwards."""
    from benchmark.sandbox.workspace import Workspace

    async with workshop.slots:
        try:
            agent = tools.agents[trial.agent]
            async with (
                _gateway(trial, agent, workshop.isolation) as gateway,
                Workspace.open(task, isolation=workshop.isolation, gateway=gateway.address if gateway else None) as workspace,
            ):
                context = TaskContext(trial, tools.caller, workshop, task, workspace)
                if gateway is not None:
                    gateway.answers, context.gateway_key = context.outside, gateway.key
                error = await context.work(agent)
                if gateway is not None:
                    await gateway.hang_up()
                work = await context.judged(error)
                return await _task_result(trial, work, error, context, tools)
        except SandboxError as error:
            work = Work(outcome=WorkOutcome.SANDBOX_ERROR, seconds=0.0, isolation=workshop.isolation)
            failed = _failed(trial, error, TrialContext(trial, tools.caller), tools, kind=FailureKind.SANDBOX)
            return replace(failed, work=work)


@contextlib.asynccontextmanager
async def _gateway(trial: Trial, agent: Agent, isolation: Isolation) -> AsyncIterator[Gateway | None]:
    """The trial's own endpoint, for an agent that needs one."""
    if not getattr(agent, "uses_gateway", False):
        yield None
        return
    from benchmark.gateway.gateway import Gateway

    gateway = Gateway(model=gateway_name(trial.model), context_window=context_of(trial.model))
    # A sandbox without a network of its own can be led to a port of this machine only.
    async with gateway.open(on_port=bool({"network", "udp"} & set(isolation.missing))):
        yield gateway


async def _task_result(trial: Trial, work: Work, error: BenchmarkError | None, context: TaskContext, tools: Tools) -> TrialResult:
    transcript = tuple(context.transcript)
    if (failure := failure_of(work, error)) is not None:
        kind, message = failure
        failed = _failed(trial, BenchmarkError(message), context, tools, kind=kind)
        return replace(failed, work=work, transcript=transcript)
    output = _metered(Output(text=context.said), context)
    return TrialResult(
        trial=trial,
        outcome=output.outcome,
        output=output,
        scores=await _scores(trial, output, context, tools),
        finished_at=tools.caller.clock.now(),
        work=work,
        transcript=transcript,
    )


async def _scores(trial: Trial, output: Output, context: TrialContext, tools: Tools) -> dict[str, Score]:
    return {name: await tools.scorers[name].score(trial.sample, output, context) for name in trial.sample.scorers}


def _metered(output: Output, context: TrialContext) -> Output:
    meter = context.meter
    timing = Timing(model_s=meter.model_s, first_token_s=meter.first_token_s, retry_s=meter.retry_s, queue_s=meter.queue_s)
    cached = context.cached and meter.attempts > 0
    return replace(output, usage=context.usage, timing=timing, attempts=meter.attempts, cached=cached)


def _failed(
    trial: Trial, error: BenchmarkError, context: TrialContext, tools: Tools, *, kind: FailureKind = FailureKind.OURS
) -> TrialResult:
    kind = error.kind if isinstance(error, ProviderError) else kind
    now = tools.caller.clock.now()
    failure = Failure(kind=kind, message=tools.redact(str(error)), at=now, attempts=context.meter.attempts)
    # What the calls before the failing one consumed was consumed all the same.
    output = _metered(Output(text="", outcome=Outcome.FAILED), context)
    return TrialResult(trial=trial, outcome=Outcome.FAILED, output=output, failure=failure, finished_at=now)
