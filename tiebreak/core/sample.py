"""One question, or one coding task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tiebreak.core.digest import digest_of, digest_of_texts
from tiebreak.core.message import AudioPart, FilePart, ImagePart, MediaPart, Message, Part, TextPart, Tool
from tiebreak.core.record import Record
from tiebreak.core.task import Task

_KINDS: Mapping[str, type[MediaPart]] = {"image": ImagePart, "file": FilePart, "audio": AudioPart}
"""What a sample may need of a model besides text, by what is in its messages."""


class Keywords(Record, frozen=True, kw_only=True):
    """What a free-text answer must and must not say."""

    accept: tuple[str, ...]
    reject: tuple[str, ...] = ()
    need_all: bool = False
    """Every accepted keyword is needed, not just one of them."""


class ToolResult(Record, frozen=True, kw_only=True):
    """What a scripted tool says when it is called."""

    name: str
    text: str
    arguments: Mapping[str, Any] | None = None
    """The call must have these arguments; None: any."""
    failed: bool = False


class Exchange(Record, frozen=True, kw_only=True):
    """What is asked besides one message in words: images and files in the messages, tools, a schema, further turns."""

    turns: tuple[Message, ...] = ()
    """What the user says next, each time the model has answered."""
    tools: tuple[Tool, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    """The scripted tools; where there are none, the first calls end the exchange."""
    schema: Mapping[str, Any] | None = None
    """JSON schema the answers must follow."""
    turn_targets: tuple[tuple[str, ...], ...] = ()
    """Accepted answers to each turn, the first message included; none for a turn that is not judged. Empty: the last is."""


class Sample(Record, frozen=True, kw_only=True):
    """One thing to ask, and what would be right."""

    id: str
    messages: tuple[Message, ...]
    targets: tuple[str, ...] = ()
    """Accepted answers; the first is the one reports show."""
    choices: tuple[str, ...] = ()
    """Possible answers in the order they are shown. Empty for free text."""
    keywords: Keywords | None = None
    category: str = ""
    group: str = ""
    """Samples that stand or fall together (same passage, same task) share a group."""
    scorers: tuple[str, ...] = ("match",)
    """Names of the scorers; the first is the primary one."""
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    task: Task | None = None
    """What is worked on, when the sample is a coding task."""
    fixed: bool = False
    """Shown as it is: the choices are neither listed nor put in another order."""
    stop: tuple[str, ...] = ()
    """The answer ends where one of these begins."""
    exchange: Exchange | None = None
    """What is asked besides words, and after them; None for most."""

    @property
    def target(self) -> str:
        """The answer reports show as right."""
        return self.targets[0] if self.targets else ""

    @property
    def prompt(self) -> str:
        """All that is said to the model, as one text."""
        if self.exchange is not None:
            return self._exchange_text(self.exchange)
        if len(self.messages) == 1:
            return self.messages[0].text
        return "\n\n".join(f"[{message.role}] {message.text}" for message in self.messages)

    def _exchange_text(self, exchange: Exchange) -> str:
        said = [*self.messages, *exchange.turns]
        texts = [said[0].text] if len(said) == 1 else [f"[{message.role}] {message.text}" for message in said]
        if exchange.tools:
            texts.append(f"[tools] {', '.join(tool.name for tool in exchange.tools)}")
        return "\n\n".join(texts)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Every image and file that is shown, in order."""
        turns = self.exchange.turns if self.exchange is not None else ()
        return tuple(part for message in (*self.messages, *turns) for part in message.media)

    @property
    def needs(self) -> frozenset[str]:
        """What it takes to ask it, besides text: image, file, audio, tools, schema or turns."""
        if self.exchange is None and all(message.is_plain for message in self.messages):
            return frozenset()
        kinds = {kind for part in self.media for kind, of in _KINDS.items() if isinstance(part, of)}
        exchange = self.exchange or Exchange()
        kinds |= {"tools"} if exchange.tools or any(message.tool_calls for message in self.messages) else set()
        kinds |= {"turns"} if exchange.turns else set()
        return frozenset(kinds | ({"schema"} if exchange.schema is not None else set()))

    @property
    def asked_digest(self) -> str:
        """Identity of the sample as the model is shown it."""
        messages = self.messages
        if len(messages) == 1:
            asked, plain = [self.id, messages[0].role, messages[0].text], messages[0].is_plain
        else:
            asked = [self.id, *(text for message in messages for text in (message.role, message.text))]
            plain = all(message.is_plain for message in messages)
        if self.stop:
            asked += ["stop", *self.stop]
        if self.exchange is not None or not plain:
            asked += ["exchange", self._exchange_digest()]
        return digest_of_texts(asked if self.task is None else [*asked, self.task.digest])

    def _exchange_digest(self) -> str:
        exchange = self.exchange or Exchange()
        said = [_identity(message) for message in (*self.messages, *exchange.turns)]
        return digest_of([said, exchange.tools, exchange.tool_results, exchange.schema])


def _identity(message: Message) -> list[Any]:
    """All of a message that its model is shown; where the bytes of an image lie is no part of it."""
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    return [message.role, [_part_identity(part) for part in message.parts], calls, message.tool_call_id, message.failed]


def _part_identity(part: Part) -> list[str]:
    if isinstance(part, TextPart):
        return ["text", part.text]
    if isinstance(part, ImagePart):
        return ["image", part.media_type, part.digest or part.data_base64 or part.url]
    if isinstance(part, AudioPart):
        return ["audio", part.media_type, part.digest or part.data_base64]
    if isinstance(part, FilePart):
        return ["file", part.media_type, part.digest or part.data_base64, part.name]
    return ["thinking", part.text, part.seal]
