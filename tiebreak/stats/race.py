"""Races: who need not be asked any more, because it is shown already who is better.

Every row is one sample of the plan, in the order of the plan: never in the order in which answers come, for what comes early
is easy. The tests may be looked at after every row. They take a fifth of the error a run may make; the rest is kept for the
test at the planned end, so that small differences are found as often as without a race.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from tiebreak.stats.family import SURE, holm
from tiebreak.stats.paired import Floats
from tiebreak.stats.schedule import RACING
from tiebreak.stats.sequential import anytime_p

_FIRST_LOOK = 20
_GROWTH = 1.04
"""From one look to the next; any number of them would be valid, and each takes time."""


class Row(Protocol):
    """One sample, once everyone still in the race has answered it."""

    @property
    def group(self) -> str:
        """What its sample stands or falls with; empty for nothing."""
        ...

    @property
    def scores(self) -> Mapping[str, float | None]:
        """By contestant; None for no score, and nobody who has left."""
        ...

    @property
    def second(self) -> Mapping[str, float | None]:
        """The same by a second reading, where there is one, and with failures as wrong answers."""
        ...

    @property
    def costs(self) -> Mapping[str, float | None]:
        """What each one's answers cost, in dollars; None where that is not known."""
        ...


class Leader:
    """Until the best is known: whoever is shown to be worse than another leaves."""

    def __init__(self, contestants: Sequence[str], planned: int) -> None:
        self._labels = list(contestants)
        self._tables = [np.full((len(contestants), planned), np.nan) for _ in range(2)]
        self._groups = np.zeros(planned, dtype=np.int64)
        self._numbers: dict[str, int] = {}
        self._rows, self._next_look = 0, _FIRST_LOOK
        self._done = [0] * len(contestants)
        self._decided: dict[str, str] = {}
        self._racing: Sequence[str] = ()
        """Who answered the last sample; others may have left for reasons of their own."""

    def observe(self, row: Row) -> None:
        """Take the next sample of the plan."""
        at, self._racing = self._rows, tuple(row.scores)
        self._groups[at] = self._numbers.setdefault(row.group or f"\0{at}", len(self._numbers))
        for number, label in enumerate(self._labels):
            if label in row.scores:
                self._done[number] = at + 1
                for table, scores in zip(self._tables, (row.scores, row.second), strict=True):
                    score = scores[label]
                    table[number, at] = np.nan if score is None else score
        self._rows += 1
        if self._rows >= self._next_look and self._rows < len(self._groups):
            self._next_look = max(self._rows + 5, int(self._rows * _GROWTH))
            self._look()

    def decided(self) -> Mapping[str, str]:
        """Whoever need not be asked any more, and why."""
        return self._decided

    def _groups_so_far(self) -> np.ndarray | None:
        return None if len(self._numbers) == self._rows else self._groups[: self._rows]

    def _look(self) -> None:
        groups, (scores, second) = self._groups_so_far(), (table[:, : self._rows] for table in self._tables)
        better = shown_better(scores, self._done, groups)
        if better and not np.array_equal(scores, second, equal_nan=True):
            better &= shown_better(second, self._done, groups)
        self._settle(better)

    def _settle(self, better: frozenset[tuple[int, int]]) -> None:
        for winner, loser in sorted(better):
            label = self._labels[loser]
            self._decided.setdefault(label, f"shown to be worse than {self._labels[winner]}")
        left = [label for label in self._racing if label not in self._decided]
        if len(left) == 1:
            self._decided[left[0]] = "nobody else is left in the race"


class Tiers(Leader):
    """Until everyone's place is known: whoever is shown to be better or worse than each of the others leaves."""

    def _settle(self, better: frozenset[tuple[int, int]]) -> None:
        for number, label in enumerate(self._labels):
            known = {a + b - number for a, b in better if number in (a, b)}
            if len(known) == len(self._labels) - 1:
                self._decided.setdefault(label, "shown to be better or worse than each of the others")


class Best(Leader):
    """Until it is known who belongs to the best share of the contestants: `best:50%`, or `50%` for short."""

    def __init__(self, contestants: Sequence[str], planned: int, share: str) -> None:
        super().__init__(contestants, planned)
        exact = len(contestants) * share_of(share)
        self._places = max(1, math.floor(exact))
        percent, best = share.removesuffix("%"), "best one is" if self._places == 1 else f"best {self._places} are"
        rounded = f"{percent}% of {len(contestants)} contestants is {exact:.3g}: the {best} looked for"
        self.note = "" if math.isclose(exact, self._places) else rounded
        """What whoever asked for the share should know of it."""

    def _settle(self, better: frozenset[tuple[int, int]]) -> None:
        for number, label in enumerate(self._labels):
            if sum(loser == number for _, loser in better) >= self._places:
                self._decided.setdefault(label, f"shown not to be among the best {self._places}")
            elif sum(winner == number for winner, _ in better) >= len(self._labels) - self._places:
                self._decided.setdefault(label, f"shown to be among the best {self._places}")


def share_of(text: str) -> float:
    """A share as typed, in percent; ValueError where it is none."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError(f"a share of the contestants is a number, as in 50%, not {text}") from None
    if not 0 < percent < 100:
        raise ValueError(f"a share of the contestants is between 0 % and 100 %, not {text}")
    return percent / 100


def shown_better(table: Floats, done: Sequence[int], groups: np.ndarray | None) -> frozenset[tuple[int, int]]:
    """Pairs (a, b) of which a is shown to be better by a test that may be looked at any number of times."""
    found = [_pair(table, one, other, min(done[one], done[other]), groups) for one, other in combinations(range(len(table)), 2)]
    corrected = holm([min(1.0, p * SURE / RACING) for p, _ in found])
    return frozenset(winner for (_, winner), p in zip(found, corrected, strict=True) if p < SURE)


def _pair(table: Floats, one: int, other: int, rows: int, groups: np.ndarray | None) -> tuple[float, tuple[int, int]]:
    p, sign = anytime_p(table[one, :rows] - table[other, :rows], None if groups is None else groups[:rows])
    return (p, (one, other) if sign > 0 else (other, one)) if sign else (1.0, (one, other))
