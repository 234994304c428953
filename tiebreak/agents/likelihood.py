"""Does not ask: weighs each choice as a continuation."""

from __future__ import annotations

from string import ascii_uppercase
from typing import ClassVar

import msgspec

from tiebreak.core.errors import UsageError
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output


class Likelihood:
    """Has the model say how likely each choice is as its answer, and brings the log-probabilities back."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Weigh every choice: its letter where letters are shown, else its words."""
        if not sample.choices:
            raise UsageError(f"--likelihood compares choices, and sample {sample.id!r} has none")
        shown = sample.choices if sample.fixed else tuple(ascii_uppercase[: len(sample.choices)])
        delimiter = str(sample.metadata.get("delimiter", "" if not sample.fixed else " "))
        continuations = [delimiter + choice for choice in shown]
        raw = bool(sample.metadata.get("raw"))
        logprobs = [(await context.likelihood(sample.messages, text, raw=raw)).total for text in continuations]
        return Output(text=msgspec.json.encode({"continuations": continuations, "logprobs": logprobs}).decode())
