"""What a model's reply amounts to as an answer."""

from __future__ import annotations

from tiebreak.core.message import Finish, Reply
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Outcome

_OUTCOMES = {
    Finish.LENGTH: Outcome.CUT_OFF,
    Finish.REFUSED: Outcome.REFUSED,
    Finish.FILTERED: Outcome.FILTERED,
}


def until(text: str, stops: tuple[str, ...]) -> str:
    """The text up to the first stop in its answer; not every server can be told where to stop."""
    said = answer_text(text)
    ends = [place for stop in stops if (place := said.find(stop)) >= 0]
    if not ends or not text.endswith(said):
        return text
    return text[: len(text) - len(said) + min(ends)]


def outcome_of(reply: Reply, text: str) -> Outcome:
    """How a reply ended, of which `text` is taken as the answer."""
    outcome = _OUTCOMES.get(reply.finish, Outcome.ANSWERED)
    if outcome is Outcome.CUT_OFF and len(text) < len(reply.text):
        # It went on past its stop: the length limit cut nothing that counts.
        outcome = Outcome.ANSWERED
    if outcome is Outcome.ANSWERED and not text.strip():
        return Outcome.EMPTY
    return outcome
