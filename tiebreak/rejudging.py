"""Answers that are there already, judged by models or by people: contestants are asked nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import UsageError
from tiebreak.core.events import ContestantFinished, Event
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import Watcher
from tiebreak.core.run import Pace, Protocol, RunInfo, RunSpec, scorer_name
from tiebreak.core.trial import Trial
from tiebreak.datasets.records import checked_rows, open_records
from tiebreak.engine.budget import refuse_unpriced
from tiebreak.engine.estimate import Estimate, estimate_kept
from tiebreak.engine.execute import Assignment, execute
from tiebreak.engine.fitness import refuse_unfit
from tiebreak.engine.plan import Plan
from tiebreak.engine.stop import Stop
from tiebreak.pipeline import ignore, same_plan, spent_before
from tiebreak.registry import did_you_mean, make_scorer
from tiebreak.store.judgements import JUDGEABLE
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store

_USUAL = "judge"
"""The scorer that asks judges where a run has none that does."""
_SOMEBODY = "people"
"""Who voted, where a file does not say."""
_VERDICTS = {
    **dict.fromkeys(("pass", "right", "yes", "true", "good", "correct"), 1.0),
    **dict.fromkeys(("fail", "wrong", "no", "false", "bad", "incorrect"), 0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A run whose answers are to be judged, and by whom."""

    folder: Path
    info: RunInfo
    plan: Plan | None
    """None where another tool asked: then the store alone says what was asked."""
    protocol: Protocol
    """As it is from now on."""
    pace: Pace

    @property
    def anew(self) -> bool:
        """Whether every answer is judged again; else only those that are not judged yet."""
        before, now = self.info.protocol, self.protocol
        judges = [[judge.digest for judge in protocol.judges] for protocol in (before, now)]
        return judges[0] != judges[1] or before.scorers != now.scorers

    def trials(self, store: Store, contestant: Contestant) -> Iterator[Trial]:
        """A contestant's trials, to be judged by the scorers of the protocol."""
        return store.trials(contestant) if self.plan is None else self.plan.trials(contestant)


def plan_judging(
    folder: Path, judges: Sequence[ModelRef] = (), scorer: str | None = None, *, max_cost_usd: float | None = None
) -> Judging:
    """What is to be judged and by whom: what is not said stays as it was. Refused before anything is paid for."""
    with StoreReader(folder) as reader:
        info = reader.info
    names = _scorers(info.protocol, scorer, named=bool(judges))
    chosen = tuple(judges) or info.protocol.judges
    if not chosen:
        raise UsageError(f"the scorer {names[0]!r} asks a model: name one with --judge")
    versions = tuple(f"{name}/{make_scorer(name).version}" for name in names)
    protocol = replace(info.protocol, judges=chosen, chosen_scorers=names, scorers=versions)
    if max_cost_usd is not None:
        refuse_unpriced(chosen)
    plan = None if info.protocol.imported else same_plan(info, folder, judges=chosen, scorers=names)
    paced = replace(info.pace, timeout_s=None, max_time_s=None, max_cost_usd=max_cost_usd or info.pace.max_cost_usd)
    return Judging(folder=folder, info=info, plan=plan, protocol=protocol, pace=paced)


def asks_judges(folder: Path, scorer: str | None) -> bool:
    """Whether scoring a run's answers again means asking a model."""
    with StoreReader(folder) as reader:
        protocol = reader.info.protocol
    names = [scorer] if scorer else [scorer_name(versioned) for versioned in protocol.scorers] if protocol.judges else []
    return any(make_scorer(name).needs_judge for name in names)


def _scorers(protocol: Protocol, scorer: str | None, *, named: bool) -> tuple[str, ...]:
    """The scorer that was named, or those the run has, or the usual one."""
    if scorer is not None:
        names: tuple[str, ...] = (scorer,)
    else:
        names = tuple(scorer_name(versioned) for versioned in protocol.scorers) if protocol.judges else (_USUAL,)
    if named and not any(make_scorer(name).needs_judge for name in names):
        raise UsageError(f"--judge: the scorer {names[0]!r} would not ask it; name one that does, as in --scorer judge")
    return names


def expected_judging(judging: Judging) -> Estimate:
    """What judging will cost, by the questions and answers there are."""
    waiting = JUDGEABLE if judging.anew else "unjudged IS NOT NULL"
    query = (
        "SELECT count(*), coalesce(avg(length(s.prompt)), 0), coalesce(avg(length(t.text)), 0)"
        f" FROM trials t JOIN samples s ON s.asked = t.asked WHERE t.superseded = 0 AND {waiting}"
    )
    with StoreReader(judging.folder) as reader:
        answers, prompt, answer = next(reader.rows(query))
    return estimate_kept(judging.protocol.judges, answers, prompt_characters=prompt, answer_characters=answer)


async def judge_answers(judging: Judging, *, watch: Watcher = ignore, stop: Stop | None = None) -> int:
    """Have kept answers judged and say how many were; what is judged is on disk before it is told."""
    judged = 0
    with Store.open(judging.folder, judging.info) as store:
        _refuse_unfit(judging, store)
        if judging.anew:
            store.judge_anew(judging.protocol, _as_scored(judging, store))
        ends: list[Event] = []
        async for event in store.committed(_without_ends(_executed(judging, store, stop), ends)):
            judged += not getattr(getattr(event, "result", None), "unjudged", True)
            await _told(watch, event)
        store.complete()
    for end in ends:
        await _told(watch, end)
    return judged


def _as_scored(judging: Judging, store: Store) -> Iterator[Trial]:
    """The trials of all contestants with the scorers they have been scored by so far."""
    before = judging.info.protocol
    own = judging.plan and same_plan(judging.info, judging.folder, judges=before.judges, scorers=before.chosen_scorers)
    return (trial for c in judging.info.contestants for trial in (own.trials(c) if own else store.trials(c)))


async def _told(watch: Watcher, event: Event) -> None:
    if (taking := watch(event)) is not None:
        await taking


def _executed(judging: Judging, store: Store, stop: Stop | None) -> AsyncIterator[Event]:
    waiting = store.unjudged_counts()
    spec = RunSpec(protocol=judging.protocol, contestants=judging.info.contestants, pace=judging.pace, results_dir=judging.folder)
    todo = [
        Assignment(contestant=c, trials=store.unjudged(judging.trials(store, c)), count=waiting[c.label], kept=waiting[c.label])
        for c in spec.contestants
    ]
    spent = spent_before(spec, store, this_session=True)
    return execute([one for one in todo if one.count], spec, stop=stop, already_spent=spent)


async def _without_ends(events: AsyncIterator[Event], ends: list[Event]) -> AsyncIterator[Event]:
    """How a contestant's own part ended stays as it was: it was asked nothing now."""
    async for event in events:
        if isinstance(event, ContestantFinished):
            ends.append(event)
        else:
            yield event


def _refuse_unfit(judging: Judging, store: Store) -> None:
    for contestant in judging.info.contestants[:1]:
        for trial in islice(judging.trials(store, contestant), 1):
            for name in judging.protocol.chosen_scorers:
                scorer = make_scorer(name)
                refuse_unfit(name, scorer, trial)
                if scorer.needs_workspace:
                    raise UsageError(f"the scorer {name!r} needs the workspace, which is gone: it cannot judge stored answers")


def keep_people_votes(folder: Path, path: Path) -> dict[str, int]:
    """Keep people's verdicts from a file beside a run's scores; how many each person gave. All or none are kept."""
    with StoreReader(folder) as reader:
        info = reader.info
        votes = list(_votes(reader, path))
    if not votes:
        raise UsageError(f"{path}: holds no votes; a vote is a row with sample, contestant and verdict")
    by_person: dict[str, list[tuple[str, float]]] = {}
    for person, trial, value in votes:
        by_person.setdefault(person, []).append((trial, value))
    with Store.open(folder, info) as store, store.all_or_nothing():
        for person, own in by_person.items():
            store.keep_votes(person, own)
    return {person: len(own) for person, own in by_person.items()}


def _votes(reader: StoreReader, path: Path) -> Iterator[tuple[str, str, float]]:
    """Each vote of a file: the person, the trial, and what they say of its answer."""
    for number, (_, row) in enumerate(checked_rows(open_records(path)), start=1):
        where = f"{path.name}, vote {number}"
        sample, verdict = _cell(row, where, "sample", "sample_id", "id"), _cell(row, where, "verdict", "score", "vote")
        person = str(row.get("person") or row.get("human") or _SOMEBODY)
        labels = [contestant.label for contestant in reader.info.contestants]
        label = labels[0] if len(labels) == 1 and "contestant" not in row else _cell(row, where, "contestant", "model")
        yield person, _trial_voted_on(reader, where, sample, label, int(row.get("repeat") or 0)), _verdict(verdict, where)


def _cell(row: Mapping[str, Any], where: str, *names: str) -> str:
    found = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if found is None:
        raise UsageError(f"{where}: there is no {names[0]!r}; a vote has the columns sample, contestant and verdict")
    return str(found).strip()


def _verdict(said: str, where: str) -> float:
    """What a person says, from 0 to 1."""
    if said.casefold() in _VERDICTS:
        return _VERDICTS[said.casefold()]
    try:
        value = float(said)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        words = "pass or fail, right or wrong, yes or no, or a number from 0 to 1"
        raise UsageError(f"{where}: the verdict {said!r} is not understood; it should be {words}")
    return value


def _trial_voted_on(reader: StoreReader, where: str, sample: str, label: str, repeat: int) -> str:
    if label not in reader.numbers:
        raise UsageError(f"{where}: the run has no contestant {label!r}{did_you_mean(label, list(reader.numbers))}")
    query = "SELECT id FROM trials WHERE superseded = 0 AND text IS NOT NULL AND sample = ? AND contestant = ? AND repeat = ?"
    row = next(reader.rows(query, sample, reader.numbers[label], repeat), None)
    if row is None:
        raise UsageError(f"{where}: the run has no answer of {label} to the sample {sample!r}")
    return str(row[0])
