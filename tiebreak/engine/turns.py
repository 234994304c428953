"""A conversation judged turn by turn: what the model said to each turn is an answer of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from msgspec import structs

from tiebreak.core.message import Message
from tiebreak.core.protocols import AskContext, Scorer
from tiebreak.core.sample import Exchange, Sample
from tiebreak.core.trial import Output, Score


def score_of(scorer: Scorer, sample: Sample, output: Output, context: AskContext) -> Awaitable[Score]:
    """A scorer's verdict; of a conversation with targets for its turns, the share of these that is right."""
    exchange = sample.exchange
    if exchange is None or not exchange.turn_targets:
        return scorer.score(sample, output, context)
    return _score_by_turn(scorer, sample, exchange, output, context)


async def _score_by_turn(scorer: Scorer, sample: Sample, exchange: Exchange, output: Output, context: AskContext) -> Score:
    said = _said(sample, output)
    scores: dict[int, Score] = {}
    for number, targets in enumerate(exchange.turn_targets, start=1):
        if targets:
            messages, reply = said[number - 1] if number <= len(said) else (sample.messages, "")
            turn = structs.replace(sample, messages=messages, targets=targets, exchange=None)
            scores[number] = await scorer.score(turn, structs.replace(output, text=reply, messages=()), context)
    return _together(scores)


def _said(sample: Sample, output: Output) -> list[tuple[tuple[Message, ...], str]]:
    """Each turn of the user with all that was said before, and the last reply to it; the answer itself is that to the last."""
    before, reply = list(sample.messages), ""
    turns: list[tuple[tuple[Message, ...], str]] = []
    asked = tuple(before)
    for message in output.messages:
        if message.role == "user":
            turns.append((asked, reply))
            asked, reply = (*before, message), ""
        elif message.role == "assistant":
            reply = message.text or reply
        before.append(message)
    return [*turns, (asked, output.text)]


def _together(scores: dict[int, Score]) -> Score:
    """The mean over the turns; each turn's own score is a grade."""
    own: Sequence[Score] = list(scores.values())
    seconds = [score.second for score in own if score.second is not None]
    wrong = [f"turn {number}: {score.because}" for number, score in scores.items() if score.value < 1]
    answers = [f"{number}: {score.answer}" for number, score in scores.items() if score.answer is not None]
    usages = [score.usage for score in own if score.usage is not None]
    return Score(
        value=sum(score.value for score in own) / len(own),
        answer="; ".join(answers) or None,
        because="; ".join(wrong) or f"right in all of {len(own)} turns",
        usage=sum(usages[1:], usages[0]) if usages else None,
        grades={f"turn {number}": score.value for number, score in scores.items()},
        second=sum(seconds) / len(seconds) if len(seconds) == len(own) else None,
    )
