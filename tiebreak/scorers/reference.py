"""The answer extraction of the reference tools, rule for rule, so that numbers can be compared with theirs.

Patterns and orders of removal are those of lm-evaluation-harness: gsm8k and gsm8k_cot version 3.0, bbh_cot_fewshot 4.0.
"""

from __future__ import annotations

import re
from string import ascii_uppercase
from typing import ClassVar

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text, last_match
from tiebreak.core.trial import Output, Score
from tiebreak.scorers.answers import SHOWN, before_stops, shown

_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_COT = re.compile(r"The answer is (\-?[0-9\.\,]+).")
_BBH = re.compile(r"(?<=the answer is )(.*)(?=.)")
INVALID = "[invalid]"


class Gsm8k:
    """GSM8K as lm-eval scores it: `gsm8k:strict` (the default), `gsm8k:flexible`, `gsm8k:cot`. Strings are compared."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    def __init__(self, rule: str = "strict") -> None:
        if rule not in ("strict", "flexible", "cot"):
            raise UsageError(f"there is no gsm8k:{rule}; there are gsm8k:strict, gsm8k:flexible and gsm8k:cot")
        self._rule = rule

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Extract by the rule, clean both sides, compare."""
        found = extracted(before_stops(answer_text(output.text), sample.metadata), self._rule)
        right = any(cleaned(found) == cleaned(target) for target in sample.targets)
        answer = shown(output.text) if found == INVALID else found[:SHOWN]
        return Score.of(right, answer=answer, because=f"expected {sample.target!r}")


def extracted(text: str, rule: str) -> str:
    """What a rule takes as the answer: the first match of a strict one, the last of the flexible."""
    if rule == "flexible":
        found = last_match(_FLEXIBLE, text)
        return (found[1] or found[2]) if found else INVALID
    found = (_COT if rule == "cot" else _STRICT).search(text)
    return found[1] if found else INVALID


def cleaned(answer: str) -> str:
    """An answer without what the comparison leaves out."""
    # The reference takes out the pattern `(?s).*#### `: all up to the last of these marks, but in quadratic time.
    rest = answer.replace(",", "").replace("$", "").rpartition("#### ")[2]
    if rest.endswith((".", ".\n")):
        rest = rest[:-1] if rest.endswith(".") else f"{rest[:-2]}\n"
    return rest.lower()


class Bbh:
    """BBH as lm-eval scores it: what follows the first "the answer is ", to the character."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Extract and compare."""
        text = answer_text(output.text)
        found = _BBH.search(before_stops(text, sample.metadata))
        wanted = _wanted(sample)
        answer = found[0][:SHOWN] if found else shown(text)
        return Score.of(found is not None and found[0] in wanted, answer=answer, because=f"expected {wanted[0]!r}")


def _wanted(sample: Sample) -> tuple[str, ...]:
    """The letter of the right option, as the reference has it: "(B)"; the targets where no option is one."""
    letters = (letter for letter, choice in zip(ascii_uppercase, sample.choices, strict=False) if choice == sample.target)
    right = next(letters, None)
    return sample.targets if right is None else (f"({right})",)
