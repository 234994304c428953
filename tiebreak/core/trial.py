"""One sample attempted by one contestant, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import FailureKind
from tiebreak.core.message import Message, ToolCall, Usage
from tiebreak.core.model import ModelRef
from tiebreak.core.record import Record
from tiebreak.core.sample import Sample
from tiebreak.core.work import Step, Work


class Trial(Record, frozen=True, kw_only=True):
    """Sample × contestant × repeat."""

    sample: Sample
    contestant: Contestant
    repeat: int
    asked: str
    """Digest of what the model is shown."""
    id: str
    """Digest of everything that affects the output, and of nothing else."""
    place: int = 0
    """The position of its sample in the plan, from 0."""
    kept: KeptAnswer | None = None
    """An answer from an earlier session that has still to be judged: the contestant is not asked again."""

    @property
    def model(self) -> ModelRef:
        """The contestant's model."""
        return self.contestant.model


def trial_id(asked_digest: str, contestant_digest: str, repeat: int) -> str:
    """Identity of a trial: the same words to the same contestant, the n-th time."""
    return digest_of_texts((asked_digest, contestant_digest, str(repeat)))


def make_trial(sample: Sample, contestant: Contestant, repeat: int = 0) -> Trial:
    """The trial of a sample as it is shown; for many of one contestant, see `Plan.trials`."""
    asked = sample.asked_digest
    identity = trial_id(asked, contestant.digest, repeat)
    return Trial(sample=sample, contestant=contestant, repeat=repeat, asked=asked, id=identity)


class Outcome(StrEnum):
    """How the model's turn ended. Everything but `answered` and `cut_off` has no score."""

    ANSWERED = "answered"
    CUT_OFF = "cut_off"
    """Stopped by the length limit: scored, and never right."""
    REFUSED = "refused"
    EMPTY = "empty"
    FILTERED = "filtered"
    EXHAUSTED = "exhausted"
    """The model's context was used up before it could answer."""
    FAILED = "failed"
    """Nobody answered: see the failure's kind for who is to blame."""


class Timing(Record, frozen=True, kw_only=True):
    """Where a trial's time went, in seconds; waits are apart from the model's own time."""

    model_s: float = 0.0
    first_token_s: float | None = None
    """To the first piece of a streamed answer, thoughts included."""
    first_answer_s: float | None = None
    """To the first piece that is no thought."""
    queue_s: float = 0.0
    retry_s: float = 0.0
    in_flight: int | None = None
    """The requests of this run that were with the model's server when this one was sent, itself included."""


class Output(Record, frozen=True, kw_only=True):
    """What an agent brought back: the text that is scored and what it took."""

    text: str
    outcome: Outcome = Outcome.ANSWERED
    thinking: str = ""
    usage: Usage | None = None
    timing: Timing = msgspec.field(default_factory=Timing)
    attempts: int = 1
    """Model calls sent, failed ones included."""
    unknown_calls: int = 0
    """Those of them of which nobody knows what they cost: the cost is then at least what the usage comes to."""
    cached: bool = False
    """Every reply was remembered from an earlier run: it counts neither in cost nor in speed."""
    batched: bool = False
    """It came in a batch: how long it took says nothing."""
    messages: tuple[Message, ...] = ()
    """Everything said after the sample's own messages, where there is more to it than one answer in words."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Every tool the model asked for, in order."""
        return tuple(call for message in self.messages for call in message.tool_calls)


class Score(Record, frozen=True, kw_only=True):
    """One scorer's verdict."""

    value: float
    """1 is right, 0 is wrong, between is partly right."""
    answer: str | None = None
    """What was taken as the answer; None when none could be found."""
    because: str = ""
    usage: Usage | None = None
    """What the judging itself consumed, where a model judged."""
    grades: Mapping[str, float] = msgspec.field(default_factory=dict)
    """By criterion, from 0 to 1, where a rubric has several."""
    second: float | None = None
    """What a second, independent rule says of the same answer; None where there is no such rule."""

    @classmethod
    def of(cls, right: bool, *, answer: str | None, because: str = "", second: bool | None = None) -> Score:
        """A right-or-wrong score."""
        other = None if second is None else float(second)
        return cls(value=1.0 if right else 0.0, answer=answer, because=because, second=other)


class Judgement(Record, frozen=True, kw_only=True):
    """What one judge made of one answer, or that it failed."""

    scorer: str
    judge: str
    """The judge's label."""
    score: Score | None = None
    """None where it gave no verdict."""
    reply_text: str = ""
    """Everything it said, its reasoning included."""
    usage: Usage | None = None
    calls: int = 0
    """Calls sent, failed ones included."""
    seconds: float = 0.0
    failure: Failure | None = None


class KeptAnswer(Record, frozen=True, kw_only=True):
    """An answer that waits for a judge, with what was made of it so far."""

    output: Output
    scores: Mapping[str, Score] = msgspec.field(default_factory=dict)
    judgements: tuple[Judgement, ...] = ()
    """Verdicts that stand; these judges are not asked again."""


class Failure(Record, frozen=True, kw_only=True):
    """Why a trial has no result. A failure is never a zero."""

    kind: FailureKind
    message: str
    at: datetime
    attempts: int = 0


class TrialResult(Record, frozen=True, kw_only=True):
    """How one trial ended: with scores, with an outcome that has none, or with a failure."""

    trial: Trial
    outcome: Outcome
    output: Output | None = None
    scores: Mapping[str, Score] = msgspec.field(default_factory=dict)
    judgements: tuple[Judgement, ...] = ()
    """What each judge said now; earlier verdicts of a kept answer are not repeated."""
    unjudged: bool = False
    """Some judge has still to give its verdict."""
    failure: Failure | None = None
    finished_at: datetime
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    work: Work | None = None
    """What the attempt amounted to, when the sample is a coding task."""
    transcript: tuple[Step, ...] = ()

    @property
    def primary(self) -> Score | None:
        """The score that ranks, where there is one."""
        return self.scores.get(self.trial.sample.scorers[0]) if self.scores else None
