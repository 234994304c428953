"""Answers that models judge: each judge is asked by itself, its calls are counted apart, its failures are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

from msgspec.structs import replace

from tiebreak.core.errors import FailureKind, JudgeError, ProviderError, ScorerError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import Message, Reply, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.preference import FIRST, SECOND, TIE, AnswerPair, Preference
from tiebreak.core.protocols import ComparesAnswers, Scorer
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Failure, Judgement, Output, Score, Trial
from tiebreak.engine.budget import priced
from tiebreak.engine.call import Caller, Meter
from tiebreak.engine.stop import ContestantOver, Interrupted
from tiebreak.engine.turns import score_of

Verdict = TypeVar("Verdict")

_HOPELESS = 20
"""So many answers that a judge fails on one after another mean that it is gone."""


@dataclass(slots=True, kw_only=True)
class JudgeModel:
    """A model that judges, and the way to it; shared by all trials."""

    model: ModelRef
    caller: Caller
    takes_schema: bool = True
    """False once its server has refused a request for its having a schema."""
    over: JudgeError | None = None
    """Why it is not asked any more."""
    _failed_in_a_row: int = 0

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.model.label

    def count(self, failure: Failure | None) -> None:
        """Take note of a verdict or a failure; a judge is over when every further call would fail alike."""
        self._failed_in_a_row = 0 if failure is None else self._failed_in_a_row + 1
        if failure is None or self.over is not None:
            return
        if failure.kind.ends_model or self._failed_in_a_row >= _HOPELESS:
            self.over = JudgeError(failure.message, kind=failure.kind)


class JudgeCalls:
    """What one judge is asked about one answer, or about two."""

    def __init__(self, judge: JudgeModel, *, repeat: int, nonce: str) -> None:
        self._judge = judge
        self._repeat = repeat
        self._nonce = nonce
        self.meter = Meter()
        self.usage: Usage | None = None
        self.replies: list[str] = []

    async def ask(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Call the judge. Its fault is nobody's answer: it is a JudgeError, never a score."""
        judge = self._judge
        if judge.over is not None:
            raise judge.over
        try:
            reply = await self._with_schema(messages, schema) if judge.takes_schema else await self._call(messages, None)
        except ProviderError as error:
            raise JudgeError(f"the judge {judge.label} failed: {error}", kind=error.kind) from error
        except ContestantOver as over:
            kind = FailureKind.BUDGET if over.state is ContestantState.OUT_OF_BUDGET else FailureKind.TRANSIENT
            judge.over = JudgeError(f"the judge {judge.label} is not asked any more: {over}", kind=kind)
            raise judge.over from over
        self.replies.append(f"<think>{reply.thinking}</think>\n{reply.text}" if reply.thinking else reply.text)
        return self._counted(reply)

    async def outcome(self, verdict: Awaitable[Verdict]) -> tuple[Verdict | None, Failure | None]:
        """A verdict that asks this judge; where there is none, why. The judge's failures are counted."""
        found, failure, judge = None, None, self._judge
        try:
            found = await verdict
        except ScorerError as error:
            kind = error.kind if isinstance(error, JudgeError) else FailureKind.MALFORMED
            message = judge.caller.redact(str(error))
            failure = Failure(kind=kind, message=message, at=judge.caller.clock.now(), attempts=self.meter.attempts)
        except Interrupted:
            message = "the run was stopped before the answer was judged"
            failure = Failure(kind=FailureKind.UNJUDGED, message=message, at=judge.caller.clock.now())
        if self.meter.attempts:
            judge.count(failure)
        return found, failure

    async def _with_schema(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Many servers of a dialect know no schemas, and refuse them: the words of the request then have to do."""
        try:
            return await self._call(messages, schema)
        except ProviderError as error:
            if error.kind is not FailureKind.BAD_REQUEST:
                raise
        reply = await self._call(messages, None)
        self._judge.takes_schema = False
        return reply

    async def _call(self, messages: Sequence[Message], schema: Mapping[str, Any] | None) -> Reply:
        model = self._judge.model
        request = Request(
            model=model.name,
            messages=tuple(messages),
            settings=model.sent,
            schema=schema,
            repeat=self._repeat,
            nonce=self._nonce,
        )
        return await self._judge.caller.call_with_retries(request, self.meter)

    def _counted(self, reply: Reply) -> Reply:
        if reply.usage is None or reply.cached:
            return replace(reply, usage=None)
        usage = priced(reply.usage, self._judge.model)
        self.usage = usage if self.usage is None else self.usage + usage
        return replace(reply, usage=usage)


class JudgedContext:
    """A trial's context as a judging scorer gets it: with the way to one judge."""

    def __init__(self, context: Any, calls: JudgeCalls) -> None:
        self._context = context
        self._calls = calls

    async def judge(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Reply:
        """Call the judge."""
        return await self._calls.ask(messages, schema)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


async def judge_answer(
    name: str, scorer: Scorer, *, trial: Trial, output: Output, context: Any, judges: Sequence[JudgeModel]
) -> tuple[Judgement, ...]:
    """Every judge's word on an answer, all at once; those that have given theirs before are not asked again."""
    before = {one.judge: one for one in trial.kept.judgements if one.scorer == name} if trial.kept else {}
    asked = [judge for judge in judges if judge.label not in before]
    now = await asyncio.gather(*(_judgement(name, scorer, judge, output, trial=trial, context=context) for judge in asked))
    return (*before.values(), *now)


async def _judgement(name: str, scorer: Scorer, judge: JudgeModel, output: Output, *, trial: Trial, context: Any) -> Judgement:
    """One judge's verdict; what it fails on is written down with what it cost."""
    calls = JudgeCalls(judge, repeat=trial.repeat, nonce=trial.id)
    score, failure = await calls.outcome(score_of(scorer, trial.sample, output, JudgedContext(context, calls)))
    return Judgement(
        scorer=name,
        judge=judge.label,
        score=score,
        reply_text="\n\n".join(calls.replies),
        usage=calls.usage,
        calls=calls.meter.attempts,
        seconds=calls.meter.model_s,
        failure=failure,
    )


async def prefer_answer(name: str, scorer: ComparesAnswers, judge: JudgeModel, pair: AnswerPair) -> Preference:
    """Which of two answers a judge prefers in this order. Where no judge is needed to say so, none is asked."""
    plain = _plain_preference(pair)
    about = Preference(
        sample=pair.sample.id,
        first=pair.first,
        second=pair.second,
        scorer=name,
        judge=judge.label,
        local=judge.model.local,
    )
    if plain is not None:
        return replace(about, better=plain[0], because=plain[1])
    calls = JudgeCalls(judge, repeat=pair.repeat, nonce=f"{pair.first} {pair.second}")
    asked = scorer.prefer(pair.sample, pair.first_text, pair.second_text, JudgedContext(None, calls))
    verdict, failure = await calls.outcome(asked)
    return replace(
        about,
        better=None if verdict is None else verdict[0],
        because="" if verdict is None else verdict[1],
        reply_text="\n\n".join(calls.replies),
        usage=calls.usage,
        calls=calls.meter.attempts,
        seconds=calls.meter.model_s,
        failure=failure,
    )


def _plain_preference(pair: AnswerPair) -> tuple[int, str] | None:
    """The verdict where it needs no judge: on the same answer twice, and on an empty one."""
    first, second = answer_text(pair.first_text).strip(), answer_text(pair.second_text).strip()
    if first == second:
        return TIE, "both answers are the same"
    if not first or not second:
        return (FIRST if first else SECOND), "the other answer is empty"
    return None


def combined(judgements: Sequence[Judgement], *, majority: bool) -> Score | None:
    """What several judges say together; None until every one of them has given its verdict."""
    scores = [one.score for one in judgements if one.score is not None]
    if not scores or len(scores) < len(judgements):
        return None
    if len(scores) == 1:
        return scores[0]
    usages = [score.usage for score in scores if score.usage is not None]
    grades = {name: fmean(score.grades[name] for score in scores) for name in scores[0].grades}
    return Score(
        value=_majority([score.value for score in scores]) if majority else fmean(score.value for score in scores),
        answer=scores[0].answer,
        because="\n".join(f"{one.judge}: {one.score.because}" for one in judgements if one.score is not None),
        usage=sum(usages[1:], usages[0]) if usages else None,
        grades=grades,
    )


def _majority(values: Sequence[float]) -> float:
    """1 or 0 as more than half of the judges say; an even split is one half."""
    passed, failed = sum(value >= 0.5 for value in values), sum(value < 0.5 for value in values)
    return 0.5 if passed == failed else float(passed > failed)
