"""How sure a score is."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959963984540054


def wilson(mean: float, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval for a share of n: honest at 0 % and 100 %, where the normal one has no width."""
    if n == 0:
        return 0.0, 1.0
    scale = 1 + z * z / n
    centre = (mean + z * z / (2 * n)) / scale
    half = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)) / scale
    # At the ends rounding leaves a hair; the bound there is exact.
    low = 0.0 if mean <= 0 else max(0.0, centre - half)
    high = 1.0 if mean >= 1 else min(1.0, centre + half)
    return low, high


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the ordered values that at least so many percent do not exceed."""
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[max(rank, 1) - 1]
