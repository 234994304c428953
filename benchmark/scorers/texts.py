"""Free text against known answers, by the plainest rules: equal, contained, matching a pattern, sharing words."""

from __future__ import annotations

import re
from collections import Counter
from typing import ClassVar

from benchmark.core.errors import UsageError
from benchmark.core.protocols import Context
from benchmark.core.sample import Sample
from benchmark.core.text import answer_text, last_match, words
from benchmark.core.trial import Outcome, Output, Score

_ARTICLES = frozenset({"a", "an", "the"})


class Exact:
    """Right when the answer is the target, character for character; white space around it does not count."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
        """Compare with each accepted answer."""
        said = answer_text(output.text).strip()
        right = output.outcome is not Outcome.CUT_OFF and any(said == target.strip() for target in sample.targets)
        return Score.of(right, answer=said[:200] or None, because=f"expected {sample.target!r}")


class Includes:
    """Right when the answer contains the target, in capitals or not; white space around the target does not count."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
        """Look for each accepted answer."""
        said = answer_text(output.text).strip()
        folded = said.casefold()
        found = next((target.strip() for target in sample.targets if target.strip().casefold() in folded), None)
        because = f"expected to contain {sample.target!r}"
        return Score.of(found is not None, answer=said[:200] or None if found is None else found, because=because)


class Regex:
    """`regex:PATTERN` takes the last match as the answer; `regex` alone is right when a target matches as a pattern."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    def __init__(self, pattern: str = "") -> None:
        self._pattern = compiled(pattern) if pattern else None

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
        """Extract and compare, or match."""
        said = answer_text(output.text)
        if self._pattern is None:
            found = next((m for target in sample.targets if (m := compiled(target).search(said))), None)
            return Score.of(found is not None, answer=found[0][:200] if found else None, because=f"expected /{sample.target}/")
        last = last_match(self._pattern, said)
        because = f"expected {sample.target!r}"
        if last is None:
            return Score.of(False, answer=None, because=f"the pattern is nowhere; {because}")
        answer = next((group for group in last.groups() if group is not None), last[0]).strip()
        return Score.of(any(answer == target.strip() for target in sample.targets), answer=answer[:200], because=because)


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as the user wrote it, or what is wrong with it."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"the pattern {pattern!r} is no regular expression: {error}") from None


class F1:
    """How many words the answer and the target share, from 0 to 1; order, capitals and articles do not count."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
        """The best agreement with any accepted answer."""
        said = _counted(answer_text(output.text))
        best = max((_f1(said, _counted(target)) for target in sample.targets), default=0.0)
        return Score(value=best, answer=answer_text(output.text).strip()[:200] or None, because=f"expected {sample.target!r}")


def _counted(text: str) -> Counter[str]:
    return Counter(word for word in words(text).split() if word not in _ARTICLES)


def _f1(said: Counter[str], wanted: Counter[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    shared = (said & wanted).total()
    return 2 * shared / (said.total() + wanted.total())
