"""A batch of coding tasks in numbers: every attempt, and the models in the order they deserve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec

from benchmark.core.model import ModelRef
from benchmark.core.run import RunInfo
from benchmark.core.work import Work, WorkOutcome
from benchmark.store.reader import StoreReader

CONTROLS = frozenset({"nothing", "solution"})
"""Agents that prove a task, not a model: never ranked."""
RANKINGS = ("fastest", "most_efficient", "most_autonomous")
_QUERY = (
    "SELECT t.id, m.label, t.sample, t.agent, t.repeat, t.model_s, t.queue_s, t.retry_s, t.input_tokens, t.output_tokens,"
    " t.cost_usd, t.failure, t.failure_kind, t.finished_at, w.work, t.text FROM trials t JOIN models m ON m.model = t.model"
    " LEFT JOIN work w ON w.id = t.id AND w.finished_at = t.finished_at"
    " WHERE t.superseded = 0 ORDER BY t.model, t.sample, t.agent, t.repeat"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One model's attempt at one task with one agent."""

    id: str
    model: ModelRef
    agent: str
    sample: str
    task: str
    """The task's short name."""
    repeat: int
    work: Work
    model_s: float
    waits_s: float
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    failure: str
    said: str
    finished_at: str

    @property
    def solved(self) -> bool:
        """Whether the check passed."""
        return self.work.outcome is WorkOutcome.PASSED

    @property
    def busy_s(self) -> float:
        """Model time and tool time: the wait for a limit or a retry is nobody's speed."""
        return max(0.0, self.work.seconds - self.waits_s)

    @property
    def tokens(self) -> int:
        """Sent and generated."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A model with an agent, and all its attempts."""

    label: str
    model: ModelRef
    agent: str
    attempts: tuple[Attempt, ...]
    planned: int
    state: str = "not finished"
    message: str = ""

    @property
    def reference(self) -> bool:
        """A control or a baseline: shown, never ranked."""
        return self.model.reference or self.agent in CONTROLS

    @property
    def solved(self) -> tuple[Attempt, ...]:
        """The attempts that passed."""
        return tuple(a for a in self.attempts if a.solved)

    @property
    def first_try(self) -> int:
        """How many passed with nobody's help."""
        return sum(a.solved and a.work.first_try and not a.work.interventions for a in self.attempts)

    @property
    def solve_rate(self) -> float:
        """Share of the planned attempts that passed."""
        return len(self.solved) / self.planned if self.planned else 0.0

    @property
    def finished(self) -> bool:
        """Whether every planned attempt has a result."""
        return len(self.attempts) >= self.planned

    @property
    def cost_usd(self) -> float | None:
        """What all attempts cost; None as soon as one is unknown."""
        costs = [a.cost_usd for a in self.attempts]
        return None if not costs or any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def mean(self, of: Callable[[Attempt], float]) -> float:
        """A mean over the solved attempts."""
        return sum(map(of, self.solved)) / len(self.solved) if self.solved else 0.0

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How the attempts ended."""
        return Counter(a.work.outcome.value for a in self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One place in a ranking."""

    label: str
    rank: int
    """Equal contestants share a rank."""
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """A whole batch."""

    info: RunInfo
    tasks: tuple[str, ...]
    contestants: tuple[Contestant, ...]
    rankings: Mapping[str, tuple[Ranked, ...]]
    total_s: float
    """Wall time in which at least one model was at work."""
    caveats: tuple[str, ...] = ()

    @property
    def attempts(self) -> list[Attempt]:
        """All of them, in the order of the contestants."""
        return [attempt for contestant in self.contestants for attempt in contestant.attempts]

    def winner(self, ranking: str) -> str | None:
        """Who leads a ranking; None when nobody solved anything. A tie goes to who was named first."""
        return self.rankings[ranking][0].label if self.rankings[ranking] else None


def summarise_batch(reader: StoreReader) -> BatchSummary:
    """Everything the store knows of a batch."""
    info = reader.info
    attempts = _attempts(reader, info)
    contestants = _contestants(reader, info, attempts)
    return BatchSummary(
        info=info,
        tasks=tuple(dict.fromkeys(attempt.task for attempt in attempts)),
        contestants=contestants,
        rankings={name: _ranking(contestants, _VALUES[name]) for name in RANKINGS},
        total_s=_active_seconds(reader),
        caveats=_caveats(info, attempts, contestants),
    )


def _attempts(reader: StoreReader, info: RunInfo) -> list[Attempt]:
    models = {model.label: model for model in info.models}
    rows = list(reader.rows(_QUERY))
    shared = _ambiguous({row[2] for row in rows})
    return [_attempt(row, models[row[1]], shared) for row in rows]


def _ambiguous(samples: Iterable[str]) -> set[str]:
    """Short names that more than one task has."""
    counts = Counter(sample.rpartition("/")[2] for sample in samples)
    return {name for name, count in counts.items() if count > 1}


def _attempt(row: tuple[Any, ...], model: ModelRef, shared: set[str]) -> Attempt:
    identity, _, sample, agent, repeat, model_s, queue_s, retry_s, sent, made, cost, failure, kind, finished, work, said = row
    short = sample.rpartition("/")[2]
    return Attempt(
        id=identity,
        model=model,
        agent=agent,
        sample=sample,
        task=sample if short in shared else short,
        repeat=repeat,
        work=msgspec.json.decode(work, type=Work) if work else Work(outcome=_unworked(kind), seconds=0.0),
        model_s=model_s or 0.0,
        waits_s=(queue_s or 0.0) + (retry_s or 0.0),
        input_tokens=sent,
        output_tokens=made,
        cost_usd=cost,
        failure=failure or "",
        said=said or "",
        finished_at=finished,
    )


def _unworked(kind: str | None) -> WorkOutcome:
    """The outcome of a trial that ended before any work began."""
    return WorkOutcome.SANDBOX_ERROR if kind == "sandbox" else WorkOutcome.PROVIDER_ERROR


def _contestants(reader: StoreReader, info: RunInfo, attempts: Sequence[Attempt]) -> tuple[Contestant, ...]:
    agents = info.protocol.agents
    ends = {label: (state, message) for label, state, message in reader.rows(
        "SELECT m.label, e.state, e.message FROM ends e JOIN models m ON m.model = e.model ORDER BY e.rowid"
    )}  # fmt: skip
    planned = info.planned // len(agents)
    found = []
    for model in info.models:
        state, message = ends.get(model.label, ("not finished", ""))
        for agent in agents:
            own = tuple(a for a in attempts if a.model.label == model.label and a.agent == agent)
            label = model.label if len(agents) == 1 else f"{model.label} · {agent}"
            found.append(
                Contestant(label=label, model=model, agent=agent, attempts=own, planned=planned, state=state, message=message)
            )
    return tuple(found)


def _speed(contestant: Contestant) -> dict[str, float]:
    return {"seconds": round(contestant.mean(lambda a: a.busy_s), 3)}


def _efficiency(contestant: Contestant) -> dict[str, float]:
    return {
        "prompts_sent": contestant.mean(lambda a: a.work.prompts_sent),
        "model_calls": contestant.mean(lambda a: a.work.model_calls),
        "tokens": contestant.mean(lambda a: a.tokens),
    }


def _autonomy(contestant: Contestant) -> dict[str, float]:
    return {
        "not_solved_without_help": 1 - contestant.first_try / contestant.planned,
        "interventions": contestant.mean(lambda a: a.work.interventions),
        "questions": contestant.mean(lambda a: a.work.questions),
    }


_VALUES: Mapping[str, Callable[[Contestant], dict[str, float]]] = {
    "fastest": _speed,
    "most_efficient": _efficiency,
    "most_autonomous": _autonomy,
}


def _ranking(contestants: Iterable[Contestant], values_of: Callable[[Contestant], dict[str, float]]) -> tuple[Ranked, ...]:
    """Who solved more comes first; among equals the smaller values decide; equal in all is a tie."""
    able = [(c, values_of(c)) for c in contestants if c.solved and not c.reference]
    keyed = sorted((((-c.solve_rate, *values.values()), c.label, values) for c, values in able), key=lambda item: item[0])
    ranked: list[Ranked] = []
    for key, equal in groupby(keyed, key=lambda item: item[0]):
        rank = len(ranked) + 1
        ranked += [Ranked(label=label, rank=rank, values={"solve_rate": -key[0], **values}) for _, label, values in equal]
    return tuple(ranked)


def _active_seconds(reader: StoreReader) -> float:
    """The time in which any model was at work; overlapping work counts once, a pause before a resume not at all."""
    rows = reader.rows("SELECT at, seconds FROM ends")
    ends = [(datetime.fromisoformat(at).timestamp(), seconds) for at, seconds in rows]
    total, until = 0.0, float("-inf")
    for begin, end in sorted((end - seconds, end) for end, seconds in ends):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _caveats(info: RunInfo, attempts: Sequence[Attempt], contestants: Sequence[Contestant]) -> tuple[str, ...]:
    found = []
    if len({a.sample for a in attempts}) == 1 and info.protocol.repeats == 1:
        found.append("One task, run once, is an anecdote: --repeats and more tasks make it a comparison.")
    levels = {(a.work.isolation.level, a.work.isolation.missing) for a in attempts if a.work.isolation.level}
    for level, missing in sorted(levels):
        if level != "bubblewrap":
            found.append(f"Not fully sandboxed: the work ran with isolation {level!r}.")
        if missing:
            found.append(f"Limits that could not be set here: {', '.join(missing)}.")
    unchecked = sorted({a.task for a in attempts if a.work.outcome is WorkOutcome.UNCHECKED})
    if unchecked:
        found.append(f"Without a check, and so not judged: {', '.join(unchecked)}.")
    unfinished = [c.label for c in contestants if not c.finished]
    if unfinished:
        found.append(f"Not finished: {', '.join(unfinished)}.")
    return tuple(found)
