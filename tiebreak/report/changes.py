"""Two runs of the same samples: what was fixed, what was broken, and whether that is more than luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from tiebreak.core.contestant import FACTORS, Contestant
from tiebreak.core.errors import ProtocolMismatch, UsageError
from tiebreak.core.run import Protocol
from tiebreak.report.baseline import Baseline, BaselineEntry
from tiebreak.report.caveats import protocol_differences
from tiebreak.report.verdict import number, points, probability
from tiebreak.stats.family import SURE, holm
from tiebreak.stats.planning import smallest_difference

if TYPE_CHECKING:
    from tiebreak.stats.paired import Paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A contestant in an earlier and a later run, on the samples answered in both."""

    label: str
    was: str
    """Its label in the earlier run, or the label of what it is held against."""
    samples: int
    before: float
    after: float
    difference: float
    """After minus before."""
    low: float
    high: float
    p: float
    p_corrected: float
    """Holm's, over all models that were compared."""
    fixed: tuple[str, ...]
    """Samples that score more than before."""
    broken: tuple[str, ...]
    """Samples that score less."""
    smallest_difference: float
    """The smallest change that would have been shown, four times out of five."""

    @property
    def worse(self) -> bool:
        """Whether the test shows a drop."""
        return self.p_corrected < SURE and self.difference < 0

    @property
    def better(self) -> bool:
        """Whether the test shows a gain."""
        return self.p_corrected < SURE and self.difference > 0

    @property
    def sentence(self) -> str:
        """The change in words."""
        word = (
            "is worse than before" if self.worse else "is better than before" if self.better else "has not been shown to change"
        )
        name = self.label if self.was == self.label else f"{self.label}, held against {self.was},"
        counts = f"{len(self.fixed):,} fixed, {len(self.broken):,} broken on {number(self.samples, 'common sample')}"
        interval = f"95 % interval {100 * self.low:+.1f} to {100 * self.high:+.1f}"
        said = f"{name} {word}: {100 * self.difference:+.1f} points ({interval}; {probability(self.p_corrected)}), {counts}."
        if self.worse or self.better:
            return said
        return f"{said} A change of {points(self.smallest_difference)} would have been seen."


def check_protocols(before: Baseline, after: Baseline, *, changed: Sequence[str] = (), force: bool = False) -> list[str]:
    """What differs in how the two were made, besides the change under test; an error unless it is forced."""
    pairs = matched(before, after, changed)
    parts = [(before.contestants[was].parts, after.contestants[label].parts) for was, label in pairs]
    differing = [*protocol_differences(before.protocol, after.protocol), *_other_parts(parts, changed)]
    if differing and not force:
        tested = [name for name in differing if name in FACTORS]
        hint = f"If that is the change under test, say --changed {tested[0]}; else" if tested else "To compare them all the same,"
        raise ProtocolMismatch(
            f"{before.run_id} and {after.run_id} differ in their {', '.join(differing)}: the scores do not mean the same. "
            f"{hint} say --force"
        )
    return differing


def check_held_against(
    baseline: Baseline, protocol: Protocol, contestants: Sequence[Contestant], *, changed: Sequence[str] = ()
) -> None:
    """Refuse a baseline that was made otherwise, or of other contestants, before anything is asked."""
    now = {c.label: BaselineEntry(factors=c.factors, parts=c.parts, scores={}) for c in contestants}
    this = Baseline(run_id="this run", protocol=protocol, contestants=now)
    parts = [(baseline.contestants[was].parts, now[label].parts) for was, label in matched(baseline, this, changed)]
    differing = [*protocol_differences(baseline.protocol, protocol), *_other_parts(parts, changed)]
    if differing:
        tested = [name for name in differing if name in FACTORS]
        hint = f"If that is the change under test, say --changed {tested[0]}; else make" if tested else "Make"
        others = ", ".join(map(_plural, differing))
        raise ProtocolMismatch(
            f"the baseline {baseline.run_id} was made with other {others}: it says nothing about this run. "
            f"{hint} a new baseline: tiebreak export RUN --to baseline"
        )


def _plural(part: str) -> str:
    return part if part.endswith("s") else f"{part}s"


def _other_parts(pairs: Sequence[tuple[Mapping[str, str], Mapping[str, str]]], changed: Sequence[str]) -> list[str]:
    """In what contestants that are held against each other must be alike, and are not; another model has other settings."""
    differing = [{name for name in FACTORS if was[name] != now[name]} for was, now in pairs]
    alike = [name for name in FACTORS if name not in ("model", *changed)]
    return [name for name in alike if any(name in parts and (name != "settings" or "model" not in parts) for parts in differing)]


def changes(before: Baseline, after: Baseline, *, changed: Sequence[str] = ()) -> list[Change]:
    """Everyone in both, before and after; `changed` names the factors that are meant to differ."""
    pairs = matched(before, after, changed)
    groups = {**before.groups, **after.groups}
    scores = [(before.contestants[was].scores, after.contestants[label].scores) for was, label in pairs]
    for (was, label), (old, new) in zip(pairs, scores, strict=True):
        if old and new and not old.keys() & new.keys():
            raise UsageError(f"{was} of {before.run_id} and {label} of {after.run_id} have no sample in common")
    paired = [_paired(*both, groups) for both in scores]
    corrected = holm([pair.p for pair in paired])
    return [
        _change(*both, was=was, label=label, pair=pair, corrected=p, tests=len(pairs))
        for both, (was, label), pair, p in zip(scores, pairs, paired, corrected, strict=True)
    ]


def matched(before: Baseline, after: Baseline, changed: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Which contestant is held against which: the one that is alike in all but the change, or the only one on each side."""
    was, now = before.contestants, after.contestants
    pairs = _alike(was, now, [name for name in FACTORS if name not in changed])
    if not changed:
        known = {label for pair in pairs for label in pair}
        pairs += [(label, label) for label in now if label in was and label not in known]
        if not pairs and len(was) == len(now) == 1:
            pairs = [(next(iter(was)), next(iter(now)))]
    if not pairs:
        alike = f" that are alike in all but the {' and the '.join(changed)}" if changed else ""
        raise UsageError(
            f"{before.run_id} ({', '.join(was)}) and {after.run_id} ({', '.join(now)}) have no model in common{alike}"
        )
    return pairs


def unmatched(before: Baseline, after: Baseline, changed: Sequence[str] = ()) -> list[str]:
    """A sentence for each contestant that is held against nobody."""
    pairs = matched(before, after, changed)
    gone = [label for label in before.contestants if label not in {was for was, _ in pairs}]
    new = [label for label in after.contestants if label not in {now for _, now in pairs}]
    return [f"{label} is in {before.run_id} only, and was compared with nobody." for label in gone] + [
        f"{label} has no counterpart in {before.run_id}, and was compared with nobody." for label in new
    ]


def _alike(before: Mapping[str, BaselineEntry], after: Mapping[str, BaselineEntry], kept: Sequence[str]) -> list[tuple[str, str]]:
    """Contestants that are the same in the factors that are kept; where several are, nobody could say which is meant."""
    pairs = []
    for label, entry in after.items():
        twins = [was for was, old in before.items() if all(old.parts[name] == entry.parts[name] for name in kept)]
        if len(twins) > 1:
            twins = [was for was in twins if was == label]
        pairs += [(was, label) for was in twins]
    return pairs


def _paired(before: Mapping[str, float], after: Mapping[str, float], groups: Mapping[str, str]) -> Paired:
    import numpy as np

    from tiebreak.stats.paired import compare_all

    samples = sorted(before.keys() & after.keys())
    table = np.array([[after[s] for s in samples], [before[s] for s in samples]], dtype=float)
    if not groups:
        return compare_all(table)[0]
    numbers: dict[str, int] = {}
    labels = [numbers.setdefault(groups.get(s) or f"\0{s}", len(numbers)) for s in samples]
    return compare_all(table, labels)[0]


def _change(
    before: Mapping[str, float], after: Mapping[str, float], *, was: str, label: str, pair: Paired, corrected: float, tests: int
) -> Change:
    common = sorted(before.keys() & after.keys())
    n = len(common)
    return Change(
        label=label,
        was=was,
        samples=n,
        before=sum(before[s] for s in common) / n if n else nan,
        after=sum(after[s] for s in common) / n if n else nan,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        p=pair.p,
        p_corrected=corrected,
        fixed=tuple(s for s in common if after[s] > before[s]),
        broken=tuple(s for s in common if after[s] < before[s]),
        smallest_difference=smallest_difference(pair.error, SURE / tests),
    )
