"""What an effect of a factor is, without what it takes to compute one: numpy is not loaded to read a stored one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Two levels of a factor, everything else being equal."""

    first: str
    """The better level; where they are equal, the one that sorts first."""
    second: str
    difference: float
    """Mean score at the first level minus that at the second; never below 0."""
    low: float
    high: float
    """95 % interval of the difference, of this pair alone."""
    p: float
    p_corrected: float
    """Holm's, over the pairs of this factor."""
    method: str
    """How the reassignments were counted: see `Paired`."""
    samples: int
    """Samples with at least one cell where both levels have a score."""
    cells: int
    """Combinations of the other factors on which the levels were compared."""
    separated: bool
    """Whether the corrected test shows the first to be better, and nothing doubtful would turn it."""
    error: float
    """Standard error of the difference; never 0."""
    depends_on: tuple[str, ...] = ()
    """What would turn it, counted the other way: failures, reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMean:
    """The score at one level, with its 95 % interval."""

    level: str
    mean: float
    low: float
    high: float
    samples: int
    contestants: int
