"""Whether the same contestant still answers as it did: a test that goes on for ever, run after run.

While nothing changes, each run could as well have come at any other place: of what a sample scored in all runs so far, any
score is as likely to be the last one. Given those scores, the sum over the samples has a known distribution. So each run has
an exact p-value, and those of different runs are independent. Bets on small ones grow only when something has changed; by
Ville's inequality the chance of even one false alarm is bounded, however long the history gets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiebreak.stats.family import SURE
from tiebreak.stats.paired import Floats

_STEPS = 60
"""Scores are rounded to this part of a point, so that their sums can be counted; repeats of 2 to 6 lose nothing."""
_LONG = 500
"""Distributions of so many values are multiplied out no more."""
_ENOUGH = 2 / SURE
"""What a bet has to grow to. There are two: on the score, and on which samples are right."""

Scores = Mapping[str, float]
"""One run's scores, by sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A change that was shown."""

    since: int
    """The run with which it most likely began."""
    shown: int
    """The run after which it was shown."""
    in_score: bool
    """Whether the score changed; else it shows in which samples are right."""


def drifts(runs: Sequence[Scores], groups: Mapping[str, str]) -> list[Drift]:
    """Every change in a history of runs, the oldest first; after one, the history begins again with it.

    The chance that the first alarm is false is at most 5 %, however many runs there are and whenever they are looked at.
    """
    units = [_units(run, groups) for run in runs]
    found: list[Drift] = []
    first = 0
    while (drift := _first_drift(units, first)) is not None:
        found.append(drift)
        first = drift.since
    return found


def _units(run: Scores, groups: Mapping[str, str]) -> dict[str, int]:
    """One score per group of samples that stand or fall together, counted in steps."""
    values: dict[str, list[float]] = {}
    for sample, score in run.items():
        values.setdefault(groups.get(sample) or f"\0{sample}", []).append(score)
    return {unit: round(_STEPS * sum(own) / len(own)) for unit, own in values.items()}


def _first_drift(runs: Sequence[Mapping[str, int]], first: int) -> Drift | None:
    """The first change after a run with which a history begins."""
    seen = {unit: [score] for unit, score in runs[first].items()} if runs else {}
    on_score, on_answers = _Bets(), _Bets()
    # The first run of a history has nothing to differ from.
    for number in range(first + 1, len(runs)):
        for unit, score in runs[number].items():
            seen.setdefault(unit, []).append(score)
        p_score, p_answers = _p_values([seen[unit] for unit in runs[number] if len(seen[unit]) > 1])
        on_score.take(p_score)
        on_answers.take(p_answers)
        for bets, in_score in ((on_score, True), (on_answers, False)):
            if bets.worth >= _ENOUGH:
                since = first + _beginning(runs[first : number + 1], in_score=in_score)
                return Drift(since=since, shown=number, in_score=in_score)
    return None


class _Bets:
    """A stake spread over all runs with which a change might begin; what is not bet yet is kept."""

    def __init__(self) -> None:
        self._logs: list[float] = []

    def take(self, p: float) -> None:
        """Bet on the next run."""
        gain = math.log(_gain(p))
        number = len(self._logs) + 1
        self._logs = [log + gain for log in self._logs] + [gain - math.log(number * (number + 1))]

    @property
    def worth(self) -> float:
        """What the stake has grown to."""
        return float(np.exp(np.minimum(self._logs, 700.0)).sum()) + 1 / (len(self._logs) + 1)


def _beginning(runs: Sequence[Mapping[str, int]], *, in_score: bool) -> int:
    """Where to cut a history in two so that the parts differ most: in their sums, or sample by sample."""
    units = {unit: row for row, unit in enumerate(dict.fromkeys(unit for run in runs for unit in run))}
    scores = np.full((len(units), len(runs)), np.nan)
    for column, run in enumerate(runs):
        scores[[units[unit] for unit in run], column] = list(run.values())
    # A score that is missing speaks for neither side.
    centred = np.nan_to_num(scores - np.nanmean(scores, axis=1, keepdims=True))
    later = np.cumsum(centred[:, ::-1], axis=1)[:, ::-1][:, 1:]
    gaps = later.sum(axis=0) ** 2 if in_score else (later**2).sum(axis=0)
    after = np.arange(len(runs) - 1, 0, -1)
    return 1 + int(np.argmax(gaps / (after * (len(runs) - after))))


def _gain(p: float) -> float:
    """What a bet on small p-values makes of a stake of 1: κ·p^(κ−1), averaged over all κ between 0 and 1."""
    log = math.log(max(p, 1e-300))
    # Near 1 the formula divides nothing by nothing.
    return 0.5 if log > -1e-3 else (1 - p + p * log) / (p * log * log) if p > 1e-300 else 1e290


def _p_values(histories: Sequence[Sequence[int]]) -> tuple[float, float]:
    """How unusual the last of each unit's scores is, all together: in their sum, and in how many differ from the usual one."""
    moving = [own for own in histories if len(set(own)) > 1]
    if not moving:
        return 1.0, 1.0
    step = math.gcd(*(score - own[0] for own in moving for score in own))
    scaled = [[(score - min(own)) // step for score in own] for own in moving]
    below, above = _tails(scaled)
    unusual = [[int(score != _usual(own)) for score in own] for own in moving]
    return min(1.0, 2 * below, 2 * above), min(1.0, _tails(unusual)[1])


def _usual(scores: Sequence[int]) -> int:
    """The most common score; of several, the lowest."""
    counts = Counter(scores)
    return min(counts, key=lambda score: (-counts[score], score))


def _tails(histories: Sequence[Sequence[int]]) -> tuple[float, float]:
    """The chances of a sum as low, and as high, as that of the last scores, if any score of a unit might be its last."""
    chances = [np.bincount(own) / len(own) for own in histories]
    total = sum(own[-1] for own in histories)
    sums = _sum_of(chances)
    return float(sums[: total + 1].sum()), float(sums[total:].sum())


def _sum_of(chances: Sequence[Floats]) -> Floats:
    """The distribution of the sum of independent numbers; neighbours first, so that few long ones are added up."""
    while len(chances) > 1:
        joined = [_convolved(one, other) for one, other in zip(chances[::2], chances[1::2], strict=False)]
        chances = [*joined, *chances[len(joined) * 2 :]]
    return chances[0]


def _convolved(one: Floats, other: Floats) -> Floats:
    """The distribution of the sum of two numbers; of long ones by way of their spectra, to within 1e-15."""
    if min(len(one), len(other)) < _LONG:
        return np.convolve(one, other)
    length = len(one) + len(other) - 1
    size = 1 << (length - 1).bit_length()
    joined = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)[:length]
    return np.maximum(joined, 0.0)
