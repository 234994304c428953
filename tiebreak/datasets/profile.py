"""Counts over all samples of a dataset, for its audit; nothing in them grows with their number but eight bytes each."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from zlib import adler32, crc32

from tiebreak.core.sample import Sample

_SHOWN = 3
_MOST_ANSWERS = 10_000
"""Different answers that are counted: where there are more, no one of them is given often."""


class Profile:
    """What an audit needs to know of the samples, counted while they are read for another reason."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.questions = array("Q")
        """A checksum of each question."""
        self.categories: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()
        """Of free text, by their checksums; of the rarer ones not all are counted."""
        self.free = 0
        """Samples with an answer in free text."""
        self.sizes: Counter[int] = Counter()
        """How many choices the samples have."""
        self.places: Counter[int] = Counter()
        """Where among the choices the right one stands; -1: nowhere."""
        self.longest_right = 0
        """Samples whose right choice is longer than every other."""
        self.in_order = 0
        """Samples whose choices are seen in their order; those that are weighed one by one have no order."""
        self.revealing_count = self.missing_count = 0
        self.revealing: list[str] = []
        """A few samples whose question contains the answer."""
        self.missing: list[str] = []
        """A few samples without an answer."""
        for sample in samples:
            self.add(sample)

    def add(self, sample: Sample) -> None:
        """Count a sample."""
        text = sample.messages[-1].text
        data = _asked(sample, text).encode("utf-8", "replace")
        # Two checksums of different kinds, as one number: collisions would have to happen in both.
        self.questions.append(crc32(data) << 32 | adler32(data))
        self.categories[sample.category] += 1
        target = sample.targets[0] if sample.targets else ""
        if sample.choices:
            self._add_choices(sample, target)
        elif target:
            self._add_answer(sample, target, text)
        if not target and sample.keywords is None and not sample.metadata and sample.task is None:
            self.missing_count += 1
            _note(self.missing, sample.id)

    def _add_choices(self, sample: Sample, target: str) -> None:
        choices, length = sample.choices, len(target)
        self.sizes[len(choices)] += 1
        self.places[choices.index(target) if target in choices else -1] += 1
        self.longest_right += [len(choice) >= length for choice in choices].count(True) == 1
        if sample.fixed and "raw" not in sample.metadata:
            self.in_order += 1

    def _add_answer(self, sample: Sample, target: str, text: str) -> None:
        self.free += 1
        answer = crc32(target.encode("utf-8", "replace"))
        if len(self.answers) < _MOST_ANSWERS or answer in self.answers:
            self.answers[answer] += 1
        if len(target) > 3 and not sample.fixed and target in text:
            self.revealing_count += 1
            _note(self.revealing, sample.id)


def _note(noted: list[str], identity: str) -> None:
    if len(noted) < _SHOWN:
        noted.append(identity)


def _asked(sample: Sample, text: str) -> str:
    """All that tells a question from others: its words, and what is shown, said and told besides."""
    exchange = sample.exchange
    if exchange is None:
        return text
    results = [f"{result.name}{result.arguments}{result.text}" for result in exchange.tool_results]
    return "\n".join([sample.prompt, *results, *(part.digest for part in sample.media)])
