"""How times and prices are spread around the numbers of the summary."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log10, sqrt

from tiebreak.report.summary import Summary
from tiebreak.stats.intervals import at_ranks
from tiebreak.store.reader import StoreReader

BINS = 48
_SURE = 1.96
_QUERY = "SELECT contestant, model_s, cost_usd FROM trials WHERE superseded = 0 AND cached = 0 AND outcome <> 'failed'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of one contestant's answers; remembered and failed ones are left out."""

    bins: tuple[int, ...] = ()
    """How many answers took so long, in steps of equal ratio from the run's fastest to its slowest."""
    median_s: tuple[float, float] | None = None
    """95 % interval of the median time, by ranks."""
    cost_usd: tuple[float, float] | None = None
    """95 % interval of the mean price of an answer; None where any is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """Of all contestants, over one scale."""

    fastest_s: float
    slowest_s: float
    by_label: Mapping[str, Spread]


def spreads(reader: StoreReader, summary: Summary) -> Spreads:
    """How all contestants' times and prices are spread."""
    return reader.figures("spreads", Spreads) or work_out(reader, summary)


def work_out(reader: StoreReader, summary: Summary) -> Spreads:
    """One pass over the times and prices of a run."""
    labels = {reader.numbers[c.label]: c.label for c in summary.contestants}
    times: dict[str, array[float]] = {label: array("d") for label in labels.values()}
    costs: dict[str, array[float] | None] = {label: array("d") for label in labels.values()}
    for contestant, seconds, cost in reader.rows(_QUERY):
        label = labels[contestant]
        if seconds:
            times[label].append(seconds)
        known = costs[label]
        if cost is None:
            costs[label] = None
        elif known is not None:
            known.append(cost)
    all_times = [t for own in times.values() for t in (min(own, default=0.0), max(own, default=0.0)) if t > 0]
    low, high = min(all_times, default=0.1), max(all_times, default=1.0)
    found = {
        label: Spread(bins=_bins(own, low, high), median_s=_median_interval(own), cost_usd=_mean_interval(costs[label]))
        for label, own in times.items()
    }
    return Spreads(fastest_s=low, slowest_s=high, by_label=found)


def _bins(times: Sequence[float], low: float, high: float) -> tuple[int, ...]:
    if not times:
        return ()
    counts = [0] * BINS
    width = log10(high / low) / BINS or 1.0
    for time in times:
        counts[min(BINS - 1, int(log10(time / low) / width))] += 1
    return tuple(counts)


def _median_interval(times: Sequence[float]) -> tuple[float, float] | None:
    """Two measured times between which the true median lies 95 times out of 100."""
    n = len(times)
    if n < 6:
        return None
    reach = _SURE * sqrt(n) / 2
    low, high = at_ranks(times, (max(0, int(n / 2 - reach)), min(n - 1, int(n / 2 + reach))))
    return low, high


def _mean_interval(costs: Sequence[float] | None) -> tuple[float, float] | None:
    if not costs:
        return None
    n = len(costs)
    mean = fsum(costs) / n
    error = sqrt(fsum((cost - mean) ** 2 for cost in costs) / max(1, n - 1) / n)
    return max(0.0, mean - _SURE * error), mean + _SURE * error
