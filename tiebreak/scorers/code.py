"""Programs, judged by running their tests in the sandbox."""

from __future__ import annotations

import re
from typing import ClassVar

from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Outcome, Output, Score

_BLOCK = re.compile(r"```(?:python|py|python3)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)
_LONGEST = 200_000
_SECONDS = 30.0
_SHOWN = 300


class Code:
    """Right when the first Python block of the answer (or the answer itself) passes the sample's tests in the sandbox."""

    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("test",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Run the tests on the program, which runs where they are not."""
        code = program(sample, answer_text(output.text)[:_LONGEST])
        if code is None or output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because="no program" if code is None else "cut off by the length limit")
        ran = await context.run_tests(code, str(sample.metadata.get("test", "")), timeout_s=_SECONDS)
        passed = ran.code == 0
        return Score.of(passed, answer=code[-_SHOWN:], because="passes its tests" if passed else _fault(ran.errors, ran.ended_by))


def program(sample: Sample, text: str) -> str | None:
    """The program an answer holds: a block of code, or a continuation of what the prompt begins."""
    before, entry = str(sample.metadata.get("before", "")), str(sample.metadata.get("entry_point", ""))
    block = _BLOCK.search(text)
    code = block[1] if block else text
    if not code.strip():
        return None
    if entry and not re.search(rf"\bdef\s+{re.escape(entry)}\b", code):
        return before + code
    # What the prompt imports and defines before the function counts as given.
    return f"{before}\n{code}" if entry else code


def _fault(errors: str, ended_by: str) -> str:
    if ended_by:
        return f"ended by {ended_by}"
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return lines[-1][:_SHOWN] if lines else "did not reach the end of its tests"
