"""Looking a dataset over before it is asked: what would make its score mean less."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmark.core.digest import positions_by
from benchmark.core.protocols import Dataset
from benchmark.datasets.glance import Glance

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


def audit(dataset: Dataset) -> Audit:
    """What there is to say of all samples; one that took notice of them while it was read is not read again."""
    seen: Glance = getattr(dataset, "glance", None) or Glance(dataset[position] for position in range(len(dataset)))
    findings = [*_duplicates(seen, dataset), *_missing(seen), *_told(seen), *_leaks(seen), *_lopsided(seen)]
    return Audit(samples=len(dataset), findings=tuple(findings), guessers=_guessers(seen))


def _guessers(seen: Glance) -> dict[str, float]:
    """What guessing without reading scores."""
    n = seen.sizes.total()
    if n:
        return {
            "chance": sum(count / choices for choices, count in seen.sizes.items()) / n,
            "always the same place in the file": max(seen.places.values()) / n,
            "always the longest": seen.longest_right / n,
        }
    total = seen.free
    return {"always the commonest answer": max(seen.answers.values()) / total} if total else {}


def _duplicates(seen: Glance, dataset: Dataset) -> list[Finding]:
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


def _missing(seen: Glance) -> list[Finding]:
    if not seen.missing_count:
        return []
    return [
        Finding(kind="no answer", message=f"{seen.missing_count:,} samples have no right answer", samples=tuple(seen.missing))
    ]


def _told(seen: Glance) -> list[Finding]:
    if seen.told_count < 0.1 * max(1, seen.free):
        return []
    message = f"{seen.told_count:,} questions contain their answer"
    return [Finding(kind="answer in the question", message=message, samples=tuple(seen.told))]


def _leaks(seen: Glance) -> list[Finding]:
    """Guessers that do not read and yet do better than chance."""
    found, guessers = [], _guessers(seen)
    if seen.sizes.total() >= _LEAST:
        chance = guessers["chance"]
        if guessers["always the longest"] > chance + _LEAK_POINTS:
            share = guessers["always the longest"]
            found.append(Finding(kind="length", message=f"taking the longest choice scores {share:.0%} (chance is {chance:.0%})"))
        # Where the order is ours, a place tells nothing: see benchmark.engine.present.
        if guessers["always the same place in the file"] > chance + _LEAK_POINTS and seen.in_order:
            share = guessers["always the same place in the file"]
            found.append(Finding(kind="place", message=f"{share:.0%} of the right choices stand in one place"))
    elif seen.free >= _LEAST and guessers["always the commonest answer"] > _FEW_ANSWERS:
        message = f"always giving the commonest answer scores {guessers['always the commonest answer']:.0%}"
        found.append(Finding(kind="majority", message=message))
    return found


def _lopsided(seen: Glance) -> list[Finding]:
    name, count = seen.categories.most_common(1)[0] if seen.categories else ("", 0)
    total = seen.categories.total()
    if len(seen.categories) < 2 or total < _LEAST or count < _LOPSIDED * total:
        return []
    return [Finding(kind="categories", message=f"{count / total:.0%} of the samples are of one category, {name!r}")]
