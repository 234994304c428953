"""A share of a few contestants is rarely a whole number: what is made of it is said."""

from __future__ import annotations

import pytest

from tiebreak.stats.race import Best


@pytest.mark.parametrize(
    ("contestants", "share", "note"),
    [
        (3, "50%", "50% of 3 contestants is 1.5: the best one is looked for"),
        (5, "50%", "50% of 5 contestants is 2.5: the best 2 are looked for"),
        (7, "33.3%", "33.3% of 7 contestants is 2.33: the best 2 are looked for"),
        (4, "10%", "10% of 4 contestants is 0.4: the best one is looked for"),
        (4, "50%", ""),
        (10, "30%", ""),
        (3, "66.66666666666667%", ""),
    ],
)
def test_the_note(contestants: int, share: str, note: str) -> None:
    assert Best([f"c{number}" for number in range(contestants)], 10, share).note == note
