"""Answers of two contestants at a time, compared by models: contestants are asked nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import combinations, groupby
from pathlib import Path

from tiebreak.core.errors import UsageError
from tiebreak.core.events import PairJudged
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import ComparesAnswers, Watcher
from tiebreak.core.run import Pace, RunInfo, RunSpec
from tiebreak.engine.budget import refuse_unpriced
from tiebreak.engine.execute import execute_pairs
from tiebreak.engine.stop import Stop
from tiebreak.pipeline import ignore, spent_before
from tiebreak.registry import make_scorer
from tiebreak.store.preferences import Answered, PairToCompare
from tiebreak.store.reader import StoreReader
from tiebreak.store.store import Store

MOST_IN_ALL_PAIRS = 4
"""So many contestants are compared pair by pair on every sample; more of them in a circle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """A run whose answers are to be compared, and by whom."""

    folder: Path
    info: RunInfo
    scorer: str
    judges: tuple[ModelRef, ...]
    pace: Pace

    @property
    def kept_as(self) -> str:
        """The scorer as verdicts are kept under it."""
        return f"{self.scorer}/{make_scorer(self.scorer).version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of it."""

    asked: int
    """Verdicts given now."""
    missing: int
    """Verdicts that are still missing, because a judge failed or was stopped."""
    pairs: int
    """Pairs of answers the schedule has, each in both orders."""
    all_pairs: int
    """Pairs there would be if everyone were compared with everyone on every sample."""


def compares_answers(scorer: str | None) -> bool:
    """Whether a scorer compares two answers instead of judging one."""
    return scorer is not None and isinstance(make_scorer(scorer), ComparesAnswers)


def plan_comparing(folder: Path, judges: Sequence[ModelRef], scorer: str, *, max_cost_usd: float | None = None) -> Comparing:
    """What is to be compared and by whom. Refused before anything is paid for."""
    with StoreReader(folder) as reader:
        info = reader.info
    chosen = tuple(judges) or info.protocol.judges
    if not chosen:
        raise UsageError(f"the scorer {scorer!r} asks a model: name one with --judge")
    if len(_compared_labels(info)) < 2:
        raise UsageError(f"{info.run_id} has one contestant: {scorer} compares two or more")
    if max_cost_usd is not None:
        refuse_unpriced(chosen)
    pace = replace(info.pace, timeout_s=None, max_time_s=None, max_cost_usd=max_cost_usd or info.pace.max_cost_usd)
    return Comparing(folder=folder, info=info, scorer=scorer, judges=chosen, pace=pace)


async def compare_answers(comparing: Comparing, *, watch: Watcher = ignore, stop: Stop | None = None) -> Compared:
    """Have the judges compare what they have not compared yet; every verdict is on disk before it is told."""
    labels = [judge.label for judge in comparing.judges]
    with Store.open(comparing.folder, comparing.info) as store:
        given = store.compare_by(comparing.kept_as, labels)
        answers = store.comparable_answers(_compared_labels(comparing.info))
        todo = [
            PairToCompare(first=one, second=other, judges=left)
            for a, b in scheduled_pairs(answers)
            for one, other in ((a, b), (b, a))
            if (left := tuple(label for label in labels if (one.trial, other.trial, label) not in given))
        ]
        asked = await _compare(comparing, store, todo, watch, stop)
    return Compared(
        asked=asked,
        missing=sum(len(pair.judges) for pair in todo) - asked,
        pairs=sum(1 for _ in scheduled_pairs(answers)),
        all_pairs=sum(len(own) * (len(own) - 1) // 2 for own in _by_sample(answers)),
    )


async def _compare(comparing: Comparing, store: Store, todo: Sequence[PairToCompare], watch: Watcher, stop: Stop | None) -> int:
    info, asked = comparing.info, 0
    protocol = replace(info.protocol, judges=comparing.judges)
    spec = RunSpec(protocol=protocol, contestants=info.contestants, pace=comparing.pace, results_dir=comparing.folder)
    earlier = replace(spec, protocol=replace(protocol, judges=_all_judges(comparing)))
    spent = spent_before(earlier, store, this_session=True)
    events = execute_pairs(store.answer_pairs(todo), comparing.scorer, spec, stop=stop, already_spent=spent)
    async for event in store.committed(events):
        asked += isinstance(event, PairJudged) and event.preference.better is not None
        if (taking := watch(event)) is not None:
            await taking
    return asked


def _all_judges(comparing: Comparing) -> tuple[ModelRef, ...]:
    """Everybody whose dollars count in the budget, each once."""
    known = {judge.label: judge for judge in (*comparing.info.protocol.judges, *comparing.judges)}
    return tuple(known.values())


def _compared_labels(info: RunInfo) -> list[str]:
    return [contestant.label for contestant in info.contestants if not contestant.reference]


def scheduled_pairs(answers: Sequence[Answered]) -> Iterator[tuple[Answered, Answered]]:
    """The pairs that are compared: on every sample all of them, or of many contestants the neighbours in a circle.

    The circle is drawn anew for every sample, by a hash. So everyone is compared with two others on each sample, and over
    many samples with everybody else about equally often: k pairs instead of k·(k−1)/2.
    """
    for own in _by_sample(answers):
        if len(own) <= MOST_IN_ALL_PAIRS:
            yield from combinations(own, 2)
        else:
            circle = sorted(own, key=_draw)
            yield from zip(circle, [*circle[1:], circle[0]], strict=True)


def _by_sample(answers: Sequence[Answered]) -> Iterator[list[Answered]]:
    return (list(own) for _, own in groupby(answers, key=lambda answer: (answer.sample, answer.repeat)))


def _draw(answer: Answered) -> bytes:
    return blake2b(f"{answer.sample}\0{answer.repeat}\0{answer.contestant}".encode(), digest_size=16).digest()
