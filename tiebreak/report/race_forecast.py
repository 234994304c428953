"""What a race is expected to ask, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiebreak.stats.forecast import DIFFERING, Racing, expected_shares


def race_forecast(
    until: str, make: Callable[[Sequence[str], int], Racing], planned: int, *, dollars: Mapping[str, float]
) -> list[str]:
    """Lines for a dry run. `dollars` holds the expected cost of every contestant that races; 0 where it costs nothing."""
    # The best is the dearest: the cheap ones have to be shown to be worse.
    labels = sorted(dollars, key=lambda label: dollars[label])
    shares = expected_shares(make, labels, planned, prices=dollars)
    others = "the other" if len(labels) == 2 else "the others, who are equal"
    lines = [f"Expected with --until {until}, if equals differ on {DIFFERING:.0%} of the samples:"]
    lines += [
        f"  the best is {100 * gap:g} points ahead of {others}: about {share:.0%} of the trials" for gap, share in shares.items()
    ]
    return [*lines, "Who is ahead by less is asked everything: a race saves nothing among equals."]
