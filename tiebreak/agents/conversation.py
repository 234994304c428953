"""A question that goes on: further turns of the user, and tools whose results are scripted, or come from functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiebreak.agents.functions import Functions, call_function, told
from tiebreak.agents.replies import outcome_of, until
from tiebreak.core.message import Finish, Message, Reply, ToolCall
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Exchange, Sample, ToolResult
from tiebreak.core.trial import Outcome, Output

MOST_STEPS = 8
"""Rounds of tool calls in one turn."""
MOST_CALLS = 64
"""Tool calls in all."""


async def converse(sample: Sample, exchange: Exchange, context: AskContext, functions: Functions) -> Output:
    """Say every turn, answering the calls in between, and bring back the last reply with all that was said."""
    said: list[Message] = []
    tools = Tools(exchange.tool_results, {tool.name: functions[tool.name] for tool in exchange.tools if tool.name in functions})
    for number in range(len(exchange.turns) + 1):
        said += exchange.turns[number - 1 : number] if number else ()
        is_last = number == len(exchange.turns)
        reply = await _answered_turn(sample, exchange, context, said=said, tools=tools, is_last=is_last)
        if reply.finish not in (Finish.STOP, Finish.TOOL):
            break
    text = until(reply.text, sample.stop) if sample.stop else reply.text
    outcome = outcome_of(reply, text)
    called = any(message.tool_calls for message in said)
    # Calling a tool is an answer, also where nothing is said in words.
    outcome = Outcome.ANSWERED if outcome is Outcome.EMPTY and called else outcome
    return Output(text=text, thinking=reply.thinking, outcome=outcome, messages=tuple(said))


async def _answered_turn(
    sample: Sample, exchange: Exchange, context: AskContext, *, said: list[Message], tools: Tools, is_last: bool
) -> Reply:
    """Ask until the model has nothing more to call, or the limits are reached; what is said is added to `said`."""
    steps = 0
    while True:
        reply = await context.ask((*sample.messages, *said), tools=exchange.tools)
        said.append(reply.as_message())
        steps += 1
        ends = steps > MOST_STEPS or sum(len(message.tool_calls) for message in said) > MOST_CALLS
        if not reply.tool_calls or (is_last and (ends or not tools)):
            return reply
        # Every call wants an answer before the next turn, or the request would be refused.
        said += [await tools.answer(call) for call in reply.tool_calls]
        if ends or not tools:
            return reply


class Tools:
    """Tools that say what the sample scripted, or what a function returns; several results for the same call come in turn."""

    def __init__(self, results: Sequence[ToolResult], functions: Functions) -> None:
        self._results = results
        self._functions = functions
        self._used: set[int] = set()

    def __bool__(self) -> bool:
        """Whether any call can be answered."""
        return bool(self._results or self._functions)

    async def answer(self, call: ToolCall) -> Message:
        """The result of a call: the scripted one, of which the last that fits is given again, or the function's."""
        arguments = call.parsed()
        fitting = [place for place, result in enumerate(self._results) if _fits(result, call.name, arguments)]
        if not fitting and call.name in self._functions:
            return await call_function(call, self._functions[call.name])
        if not fitting:
            return told(call, f"no result is scripted for {call.name} with these arguments", failed=True)
        place = next((place for place in fitting if place not in self._used), fitting[-1])
        self._used.add(place)
        return told(call, self._results[place].text, failed=self._results[place].failed)


def _fits(result: ToolResult, name: str, arguments: Mapping[str, Any] | None) -> bool:
    return result.name == name and (result.arguments is None or result.arguments == arguments)
