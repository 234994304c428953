"""Keeping secrets out of everything that is kept or shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(r"((api|access|private|secret)[_-]?key|token|secret|password|credential)s?$", re.IGNORECASE)
_KEY_SHAPES = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|AIza[0-9A-Za-z_-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,})"
    r"|(?<=Bearer )[A-Za-z0-9._~+/-]{8,}=*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_SHORTEST_SECRET = 6


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that it holds a secret."""
    return _SECRET_NAME.search(name) is not None


class Redactor:
    """Replaces the secrets of this process's environment, and what looks like a key, in any text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._secrets = known
        self._longest = max(map(len, known), default=0)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    @classmethod
    def from_environment(cls, *more: str) -> Redactor:
        """A redactor that knows the value of every variable whose name says it is a secret."""
        return cls([*(v for k, v in os.environ.items() if is_secret_name(k)), *more])

    def known(self, text: str) -> str:
        """The text without the secrets we know; what only looks like a key may be part of somebody's work."""
        return text if self._known is None else self._known.sub(HIDDEN, text)

    def starts(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret we know."""
        tail = text[1 - self._longest :] if self._longest > 1 else ""
        places = [_place_of_start(tail, secret) for secret in self._secrets]
        return len(tail) - min(places, default=len(tail))

    def __call__(self, text: str) -> str:
        """The text with every secret in it replaced."""
        if len(text) < _SHORTEST_SECRET:
            return text
        return _KEY_SHAPES.sub(HIDDEN, self.known(text))


def _place_of_start(tail: str, secret: str) -> int:
    """Where in a tail its end begins to spell the secret; its length where it does not."""
    place = tail.find(secret[0])
    while place >= 0 and not secret.startswith(tail[place:]):
        place = tail.find(secret[0], place + 1)
    return len(tail) if place < 0 else place


class StreamRedactor:
    """Takes the known secrets out of a text that comes in pieces: what may be the beginning of one is held back."""

    __slots__ = ("_held", "_redact")

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be passed on by now."""
        text = self._redact.known(self._held + piece)
        size = self._redact.starts(text)
        self._held = text[len(text) - size :]
        return text[: len(text) - size]

    def rest(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return held
