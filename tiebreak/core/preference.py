"""Two answers to one sample, and which of them somebody prefers."""

from __future__ import annotations

from tiebreak.core.message import Usage
from tiebreak.core.record import Record
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Failure

TIE, FIRST, SECOND, BOTH_BAD = 0, 1, 2, -1
"""Which answer is better, as it is stored; people can also say that neither is any good."""


class AnswerPair(Record, frozen=True, kw_only=True):
    """Two contestants' answers to one sample, in the order they are shown to a judge."""

    sample: Sample
    repeat: int
    first: str
    """The trial whose answer is shown first."""
    second: str
    first_text: str
    second_text: str
    judges: tuple[str, ...]
    """The labels of the judges that have not compared them yet."""


class Preference(Record, frozen=True, kw_only=True):
    """What one judge said of two answers in one order, or that it failed."""

    sample: str
    """The sample's id."""
    first: str
    second: str
    scorer: str
    judge: str
    better: int | None = None
    """0 for a tie, 1 or 2 for an answer; None where there is no verdict."""
    because: str = ""
    reply_text: str = ""
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    local: bool = False
    """The judge runs on this machine, at no price."""
    failure: Failure | None = None
