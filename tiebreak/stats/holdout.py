"""Choosing the best of many on one half of the samples, and testing it on the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from tiebreak.stats.family import SURE, holm
from tiebreak.stats.intervals import Estimate, estimate_mean
from tiebreak.stats.paired import Floats, Paired, compare_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The chosen contestant against another one, on the testing half."""

    contestant: int
    """The other one's row."""
    samples: int
    difference: float
    """Mean of the chosen minus mean of the other; below 0 where the other did better here."""
    low: float
    high: float
    """95 % interval of the difference, of this pair alone."""
    p: float
    p_corrected: float
    """Holm's, over the comparisons with the chosen only."""
    method: str
    """How the reassignments were counted: see `Paired`."""
    separated: bool
    """Whether the corrected test shows a difference; its sign says who is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The best contestant of one half of the samples, and how it did on the other."""

    contestant: int
    """Its row."""
    runner_up: int | None
    """The second best on the choosing half; None where there is one contestant only."""
    chosen_on: int
    """Samples of the choosing half that every contestant has a score on: the choice was made by the means over these."""
    score_where_chosen: float
    """Its mean over all samples of the choosing half that it has a score on: flattered by the choice."""
    score: Estimate
    """Its mean over all samples of the testing half that it has a score on: what may be claimed."""
    optimism: float
    """The score where it was chosen minus the score where it was tested."""
    rivals: tuple[Rival, ...]
    """Every other contestant that has a sample in common with it on the testing half."""


def halves(keys: Sequence[str], seed: int) -> list[bool]:
    """Split samples in two halves, True to choose on and False to test on.

    The key of a sample is its group's name, or its own id where it has no group; samples with the same key stay together.
    From the largest group to the smallest, in an order that is a hash of seed and key, each goes to the half with fewer
    samples, and by a bit of the hash where both have the same. So groups of each size are spread over both halves, and the
    halves never differ by more samples than the largest group has.
    """
    sizes = Counter(keys)
    digests = {key: sha256(f"{seed}:{key}".encode("utf-8", "surrogatepass")).digest() for key in sizes}
    side: dict[str, bool] = {}
    lead = 0
    for key in sorted(sizes, key=lambda key: (-sizes[key], digests[key])):
        side[key] = lead < 0 if lead else bool(digests[key][-1] & 1)
        lead += sizes[key] if side[key] else -sizes[key]
    return [side[key] for key in keys]


def choose(scores: Floats, choose_on: Sequence[bool], groups: Sequence[int] | None = None) -> Choice | None:
    """The best of many contestants, chosen on one half of the samples and tested on the other.

    The table is contestants × samples, with NaN where a contestant has no score. The best has the highest mean over the
    samples of the choosing half that all contestants have a score on; the first of equals is chosen. The best of many is
    partly the luckiest of many, so its score there flatters it. Everything that is claimed about it (score, interval,
    comparisons) comes from the testing half, where its luck is as good as any other's.

    None where no sample to choose on is common to all, or the chosen has no score to be tested by.
    """
    choosing = np.asarray(choose_on, dtype=np.bool_)
    if groups is not None and np.intersect1d(np.asarray(groups)[choosing], np.asarray(groups)[~choosing]).size:
        raise ValueError("a group has samples in both halves: split by groups, as halves() does")
    common = scores[:, choosing & ~np.isnan(scores).any(axis=0)]
    if not common.size:
        return None
    # Rounding must not decide between equals.
    order = np.argsort(-np.round(common.mean(axis=1), 12), kind="stable")
    best = int(order[0])
    answered = ~np.isnan(scores[best])
    if not np.any(answered & ~choosing):
        return None
    score_where_chosen = float(scores[best, answered & choosing].mean())
    score = _estimate(scores[best], answered & ~choosing, groups)
    return Choice(
        contestant=best,
        runner_up=int(order[1]) if len(order) > 1 else None,
        chosen_on=common.shape[1],
        score_where_chosen=score_where_chosen,
        score=score,
        optimism=score_where_chosen - score.mean,
        rivals=rivals_of(best, scores, ~choosing, groups),
    )


def _estimate(row: Floats, counted: npt.NDArray[np.bool_], groups: Sequence[int] | None) -> Estimate:
    return estimate_mean(row[counted].tolist(), None if groups is None else np.asarray(groups)[counted].tolist())


def rivals_of(
    best: int, scores: Floats, testing: Sequence[bool] | npt.NDArray[np.bool_], groups: Sequence[int] | None
) -> tuple[Rival, ...]:
    """The chosen contestant against every other one that has a sample in common with it on the testing half."""
    testing = np.asarray(testing, dtype=np.bool_)
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)[testing]
    others = [(best, other) for other in range(len(scores)) if other != best]
    pairs = [pair for pair in compare_pairs(scores[:, testing], others, labels) if pair.samples]
    corrected = holm([pair.p for pair in pairs])
    return tuple(_rival(pair, p) for pair, p in zip(pairs, corrected, strict=True))


def _rival(pair: Paired, corrected: float) -> Rival:
    return Rival(
        contestant=pair.second,
        samples=pair.samples,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        p=pair.p,
        p_corrected=corrected,
        method=pair.method,
        separated=corrected < SURE,
    )
