"""Just ask."""

from __future__ import annotations

from benchmark.core.message import Finish, Reply
from benchmark.core.protocols import Context
from benchmark.core.sample import Sample
from benchmark.core.trial import Outcome, Output

_OUTCOMES = {
    Finish.LENGTH: Outcome.CUT_OFF,
    Finish.REFUSED: Outcome.REFUSED,
    Finish.FILTERED: Outcome.FILTERED,
}


class Direct:
    """Puts the sample's messages to the model once and takes the reply as the answer."""

    async def run(self, sample: Sample, context: Context) -> Output:
        """Ask once."""
        reply = await context.ask(sample.messages)
        return Output(text=reply.text, thinking=reply.thinking, outcome=_outcome(reply))


def _outcome(reply: Reply) -> Outcome:
    outcome = _OUTCOMES.get(reply.finish, Outcome.ANSWERED)
    if outcome is Outcome.ANSWERED and not reply.text.strip():
        return Outcome.EMPTY
    return outcome
