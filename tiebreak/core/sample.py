"""One question, or one coding task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.message import Message
from tiebreak.core.record import Record
from tiebreak.core.task import Task


class Keywords(Record, frozen=True, kw_only=True):
    """What a free-text answer must and must not say."""

    accept: tuple[str, ...]
    reject: tuple[str, ...] = ()
    need_all: bool = False
    """Every accepted keyword is needed, not just one of them."""


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

    @property
    def target(self) -> str:
        """The answer reports show as right."""
        return self.targets[0] if self.targets else ""

    @property
    def prompt(self) -> str:
        """All that is said to the model, as one text."""
        if len(self.messages) == 1:
            return self.messages[0].text
        return "\n\n".join(f"[{message.role}] {message.text}" for message in self.messages)

    @property
    def asked_digest(self) -> str:
        """Identity of the sample as the model is shown it."""
        asked = [self.id, *(text for message in self.messages for text in (message.role, message.text))]
        if self.stop:
            asked += ["stop", *self.stop]
        return digest_of_texts(asked if self.task is None else [*asked, self.task.digest])
