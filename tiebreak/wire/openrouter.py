"""OpenRouter's chat completions: OpenAI's, and the answer's cost in dollars beside its tokens."""

from __future__ import annotations

from typing import ClassVar

from tiebreak.core.message import Reply
from tiebreak.wire import chat

FORMAT = chat.FORMAT
encode = chat.encode


def decode(data: bytes) -> Reply:
    """The reply in a response's body, with its cost."""
    return chat.decode(data, tells_cost=True)


class Reader(chat.Reader):
    """Reads a streamed chat completion, whose last chunk tells the cost."""

    tells_cost: ClassVar[bool] = True
