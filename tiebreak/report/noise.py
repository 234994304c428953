"""How much of the uncertainty between the first two is due to the samples, to repeats and to failed trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiebreak.store.reader import StoreReader

if TYPE_CHECKING:
    from tiebreak.stats.noise import Repeated

_SCORES = """
    SELECT sample, count(*), total(coalesce(score, 0)), total(coalesce(score, 0) * coalesce(score, 0)) FROM trials
    WHERE superseded = 0 AND outcome <> 'failed' AND contestant = ? GROUP BY sample
"""
_FAILED = """
    SELECT count(*) FILTER (WHERE outcome = 'failed'), count(*), total(score) FROM trials
    WHERE superseded = 0 AND contestant = ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseSplit:
    """What the difference of two contestants is uncertain by."""

    first: str
    second: str
    samples: int
    """Samples that both answered at least twice."""
    repeats_share: float
    """Of the variance of the difference, what is due to answers that change when repeated; the rest is due to the samples."""
    narrower_by_repeats: float
    """By how much twice the repeats would narrow the interval, as a share."""
    narrower_by_samples: float
    """By how much twice the samples would."""
    failures_move: float
    """How far failed trials could move the difference at most: all of one answered rightly, all of the other wrongly."""


def noise_between(reader: StoreReader, first: str, second: str) -> NoiseSplit | None:
    """The parts of the uncertainty; None where samples were asked once, or too few."""
    if reader.info.protocol.repeats == 1:
        return None
    from tiebreak.stats.noise import split_noise

    one, other = (dict(_scores(reader, label)) for label in (first, second))
    samples = sorted(one.keys() & other.keys())
    found = split_noise(_repeated(one, samples), _repeated(other, samples))
    if found is None:
        return None
    return NoiseSplit(
        first=first,
        second=second,
        samples=found.samples,
        repeats_share=found.repeats_share,
        narrower_by_repeats=found.by_repeats,
        narrower_by_samples=found.by_samples,
        failures_move=_failures_move(reader, first, second),
    )


_Sums = tuple[float, float, float]


def _scores(reader: StoreReader, label: str) -> Mapping[str, _Sums]:
    return {sample: (n, total, squares) for sample, n, total, squares in reader.rows(_SCORES, reader.numbers[label])}


def _repeated(scores: Mapping[str, _Sums], samples: list[str]) -> Repeated:
    import numpy as np

    from tiebreak.stats.noise import Repeated

    counts, sums, squares = np.array([scores[sample] for sample in samples], dtype=np.float64).reshape(-1, 3).T
    return Repeated(counts=counts, sums=sums, squares=squares)


def _failures_move(reader: StoreReader, first: str, second: str) -> float:
    """The larger of the two ways in which all failed trials could have gone."""
    (low, score, high), (other_low, other, other_high) = (_range(reader, label) for label in (first, second))
    found = score - other
    return max(found - (low - other_high), (high - other_low) - found)


def _range(reader: StoreReader, label: str) -> tuple[float, float, float]:
    """The mean score with all failed trials wrong, as it is, and with all of them right."""
    failed, trials, total = next(reader.rows(_FAILED, reader.numbers[label]))
    return total / trials, total / max(1, trials - failed), (total + failed) / trials
