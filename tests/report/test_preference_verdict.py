"""What a comparison of answers in pairs says, from no verdicts at all to all of them."""

from __future__ import annotations

import pytest

from tiebreak.report.preferences import PairSummary, PreferenceSummary, Preferred, PreferredContestant, preference_verdict

EVEN = Preferred(share=0.5, low=0.2, high=0.8)


def summary(ties: int, *, leader: str | None = None) -> PreferenceSummary:
    """Two contestants of whom so many pairs of answers were compared."""
    pair = PairSummary(
        first="a", second="b", preferred=EVEN, wins=0, ties=ties, losses=0, p=1.0, p_corrected=1.0, separated=leader is not None
    )
    everyone = tuple(
        PreferredContestant(contestant=label, tier=1, preferred=EVEN, wins=0, ties=ties, losses=0) for label in ("a", "b")
    )
    return PreferenceSummary(
        by="judges",
        names=("j",),
        compared=ties,
        possible=450,
        samples=ties,
        contestants=everyone,
        pairs=(pair,),
        leader=leader,
        position=EVEN,
        length=None,
    )


@pytest.mark.parametrize("compared", [1, 2, 5])
def test_a_few_pairs_are_no_tie(compared: int) -> None:
    assert preference_verdict(summary(compared)) == f"Nothing can be said yet: {compared} of 450 pairs of answers were compared."


def test_enough_of_them_may_be_one() -> None:
    assert preference_verdict(summary(6)) == "A tie: nobody is shown to be preferred."
    assert preference_verdict(summary(40, leader="a")) == "a is preferred to every other contestant."
