"""How fragile a verdict is: the fewest answers that would have to be judged otherwise to overturn it."""

from __future__ import annotations

from collections.abc import Sequence

from tiebreak.stats.family import SURE, holm
from tiebreak.stats.paired import exact_sign_test


def fewest_changes(wins: int, losses: int, ties: int, *, others: Sequence[float] = (), scale: float = 1.0) -> int | None:
    """The fewest single verdicts, right turned into wrong or back, after which a pair is decided the other way.

    `wins` and `losses` are samples that only one of the two has right, `ties` the rest. `others` are the p-values of the other
    pairs, which stay as they are, and `scale` is what the p-value of this pair is multiplied by. A difference that is shown
    becomes one that is not, or the other way round. None: no number of changes would do that.
    """
    ahead, behind = max(wins, losses), min(wins, losses)
    shown = _is_shown(ahead, behind, others, scale)
    changed = _levelled if shown else _spread
    low, high = 1, wins + losses + ties
    if _is_shown(*changed(ahead, behind, ties, high), others, scale) == shown:
        return None
    while low < high:
        middle = (low + high) // 2
        if _is_shown(*changed(ahead, behind, ties, middle), others, scale) == shown:
            low = middle + 1
        else:
            high = middle
    return low


def _levelled(ahead: int, behind: int, ties: int, changes: int) -> tuple[int, int]:
    """The wins of either after so many changes that make the difference least clear, without turning it round.

    Every change takes one from the difference. It is least clear where the most samples differ: so ties become losses first.
    """
    changes = min(changes, ahead - behind)
    taken = max(0, -(-(changes - ties) // 2))
    return ahead - taken, behind + changes - taken


def _spread(ahead: int, behind: int, ties: int, changes: int) -> tuple[int, int]:
    """The same for the clearest difference: losses are taken away first."""
    taken = min(changes, behind)
    return ahead + min(changes - taken, ties + taken), behind - taken


def _is_shown(wins: int, losses: int, others: Sequence[float], scale: float) -> bool:
    p = min(1.0, exact_sign_test(wins, losses) * scale)
    return holm([p, *others])[0] < SURE
