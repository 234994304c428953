"""Just ask."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.message import Finish, Reply
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Outcome, Output

_OUTCOMES = {
    Finish.LENGTH: Outcome.CUT_OFF,
    Finish.REFUSED: Outcome.REFUSED,
    Finish.FILTERED: Outcome.FILTERED,
}


class Direct:
    """Puts the sample's messages to the model and takes the reply as the answer; goes on where the sample does."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})
    converses: ClassVar[bool] = True

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Ask once, or as often as the sample's tools and turns want."""
        if sample.exchange is not None and (sample.exchange.tools or sample.exchange.turns):
            from tiebreak.agents.conversation import converse

            return await converse(sample, sample.exchange, context)
        reply = await context.ask(sample.messages)
        text = until(reply.text, sample.stop) if sample.stop else reply.text
        return Output(text=text, thinking=reply.thinking, outcome=outcome_of(reply, text))


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
