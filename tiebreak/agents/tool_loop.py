"""Ask with a tool at hand: the model may run Python before it answers."""

from __future__ import annotations

from typing import Any, ClassVar

from tiebreak.agents.replies import outcome_of
from tiebreak.core.errors import UsageError
from tiebreak.core.message import Message, TextPart, Tool, ToolCall
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output

_LONGEST_RESULT = 8_000
PYTHON = Tool(
    name="python",
    description="Run a Python program in a sandbox, without network; returns what it prints. Nothing is kept between calls.",
    parameters={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)


class ToolLoop:
    """Lets the model call Python up to `turns` times (8) before it answers; what runs, runs in the sandbox."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})

    def __init__(self, turns: int = 8) -> None:
        if not isinstance(turns, int) or not 0 < turns <= 100:
            raise UsageError(f"tools@turns={turns}: a whole number from 1 to 100 is needed")
        self._turns = turns

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Ask, run what is called for, and go on until the model answers in words."""
        messages = list(sample.messages)
        for turns_left in range(self._turns, -1, -1):
            reply = await context.ask(messages, tools=(PYTHON,) if turns_left else ())
            if not (reply.tool_calls and turns_left):
                break
            messages += [reply.as_message(), *[await _result_of(call, context) for call in reply.tool_calls]]
        return Output(text=reply.text, thinking=reply.thinking, outcome=outcome_of(reply, reply.text))


async def _result_of(call: ToolCall, context: AskContext) -> Message:
    """What a call printed, or why it could not be run."""
    arguments: dict[str, Any] = call.parsed() or {}
    code = arguments.get("code")
    if call.name != PYTHON.name or not isinstance(code, str):
        return _told(call, 'call the tool "python" with {"code": "..."}', failed=True)
    finished = await context.run_code(code)
    ended = f"\n[ended by {finished.ended_by}]" if finished.ended_by else ""
    text = finished.output[-_LONGEST_RESULT:] + ended
    return _told(call, text or "[it printed nothing]", failed=finished.code != 0)


def _told(call: ToolCall, text: str, *, failed: bool = False) -> Message:
    return Message(role="tool", parts=(TextPart(text),), tool_call_id=call.id, failed=failed)
