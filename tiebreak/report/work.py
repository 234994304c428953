"""Coding tasks in numbers: what a contestant's attempts took, and who is fastest, most efficient, most autonomous."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from tiebreak.core.contestant import Contestant
from tiebreak.core.record import Record
from tiebreak.core.work import Work, WorkOutcome
from tiebreak.report.work_tests import suite_summary
from tiebreak.store.reader import StoreReader

_LONGEST_REASON = 400
_QUERY = (
    "SELECT t.contestant, t.sample, t.queue_s, t.retry_s, t.input_tokens, t.output_tokens, t.failure,"
    " w.work FROM trials t JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at"
    " WHERE t.superseded = 0 ORDER BY t.contestant, t.sample, t.repeat"
)


class Attempt(Record, frozen=True, kw_only=True):
    """One attempt at one task, without its texts."""

    sample: str
    task: str
    """The task's short name."""
    work: Work
    """What it took; its diff and what the check said are left out."""
    waits_s: float
    tokens: int
    reason: str
    """Why it was not solved: the failure, or the last line of the check."""
    tests: str = ""
    """How many tests of the check passed, and of how many; empty where it runs no suite."""

    @property
    def outcome(self) -> WorkOutcome:
        """How it ended."""
        return self.work.outcome

    @property
    def solved(self) -> bool:
        """Whether the check passed."""
        return self.outcome is WorkOutcome.PASSED

    @property
    def alone(self) -> bool:
        """Whether it passed with nobody's help."""
        return solved_alone(self.work)

    @property
    def busy_s(self) -> float:
        """Model time and tool time: the wait for a limit or a retry is nobody's speed."""
        return max(0.0, self.work.seconds - self.waits_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSummary:
    """What a contestant's attempts at coding tasks came to."""

    planned: int
    attempts: tuple[Attempt, ...] = ()

    @property
    def solved(self) -> tuple[Attempt, ...]:
        """The attempts that passed."""
        return tuple(attempt for attempt in self.attempts if attempt.solved)

    @property
    def solved_alone(self) -> int:
        """How many passed with nobody's help."""
        return sum(attempt.alone for attempt in self.attempts)

    @property
    def solve_rate(self) -> float:
        """Share of the planned attempts that passed."""
        return len(self.solved) / self.planned if self.planned else 0.0

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How the attempts ended."""
        return Counter(attempt.outcome.value for attempt in self.attempts)

    def mean(self, of: Callable[[Attempt], float]) -> float:
        """A mean over the solved attempts."""
        return sum(map(of, self.solved)) / len(self.solved) if self.solved else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One place in a ranking."""

    label: str
    rank: int
    """Equal contestants share a rank."""
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """All contestants on the coding tasks of a run."""

    tasks: tuple[str, ...]
    rankings: Mapping[str, tuple[Ranked, ...]]
    total_s: float
    """Wall time in which at least one contestant was at work."""


RANKINGS: Mapping[str, Callable[[WorkSummary], dict[str, float]]] = {
    "fastest": lambda work: {"seconds": round(work.mean(lambda a: a.busy_s), 3)},
    "most_efficient": lambda work: {
        "prompts_sent": work.mean(lambda a: a.work.prompts_sent),
        "model_calls": work.mean(lambda a: a.work.model_calls),
        "tokens": work.mean(lambda a: a.tokens),
    },
    "most_autonomous": lambda work: {
        "not_solved_without_help": 1 - work.solved_alone / work.planned,
        "interventions": work.mean(lambda a: a.work.interventions),
        "questions": work.mean(lambda a: a.work.questions),
    },
}
"""What each ranking goes by; smaller values are better."""


def read_attempts(reader: StoreReader) -> dict[int, list[Attempt]]:
    """Every attempt that counts, by the number of its contestant."""
    short = short_names(sample for (sample,) in reader.rows("SELECT DISTINCT sample FROM samples"))
    attempts: dict[int, list[Attempt]] = {}
    for contestant, *row in reader.rows(_QUERY):
        attempts.setdefault(contestant, []).append(_attempt(row, short))
    return attempts


def short_names(samples: Iterable[str]) -> dict[str, str]:
    """Each task by its last name, where only one has it."""
    names = {sample: sample.rpartition("/")[2] for sample in samples}
    counts = Counter(names.values())
    return {sample: name if counts[name] == 1 else sample for sample, name in names.items()}


def _attempt(row: Sequence[Any], short: Mapping[str, str]) -> Attempt:
    sample, queue_s, retry_s, sent, made, failure, encoded = row
    work = msgspec.json.decode(encoded, type=Work)
    check_lines = work.check_output.strip().splitlines() or ["the check said nothing"]
    return Attempt(
        tests=suite_summary(work),
        sample=sample,
        task=short[sample],
        work=replace(work, check_output="", tests=(), changes=replace(work.changes, diff="")),
        waits_s=(queue_s or 0.0) + (retry_s or 0.0),
        tokens=(sent or 0) + (made or 0),
        reason=(failure or suite_summary(work) or check_lines[-1])[:_LONGEST_REASON],
    )


def solved_alone(work: Work) -> bool:
    """Whether the check passed with nobody's help."""
    return work.outcome is WorkOutcome.PASSED and work.first_try and not work.interventions


def compare_tasks(reader: StoreReader, working: Sequence[tuple[Contestant, WorkSummary]]) -> TaskComparison:
    """The rankings of everyone who solved something; controls and baselines are in none."""
    tasks = dict.fromkeys(attempt.task for _, work in working for attempt in work.attempts)
    able = [(contestant.label, work) for contestant, work in working if work.solved and not contestant.reference]
    rankings = {name: _ranking(able, values_of) for name, values_of in RANKINGS.items()}
    return TaskComparison(tasks=tuple(tasks), rankings=rankings, total_s=_active_seconds(reader))


def _ranking(
    working: Iterable[tuple[str, WorkSummary]], values_of: Callable[[WorkSummary], dict[str, float]]
) -> tuple[Ranked, ...]:
    """Who solved more comes first; among equals the smaller values decide; equal in all is a tie."""
    valued = [(label, work.solve_rate, values_of(work)) for label, work in working]
    keyed = sorted((((-rate, *values.values()), label, values) for label, rate, values in valued), key=lambda item: item[0])
    ranked: list[Ranked] = []
    for key, equal in groupby(keyed, key=lambda item: item[0]):
        rank = len(ranked) + 1
        ranked += [Ranked(label=label, rank=rank, values={"solve_rate": -key[0], **values}) for _, label, values in equal]
    return tuple(ranked)


def _active_seconds(reader: StoreReader) -> float:
    """The time in which anyone was at work; overlapping work counts once, a pause before a resume not at all."""
    rows = reader.rows("SELECT at, seconds FROM ends")
    ends = [(datetime.fromisoformat(at).timestamp(), seconds) for at, seconds in rows]
    total, until = 0.0, float("-inf")
    for begin, end in sorted((end - seconds, end) for end, seconds in ends):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
