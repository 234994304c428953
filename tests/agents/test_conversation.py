"""Questions that go on: turns, scripted tools, and the limits of both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tiebreak.agents.conversation import MOST_CALLS, MOST_STEPS
from tiebreak.agents.direct import Direct
from tiebreak.core.message import Finish, Message, Reply, Tool, ToolCall, user
from tiebreak.core.sample import Exchange, Sample, ToolResult
from tiebreak.core.trial import Outcome, Output

TOOL = Tool(name="look")


class Saying:
    """A context whose model says what it is told to, the last of it again and again."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.asked: list[tuple[Message, ...]] = []

    async def ask(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), vote: int = 0) -> Reply:
        self.asked.append(tuple(messages))
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def calling(*arguments: str, text: str = "") -> Reply:
    calls = tuple(ToolCall(id=f"c{n}", name="look", arguments=given) for n, given in enumerate(arguments))
    return Reply(text=text, tool_calls=calls, finish=Finish.TOOL)


def said(exchange: Exchange, context: Any) -> Output:
    return asyncio.run(Direct().run(Sample(id="s", messages=(user("first"),), exchange=exchange), context))


def test_every_turn_is_answered_before_the_next():
    """The last answer is what is judged."""
    context = Saying(Reply(text="one"), Reply(text="two"))
    output = said(Exchange(turns=(user("second"),)), context)
    assert [[m.text for m in messages] for messages in context.asked] == [["first"], ["first", "one", "second"]]
    assert output.text == "two"
    assert [m.role for m in output.messages] == ["assistant", "user", "assistant"]


def test_a_refusal_ends_the_conversation():
    """Nothing is made of what comes after."""
    context = Saying(Reply(text="No.", finish=Finish.REFUSED))
    assert said(Exchange(turns=(user("second"),)), context).outcome is Outcome.REFUSED
    assert len(context.asked) == 1


def test_without_scripted_results_the_first_calls_end_it():
    """Calling is answering, also without a word."""
    context = Saying(calling('{"x": 1}'))
    output = said(Exchange(tools=(TOOL,)), context)
    assert (output.outcome, len(context.asked), len(output.tool_calls)) == (Outcome.ANSWERED, 1, 1)


def test_saying_nothing_and_calling_nothing_is_no_answer():
    """As for any other question."""
    assert said(Exchange(tools=(TOOL,)), Saying(Reply(text=""))).outcome is Outcome.EMPTY


def test_results_are_given_by_arguments_and_in_turn():
    """The last one that fits is given again; a call nobody scripted gets an error."""
    results = (
        ToolResult(name="look", arguments={"x": 1}, text="first"),
        ToolResult(name="look", arguments={"x": 1}, text="second"),
        ToolResult(name="look", arguments={"x": 2}, text="broken", failed=True),
    )
    context = Saying(calling('{"x":1}', '{"x": 1}', '{"x": 1}', '{"x": 2}', '{"x": 3}', "{no"), Reply(text="done"))
    output = said(Exchange(tools=(TOOL,), tool_results=results), context)
    told = [(m.text, m.failed, m.tool_call_id) for m in output.messages if m.role == "tool"]
    missing = "no result is scripted for look with these arguments"
    assert told == [
        ("first", False, "c0"),
        ("second", False, "c1"),
        ("second", False, "c2"),
        ("broken", True, "c3"),
        (missing, True, "c4"),
        (missing, True, "c5"),
    ]
    assert output.text == "done"


def test_a_model_that_never_stops_calling_is_stopped():
    """By the number of rounds, and by the number of calls."""
    results = (ToolResult(name="look", text="x"),)
    context = Saying(calling("{}"))
    output = said(Exchange(tools=(TOOL,), tool_results=results), context)
    assert (len(context.asked), output.outcome) == (MOST_STEPS + 1, Outcome.ANSWERED)
    context = Saying(calling(*["{}"] * (MOST_CALLS + 1)))
    said(Exchange(tools=(TOOL,), tool_results=results), context)
    assert len(context.asked) == 1


def test_calls_are_answered_before_the_next_turn():
    """A provider refuses a conversation with calls that were left open."""
    context = Saying(calling("{}"), Reply(text="done"))
    output = said(Exchange(tools=(TOOL,), turns=(user("second"),)), context)
    assert [m.role for m in context.asked[1]] == ["user", "assistant", "tool", "user"]
    assert output.text == "done"
