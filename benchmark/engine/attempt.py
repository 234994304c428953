"""One trial from start to end: the agent works, the scorers judge, a known error becomes a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from benchmark.core.errors import BenchmarkError, FailureKind, ProviderError, UsageError
from benchmark.core.message import Likelihood, Message, Reply, Tool, Usage
from benchmark.core.model import ModelRef, Request
from benchmark.core.protocols import Agent, Scorer
from benchmark.core.redact import Redactor
from benchmark.core.trial import Failure, Outcome, Output, Score, Timing, Trial, TrialResult
from benchmark.engine.budget import cost_of
from benchmark.engine.call import Caller, Meter
from benchmark.engine.present import labels
from benchmark.registry import provider_class

_SCORED = (Outcome.ANSWERED, Outcome.CUT_OFF)
_MOST_STOPS = 4
"""So many a request may have, at most providers; the agent cuts at all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every trial of a model is done with."""

    agent: Agent
    scorers: Mapping[str, Scorer]
    caller: Caller
    redact: Redactor
    judge: Judge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The model that judges, and the way to it."""

    model: ModelRef
    caller: Caller


class TrialContext:
    """A trial's way to its model: every call is made and metered here."""

    __slots__ = ("_caller", "_judge", "_trial", "cached", "meter", "usage")

    def __init__(self, trial: Trial, caller: Caller, judge: Judge | None = None) -> None:
        self._trial = trial
        self._caller = caller
        self._judge = judge
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

    async def likelihood(self, messages: Sequence[Message], continuation: str) -> Likelihood:
        """Have the trial's model weigh a continuation."""
        return await self._caller.weigh(self._trial.model.name, messages, continuation, self.meter)

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Call the judge. Its fault is nobody's answer: it makes the trial fail, never a score."""
        judge = self._judge
        if judge is None:
            raise UsageError("a scorer needs a model that judges: name one with --judge")
        request = Request(
            model=judge.model.name,
            messages=tuple(messages),
            settings=judge.model.settings,
            schema=schema,
            repeat=self._trial.repeat,
            nonce=self._trial.id,
        )
        try:
            reply = await judge.caller.call_with_retries(request, Meter())
        except ProviderError as error:
            raise ProviderError(f"the judge {judge.model.label} failed: {error}", kind=FailureKind.VERIFIER) from error
        usage = None if reply.usage is None else _priced(reply.usage, judge.model)
        return replace(reply, usage=usage)


def _priced(usage: Usage, model: ModelRef) -> Usage:
    """The usage with what it costs, where that is known."""
    if model.price is None or (cost := cost_of(usage, model)) is None:
        return usage
    return replace(usage, cost_usd=cost)


def _settings(trial: Trial) -> Mapping[str, Any]:
    """What is sent along; a repeat asks with the next seed, or it would only repeat itself."""
    settings = trial.model.settings
    stop = trial.sample.stop
    if stop and "stop" not in settings and "stop" not in provider_class(trial.model.provider).unsupported:
        settings = {**settings, "stop": list(stop[:_MOST_STOPS])}
    if trial.repeat and "seed" in settings:
        return {**settings, "seed": settings["seed"] + trial.repeat}
    return settings


async def attempt(trial: Trial, tools: Tools) -> TrialResult:
    """Attempt a trial. Errors we know become its failure; others surface."""
    context = TrialContext(trial, tools.caller, tools.judge)
    scores: dict[str, Score] = {}
    try:
        output = _metered(await tools.agent.run(trial.sample, context), context)
        if output.outcome in _SCORED:
            scores = {name: await tools.scorers[name].score(trial.sample, output, context) for name in trial.sample.scorers}
    except BenchmarkError as error:
        return _failed(trial, error, context, tools)
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
