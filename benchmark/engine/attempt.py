"""One trial from start to end: the agent works, the scorers judge, a known error becomes a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from benchmark.core.errors import BenchmarkError, FailureKind, ProviderError
from benchmark.core.message import Message, Reply, Tool, Usage
from benchmark.core.model import ModelRef, Request
from benchmark.core.protocols import Agent, Scorer
from benchmark.core.redact import Redactor
from benchmark.core.trial import Failure, Outcome, Output, Score, Timing, Trial, TrialResult
from benchmark.engine.budget import cost_of
from benchmark.engine.call import Caller, Meter
from benchmark.engine.present import labels

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every trial of a model is done with."""

    agent: Agent
    scorers: Mapping[str, Scorer]
    caller: Caller
    redact: Redactor


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
            settings=_settings(trial),
            tools=tuple(tools),
            options=labels(trial.sample),
            stream=self._caller.stream,
            repeat=trial.repeat,
            nonce=trial.id,
        )
        reply = await self._caller.call_with_retries(request, self.meter)
        self.cached = self.cached and reply.cached
        if reply.usage is not None and not reply.cached:
            usage = _priced(reply.usage, trial.model)
            self.usage = usage if self.usage is None else self.usage + usage
        return reply


def _priced(usage: Usage, model: ModelRef) -> Usage:
    """The usage with what it costs, where that is known."""
    if model.price is None or (cost := cost_of(usage, model)) is None:
        return usage
    return replace(usage, cost_usd=cost)


def _settings(trial: Trial) -> Mapping[str, Any]:
    """What is sent along; a repeat asks with the next seed, or it would only repeat itself."""
    settings = trial.model.settings
    if trial.repeat and "seed" in settings:
        return {**settings, "seed": settings["seed"] + trial.repeat}
    return settings


async def attempt(trial: Trial, tools: Tools) -> TrialResult:
    """Attempt a trial. Errors we know become its failure; others surface."""
    context = TrialContext(trial, tools.caller)
    try:
        output = await tools.agent.run(trial.sample, context)
    except BenchmarkError as error:
        return _failed(trial, error, context, tools)
    output = _metered(output, context)
    scores: dict[str, Score] = {}
    if output.outcome in _SCORED:
        scores = {name: await tools.scorers[name].score(trial.sample, output, context) for name in trial.sample.scorers}
    return TrialResult(trial=trial, outcome=output.outcome, output=output, scores=scores, finished_at=tools.caller.clock.now())


def _metered(output: Output, context: TrialContext) -> Output:
    meter = context.meter
    timing = Timing(model_s=meter.model_s, first_token_s=meter.first_token_s, retry_s=meter.retry_s, queue_s=meter.queue_s)
    cached = context.cached and meter.attempts > 0
    return replace(output, usage=context.usage, timing=timing, attempts=meter.attempts, cached=cached)


def _failed(trial: Trial, error: BenchmarkError, context: TrialContext, tools: Tools) -> TrialResult:
    kind = error.kind if isinstance(error, ProviderError) else FailureKind.OURS
    now = tools.caller.clock.now()
    failure = Failure(kind=kind, message=tools.redact(str(error)), at=now, attempts=context.meter.attempts)
    # What the calls before the failing one consumed was consumed all the same.
    output = _metered(Output(text="", outcome=Outcome.FAILED), context)
    return TrialResult(trial=trial, outcome=Outcome.FAILED, output=output, failure=failure, finished_at=now)
