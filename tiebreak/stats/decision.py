"""Who is shown to be better than whom: one pure function from a table of scores to pairs, order and tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tiebreak.stats.family import SURE, holm, tiers
from tiebreak.stats.paired import Floats, Integers, Paired, compare_pairs
from tiebreak.stats.schedule import Schedule
from tiebreak.stats.sequential import anytime_p

_DIGITS = 12
"""Of scores and differences; what is below is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the tests say of all contestants; each is called by its row."""

    pairs: tuple[Paired, ...]
    """Every pair that has samples in common. The p of each allows for every look, but not yet for the other pairs."""
    corrected: tuple[float, ...]
    """The same p after Holm's correction over all pairs."""
    better: frozenset[tuple[int, int]]
    """(a, b) where a is shown to be better than b."""
    scores: tuple[float, ...]
    """Each contestant's score on all samples, by the fit; NaN for one without any."""
    tiers: tuple[tuple[int, ...], ...]
    """The ranked contestants: nobody in a tier is shown to be worse than anyone in it or below it."""

    @property
    def leader(self) -> int | None:
        """Who is shown to be better than every other ranked contestant."""
        return leader_of(self.tiers, self.better)


def decide(
    table: Floats,
    *,
    groups: Sequence[int] | Integers | None = None,
    ranked: Sequence[int] | None = None,
    schedule: Schedule | None = None,
    done: Sequence[int] | None = None,
    planned: int | None = None,
) -> Decision:
    """Compare everyone with everyone, and put the ranked ones into tiers.

    The table is contestants × samples in the order of the plan, NaN where there is no score. `done` says of each contestant
    how many samples from the beginning have been asked, and `planned` how many are to be; a pair that has not reached the end
    of the plan is tested in a way that may be looked at any number of times.
    """
    labels = None if groups is None else np.asarray(groups, dtype=np.int64)
    able = range(len(table)) if ranked is None else ranked
    samples = table.shape[1]
    asked = [samples] * len(table) if done is None else done
    pairs = _compare(table, labels, asked, samples if planned is None else planned, schedule or Schedule())
    corrected = holm([pair.p for pair in pairs])
    better = frozenset(_ordered(pair) for pair, p in zip(pairs, corrected, strict=True) if p < SURE and pair.difference)
    scores = fitted_scores(table)
    return Decision(
        pairs=tuple(pairs),
        corrected=tuple(corrected),
        better=better,
        scores=tuple(scores.tolist()),
        tiers=tiers_of(able, scores.tolist(), better),
    )


def tiers_of(rows: Sequence[int], scores: Sequence[float], better: frozenset[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """The tiers that follow from who is shown to be better, each ordered by score."""
    ordered = sorted(rows, key=lambda row: (-scores[row], row))
    return tuple(map(tuple, tiers(ordered, lambda a, b: (a, b) in better)))


def leader_of(found: tuple[tuple[int, ...], ...], better: frozenset[tuple[int, int]]) -> int | None:
    """Who is shown to be better than everyone else in these tiers; also by way of another, whom it beats."""
    if not found or len(found[0]) > 1:
        return None
    first, others = found[0][0], {row for tier in found[1:] for row in tier}
    return first if others and others <= _beaten(first, better) else None


def _beaten(row: int, better: frozenset[tuple[int, int]]) -> set[int]:
    """Everyone a contestant is shown to be better than, and whom those are shown to be better than."""
    beaten, new = set[int](), {row}
    while new:
        new = {loser for winner, loser in better if winner in new} - beaten
        beaten |= new
    return beaten


def fitted_scores(table: Floats) -> Floats:
    """Each contestant's score on all samples: least squares of score = sample + contestant over all cells there are.

    No sample is thrown away because somebody has no score on it, and nobody gains by having none on a hard one. Where nothing
    is missing, it is the mean.
    """
    known = ~np.isnan(table)
    asked = known.any(axis=0)
    cells, known = np.where(known, table, 0.0)[:, asked], known[:, asked].astype(np.float64)
    counts = known.sum(axis=0)
    means = cells.sum(axis=0) / counts
    system = np.diag(known.sum(axis=1)) - (known / counts) @ known.T
    # One eigenvalue is 0, and rounding must not make it look like more.
    effects = np.linalg.pinv(system, rcond=1e-10, hermitian=True) @ (cells - known * means).sum(axis=1)
    samples = (cells - known * effects[:, None]).sum(axis=0) / counts
    scores: Floats = np.where(known.any(axis=1), effects + (samples.mean() if len(samples) else 0.0), np.nan)
    # Rounding must not decide between equals.
    return np.round(scores, _DIGITS)


def turned_pairs(one: Decision, other: Decision) -> frozenset[tuple[int, int]]:
    """Pairs, the lower row first, of which two decisions say different things."""
    changed = one.better ^ other.better
    return frozenset((min(pair), max(pair)) for pair in changed)


def directional(table: Floats, other: Floats, pair: tuple[int, int], groups: Sequence[int] | Integers | None = None) -> float:
    """How likely luck alone moves a pair's difference as far as from one table to the other; a p-value.

    Under luck a reading that differs is as likely to move the difference to either side.
    """
    first, second = pair
    moved = np.stack([other[first] - table[first], other[second] - table[second]])
    return compare_pairs(moved, [(0, 1)], groups)[0].p


def _compare(table: Floats, groups: Integers | None, done: Sequence[int], planned: int, schedule: Schedule) -> list[Paired]:
    """Every pair on the samples both have been asked, with a p-value that allows for every look."""
    both = {(i, j): min(done[i], done[j]) for i, j in combinations(range(len(table)), 2)}
    ends = {*schedule.earlier, planned, *both.values()}
    at = {end: _at(end, table, [pair for pair, asked in both.items() if asked >= end], groups) for end in ends}
    found = []
    for pair, asked in both.items():
        stages = schedule.stages(planned, pair)
        tests = [(at[stage.samples][pair], stage.alpha) for stage in stages if stage.samples <= asked]
        looks = schedule.look_alpha(planned, pair, unfinished=asked < planned)
        found.append(_tested(at[asked][pair], tests, looks, table[:, :asked], groups))
    return [replace(pair, difference=round(pair.difference, _DIGITS)) for pair in found if pair.samples]


def _at(end: int, table: Floats, pairs: list[tuple[int, int]], groups: Integers | None) -> dict[tuple[int, int], Paired]:
    """These pairs as they stood after so many samples."""
    compared = compare_pairs(table[:, :end], pairs, None if groups is None else groups[:end])
    return dict(zip(pairs, compared, strict=True))


def _tested(pair: Paired, tests: list[tuple[Paired, float]], looks: float, table: Floats, groups: Integers | None) -> Paired:
    """The pair with the least p of all its tests, each weighed by its share of the error the first end has alone."""
    candidates = [(test.p * (SURE / alpha), test.method) for test, alpha in tests if test.difference * pair.difference > 0]
    if looks:
        labels = None if groups is None else groups[: table.shape[1]]
        p, sign = anytime_p(table[pair.first] - table[pair.second], labels)
        candidates += [(p * (SURE / looks), "anytime")] if sign * pair.difference > 0 else []
    p, method = min(candidates, default=(1.0, pair.method))
    return replace(pair, p=min(1.0, p), method=method)


def _ordered(pair: Paired) -> tuple[int, int]:
    return (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
