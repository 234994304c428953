"""How much error each test of a run may make, by when it was looked at and how often it was extended."""

from __future__ import annotations

from dataclasses import dataclass

from tiebreak.stats.family import SURE

EXTENSION = 0.01
"""The error that every extension of a run adds."""
_FOR_LOOKS = 0.2
"""The share of an end's error that goes to looks before that end, where there were any."""
RACING = SURE * _FOR_LOOKS
"""The error that decisions of a race may make before the planned end."""
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """A planned end: after how many samples, and the error its test may make."""

    samples: int
    alpha: float


@dataclass(frozen=True, slots=True)
class Look:
    """Somebody saw a verdict: how many samples were planned then, and how many of them each contestant had been asked."""

    planned: int
    asked: tuple[float, ...]

    def is_early(self, pair: Pair) -> bool:
        """Whether the pair could be compared, and was not at the end yet."""
        return 0 < min(self.asked[pair[0]], self.asked[pair[1]]) < self.planned


@dataclass(frozen=True, slots=True)
class Schedule:
    """The planned ends of a run and the looks at it."""

    earlier: tuple[int, ...] = ()
    """Samples after which the run was to end, before it was extended."""
    looks: tuple[Look, ...] = ()
    raced: bool = False
    """Whether the run itself looked all the time, to end early for those it was shown enough of."""

    @property
    def total(self) -> float:
        """The chance of even one false difference, over the whole life of the run, is at most this."""
        return SURE + EXTENSION * len(self.earlier)

    @property
    def end_scale(self) -> float:
        """What the p-value of a test that is made at the end alone is to be multiplied by."""
        return SURE / EXTENSION if self.earlier else 1.0

    def stages(self, planned: int, pair: Pair) -> list[Stage]:
        """Every end with what is left for its test once looks have had their share."""
        return [
            Stage(end, _alpha(place) * (1 - _FOR_LOOKS * self._looked(pair, end)))
            for place, end in enumerate([*self.earlier, planned])
        ]

    def look_alpha(self, planned: int, pair: Pair, *, unfinished: bool) -> float:
        """What looks may spend; of a pair that is not at the end, whoever sees it is looking now."""
        ends = [*self.earlier, planned]
        looked = [self._looked(pair, end) or (unfinished and end == planned) for end in ends]
        return sum(_FOR_LOOKS * _alpha(place) for place, was in enumerate(looked) if was)

    def _looked(self, pair: Pair, end: int) -> bool:
        return self.raced or any(look.planned == end and look.is_early(pair) for look in self.looks)


def _alpha(place: int) -> float:
    return SURE if place == 0 else EXTENSION
