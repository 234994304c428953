"""What a provider wants back with the next turn and the agent's dialect has no place for."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tiebreak.core.message import Message, Reply, ThinkingPart, ToolCall
from tiebreak.core.model import Request


class Memory:
    """Keeps seals of reasoning and of tool calls between the turns of a trial, by the ids of the calls."""

    def __init__(self) -> None:
        self._seals: dict[str, str] = {}
        self._thoughts: dict[str, tuple[ThinkingPart, ...]] = {}
        self._ids: set[str] = set()

    def fresh(self, call_id: str) -> str:
        """An id no other call of the trial has: some servers give none, or count from 0 in every answer."""
        call_id = call_id or "call"
        if call_id in self._ids:
            call_id = f"{call_id}-{len(self._ids)}"
        self._ids.add(call_id)
        return call_id

    def keep(self, reply: Reply) -> None:
        """Remember what came with a reply's calls."""
        thoughts = tuple(part for part in reply.parts if isinstance(part, ThinkingPart) and part.seal)
        for call in reply.tool_calls:
            if call.seal:
                self._seals[call.id] = call.seal
        if thoughts and reply.tool_calls:
            self._thoughts[reply.tool_calls[0].id] = thoughts

    def put_back(self, request: Request) -> Request:
        """The request with what its turns came with."""
        if not self._seals and not self._thoughts:
            return request
        return replace(request, messages=tuple(self._whole(message) for message in request.messages))

    def _whole(self, message: Message) -> Message:
        if not message.tool_calls:
            return message
        thoughts: Sequence[ThinkingPart] = self._thoughts.get(message.tool_calls[0].id, ())
        if any(isinstance(part, ThinkingPart) and part.seal for part in message.parts):
            thoughts = ()
        calls = tuple(self._sealed(call) for call in message.tool_calls)
        return replace(message, parts=(*thoughts, *message.parts), tool_calls=calls)

    def _sealed(self, call: ToolCall) -> ToolCall:
        return call if call.seal or call.id not in self._seals else replace(call, seal=self._seals[call.id])
