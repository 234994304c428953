"""Whether a scorer has what it judges by."""

from __future__ import annotations

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import Scorer
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Trial

_WORDS = {
    "targets": "a known answer",
    "choices": "choices",
    "keywords": "keywords",
    "test": "tests",
    "instructions": "instructions",
    "false": "false answers",
    "expected_calls": "expected calls",
    "rubric": "a rubric of the sample's own",
}
_WEIGHS = "likelihood"


def refuse_unfit(name: str, scorer: Scorer, trial: Trial) -> None:
    """Raise when a trial has nothing of what the scorer judges by: every answer would be wrong, or every one right."""
    needs, weighs = scorer.needs, scorer.reads_likelihoods
    weighed = trial.contestant.agent.name == _WEIGHS
    if weighs and not weighed:
        raise UsageError(f"the scorer {name!r} judges by likelihoods, and these are answers in words: ask with --likelihood")
    if needs and not weighs and weighed:
        raise UsageError(f"the scorer {name!r} judges words, and here choices were weighed: name a scorer of likelihoods")
    if needs and not any(_has(trial.sample, need) for need in needs):
        words = " or ".join(_WORDS.get(need, need) for need in needs)
        raise UsageError(
            f"the scorer {name!r} judges by {words}, and the sample {trial.sample.id!r} has none; name another scorer"
        )


def _has(sample: Sample, need: str) -> bool:
    if need == "targets":
        return any(target.strip() for target in sample.targets)
    if need == "expected_calls":
        return need in sample.metadata  # That no tool is to be called is an expectation too.
    return bool(getattr(sample, need, None) or sample.metadata.get(need))
