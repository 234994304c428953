"""Answers that are numbers."""

from __future__ import annotations

import re
from typing import ClassVar

from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, clauses, denied, last_match
from tiebreak.core.trial import Outcome, Output, Score

_NUMBER = r"[-+\u2212]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?(?:/\d+)?|[-+\u2212]?\.\d+"
_ANY = re.compile(rf"(?<![\w.])(?:{_NUMBER})(?![\w])")
_FREE = re.compile(rf"{_ANY.pattern}(?!-[A-Za-z])")
"""Not the 4 of "two 4-week months"."""
_STATED = re.compile(rf"(?:####|\\boxed\{{|\banswer(?: is|:|\s*=)?)[\s:*_$]*(?P<number>{_NUMBER})", re.IGNORECASE)
_LOOKED_AT = 20
_NEAR = 60


class Numeric:
    """Right when the last number stated equals the target to five significant digits."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the number found with each accepted one."""
        because = f"expected {sample.target!r}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        found = stated_number(answer_text(output.text))
        if found is None:
            return Score.of(False, answer=None, because=f"no number found; {because}")
        value = to_number(found)
        right = any(same_number(value, to_number(target)) for target in sample.targets)
        return Score.of(right, answer=found, because=because)


def stated_number(text: str) -> str | None:
    """The last number called the answer; else the last number of all."""
    stated = last_match(_STATED, text)
    if stated is not None:
        return stated["number"]
    found = list(_FREE.finditer(text)) or list(_ANY.finditer(text))
    # "It is 12, not 13": a number that is denied is not the one stated. Beyond a few, all are taken as said.
    for match in reversed(found[-_LOOKED_AT:]):
        before = clauses(text[max(0, match.start() - _NEAR) : match.start()])
        if not denied(f"{before} x", len(before) + 1, len(before) + 2):
            return match[0]
    return found[-1][0] if found else None


def to_number(text: str) -> float | None:
    """The value of a number as people write it, or None."""
    plain = text.strip().translate({ord(","): None, ord("$"): None, ord("%"): None, 0x2212: "-"}).rstrip(".")
    top, slash, bottom = plain.partition("/")
    try:
        return float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def same_number(a: float | None, b: float | None) -> bool:
    """Equal to five significant digits; nothing equals what is no number."""
    if a is None or b is None:
        return False
    return a == b or format(a, ".5g") == format(b, ".5g")
