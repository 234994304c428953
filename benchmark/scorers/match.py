"""Free text against a known answer."""

from __future__ import annotations

import re
from typing import ClassVar

from benchmark.core.protocols import Context
from benchmark.core.sample import Sample
from benchmark.core.text import answer_text, clauses, last_match, says, words
from benchmark.core.trial import Outcome, Output, Score

_STATED = re.compile(r"\banswer(?: is|:| would be)[\s:*_]*(?=[^\n])", re.IGNORECASE)


class Match:
    """Right when the last answer stated is the target: alone, or as the start or end of what is said."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
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
