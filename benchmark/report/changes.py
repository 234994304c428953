"""Two runs of the same samples: what was fixed, what was broken, and whether that is more than luck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

from benchmark.core.errors import ProtocolMismatch, UsageError
from benchmark.core.run import Protocol
from benchmark.report.baseline import Baseline
from benchmark.report.caveats import protocol_differences
from benchmark.report.ranking import SURE
from benchmark.report.verdict import number, points, probability
from benchmark.stats.family import holm
from benchmark.stats.planning import smallest_difference

if TYPE_CHECKING:
    from benchmark.stats.paired import Paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A model in an earlier and a later run, on the samples answered in both."""

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
        counts = f"{len(self.fixed):,} fixed, {len(self.broken):,} broken on {number(self.samples, 'common sample')}"
        interval = f"95 % interval {100 * self.low:+.1f} to {100 * self.high:+.1f}"
        said = (
            f"{self.label} {word}: {100 * self.difference:+.1f} points ({interval}; {probability(self.p_corrected)}), {counts}."
        )
        if self.worse or self.better:
            return said
        return f"{said} A change of {points(self.smallest_difference)} would have been seen."


def check_protocols(before: Baseline, after: Baseline, *, force: bool = False) -> list[str]:
    """What differs in how the two were made; an error unless it is forced."""
    differing = protocol_differences(before.protocol, after.protocol)
    if differing and not force:
        raise ProtocolMismatch(
            f"{before.run_id} and {after.run_id} differ in their {', '.join(differing)}: the scores do not mean the same. "
            "To compare them all the same, say --force"
        )
    return differing


def check_held_against(baseline: Baseline, protocol: Protocol, labels: Sequence[str]) -> None:
    """Refuse a baseline that was made otherwise, or of other models, before anything is asked."""
    matched(baseline.models, labels, baseline.run_id, "this run")
    differing = protocol_differences(baseline.protocol, protocol)
    if differing:
        raise ProtocolMismatch(
            f"the baseline {baseline.run_id} was made with other {', '.join(differing)}: it says nothing about this run. "
            "Make a new baseline: tiebreak export RUN --to baseline"
        )


def changes(before: Baseline, after: Baseline) -> list[Change]:
    """Every model of both, before and after; a single model on each side is held against the other whatever the names."""
    pairs = matched(before.models, after.models, before.run_id, after.run_id)
    groups = {**before.groups, **after.groups}
    found = [(was, label, _paired(before.models[was], after.models[label], groups)) for was, label in pairs]
    corrected = holm([pair.p for _, _, pair in found])
    return [
        _change(before.models[was], after.models[label], was=was, label=label, pair=pair, corrected=p, tests=len(found))
        for (was, label, pair), p in zip(found, corrected, strict=True)
    ]


def matched(before: Iterable[str], after: Iterable[str], one: str, other: str) -> list[tuple[str, str]]:
    """Which model is held against which: the one of the same label, or the only one there is on either side."""
    was, now = list(before), list(after)
    pairs = [(label, label) for label in now if label in was]
    if not pairs and len(was) == len(now) == 1:
        pairs = [(was[0], now[0])]
    if not pairs:
        raise UsageError(f"{one} ({', '.join(was)}) and {other} ({', '.join(now)}) have no model in common")
    return pairs


def _paired(before: Mapping[str, float], after: Mapping[str, float], groups: Mapping[str, str]) -> Paired:
    import numpy as np

    from benchmark.stats.paired import compare_all

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
