"""Multiple choice: which letter did the model settle on?"""

from __future__ import annotations

import re
from collections import deque
from string import ascii_uppercase
from typing import ClassVar

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, clauses, denied, says, words
from tiebreak.core.trial import Outcome, Output, Score

# Bounded, so that a megabyte of brackets costs no more than a megabyte of words.
_MARKS = r"[(\[*_`\"'{$]{0,5}"
_ENDS = r"[)\]*_`\"'}$]{0,5}"
_STATED = re.compile(
    # "The answer is (B)", "Answer: **B**", "I would choose B", "the correct option is therefore B"
    r"\b(?:answer|choice|option|choose|pick|select)\b"
    r"(?:[\s:*_=\-–—]|\b(?:is|would|be|should|must|the|therefore|thus|correct|option|choice|letter|final|definitely)\b){0,16}?"
    rf"{_MARKS}\b(?P<letter>[A-Z])\b{_ENDS}(?![A-Za-z0-9'])",
    re.IGNORECASE,
)
_IS_RIGHT = re.compile(rf"(?<![\w']){_MARKS}(?P<letter>[A-Z]){_ENDS} (?:is|must be) (?:the )?(?:correct|right|answer)\b")
_BOXED = re.compile(r"\\boxed\{[\s({]{0,4}(?:\\text\{)?[\s(]{0,4}(?P<letter>[A-Z])[\s)}]{0,4}\}")
_LABEL = re.compile(r"^[ \t>#*_(\[`\"']*(?P<letter>[A-Z])[*_`\"']{0,5}(?:[.:)\]]+(?=[\s*_]|$)|[ \t*_]*$)", re.MULTILINE)
_ALONE = re.compile(r"(?<![\w'])\(?(?P<letter>[B-HJ-Z])\)?(?![\w'])")
_STATEMENTS = (_STATED, _IS_RIGHT, _BOXED)
_HEDGED = re.compile(r" (?:or|and) \(?[A-Z]\b(?!')")
_UNDECIDED = -1
_MOST_MENTIONS = 2000
"""Mentions of a letter that are looked at, the last ones: a megabyte of them must not take minutes."""


class Choice:
    """Right when the last answer the model stated is the right choice: its letter, or its words."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("choices",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the choice found with the right one."""
        if sample.target not in sample.choices:
            raise ProviderError(
                f"the target {sample.target!r} of {sample.id!r} is none of its choices", kind=FailureKind.VERIFIER
            )
        expected = sample.choices.index(sample.target)
        because = f"expected {_named(sample, expected)}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        found = chosen(answer_text(output.text), sample.choices)
        if found is None:
            return Score.of(False, answer=None, because=f"no choice found; {because}")
        return Score.of(found == expected, answer=_named(sample, found), because=because)


def chosen(text: str, choices: tuple[str, ...]) -> int | None:
    """Position of the choice the text settles on, or None. The surest reading that finds one wins."""
    whole = text.strip().strip("()[]{}*_`.,:;!\"'$ \n")
    if len(whole) == 1:
        return _position(whole.upper(), len(choices))
    for read in (_stated, _labelled, _in_words, _alone):
        found = read(text, choices)
        if found is not None:
            return None if found == _UNDECIDED else found
    return None


def _stated(text: str, choices: tuple[str, ...]) -> int | None:
    """The last letter the text calls its answer and does not take back."""
    found = sorted((m for pattern in _STATEMENTS for m in _last_mentions(pattern, text)), key=re.Match.start, reverse=True)
    for match in found:
        position = _kept(match, text, choices)
        if position is not None:
            # "The answer is A or B" settles on nothing.
            return _UNDECIDED if _HEDGED.match(text, match.end()) else position
    return None


def _kept(match: re.Match[str], text: str, choices: tuple[str, ...]) -> int | None:
    """The position a statement names; None for another letter, a word ("the answer a child gives") or a denial."""
    letter, end = match["letter"], match.end()
    if letter.islower() and text[end : end + 1] not in ("", ".", "\n", ",", ";", "!", ":"):
        return None
    return None if _is_denied(text, match.start(), end) else _position(letter.upper(), len(choices))


def _labelled(text: str, choices: tuple[str, ...]) -> int | None:
    """The letter that labels a line, when only one does: several are the choices repeated."""
    found = {_position(m["letter"], len(choices)) for m in _LABEL.finditer(text)} - {None}
    return found.pop() if len(found) == 1 else None


def _in_words(text: str, choices: tuple[str, ...]) -> int | None:
    """The one choice whose words the text says without denying them."""
    said = clauses(text)
    found = [i for i, choice in enumerate(choices) if says(said, choice)]
    # "New York City" also says "New York": the longer choice covers the shorter.
    found = [i for i in found if not any(j != i and words(choices[i]) in words(choices[j]) for j in found)]
    return found[0] if len(found) == 1 else None


def _alone(text: str, choices: tuple[str, ...]) -> int | None:
    """A capital standing alone, when only one does; "A" and "I" are words too and do not count."""
    found = {_position(m["letter"], len(choices)) for m in _last_mentions(_ALONE, text) if not _is_denied(text, *m.span())}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _last_mentions(pattern: re.Pattern[str], text: str) -> deque[re.Match[str]]:
    return deque(pattern.finditer(text), maxlen=_MOST_MENTIONS)


def _is_denied(text: str, start: int, end: int) -> bool:
    before, after = clauses(text[max(0, start - 60) : start]), clauses(text[end : end + 60])
    return denied(f"{before} x {after} ", len(before) + 1, len(before) + 2)


def _position(letter: str, count: int) -> int | None:
    index = ascii_uppercase.find(letter)
    return index if 0 <= index < count else None


def _named(sample: Sample, index: int) -> str:
    return f"{ascii_uppercase[index]}) {sample.choices[index]}"
