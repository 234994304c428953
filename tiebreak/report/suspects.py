"""What a finished run says about its samples: which tell nothing, and which labels look wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from tiebreak.store.reader import StoreReader

_SCORES = """
    SELECT t.sample, c.label, avg(coalesce(t.score, 0.0)), s.target FROM trials t JOIN contestants c USING (contestant)
    JOIN samples s USING (asked)
    WHERE t.superseded = 0 AND t.outcome <> 'failed' GROUP BY s.place, t.sample, c.label ORDER BY s.place
"""
_FEWEST = 2
_RIGHT, _WRONG = 0.999, 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A sample that the better contestants get wrong and the worse ones right: its label may be wrong."""

    sample: str
    target: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    """Each the best contestant first."""
    weight: float
    """How much the right ones are worse than the wrong ones on all samples, in points of the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The samples of a run, by what they tell."""

    asked: int
    all_right: tuple[str, ...]
    all_wrong: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    """The most suspicious first."""


def audit_run(reader: StoreReader) -> Samples | None:
    """Look at every sample that at least two contestants answered; None where there are no two."""
    references = {contestant.label for contestant in reader.info.contestants if contestant.reference}
    by_sample: dict[str, tuple[str, dict[str, float]]] = {}
    for sample, label, score, target in reader.rows(_SCORES):
        if label not in references:
            by_sample.setdefault(sample, (target, {}))[1][label] = score
    answered = {sample: found for sample, found in by_sample.items() if len(found[1]) >= _FEWEST}
    if not answered:
        return None
    skill = _means(scores for _, scores in answered.values())
    suspects = [found for sample, (target, scores) in answered.items() if (found := _suspect(sample, target, scores, skill))]
    return Samples(
        asked=len(answered),
        all_right=tuple(s for s, (_, scores) in answered.items() if min(scores.values()) >= _RIGHT),
        all_wrong=tuple(s for s, (_, scores) in answered.items() if max(scores.values()) <= _WRONG),
        suspects=tuple(sorted(suspects, key=lambda one: -one.weight)),
    )


def _means(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    gathered: dict[str, list[float]] = {}
    for scores in rows:
        for label, score in scores.items():
            gathered.setdefault(label, []).append(score)
    return {label: mean(values) for label, values in gathered.items()}


def _suspect(sample: str, target: str, scores: dict[str, float], skill: dict[str, float]) -> Suspect | None:
    """The sample, if those who have it right are worse than those who have it wrong."""
    right = _best_first((label for label, score in scores.items() if score >= _RIGHT), skill)
    wrong = _best_first((label for label, score in scores.items() if score <= _WRONG), skill)
    if not right or not wrong:
        return None
    weight = mean(skill[label] for label in wrong) - mean(skill[label] for label in right)
    if skill[right[0]] >= skill[wrong[0]] or weight <= 0:
        return None
    return Suspect(sample=sample, target=target, right=right, wrong=wrong, weight=weight)


def _best_first(labels: Iterable[str], skill: dict[str, float]) -> tuple[str, ...]:
    found: Sequence[str] = sorted(labels, key=lambda label: -skill[label])
    return tuple(found)
