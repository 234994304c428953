"""Free text against known answers, by plain rules: stated, said, equal, contained, matching a pattern, sharing words."""

from __future__ import annotations

import re
from collections import Counter
from typing import ClassVar

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Keywords as Wanted
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, clauses, last_match, says, words
from tiebreak.core.trial import Outcome, Output, Score

_STATED = re.compile(r"\banswer(?: is|:| would be)[\s:*_]*(?=[^\n])", re.IGNORECASE)
_ARTICLES = frozenset({"a", "an", "the"})


class Match:
    """Right when the last answer stated is the target: alone, or as the start or end of what is said."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the stated answer with each accepted one."""
        because = f"expected {sample.target!r}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        stated = stated_answer(answer_text(output.text))
        right = any(is_answer(stated, target) for target in sample.targets)
        return Score.of(right, answer=stated[:200] or None, because=because)


def stated_answer(text: str) -> str:
    """What follows the last "answer is"; else the whole text."""
    found = last_match(_STATED, text)
    return (text[found.end() :].partition("\n")[0] if found else text).strip().strip("*_`\"' ")


def is_answer(stated: str, target: str) -> bool:
    """Whether the statement is the target, or opens or closes with it undenied."""
    wanted, said = words(target), clauses(stated)
    if not wanted:
        # Brackets and the like have no words: they are compared as they are, but for the white space.
        return stated.split() == target.split()
    parts = [part.strip() for part in said.split("|") if part.strip()]
    if " ".join(parts) == wanted:
        return True
    if not parts:
        return False
    edges = f" {parts[0]} ".startswith(f" {wanted} ") or f" {parts[-1]} ".endswith(f" {wanted} ")
    return edges and says(said, target)


class Keywords:
    """Right when an accepted keyword is said and no rejected one is; denying a keyword is not saying it."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("keywords", "targets")

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Look for the sample's keywords as whole words."""
        wanted = sample.keywords or Wanted(accept=sample.targets)
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because="cut off by the length limit")
        said = clauses(answer_text(output.text))
        found = [word for word in wanted.accept if says(said, word)]
        rejected = [word for word in wanted.reject if says(said, word)]
        enough = len(found) == len(wanted.accept) if wanted.need_all else bool(found)
        answer = ", ".join(found or rejected) or None
        return Score.of(enough and not rejected, answer=answer, because=_reason(wanted, rejected))


def _reason(wanted: Wanted, rejected: list[str]) -> str:
    if rejected:
        return f"says {', '.join(map(repr, rejected))}"
    joiner = " and " if wanted.need_all else " or "
    return f"expected {joiner.join(map(repr, wanted.accept))}"


class Exact:
    """Right when the answer is the target, character for character; white space around it does not count."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare with each accepted answer."""
        said = answer_text(output.text).strip()
        right = output.outcome is not Outcome.CUT_OFF and any(said == target.strip() for target in sample.targets)
        return Score.of(right, answer=said[:200] or None, because=f"expected {sample.target!r}")


class Includes:
    """Right when the answer contains the target, case-insensitively; white space around the target does not count."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
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

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
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

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
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
