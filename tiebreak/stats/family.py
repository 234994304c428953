"""Many models at once: corrected tests, tiers, ranks, fronts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

SURE = 0.05
"""A corrected p below this separates two models."""


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's corrected probabilities: the chance of even one false difference among all of them is kept."""
    corrected = [0.0] * len(ps)
    largest = 0.0
    for place, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - place) * ps[i]))
        corrected[i] = largest
    return corrected


def tiers(ordered: Sequence[Name], better: Callable[[Name, Name], bool]) -> list[list[Name]]:
    """Each tier holds those whom nobody still unplaced is shown to beat, in the order given.

    So no tier holds two of whom one is shown to be better. Only where the tests go round in a circle (a beats b, b beats c,
    c beats a) is nobody left unbeaten: then the last tier holds all who remain.
    """
    rest, found = list(ordered), list[list[Name]]()
    while rest:
        tier = [name for name in rest if not any(better(other, name) for other in rest)] or rest
        found.append(tier)
        rest = [name for name in rest if name not in tier]
    return found


def rank_interval(name: Name, others: Sequence[Name], better: Callable[[Name, Name], bool]) -> tuple[int, int]:
    """The ranks a model may truly have: behind all that are shown better, before all that are shown worse."""
    ahead = sum(better(other, name) for other in others)
    behind = sum(better(name, other) for other in others)
    return 1 + ahead, 1 + len(others) - behind


def pareto_front(points: Sequence[tuple[str, float, float]]) -> list[str]:
    """Of (name, cost, quality) those that nothing else beats in one without losing in the other; cheapest first."""
    front: list[tuple[str, float, float]] = []
    for point in sorted(points, key=lambda p: (p[1], -p[2])):
        if not front or point[2] > front[-1][2] or point[1:] == front[-1][1:]:
            front.append(point)
    return [name for name, _, _ in front]
