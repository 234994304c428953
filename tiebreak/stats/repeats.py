"""Asking a sample several times: is it ever right, is it always right?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import comb

Counted = Iterable[tuple[int, int]]
"""For each sample, how often it was answered and how often rightly."""


def pass_at(counted: Counted, k: int) -> float | None:
    """pass@k: the chance that at least one of k answers is right, without bias (Chen et al. 2021).

    Samples answered fewer than k times say nothing about it; None when there are no others.
    """
    return _mean(counted, k, lambda n, c: 1 - comb(n - c, k) / comb(n, k))


def pass_all(counted: Counted, k: int) -> float | None:
    """pass^k: the chance that all of k answers are right, without bias."""
    return _mean(counted, k, lambda n, c: comb(c, k) / comb(n, k))


def _mean(counted: Counted, k: int, share: Callable[[int, int], float]) -> float | None:
    kinds = Counter((n, c) for n, c in counted if n >= k)
    samples = sum(kinds.values())
    return sum(times * share(n, c) for (n, c), times in kinds.items()) / samples if samples else None
