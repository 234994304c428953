"""What the best cost and how fast they are, compared on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiebreak.report.ranking import Course
from tiebreak.report.tally import Taken, Tally
from tiebreak.stats.family import SURE, holm

if TYPE_CHECKING:
    from tiebreak.stats.paired import Floats

_ENOUGH_ALONE = 0.5
"""The share of common samples that must have been asked with nothing else in flight, for their times to be compared."""
ALONE = "one at a time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRatio:
    """How many times as much one contestant takes as another: dollars or seconds, sample by sample."""

    first: str
    """The one that takes less."""
    second: str
    samples: int
    ratio: float
    """The second's divided by the first's: geometric mean over the common samples; never below 1."""
    low: float
    high: float
    p_corrected: float
    """Holm's, over the pairs compared."""
    separated: bool
    """Whether the test shows that the first takes less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One kind of value, cost or speed, among the contestants of the first tier."""

    least: str | None
    """Who is shown to take less than every other one compared."""
    compared: tuple[str, ...]
    unknown: tuple[str, ...]
    """Those without a known price, or without times."""
    ratios: tuple[ValueRatio, ...]
    basis: str = ""
    """Of times: under which load they were taken; empty where they cannot be compared."""


Contestants = Sequence[tuple[str, Tally]]


def compare_costs(best: Contestants, known: Sequence[str], course: Course) -> Value | None:
    """The costs of those whose price is known; None where there are not two."""
    priced = [(label, tally) for label, tally in best if label in known]
    if len(priced) < 2:
        return None
    unknown = tuple(label for label, _ in best if label not in known)
    return _value(priced, _means([tally.prices for _, tally in priced]), course, unknown=unknown)


def compare_speeds(best: Contestants, course: Course) -> Value | None:
    """The times of those that have any; None where there are not two.

    Only times that were taken one at a time are compared: those of --timing, else of the samples that the run itself asked
    with nothing else in flight, where these are at least half of the common ones. Under load, times tell how many requests
    a server takes at once.
    """
    timed = [(label, tally) for label, tally in best if any(tally.speed.counts) or any(tally.alone.counts)]
    if len(timed) < 2:
        return None
    unknown = tuple(label for label, _ in best if label not in dict(timed))
    if all(any(tally.alone.counts) for _, tally in timed):
        return _value(timed, _means([tally.alone for _, tally in timed]), course, unknown=unknown, basis=ALONE)
    times = _alone([tally for _, tally in timed])
    if times is None:
        return Value(least=None, compared=tuple(label for label, _ in timed), unknown=unknown, ratios=())
    return _value(timed, times, course, unknown=unknown, basis=ALONE)


def _means(taken: Sequence[Taken]) -> Floats:
    """The mean of each sample's answers; NaN where there is none."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        return np.array([np.frombuffer(t.sums) / np.frombuffer(t.counts, dtype=np.int32) for t in taken])


def _alone(tallies: Sequence[Tally]) -> Floats | None:
    """The times of samples that all were asked with nothing else in flight; None where these are too few."""
    import numpy as np

    times = _means([tally.speed for tally in tallies])
    with np.errstate(invalid="ignore"):
        flights = np.array([np.frombuffer(t.flights) / np.frombuffer(t.speed.counts, dtype=np.int32) for t in tallies])
    common = ~np.isnan(times).any(axis=0)
    alone = common & np.all(flights == 1, axis=0)
    if not common.any() or alone.sum() < _ENOUGH_ALONE * common.sum():
        return None
    return np.where(alone, times, np.nan)


def _value(contestants: Contestants, values: Floats, course: Course, *, unknown: tuple[str, ...], basis: str = "") -> Value:
    from tiebreak.stats.ratios import compare_ratios

    labels = [label for label, _ in contestants]
    found = [pair for pair in compare_ratios(values, course.groups) if pair.samples > 1]
    corrected = holm([min(1.0, pair.p * course.schedule.end_scale) for pair in found])
    ratios = [_ratio(labels, pair, p, values) for pair, p in zip(found, corrected, strict=True)]
    shown = {(ratio.first, ratio.second) for ratio in ratios if ratio.separated}
    least = [label for label in labels if all((label, other) in shown for other in labels if other != label)]
    return Value(least=least[0] if least else None, compared=tuple(labels), unknown=unknown, ratios=tuple(ratios), basis=basis)


def _ratio(labels: Sequence[str], pair: Any, corrected: float, values: Floats) -> ValueRatio:
    """A pair, the one that takes less first. What is typical and what is so in sum must agree for it to be shown."""
    import numpy as np

    less, more = (pair.first, pair.second) if pair.ratio < 1 else (pair.second, pair.first)
    turned = pair.ratio < 1
    common = ~np.isnan(values[[less, more]]).any(axis=0)
    in_sum = values[less][common].sum() < values[more][common].sum()
    return ValueRatio(
        first=labels[less],
        second=labels[more],
        samples=pair.samples,
        ratio=1 / pair.ratio if turned else pair.ratio,
        low=1 / pair.high if turned else pair.low,
        high=1 / pair.low if turned else pair.high,
        p_corrected=corrected,
        separated=bool(corrected < SURE and in_sum),
    )


def nearest(value: Value) -> ValueRatio | None:
    """Of those who take least, against whom it is closest; where nobody does, the closest pair of all."""
    own = [ratio for ratio in value.ratios if value.least in (None, ratio.first)]
    return min(own, key=lambda ratio: ratio.ratio, default=None)
