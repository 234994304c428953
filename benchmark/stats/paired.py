"""Two models on the same samples: is the difference more than luck?"""

from __future__ import annotations

import math


def exact_sign_test(wins: int, losses: int) -> float:
    """Two-sided probability of a split at least this uneven when either side is equally likely.

    On right-or-wrong samples, with the samples where exactly one model is right, this is McNemar's exact test.
    """
    n = wins + losses
    if n == 0:
        return 1.0
    tail = sum(math.exp(_log_choose(n, k) - n * math.log(2)) for k in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
