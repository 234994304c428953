"""Runs made up without asking anyone: planted scores, prices and times, through the real store."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.contestant import AgentRef, Contestant, Prompting
from tiebreak.core.errors import FailureKind
from tiebreak.core.events import ContestantFinished, ContestantState, Event, TrialFinished
from tiebreak.core.message import Usage, user
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Protocol, RunInfo
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Failure, Outcome, Output, Score, Timing, Trial, TrialResult, trial_id
from tiebreak.core.work import Step, Work
from tiebreak.report.summary import Summary, summarise
from tiebreak.store.folder import DATABASE
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = {kind.value: kind for kind in FailureKind}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A model with what is planted for it: for each trial a score, an outcome without one, or a failure's kind."""

    label: str
    planted: Sequence[float | str]
    """Repeat by repeat, each in the order of the samples."""
    cost_usd: Sequence[float] | float | None = 0.001
    seconds: Sequence[float] | float = 0.5
    in_flight: int | None = 1
    seconds_alone: Sequence[float] = ()
    """Times of the samples when they were asked for again one at a time."""
    second: Sequence[float | None] = ()
    """What a second rule says of each answer."""
    reference: bool = False
    agent: str = "direct"
    settings: dict[str, Any] = field(default_factory=dict)
    state: ContestantState = ContestantState.FINISHED
    texts: Sequence[str] = ()
    """What it answers, trial by trial; something short by itself."""
    work: Work | None = None
    transcript: tuple[Step, ...] = ()
    worked: int = 1_000_000
    """In how many of its trials it did that work."""

    prompt: str = ""
    provider: str = "made"
    local: bool = False
    took_s: float = 1.0
    """From its first question to its last answer."""
    message: str = ""
    """Why it did not get through."""

    @property
    def ref(self) -> ModelRef:
        """The model."""
        return ModelRef(
            provider=self.provider,
            name=self.label,
            label=self.label,
            reference=self.reference,
            settings=self.settings,
            local=self.local,
        )

    @property
    def contestant(self) -> Contestant:
        """The whole contestant; one that is not just a model is called by all it is."""
        agent = AgentRef(name=self.agent, control=self.agent in ("nothing", "solution"))
        parts = [self.label, self.prompt, "" if self.agent == "direct" else self.agent]
        prompting = Prompting(name=self.prompt, system=self.prompt)
        return Contestant(label=" · ".join(filter(None, parts)), model=self.ref, agent=agent, prompting=prompting)


def samples(count: int, *, groups: Sequence[str] = (), categories: Sequence[str] = ()) -> list[Sample]:
    """So many samples."""
    return [
        Sample(
            id=f"s{i:05}",
            messages=(user(f"Question {i}?"),),
            targets=(f"answer {i}",),
            group=groups[i] if groups else "",
            category=categories[i] if categories else "",
        )
        for i in range(count)
    ]


def described(
    contestants: Sequence[Planted], count: int, *, repeats: int = 1, run_id: str = "run_made", **protocol: Any
) -> RunInfo:
    """What the store keeps about such a run."""
    kept: dict[str, Any] = {"dataset": "made", "dataset_digest": "00", "scorers": ("match/1",), "repeats": repeats}
    tasks = count * repeats if any(contestant.work for contestant in contestants) else 0
    return RunInfo(
        run_id=run_id,
        created_at=NOW,
        command="tiebreak run",
        protocol=Protocol(**{**kept, **protocol}),
        contestants=tuple(contestant.contestant for contestant in contestants),
        planned=count * repeats,
        planned_tasks=tasks,
        made_with="a test",
    )


class Trials:
    """The trials of the same models and samples, made once and used for many runs."""

    def __init__(self, chosen: Sequence[Sample]) -> None:
        self.samples = chosen
        self._asked = [sample.asked_digest for sample in chosen]
        self._made: dict[tuple[str, str, int], list[Trial]] = {}

    def of(self, contestant: Planted, repeat: int) -> list[Trial]:
        """A model's trials of one repeat."""
        key = contestant.contestant.label, contestant.agent, repeat
        if key not in self._made:
            who, digest = contestant.contestant, contestant.contestant.digest
            self._made[key] = [
                Trial(sample=sample, contestant=who, repeat=repeat, asked=asked, id=trial_id(asked, digest, repeat), place=place)
                for place, (sample, asked) in enumerate(zip(self.samples, self._asked, strict=True))
            ]
        return self._made[key]


def result_of(
    trial: Trial,
    planted: float | str,
    cost_usd: float | None,
    seconds: float,
    text: str = "",
    *,
    in_flight: int | None = 1,
    second: float | None = None,
) -> TrialResult:
    """A trial that ended as planted."""
    if isinstance(planted, str) and planted in FAILED:
        failure = Failure(kind=FAILED[planted], message=text or f"planted {planted}", at=NOW, attempts=1)
        return TrialResult(trial=trial, outcome=Outcome.FAILED, failure=failure, finished_at=NOW)
    usage = Usage(input_tokens=20, output_tokens=10, cost_usd=cost_usd)
    timing = Timing(model_s=seconds, in_flight=in_flight)
    if isinstance(planted, str):
        output = Output(text="", outcome=Outcome(planted), usage=usage, timing=timing)
        return TrialResult(trial=trial, outcome=output.outcome, output=output, finished_at=NOW)
    output = Output(text=text or f"said {planted:g}", usage=usage, timing=timing)
    scores = {"match": Score(value=float(planted), answer=text or "said", because="planted", second=second)}
    return TrialResult(trial=trial, outcome=Outcome.ANSWERED, output=output, scores=scores, finished_at=NOW)


def events_of(contestants: Iterable[Planted], trials: Trials) -> list[Event]:
    """Everything that happens in the run; a model with fewer planted than trials is not asked the rest."""
    found: list[Event] = []
    count = len(trials.samples)
    for contestant in contestants:
        for place, planted in enumerate(contestant.planted):
            seconds, cost = (
                v if v is None or isinstance(v, int | float) else v[place] for v in (contestant.seconds, contestant.cost_usd)
            )
            trial = trials.of(contestant, place // count)[place % count]
            text = contestant.texts[place] if contestant.texts else ""
            taken: dict[str, Any] = {
                "in_flight": contestant.in_flight,
                "second": contestant.second[place] if contestant.second else None,
            }
            result = result_of(trial, planted, cost, float(seconds or 0.0), text, **taken)
            if contestant.work is not None and place < contestant.worked:
                result = msgspec.structs.replace(result, work=contestant.work, transcript=contestant.transcript)
            found.append(TrialFinished(result))
        done = len(contestant.planted)
        label = contestant.contestant.label
        ended = {"state": contestant.state, "message": contestant.message, "seconds": contestant.took_s}
        found.append(ContestantFinished(contestant=label, done=done, **ended))
    return found


def write_run(
    folder: Path,
    contestants: Sequence[Planted],
    trials: Trials | int,
    *,
    repeats: int = 1,
    run_id: str = "run_made",
    **protocol: Any,
) -> Path:
    """Write a run with the store's own writer."""
    made = trials if isinstance(trials, Trials) else Trials(samples(trials))

    async def events() -> AsyncIterator[Event]:
        for event in events_of(contestants, made):
            yield event

    async def write(store: Store) -> None:
        async for _ in store.committed(events()):
            pass

    info = described(contestants, len(made.samples), repeats=repeats, run_id=run_id, **protocol)
    # In a thread of its own: an open browser keeps an event loop in the main one.
    with Store.open(folder, info) as store, ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(write(store))).result()
    write_timings(folder, contestants, made)
    return folder


def write_timings(folder: Path, contestants: Sequence[Planted], trials: Trials) -> None:
    """Write the times of samples that were asked for again one at a time."""
    rows = [
        (number, trial.asked, seconds)
        for number, contestant in enumerate(contestants, start=1)
        for trial, seconds in zip(trials.of(contestant, 0), contestant.seconds_alone, strict=False)
    ]
    if rows:
        with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
            connection.executemany("INSERT INTO timings (contestant, asked, model_s) VALUES (?, ?, ?)", rows)


def summary_of(folder: Path) -> Summary:
    """The run's summary."""
    with StoreReader(folder) as reader:
        return summarise(reader)
