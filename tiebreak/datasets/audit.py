"""Looking a dataset over before it is asked: what would make its score mean less."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiebreak.core.digest import positions_by
from tiebreak.core.protocols import Dataset
from tiebreak.datasets.profile import Profile

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
    """What there is to say of all samples; a dataset that was profiled while it was read is not read again."""
    profile: Profile = dataset.profile or Profile(dataset[position] for position in range(len(dataset)))
    findings = [*_duplicates(profile, dataset), *_missing(profile), *_revealing(profile), *_leaks(profile), *_lopsided(profile)]
    return Audit(samples=len(dataset), findings=tuple(findings), guessers=_guessers(profile))


def _guessers(profile: Profile) -> dict[str, float]:
    """What guessing without reading scores: of the questions with choices, and of those without."""
    guessers = {}
    if n := profile.sizes.total():
        guessers = {
            "chance": sum(count / choices for choices, count in profile.sizes.items()) / n,
            "always the same place in the file": max(profile.places.values(), default=0) / n,
            "always the longest": profile.longest_right / n,
        }
    if profile.free:
        guessers["always the commonest answer"] = max(profile.answers.values(), default=0) / profile.free
    return guessers


def _duplicates(profile: Profile, dataset: Dataset) -> list[Finding]:
    count, previous = 0, -1
    shown: list[str] = []
    for position in positions_by(profile.questions):
        if previous >= 0 and profile.questions[position] == profile.questions[previous]:
            count += 1
            if len(shown) < _SHOWN:
                shown.append(f"{dataset[previous].id} = {dataset[position].id}")
        previous = position
    message = "1 question stands there twice" if count == 1 else f"{count:,} questions stand there twice"
    return [Finding(kind="duplicates", message=message, samples=tuple(shown))] if count else []


def _missing(profile: Profile) -> list[Finding]:
    if not profile.missing_count:
        return []
    message = f"{profile.missing_count:,} samples have no right answer"
    return [Finding(kind="no answer", message=message, samples=tuple(profile.missing))]


def _revealing(profile: Profile) -> list[Finding]:
    if profile.revealing_count < 0.1 * max(1, profile.free):
        return []
    message = f"{profile.revealing_count:,} questions contain their answer"
    return [Finding(kind="answer in the question", message=message, samples=tuple(profile.revealing))]


def _leaks(profile: Profile) -> list[Finding]:
    """Guessers that do not read and yet do better than chance."""
    found, guessers = [], _guessers(profile)
    if profile.sizes.total() >= _LEAST:
        chance = guessers["chance"]
        if guessers["always the longest"] > chance + _LEAK_POINTS:
            share = guessers["always the longest"]
            found.append(Finding(kind="length", message=f"taking the longest choice scores {share:.0%} (chance is {chance:.0%})"))
        # Where the order is ours, a place tells nothing: see tiebreak.engine.prompting.
        if guessers["always the same place in the file"] > chance + _LEAK_POINTS and profile.in_order:
            share = guessers["always the same place in the file"]
            found.append(Finding(kind="place", message=f"{share:.0%} of the right choices stand in one place"))
    if profile.free >= _LEAST and guessers["always the commonest answer"] > _FEW_ANSWERS:
        message = f"always giving the commonest answer scores {guessers['always the commonest answer']:.0%}"
        found.append(Finding(kind="majority", message=message))
    return found


def _lopsided(profile: Profile) -> list[Finding]:
    name, count = profile.categories.most_common(1)[0] if profile.categories else ("", 0)
    total = profile.categories.total()
    if len(profile.categories) < 2 or total < _LEAST or count < _LOPSIDED * total:
        return []
    return [Finding(kind="categories", message=f"{count / total:.0%} of the samples are of one category, {name!r}")]
