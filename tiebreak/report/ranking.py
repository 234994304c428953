"""Who is shown to be better than whom, and what follows: tiers and possible ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiebreak.report.tally import Tally
from tiebreak.stats.family import SURE, holm, rank_interval, tiers
from tiebreak.stats.planning import samples_needed, smallest_difference

if TYPE_CHECKING:
    from tiebreak.stats.paired import Floats, Paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two contestants on the samples both answered."""

    first: str
    second: str
    samples: int
    difference: float
    """Mean score of the first minus that of the second; never below 0."""
    low: float
    high: float
    """95 % interval of the difference, of this pair alone."""
    first_better: int
    second_better: int
    p: float
    p_corrected: float
    """Holm's: over all pairs of the run, the chance of even one false difference is kept below 5 %."""
    method: str
    """mcnemar (exact), exact, drawn or normal: how the reassignments were counted."""
    separated: bool
    """Whether the corrected test shows the first to be better."""
    smallest_difference: float
    """What this pair's samples would have shown, four times out of five."""
    samples_needed: int | None
    """Samples that would show the difference found, four times out of five; None where none was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a ranked contestant stands."""

    score: float | None
    """On the samples every ranked contestant answered."""
    tier: int
    ranks: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What the tests say of all contestants."""

    comparisons: tuple[Comparison, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    common_samples: int = 0


def rank(contestants: Sequence[tuple[str, Tally, bool]], groups: Sequence[int] | None) -> Ranking:
    """Compare everyone with everyone; those marked as rankable get a place."""
    able = [label for label, _, rankable in contestants if rankable]
    if len(contestants) < 2:
        # Nobody to compare with: numpy is not even loaded.
        return _alone(contestants) if able else Ranking()
    table = score_table([tally for _, tally, _ in contestants])
    comparisons = compare_table([label for label, _, _ in contestants], table, groups)
    scores, common = _common_scores(table, contestants)
    shown = {(c.first, c.second) for c in comparisons if c.separated}
    ordered = sorted(able, key=lambda label: -scores[label] if common else 0.0)
    found = tiers(ordered, lambda a, b: (a, b) in shown)
    places = {
        label: Place(
            score=scores[label] if common else None,
            tier=number,
            ranks=rank_interval(label, [o for o in able if o != label], lambda a, b: (a, b) in shown),
        )
        for number, tier in enumerate(found, start=1)
        for label in tier
    }
    return Ranking(comparisons=comparisons, tiers=tuple(map(tuple, found)), places=places, common_samples=common)


def _alone(contestants: Sequence[tuple[str, Tally, bool]]) -> Ranking:
    label, tally, _ = contestants[0]
    found = tally.estimate(None)
    place = Place(score=found.mean, tier=1, ranks=(1, 1))
    return Ranking(tiers=((label,),), places={label: place}, common_samples=found.n)


def compare_table(labels: Sequence[str], table: Floats, groups: Sequence[int] | None) -> tuple[Comparison, ...]:
    """Every pair of rows, corrected together."""
    from tiebreak.stats.paired import compare_all

    found = [pair for pair in compare_all(table, groups) if pair.samples]
    corrected = holm([pair.p for pair in found])
    alpha = SURE / max(1, len(found))
    return tuple(_comparison(labels, pair, p, alpha) for pair, p in zip(found, corrected, strict=True))


def _comparison(labels: Sequence[str], pair: Paired, corrected: float, alpha: float) -> Comparison:
    turned = pair.difference < 0
    first, second = (pair.second, pair.first) if turned else (pair.first, pair.second)
    better = (pair.second_better, pair.first_better) if turned else (pair.first_better, pair.second_better)
    difference = abs(pair.difference)
    return Comparison(
        first=labels[first],
        second=labels[second],
        samples=pair.samples,
        difference=difference,
        low=-pair.high if turned else pair.low,
        high=-pair.low if turned else pair.high,
        first_better=better[0],
        second_better=better[1],
        p=pair.p,
        p_corrected=corrected,
        method=pair.method,
        separated=corrected < SURE and difference > 0,
        smallest_difference=smallest_difference(pair.error, alpha),
        samples_needed=samples_needed(difference, pair.error**2 * pair.samples, alpha),
    )


def score_table(tallies: Sequence[Tally]) -> Floats:
    """Mean scores, contestants × samples; NaN where one has none."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        rows = [np.frombuffer(t.sums) / np.frombuffer(t.counts, dtype=np.int32) for t in tallies]
    return np.array(rows)


def _common_scores(table: Floats, contestants: Sequence[tuple[str, Tally, bool]]) -> tuple[dict[str, float], int]:
    """Each ranked contestant's mean over the samples that all of them answered, and how many those are."""
    import numpy as np

    places = [place for place, (_, _, rankable) in enumerate(contestants) if rankable]
    if not places:
        return {}, 0
    ranked = table[places]
    common = ~np.isnan(ranked).any(axis=0)
    count = int(common.sum())
    means = ranked[:, common].mean(axis=1) if count else np.zeros(len(places))
    return {contestants[place][0]: float(mean) for place, mean in zip(places, means, strict=True)}, count
