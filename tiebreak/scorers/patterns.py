"""Regular expressions from data and users, matched in bounded time.

Python's `re` may take for ever on a pattern like `(a+)+$`. Patterns that cannot do harm are left to it; any other is
matched by the library `regex`, which can be told when to give up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from tiebreak.core.errors import ScorerError, UsageError
from tiebreak.core.extras import optional

SECONDS = 0.5
"""How long a pattern may take on one answer."""
_MANY = 16
"""Repeats up to this many times are as good as written out."""
_STEPS = 10_000_000
"""Steps that Python's own engine is trusted with; it takes about a tenth of a second for them."""
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


class Pattern:
    """A pattern that was checked, and what it may cost."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text, self._flags = text, flags
        try:
            self._quick = re.compile(text, flags)
            self._repeats, self._nested = _weighed(parser.parse(text, flags))
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"the pattern {text!r} is no regular expression: {error}") from None

        if self._nested:
            self._patient()

    def search(self, text: str) -> re.Match[str] | None:
        """The first match."""
        return next(self.matches(text), None)

    def last(self, text: str) -> re.Match[str] | None:
        """The last match."""
        found = None
        for match in self.matches(text):
            found = match
        return found

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """All matches in their order; a pattern that takes too long is the scorer's failure, not the model's."""
        if self._is_quick(text):
            yield from self._quick.finditer(text)
            return
        regex = self._patient()
        try:
            yield from regex.finditer(self._text, text, flags=self._flags, timeout=SECONDS)
        except (TimeoutError, regex.error) as error:
            why = f"takes more than {SECONDS:g} s" if isinstance(error, TimeoutError) else f"cannot be matched: {error}"
            raise ScorerError(f"the pattern {self._text!r} {why} on an answer of {len(text):,} characters") from None

    def _patient(self) -> Any:
        return optional("regex", extra="scorers", needed_by=f"the pattern {self._text!r}")

    def _is_quick(self, text: str) -> bool:
        """One repeat may begin anywhere and end anywhere; each further one multiplies that by the length again."""
        return not self._nested and (not self._repeats or len(text) ** (self._repeats + 1) <= _STEPS)


@lru_cache(maxsize=1024)
def compiled(text: str, flags: int = 0) -> Pattern:
    """A pattern as the user wrote it, or what is wrong with it."""
    return Pattern(text, flags)


def first_match(patterns: Sequence[str], text: str) -> re.Match[str] | None:
    """The match of the first pattern that has one; all of them together may take as long as one may."""
    began = time.thread_time()
    for tried, pattern in enumerate(patterns, start=1):
        if found := compiled(pattern).search(text):
            return found
        if time.thread_time() - began > SECONDS and tried < len(patterns):
            raise ScorerError(
                f"the first {tried:,} of {len(patterns):,} patterns take more than {SECONDS:g} s on an answer of "
                f"{len(text):,} characters; write them as fewer patterns, or as texts for another scorer"
            )
    return None


def _weighed(tree: Any, *, inside: bool = False) -> tuple[int, bool]:
    """How many open-ended repeats a pattern has, and whether one holds something that can match in several ways."""
    repeats, nested = 0, False
    for code, value in tree:
        if code in _REPEATS:
            least, most, body = value
            varies = least != most
            repeats, nested = repeats + (varies and most > _MANY), nested or (inside and varies)
            below = _weighed(body, inside=inside or most > 1)
        elif code is codes.BRANCH:
            nested = nested or inside
            below = _total(_weighed(branch, inside=inside) for branch in value[1])
        else:
            below = _total(_weighed(part, inside=inside) for part in _parts(value))
        repeats, nested = repeats + below[0], nested or below[1]
    return repeats, nested


def _parts(value: Any) -> Iterator[Any]:
    """The patterns within a group, a lookaround or a condition."""
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, tuple):
        yield from (part for part in value if isinstance(part, parser.SubPattern))


def _total(weighed: Iterator[tuple[int, bool]]) -> tuple[int, bool]:
    counted = list(weighed)
    return sum(repeats for repeats, _ in counted), any(nested for _, nested in counted)
