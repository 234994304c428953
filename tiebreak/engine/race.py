"""A race: contestants are asked together, and a strategy says from what they answered who need not be asked any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import Strategy
from tiebreak.core.trial import Outcome, TrialResult
from tiebreak.registry import make_strategy

AHEAD = 100
"""Samples a contestant may be ahead of the slowest one: what it was asked beyond a decision was asked for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How one trial ended, as far as a race goes by it."""

    contestant: str
    place: int
    group: str
    score: float | None
    second: float | None
    """By the second reading; a failure counts as wrong here."""
    cost_usd: float | None = None


def answered(result: TrialResult) -> Answered:
    """What a race takes from a result."""
    trial, primary = result.trial, result.primary
    score = primary.value if primary else None if result.outcome is Outcome.FAILED else 0.0
    second = primary.second if primary and primary.second is not None else score
    return Answered(
        contestant=trial.contestant.label,
        place=trial.place,
        group=trial.sample.group,
        score=score,
        second=0.0 if second is None else second,
        cost_usd=result.output.usage.cost_usd if result.output and result.output.usage else None,
    )


@dataclass(slots=True)
class _Row:
    """One sample as it fills."""

    group: str = ""
    answers: dict[str, list[Answered]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """One sample that everyone still in the race has answered: each one's mean over the repeats."""

    group: str
    scores: Mapping[str, float | None]
    second: Mapping[str, float | None]
    costs: Mapping[str, float | None] = field(default_factory=dict)


class _Guarded:
    """A strategy, maybe of the user's own, whose faults are told in a sentence."""

    def __init__(self, name: str, strategy: Strategy) -> None:
        self._name, self._strategy = name, strategy

    def observe(self, row: Observed) -> None:
        """Hand over the next sample."""
        self._asked(lambda: self._strategy.observe(row))

    def decided(self) -> Mapping[str, str]:
        """Who is decided, and why, as texts."""
        found = self._asked(self._strategy.decided)
        if not isinstance(found, Mapping):
            raise UsageError(f"the strategy {self._name}: decided() returned {found!r}; it should be contestants and reasons")
        return found

    def _asked(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Exception, SystemExit) as error:
            raise UsageError(f"the strategy {self._name} raised {type(error).__name__}: {error}") from error


class Race:
    """Keeps contestants together, and hands their answers to the strategy sample by sample, in the order of the plan."""

    def __init__(self, strategy: _Guarded, contestants: Sequence[str], *, repeats: int) -> None:
        self._strategy = strategy
        self._racing = list(contestants)
        self._repeats = repeats
        self._rows: dict[int, _Row] = {}
        self._front = 0
        """The first sample that not everyone has answered."""
        self._gone: set[str] = set()
        """Who stopped for another reason, and is waited for no more."""
        self._begun: dict[str, int] = {}
        """Whoever has begun, and how many samples from the beginning it has."""
        self._moved = asyncio.Event()

    @classmethod
    def by(cls, strategy: str, contestants: Sequence[str], *, planned: int, repeats: int) -> Race:
        """A race by a strategy that is named."""
        return cls(_Guarded(strategy, make_strategy(strategy, contestants, planned)), contestants, repeats=repeats)

    def replay(self, earlier: Iterable[Answered]) -> None:
        """Take what was answered before the run was stopped."""
        for answer in earlier:
            self._take(answer)

    async def may_ask(self, contestant: str, place: int) -> bool:
        """Wait until it is the turn of a contestant's sample; False when it need not be asked any more."""
        if contestant not in self._racing:
            return True
        self._begun.setdefault(contestant, 0)
        while contestant not in self._strategy.decided():
            if place < self._slowest() + AHEAD:
                return True
            self._moved.clear()
            await self._moved.wait()
        return False

    def reason(self, contestant: str) -> str:
        """Why a contestant is not asked any more; empty while it is."""
        return str(self._strategy.decided().get(contestant, ""))

    def observe(self, result: TrialResult) -> None:
        """Take a new result."""
        self._take(answered(result))

    def leave(self, contestant: str) -> None:
        """A contestant is over, for whatever reason; nobody waits for it."""
        self._gone.add(contestant)
        self._advance()
        self._moved.set()

    def _take(self, answer: Answered) -> None:
        if answer.contestant not in self._racing or answer.place < self._front:
            return
        row = self._rows.setdefault(answer.place, _Row(answer.group))
        row.answers.setdefault(answer.contestant, []).append(answer)
        self._advance()

    def _advance(self) -> None:
        """Hand over every sample that is complete now."""
        before = self._front
        while (row := self._rows.get(self._front)) is not None and all(map(row.answers.__contains__, waited := self._waited())):
            if any(len(row.answers[label]) < self._repeats for label in waited):
                break
            self._strategy.observe(_observed(row, waited))
            del self._rows[self._front]
            self._front += 1
        if self._front != before:
            self._moved.set()

    def _waited(self) -> list[str]:
        decided = self._strategy.decided()
        return [label for label in self._racing if label not in decided and label not in self._gone]

    def _slowest(self) -> int:
        """The front, unless it stands still for one that has not begun: a local server's models take turns."""
        return self._front if all(label in self._begun for label in self._waited()) else max(self._rows, default=self._front)


def _observed(row: _Row, labels: Sequence[str]) -> Observed:
    return Observed(
        row.group,
        {label: _mean([answer.score for answer in row.answers[label]]) for label in labels},
        {label: _mean([answer.second for answer in row.answers[label]]) for label in labels},
        {label: _mean([answer.cost_usd for answer in row.answers[label]]) for label in labels},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
