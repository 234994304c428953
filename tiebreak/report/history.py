"""How one contestant scored in run after run of the same questions, and whether it still answers as it did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.run import RunInfo
from tiebreak.report.caveats import protocol_differences
from tiebreak.report.samples import groups_by_sample
from tiebreak.report.verdict import number, points
from tiebreak.stats.drift import drifts
from tiebreak.stats.intervals import estimate_mean
from tiebreak.store.reader import StoreReader


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What a contestant scored in one run."""

    run: str
    made_at: datetime
    samples: int
    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """From which run on a contestant answers differently."""

    since: str
    shown: str
    in_score: bool
    before: float
    """The mean score of the runs before it."""
    after: float
    """The mean score from it to the run that showed it."""
    runs: int
    """How many runs it took to show it."""

    @property
    def sentence(self) -> str:
        """The change in words."""
        took = "at once" if self.runs == 1 else f"after {number(self.runs, 'run')}"
        if self.in_score:
            moved = points(abs(self.after - self.before))
            what = f"its score {'rose' if self.after > self.before else 'fell'} by {moved}"
        else:
            what = "it has other samples right than before"
        return f"Since {self.since}: {what} ({self.before:.2f} → {self.after:.2f}); shown {took}."


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One contestant under one protocol, the oldest run first."""

    label: str
    dataset: str
    runs: Sequence[PastRun]
    changes: Sequence[ShownChange]


_ASKED = (
    "SELECT sample, id || finished_at, coalesce(score, 0) FROM trials"
    " WHERE superseded = 0 AND cached = 0 AND outcome <> 'failed' AND contestant = ?"
)


@dataclass(frozen=True, slots=True)
class _Entry:
    folder: str
    info: RunInfo
    contestant: Contestant
    scores: Mapping[str, float]
    groups: Mapping[str, str]
    answers: frozenset[str]
    """Every answer by its trial and time: a merged run, or a copy, has those of others."""

    def is_like(self, other: _Entry) -> bool:
        """Whether it is the same set-up under the same protocol."""
        same = self.contestant.parts == other.contestant.parts
        return same and not protocol_differences(self.info.protocol, other.info.protocol)


def histories(folders: Iterable[Path], name: str) -> tuple[list[History], list[str]]:
    """The histories of every contestant that goes by a name, as model or as label; and what could not be read."""
    entries: list[_Entry] = []
    unread: list[str] = []
    for folder in folders:
        try:
            with StoreReader(folder) as reader:
                entries += _entries(reader, name)
        except BenchmarkError as error:
            unread.append(f"{folder.name}: {error}")
    entries = sorted(_once(entries), key=lambda entry: (entry.info.created_at, entry.folder))
    series: list[list[_Entry]] = []
    for entry in entries:
        own = next((known for known in series if known[0].is_like(entry)), None)
        series.append([entry]) if own is None else own.append(entry)
    return [_history(own) for own in series], unread


def _entries(reader: StoreReader, name: str) -> list[_Entry]:
    meant = [c for c in reader.info.contestants if name in _names(c)]
    groups = groups_by_sample(reader) if meant else {}
    found = []
    for contestant in meant:
        rows = list(reader.rows(_ASKED, reader.numbers[contestant.label]))
        own = defaultdict[str, list[float]](list)
        for sample, _, score in rows:
            own[sample].append(score)
        scores = {sample: sum(values) / len(values) for sample, values in own.items()}
        answers = frozenset(answer for _, answer, _ in rows)
        found.append(_Entry(reader.folder.name, reader.info, contestant, scores, groups, answers))
    return [entry for entry in found if entry.scores]


def _once(entries: Sequence[_Entry]) -> list[_Entry]:
    """Runs without those whose answers stand in another one too: of shards and the run they became, the whole counts."""
    kept: list[_Entry] = []
    for entry in sorted(entries, key=lambda entry: (-len(entry.answers), entry.folder)):
        if all(entry.answers.isdisjoint(other.answers) or entry.contestant.label != other.contestant.label for other in kept):
            kept.append(entry)
    return kept


def _names(contestant: Contestant) -> tuple[str, ...]:
    model = contestant.model
    return contestant.label, model.label, model.name, model.family, f"{model.provider}/{model.name}"


def _history(entries: Sequence[_Entry]) -> History:
    groups = {sample: group for entry in entries for sample, group in entry.groups.items()}
    runs = [_past_run(entry) for entry in entries]
    changes = []
    begun = 0
    for drift in drifts([entry.scores for entry in entries], groups):
        before, after = runs[begun : drift.since], runs[drift.since : drift.shown + 1]
        changes.append(
            ShownChange(
                since=runs[drift.since].run,
                shown=runs[drift.shown].run,
                in_score=drift.in_score,
                before=_mean(before),
                after=_mean(after),
                runs=len(after),
            )
        )
        begun = drift.since
    last = entries[-1]
    return History(label=last.contestant.label, dataset=last.info.protocol.dataset, runs=runs, changes=changes)


def _past_run(entry: _Entry) -> PastRun:
    groups = [entry.groups.get(sample) or sample for sample in entry.scores]
    mean = estimate_mean(list(entry.scores.values()), groups)
    return PastRun(
        run=entry.folder,
        made_at=entry.info.created_at,
        samples=len(entry.scores),
        score=mean.mean,
        low=mean.low,
        high=mean.high,
    )


def _mean(runs: Sequence[PastRun]) -> float:
    return sum(run.score for run in runs) / len(runs)
