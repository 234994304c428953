"""Multiple choice by likelihood: which continuation did the model find likeliest?"""

from __future__ import annotations

import math
from typing import ClassVar

import msgspec

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score

_RULES = ("sum", "norm", "bytes", "mass")


class ChoiceLogprobs(msgspec.Struct):
    """What the `likelihood` agent writes: each continuation with its log-probability, in the order of the choices."""

    continuations: list[str]
    logprobs: list[float]


class Likelihood:
    """By the sum of log-probabilities, or per character (`:norm`), per byte (`:bytes`), or the mass on true answers (`:mass`)."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("choices",)
    reads_likelihoods: ClassVar[bool] = True

    def __init__(self, rule: str = "sum") -> None:
        if rule not in _RULES:
            raise UsageError(f"there is no likelihood:{rule}; there are {', '.join(_RULES)}")
        self._rule = rule

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the likeliest choice with the right one; of equals the first counts, as in lm-eval."""
        weighed = read(output.text)
        if weighed is None or len(weighed.logprobs) != len(sample.choices):
            return Score.of(False, answer=None, because="no likelihoods: this scorer needs --likelihood")
        if self._rule == "mass":
            value = _mass(weighed.logprobs, sample)
            return Score(
                value=value, answer=f"{value:.4f} on true answers", because="share of the probability that is on true answers"
            )
        weights = [
            logprob / _length(choice, self._rule) for logprob, choice in zip(weighed.logprobs, sample.choices, strict=True)
        ]
        found = weights.index(max(weights))
        right = sample.choices[found] in sample.targets
        return Score.of(right, answer=sample.choices[found][:200], because=f"expected {sample.target!r}")


def read(text: str) -> ChoiceLogprobs | None:
    """The likelihoods an output holds, or None."""
    try:
        return msgspec.json.decode(text, type=ChoiceLogprobs)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return None


def _length(choice: str, rule: str) -> int:
    if rule == "norm":
        return max(1, len(choice))
    return max(1, len(choice.encode("utf-8", "replace"))) if rule == "bytes" else 1


def _mass(logprobs: list[float], sample: Sample) -> float:
    """The probability of the true answers among all; shifted, so that very unlikely ones do not vanish."""
    highest = max(logprobs)
    shares = [math.exp(logprob - highest) for logprob in logprobs]
    true = sum(share for share, choice in zip(shares, sample.choices, strict=True) if choice in sample.targets)
    return true / sum(shares)
