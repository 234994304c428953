"""Free text against known answers: said, equal, contained, matching a pattern, sharing words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Keywords as Wanted
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, clauses, words
from tiebreak.core.text import says as says_phrase
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.scorers.answers import SHOWN, before_run_on, corrected, readable, shown, stated_before, statement
from tiebreak.scorers.listing import candidates
from tiebreak.scorers.patterns import compiled, first_match
from tiebreak.scorers.rivals import is_other_name, states_another
from tiebreak.scorers.second import said_by_letters
from tiebreak.scorers.wording import Accepted, accepted_of, says

_LONGEST_ITEM = 60
"""Characters of the first item of a list."""
_ARTICLES = frozenset({"a", "an", "the"})


class Match:
    """Right when the answer says an accepted one: its words, undenied, not merely among alternatives, and no other instead."""

    version: ClassVar[int] = 5
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Read what is called the answer, else the whole text."""
        because = f"expected {sample.target!r}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        text = readable(output.text)
        second = said_by_letters(text, sample.targets)
        if (plain := text.strip()) in sample.targets:
            # Nothing but an accepted answer: there is nothing to be read.
            return Score.of(True, answer=plain[:SHOWN], because=because, second=second)
        said = stated_answer(text)
        question = sample.messages[-1].text if sample.messages else ""
        accepted = accepted_of(question, sample.targets)
        right = says(said, accepted) or (accepted.are_signs and says(text, accepted))
        right = right and not (
            _merely_listed(_with_its_list(said, text), accepted)
            or states_another(said, accepted)
            or _contradicted(text, accepted)
        )
        answer = said.strip()[:SHOWN] if right else shown(said)
        return Score.of(right, answer=answer, because=because, second=second)


def _merely_listed(said: str, accepted: Accepted) -> bool:
    """Whether the accepted answer is one of many candidates, most of which are wrong; a target may itself be a list."""
    if accepted.are_several:
        return False
    items = candidates(said)
    return len(items) > max((alias.parts for alias in accepted.aliases), default=1) and 2 * sum(
        says(item, accepted) for item in items
    ) <= len(items)


def _with_its_list(said: str, text: str) -> str:
    """What is called the answer, with the lines below it where it is only the first of a list."""
    if len(said) > _LONGEST_ITEM or said is text or "\n" not in text:
        return said
    place = text.rfind(said)
    return text[text.rfind("\n", 0, place) + 1 :] if text.find("\n", place) >= 0 else said


def _contradicted(text: str, accepted: Accepted) -> bool:
    """Whether the sentence before the last one calls another name the answer: "The answer is Paris. The answer is Rome."."""
    before = stated_before(before_run_on(text))
    return bool(before) and is_other_name(before, accepted)


def stated_answer(text: str) -> str:
    """What the text calls its answer; else all of it, from its last change of mind on."""
    text = before_run_on(text)
    return statement(text) or corrected(text)


class Keywords:
    """Right when an accepted keyword is said and no rejected one is; denying a keyword is not saying it."""

    version: ClassVar[int] = 3
    needs: ClassVar[tuple[str, ...]] = ("keywords", "targets")

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Look for the sample's keywords as whole words."""
        wanted = sample.keywords or Wanted(accept=sample.targets)
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because="cut off by the length limit")
        text = readable(output.text)
        said = clauses(text)
        present = set(said.split())
        found = [word for word in wanted.accept if _may_be_said(word, present) and says_phrase(said, word)]
        rejected = [word for word in wanted.reject if _may_be_said(word, present) and says_phrase(said, word)]
        right = _are_enough(found, wanted) and not rejected
        answer = ", ".join(found or rejected) or shown(text)
        return Score.of(right, answer=answer, because=_reason(wanted, rejected), second=_contains(text, wanted))


def _may_be_said(keyword: str, present: set[str]) -> bool:
    """A quick look: plain words that are not there need not be looked for."""
    words = keyword.lower().split()
    return not keyword.isascii() or not "".join(words).isalnum() or present.issuperset(words)


def _are_enough(found: Sequence[str], wanted: Wanted) -> bool:
    return len(found) == len(wanted.accept) if wanted.need_all else bool(found)


def _contains(text: str, wanted: Wanted) -> bool:
    """The second, cruder rule: keywords as mere characters, denied or not."""
    folded = text.casefold()
    found = [word for word in wanted.accept if word.casefold() in folded]
    return _are_enough(found, wanted) and not any(word.casefold() in folded for word in wanted.reject)


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
        return Score.of(right, answer=said[:SHOWN] if right else shown(said), because=f"expected {sample.target!r}")


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
        return Score.of(found is not None, answer=shown(said) if found is None else found[:SHOWN], because=because)


class Regex:
    """`regex:PATTERN` takes the last match as the answer; `regex` alone is right when a target matches as a pattern."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    def __init__(self, pattern: str = "") -> None:
        self._pattern = compiled(pattern) if pattern else None

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Extract and compare, or match."""
        said = answer_text(output.text)
        if self._pattern is None:
            found = first_match(sample.targets, said)
            answer = found[0][:SHOWN] if found else shown(said)
            return Score.of(found is not None, answer=answer, because=f"expected /{sample.target}/")
        last = self._pattern.last(said)
        because = f"expected {sample.target!r}"
        if last is None:
            return Score.of(False, answer=shown(said), because=f"the pattern is nowhere; {because}")
        answer = next((group for group in last.groups() if group is not None), last[0]).strip()
        return Score.of(any(answer == target.strip() for target in sample.targets), answer=answer[:SHOWN], because=because)


class F1:
    """How many words the answer and the target share, from 0 to 1; order, capitals and articles do not count."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """The best agreement with any accepted answer."""
        text = readable(output.text)
        said = _counted(text)
        best = max((_f1(said, _counted(target)) for target in sample.targets), default=0.0)
        return Score(value=best, answer=shown(text), because=f"expected {sample.target!r}")


def _counted(text: str) -> Counter[str]:
    return Counter(word for word in words(text).split() if word not in _ARTICLES)


def _f1(said: Counter[str], wanted: Counter[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    shared = (said & wanted).total()
    return 2 * shared / (said.total() + wanted.total())
