"""Ask several times, and take the answer most of them agree on."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import ClassVar

from tiebreak.agents.replies import outcome_of
from tiebreak.core.errors import UsageError
from tiebreak.core.message import Reply
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, last_match, words
from tiebreak.core.trial import Outcome, Output

_STATED = re.compile(r"\banswer\s*(?:is|:|=)\s*:?\s*(?P<answer>[^\n]{1,300})", re.IGNORECASE)
_LONGEST_KEY = 200


class SelfConsistency:
    """Asks `votes` times (5) and answers as most replies do; give the model a temperature above 0, or all votes are one."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})

    def __init__(self, votes: int = 5) -> None:
        if not isinstance(votes, int) or not 1 < votes <= 100:
            raise UsageError(f"self-consistency@votes={votes}: a whole number from 2 to 100 is needed")
        self._votes = votes

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Ask, count, and bring back the first reply of the majority; of equal ones the one that came up first."""
        asked = [context.ask(sample.messages, vote=vote) for vote in range(self._votes)]
        replies = await asyncio.gather(*asked)
        said = [reply for reply in replies if outcome_of(reply, reply.text) is Outcome.ANSWERED] or replies
        (key, _), *_ = Counter(vote_of(reply) for reply in said).most_common(1)
        chosen = next(reply for reply in said if vote_of(reply) == key)
        return Output(text=chosen.text, thinking=chosen.thinking, outcome=outcome_of(chosen, chosen.text))


def vote_of(reply: Reply) -> str:
    """What a reply answers, in plain words: what it calls its answer, else its last line."""
    text = answer_text(reply.text).strip()
    stated = last_match(_STATED, text)
    lines = text.splitlines()
    return words(stated["answer"] if stated else lines[-1] if lines else "")[:_LONGEST_KEY]
