"""Looking a dataset over before it is asked: what would make its score mean less."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from dataclasses import dataclass, field

from benchmark.core.digest import positions_by
from benchmark.core.protocols import Dataset
from benchmark.core.sample import Sample

_SHOWN = 3
_LEAK_POINTS = 0.15
"""So much above chance a guesser that does not read must be before it is spoken of."""
_LEAST = 20
_LOPSIDED = 0.8
_FEW_ANSWERS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, in words, with where to look."""

    kind: str
    message: str
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a look at every sample found."""

    samples: int
    findings: tuple[Finding, ...]
    guessers: dict[str, float] = field(default_factory=dict)
    """What would be scored without reading: by place, by length, by the commonest answer, by chance."""


@dataclass(slots=True)
class _Seen:
    """The counts of one pass; nothing in it grows with the number of samples but twelve bytes each."""

    questions: array[int] = field(default_factory=lambda: array("Q"))
    places: Counter[int] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    told_count: int = 0
    missing: list[str] = field(default_factory=list)
    missing_count: int = 0
    with_choices: int = 0
    fixed: int = 0
    """Samples whose choices are seen in their order; those that are weighed one by one have no order."""
    longest_right: int = 0
    chance: float = 0.0


def audit(dataset: Dataset) -> Audit:
    """Read every sample once."""
    seen = _Seen()
    for position in range(len(dataset)):
        _look(seen, dataset[position])
    findings = [*_duplicates(seen, dataset), *_missing(seen), *_told(seen), *_leaks(seen), *_lopsided(seen)]
    return Audit(samples=len(dataset), findings=tuple(findings), guessers=_guessers(seen))


def _look(seen: _Seen, sample: Sample) -> None:
    text = sample.messages[-1].text
    # Two checksums of different kinds, as one number: collisions would have to happen in both.
    data = text.encode("utf-8", "replace")
    seen.questions.append(zlib.crc32(data) << 32 | zlib.adler32(data))
    seen.categories[sample.category] += 1
    target = sample.target
    if not target and sample.keywords is None and not sample.metadata and sample.task is None:
        seen.missing_count += 1
        _note(seen.missing, sample.id)
    if sample.choices:
        _look_at_choices(seen, sample)
    elif target:
        if len(seen.answers) < 100_000:
            seen.answers[zlib.crc32(target.encode("utf-8", "replace"))] += 1
        if len(target) > 3 and target in text and not sample.fixed:
            seen.told_count += 1
            _note(seen.told, sample.id)


def _look_at_choices(seen: _Seen, sample: Sample) -> None:
    choices = sample.choices
    lengths = [len(choice) for choice in choices]
    seen.with_choices += 1
    seen.fixed += sample.fixed and "raw" not in sample.metadata
    seen.chance += 1 / len(choices)
    seen.places[choices.index(sample.target) if sample.target in choices else -1] += 1
    longest = max(lengths)
    seen.longest_right += lengths.count(longest) == 1 and len(sample.target) == longest


def _note(noted: list[str], identity: str) -> None:
    if len(noted) < _SHOWN:
        noted.append(identity)


def _guessers(seen: _Seen) -> dict[str, float]:
    """What guessing without reading scores."""
    n = seen.with_choices
    if n:
        return {
            "chance": seen.chance / n,
            "always the same place in the file": max(seen.places.values()) / n,
            "always the longest": seen.longest_right / n,
        }
    total = seen.answers.total()
    return {"always the commonest answer": max(seen.answers.values()) / total} if total else {}


def _duplicates(seen: _Seen, dataset: Dataset) -> list[Finding]:
    count, previous = 0, -1
    shown: list[str] = []
    for position in positions_by(seen.questions):
        if previous >= 0 and seen.questions[position] == seen.questions[previous]:
            count += 1
            if len(shown) < _SHOWN:
                shown.append(f"{dataset[previous].id} = {dataset[position].id}")
        previous = position
    message = "1 question stands there twice" if count == 1 else f"{count:,} questions stand there twice"
    return [Finding(kind="duplicates", message=message, samples=tuple(shown))] if count else []


def _missing(seen: _Seen) -> list[Finding]:
    if not seen.missing_count:
        return []
    return [
        Finding(kind="no answer", message=f"{seen.missing_count:,} samples have no right answer", samples=tuple(seen.missing))
    ]


def _told(seen: _Seen) -> list[Finding]:
    if seen.told_count < 0.1 * max(1, seen.answers.total()):
        return []
    message = f"{seen.told_count:,} questions contain their answer"
    return [Finding(kind="answer in the question", message=message, samples=tuple(seen.told))]


def _leaks(seen: _Seen) -> list[Finding]:
    """Guessers that do not read and yet do better than chance."""
    found, guessers = [], _guessers(seen)
    if seen.with_choices >= _LEAST:
        chance = guessers["chance"]
        if guessers["always the longest"] > chance + _LEAK_POINTS:
            share = guessers["always the longest"]
            found.append(Finding(kind="length", message=f"taking the longest choice scores {share:.0%} (chance is {chance:.0%})"))
        # Where the order is ours, a place tells nothing: see benchmark.engine.present.
        if guessers["always the same place in the file"] > chance + _LEAK_POINTS and seen.fixed:
            share = guessers["always the same place in the file"]
            found.append(Finding(kind="place", message=f"{share:.0%} of the right choices stand in one place"))
    elif seen.answers.total() >= _LEAST and guessers["always the commonest answer"] > _FEW_ANSWERS:
        message = f"always giving the commonest answer scores {guessers['always the commonest answer']:.0%}"
        found.append(Finding(kind="majority", message=message))
    return found


def _lopsided(seen: _Seen) -> list[Finding]:
    name, count = seen.categories.most_common(1)[0] if seen.categories else ("", 0)
    total = seen.categories.total()
    if len(seen.categories) < 2 or total < _LEAST or count < _LOPSIDED * total:
        return []
    return [Finding(kind="categories", message=f"{count / total:.0%} of the samples are of one category, {name!r}")]
