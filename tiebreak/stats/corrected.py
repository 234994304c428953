"""A scorer's mean, corrected by people's votes on some of the samples.

This is prediction-powered inference in its stratified form. Samples are split by the scorer's own verdict. People's votes
say what share of each part is right, and the scorer's verdicts on all samples say how large the parts are. The estimate is
unbiased whatever the scorer's errors are, as long as votes are cast on samples drawn at random, or by the verdict alone.

The usual interval around it is normal, and far too short where disagreements are few. The one here inverts tests: a mean is
in it unless the votes would be too rare under it, by their binomial distribution with the shares that fit the votes best.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiebreak.stats.distributions import student_quantile
from tiebreak.stats.intervals import Estimate, effective_samples, estimate_mean, wilson

Floats: TypeAlias = npt.NDArray[np.float64]

_TAIL = 0.0225
"""Of either side. Shares are estimated and outcomes are few: at 50 votes a tail of 0.025 holds the mean in 94.5 % of runs."""
_STEPS = 22
"""Halvings of the interval in which an end is looked for: to a fourth of a millionth."""
_SHARE_STEPS = 36
_REACH = 8.0
"""Standard deviations beyond which outcomes are too rare to count."""
_SAME = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """The mean people would give all samples, by their votes on some and the scorer's verdicts on all."""

    raw: float
    """The scorer's own mean."""
    mean: float
    low: float
    high: float
    bias: float
    """How much the scorer's mean lies above the corrected one."""
    bias_low: float
    bias_high: float
    votes: int
    samples: int
    by_votes: Estimate
    """What the votes alone would say."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The samples with one kind of verdict."""

    weight: float
    """Their share of all samples."""
    votes: tuple[float, ...]
    groups: tuple[Hashable, ...]
    guess: float
    """Their mean by the scorer: all there is to go by where nobody voted."""

    @property
    def share(self) -> float:
        return math.fsum(self.votes) / len(self.votes) if self.votes else self.guess

    @cached_property
    def right(self) -> int:
        return round(math.fsum(self.votes))


def correct_mean(
    verdicts: Sequence[float], votes: Mapping[int, float], groups: Sequence[Hashable] | None = None
) -> Corrected | None:
    """The corrected mean of verdicts from 0 to 1; votes are by the place of their sample. None without votes."""
    if not votes:
        return None
    raw = math.fsum(verdicts) / len(verdicts)
    alone = estimate_mean(list(votes.values()), None if groups is None else [groups[place] for place in votes])
    if len(votes) == len(verdicts):
        # Everything was voted on: what the scorer says adds nothing.
        here = alone.mean, alone.mean
        return _result(raw, alone.mean, ends=(alone.low, alone.high), here=here, alone=alone, samples=len(verdicts))
    upper, lower = _parts(verdicts, votes, groups)
    mean = upper.weight * upper.share + lower.weight * lower.share
    plain = all(vote in (0.0, 1.0) for vote in votes.values()) and alone.clusters == alone.n
    method = _tested if plain else _combined
    ends = method(upper, lower, mean, upper.weight * lower.weight / len(verdicts))
    here = method(upper, lower, mean, 0.0)
    return _result(raw, mean, ends=ends, here=here, alone=alone, samples=len(verdicts))


def _result(
    raw: float, mean: float, *, ends: tuple[float, float], here: tuple[float, float], alone: Estimate, samples: int
) -> Corrected:
    """`here`: the interval for these very samples, from which the bias on them follows."""
    return Corrected(
        raw=raw,
        mean=mean,
        low=min(ends[0], mean),
        high=max(ends[1], mean),
        bias=raw - mean,
        bias_low=raw - max(here[1], mean),
        bias_high=raw - min(here[0], mean),
        votes=alone.n,
        samples=samples,
        by_votes=alone,
    )


def _parts(verdicts: Sequence[float], votes: Mapping[int, float], groups: Sequence[Hashable] | None) -> tuple[_Part, _Part]:
    """The samples with the higher and with the lower verdicts."""
    cut = _cut(verdicts)
    parts = []
    for above in (True, False):
        inside = [place for place, verdict in enumerate(verdicts) if (verdict > cut) == above]
        voted = [place for place in inside if place in votes]
        parts.append(
            _Part(
                weight=len(inside) / len(verdicts),
                votes=tuple(votes[place] for place in voted),
                groups=tuple(place if groups is None else groups[place] for place in voted),
                guess=math.fsum(verdicts[place] for place in inside) / len(inside) if inside else 0.0,
            )
        )
    return parts[0], parts[1]


def _cut(verdicts: Sequence[float]) -> float:
    """Where verdicts fall apart most clearly: the cut with the largest variance between both sides (Otsu, 1979).

    It goes by the verdicts alone; one that went by the votes would flatter the scorer.
    """
    ordered, total = sorted(verdicts), math.fsum(verdicts)
    best, cut, below = -1.0, ordered[0], 0.0
    for count, (verdict, following) in enumerate(pairwise(ordered), start=1):
        below += verdict
        if verdict == following:
            continue
        rest = len(ordered) - count
        between = count * rest * (below / count - (total - below) / rest) ** 2
        if between > best:
            best, cut = between, verdict
    return cut


# --- right-or-wrong votes: tests, inverted ----------------------------------------------------------


def _tested(upper: _Part, lower: _Part, mean: float, spread: float) -> tuple[float, float]:
    """The means under which the votes are not too rare."""

    def end(inside: float, outside: float, side: int) -> float:
        for _ in range(_STEPS):
            middle = (inside + outside) / 2
            kept = _tails(middle, upper, lower, spread)[side] >= _TAIL
            inside, outside = (middle, outside) if kept else (inside, middle)
        return (inside + outside) / 2

    return end(mean, 0.0, 0), end(mean, 1.0, 1)


def _tails(mean: float, upper: _Part, lower: _Part, spread: float) -> tuple[float, float]:
    """If this were the mean: the chances of an estimate as high as the one found, and as low.

    What is as likely as the outcome itself counts half (mid-p). The weights of the parts vary too, with how many samples
    there are; that is as good as normal.
    """
    share = _best_share(mean, upper, lower)
    other = min(1.0, max(0.0, (mean - upper.weight * share) / lower.weight)) if lower.weight > 0 else share
    first, chances = _outcomes(len(upper.votes), share)
    second, others = _outcomes(len(lower.votes), other)
    found = upper.weight * _fraction(upper) + lower.weight * _fraction(lower)
    above = upper.weight * first[:, None] + lower.weight * second[None, :] - found
    likely = chances[:, None] * others[None, :]
    error = abs(share - other) * math.sqrt(spread)
    if error > _SAME:
        high = float((likely * _normal(above / error)).sum())
        return high, 1 - high
    even = float(likely[np.abs(above) < _SAME].sum()) / 2
    return float(likely[above >= _SAME].sum()) + even, float(likely[above <= -_SAME].sum()) + even


def _fraction(part: _Part) -> float:
    return part.right / len(part.votes) if part.votes else 0.0


def _best_share(mean: float, upper: _Part, lower: _Part) -> float:
    """The share of right ones in the upper part under which, with this mean, the votes are likeliest."""
    if lower.weight <= 0 or upper.weight <= 0:
        return mean
    low, high = max(0.0, (mean - lower.weight) / upper.weight), min(1.0, mean / upper.weight)
    ratio, share = upper.weight / lower.weight, (low + high) / 2
    for _ in range(_SHARE_STEPS):
        (rise, bend), (other_rise, other_bend) = _slope(upper, share), _slope(lower, (mean - upper.weight * share) / lower.weight)
        rise, bend = rise - ratio * other_rise, bend + ratio * ratio * other_bend
        low, high = (share, high) if rise > 0 else (low, share)
        # Newton's step; one out of the bracket halves it instead.
        step = share - rise / bend if bend < 0 else math.inf
        following = step if low < step < high else (low + high) / 2
        if abs(following - share) < _SAME:
            return following
        share = following
    return share


def _slope(part: _Part, share: float) -> tuple[float, float]:
    """How the logarithm of the votes' likelihood rises with the share of right ones, and how that changes."""
    if not part.votes:
        return 0.0, 0.0
    right, wrong = part.right, len(part.votes) - part.right
    inside, outside = max(share, _SAME), max(1 - share, _SAME)
    return right / inside - wrong / outside, -right / inside**2 - wrong / outside**2


def _outcomes(count: int, share: float) -> tuple[Floats, Floats]:
    """Fractions of votes that may come out, and how likely each is; those too rare to matter are left out."""
    if count == 0 or share <= 0 or share >= 1:
        return np.array([float(count > 0 and share >= 1)]), np.ones(1)
    reach = _REACH * math.sqrt(count * share * (1 - share)) + _REACH
    right = np.arange(max(0, math.floor(count * share - reach)), min(count, math.ceil(count * share + reach)) + 1)
    logs = _log_binomials(count)[right] + right * math.log(share) + (count - right) * math.log1p(-share)
    return right / count, np.exp(logs)


@cache
def _log_binomials(count: int) -> Floats:
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1)))))
    logs: Floats = factorials[-1] - factorials - factorials[::-1]
    return logs


def _normal(z: Floats) -> Floats:
    """The normal distribution function to 1e-7, of many numbers at once (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(z) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = series * np.exp(-size * size) / 2
    return np.where(z >= 0, 1 - tail, tail)


# --- graded or grouped votes: intervals of the parts, combined --------------------------------------


def _combined(upper: _Part, lower: _Part, mean: float, spread: float) -> tuple[float, float]:
    """The interval of a weighted sum from those of its parts (MOVER; Zou and Donner, 2008), with the weights' own share."""
    votes, groups = (*upper.votes, *lower.votes), (*upper.groups, *lower.groups)
    clusters = len(set(groups))
    worth, z = _worth(votes, groups, clusters), student_quantile(0.975, max(1, clusters - 1))
    parts = [(part.weight, part.share, *_ends(part, worth, z)) for part in (upper, lower)]
    shift, arms = abs(upper.share - lower.share), (0.0, 0.0)
    if spread > 0:
        least, most = wilson(upper.weight, upper.weight * lower.weight / spread)
        arms = upper.weight - least, most - upper.weight
    down, up = arms if upper.share >= lower.share else arms[::-1]
    low = mean - math.hypot(*(w * (share - least) for w, share, least, _ in parts), shift * down)
    high = mean + math.hypot(*(w * (most - share) for w, share, _, most in parts), shift * up)
    return max(0.0, low), min(1.0, high)


def _ends(part: _Part, worth: float, z: float) -> tuple[float, float]:
    return wilson(part.share, worth * len(part.votes), z) if part.votes else (0.0, 1.0)


def _worth(votes: Sequence[float], groups: Sequence[Hashable], clusters: int) -> float:
    """How many right-or-wrong votes one of these is worth: more where grades vary little, less where votes go together.

    It is found from all votes: those of a part may all be the same, which says little of how they vary.
    """
    mean = math.fsum(votes) / len(votes)
    return effective_samples(votes, groups, mean, clusters) / len(votes)
