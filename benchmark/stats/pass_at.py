"""What repeats say: solved by at least one of k attempts, or by all of them."""

from __future__ import annotations

import math


def pass_at(n: int, right: int, k: int) -> float:
    """The chance that at least one of k attempts is right, from n of which some were; not a number where n < k."""
    if n < k:
        return math.nan
    if n - right < k:
        return 1.0
    # 1 - C(n - right, k) / C(n, k), without the large numbers.
    return 1.0 - math.prod(1.0 - k / i for i in range(n - right + 1, n + 1))


def pass_all(n: int, right: int, k: int) -> float:
    """The chance that all of k attempts are right, from n of which some were; not a number where n < k."""
    return math.comb(right, k) / math.comb(n, k) if n >= k else math.nan
