"""What a race is expected to ask, by how far apart the contestants are: found by racing made-up contestants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tiebreak.stats.paired import Floats

GAPS = (0.02, 0.05, 0.1, 0.2)
"""How far the best is ahead of the others."""
DIFFERING = 0.2
"""The share of the samples on which two equal contestants differ."""
_RACES = 24
"""Shared by the contestants: more of them take longer, and vary less."""
_MOST_SAMPLES = 2000
"""Longer races are forecast as if they were so long: they end earlier rather than later."""


class Racing(Protocol):
    """A strategy, as far as it is needed here."""

    def observe(self, row: Made) -> None:
        """Take the next sample."""

    def decided(self) -> Mapping[str, str]:
        """Who need not be asked any more."""


@dataclass(frozen=True, slots=True)
class Made:
    """One made-up sample."""

    group: str
    scores: Mapping[str, float]
    second: Mapping[str, float]
    costs: Mapping[str, float]


def expected_shares(
    make: Callable[[Sequence[str], int], Racing], labels: Sequence[str], planned: int, *, prices: Mapping[str, float]
) -> dict[float, float]:
    """By the lead of the best, the share of all trials that a race is expected to ask.

    The best is the last of the labels; the others are equal. `prices` says what a trial costs each, relative to the others.
    """
    samples, races = min(planned, _MOST_SAMPLES), max(2, _RACES // len(labels))
    rng = np.random.default_rng(0)

    def share(gap: float) -> float:
        return _share_asked(make(labels, samples), labels, _answers(labels, samples, gap, rng), prices)

    return {gap: sum(share(gap) for _ in range(races)) / races for gap in GAPS}


def _answers(labels: Sequence[str], samples: int, gap: float, rng: np.random.Generator) -> Floats:
    """Right or wrong, contestants × samples: on most samples all give the same answer, on the others each its own."""
    own = 2 * DIFFERING
    chances = np.full((len(labels), 1), 0.5 - gap / own / 2)
    chances[-1] += gap / own
    apart = rng.random(samples) < own
    return np.where(apart, rng.random((len(labels), samples)) < chances, rng.random(samples) < 0.5).astype(np.float64)


def _share_asked(race: Racing, labels: Sequence[str], answers: Floats, prices: Mapping[str, float]) -> float:
    asked = dict.fromkeys(labels, 0)
    for column in answers.T:
        left = [label for label in labels if label not in race.decided()]
        if not left:
            break
        scores = {label: float(column[labels.index(label)]) for label in left}
        race.observe(Made("", scores, scores, {label: prices[label] for label in left}))
        for label in left:
            asked[label] += 1
    return sum(asked.values()) / answers.size
