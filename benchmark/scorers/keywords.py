"""Free text judged by what it says and does not say."""

from __future__ import annotations

from typing import ClassVar

from benchmark.core.protocols import Context
from benchmark.core.sample import Keywords as Wanted
from benchmark.core.sample import Sample
from benchmark.core.text import answer_text, clauses, says
from benchmark.core.trial import Outcome, Output, Score


class Keywords:
    """Right when an accepted keyword is said and no rejected one is; denying a keyword is not saying it."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("keywords", "targets")

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
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
