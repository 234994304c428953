"""Who is shown to be better than whom, and what follows: tiers, possible ranks, and what would turn them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tiebreak.report.tally import Tally
from tiebreak.stats.family import SURE, holm, rank_interval
from tiebreak.stats.planning import samples_needed, smallest_difference, smallest_difference_right_or_wrong
from tiebreak.stats.schedule import EXTENSION, Schedule

if TYPE_CHECKING:
    from tiebreak.stats.decision import Decision
    from tiebreak.stats.paired import Floats, Paired

USUAL, FAILURES, READING = "as usual", "failures", "reading"
_RIGHT_OR_WRONG = "mcnemar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two contestants on the samples both answered."""

    first: str
    second: str
    samples: int
    difference: float
    """Mean score of the first minus that of the second; never below 0."""
    low: float
    high: float
    """95 % interval of the difference, of this pair alone."""
    first_better: int
    second_better: int
    p: float
    """Allows for every look at the run and every extension of it."""
    p_corrected: float
    """Holm's: over all pairs of the run, the chance of even one false difference is kept below 5 %."""
    method: str
    """mcnemar (exact), exact, drawn, normal: how reassignments were counted; anytime: by a test made to be looked at early."""
    separated: bool
    """Whether the corrected test shows the first to be better, and nothing doubtful would turn it."""
    depends_on: tuple[str, ...]
    """What would turn it, counted the other way: failures, reading."""
    smallest_difference: float
    """What this pair's samples would have shown, four times out of five."""
    changes_to_overturn: int | None
    """The fewest verdicts on single answers, judged otherwise, after which a difference that is shown is not, or the other way
    round; None where it is not right-or-wrong, samples were repeated, or it was tested before the end of the plan."""
    samples_needed: tuple[int, int] | None
    """If the difference found is the true one: samples with which an extended run shows it with even odds, and 9 times out of
    10. None where no difference was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a ranked contestant stands."""

    score: float
    """On all samples, by a fit over every score there is."""
    tier: int
    ranks: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """What the tests say of the ranked contestants when something doubtful is counted one way."""

    counted: str
    """as usual; failures: failed trials count as wrong; reading: answers are read by the second rule."""
    tiers: tuple[tuple[str, ...], ...]
    leader: str | None
    turned: tuple[tuple[str, str], ...] = ()
    """Pairs of which it says something else than is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What the tests say of all contestants."""

    comparisons: tuple[Comparison, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    """Made from what holds however doubtful things are counted."""
    leader: str | None = None
    """Who is shown to be better than every other ranked contestant."""
    places: Mapping[str, Place] = field(default_factory=dict)
    common_samples: int = 0
    alternatives: tuple[Alternative, ...] = ()
    """The usual way of counting first, then those that say something else; empty where none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A contestant with what its trials add up to."""

    label: str
    tally: Tally
    rankable: bool
    done: int
    """Samples from the beginning of the plan that it has been asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The samples of a run, and how far it has been planned, looked at and extended."""

    groups: Sequence[int] | None
    planned: int
    schedule: Schedule = field(default_factory=Schedule)


def rank(contestants: Sequence[Scored], course: Course) -> Ranking:
    """Compare everyone with everyone; those marked as rankable get a place."""
    able = [place for place, one in enumerate(contestants) if one.rankable]
    if len(contestants) < 2:
        # Nobody to compare with: numpy is not even loaded.
        return _alone(contestants) if able else Ranking()
    labels = [one.label for one in contestants]
    table = score_table([one.tally for one in contestants])
    decision = _decide(table, contestants, course)
    others = dict(_counted_otherwise(contestants, table, decision, course))
    sure = replace_better(decision, frozenset.intersection(decision.better, *others.values()))
    return Ranking(
        comparisons=_comparisons(labels, decision, others, course.schedule, once=_asked_once(contestants)),
        tiers=_named(labels, sure.tiers),
        leader=None if sure.leader is None else labels[sure.leader],
        places=_places(labels, sure),
        common_samples=_common_samples(table, able),
        alternatives=_alternatives(labels, decision, others),
    )


def _alone(contestants: Sequence[Scored]) -> Ranking:
    one = contestants[0]
    found = one.tally.estimate(None)
    return Ranking(
        tiers=((one.label,),), places={one.label: Place(score=found.mean, tier=1, ranks=(1, 1))}, common_samples=found.n
    )


def _decide(table: Floats, contestants: Sequence[Scored], course: Course) -> Decision:
    from tiebreak.stats.decision import decide

    return decide(
        table,
        groups=course.groups,
        ranked=[row for row, one in enumerate(contestants) if one.rankable],
        schedule=course.schedule,
        done=[one.done for one in contestants],
        planned=course.planned,
    )


def _places(labels: Sequence[str], decision: Decision) -> dict[str, Place]:
    ranked = [row for tier in decision.tiers for row in tier]
    return {
        labels[row]: Place(
            score=decision.scores[row],
            tier=number,
            ranks=rank_interval(row, [other for other in ranked if other != row], lambda a, b: (a, b) in decision.better),
        )
        for number, tier in enumerate(decision.tiers, start=1)
        for row in tier
    }


# --- counted the other way --------------------------------------------------------------------------


Better = frozenset[tuple[int, int]]


def _counted_otherwise(
    contestants: Sequence[Scored], table: Floats, decision: Decision, course: Course
) -> Iterator[tuple[str, Better]]:
    """Who is better with failures counted wrong, and by the second reading; only where that is somebody else."""
    tallies = [one.tally for one in contestants]
    if any(tally.failures for tally in tallies):
        better = _standing_whoever_failed(contestants, table, decision, course)
        yield from [(FAILURES, better)] if better != decision.better else []
    if any(tally.readings_differ for tally in tallies):
        read = second_table(tallies)
        better = _directional_changes(decision, _decide(read, contestants, course), table, read, course)
        yield from [(READING, better)] if better != decision.better else []


def _standing_whoever_failed(contestants: Sequence[Scored], table: Floats, decision: Decision, course: Course) -> Better:
    """Who is better with every failure counted as wrong, and also with only the winner's own.

    The first alone is not enough: one may fail just where it would be wrong, and the other at random, which then costs it right
    answers. Of two such equals the first would be called better.
    """
    wrong = failures_wrong_table([one.tally for one in contestants])
    better = set(_decide(wrong, contestants, course).better)
    for winner in {pair[0] for pair in decision.better if contestants[pair[0]].tally.failures}:
        own = table.copy()
        own[winner] = wrong[winner]
        stands = _decide(own, contestants, course).better
        better -= {pair for pair in better if pair[0] == winner and pair not in stands}
    return frozenset(better)


def _alternatives(labels: Sequence[str], decision: Decision, others: Mapping[str, Better]) -> tuple[Alternative, ...]:
    """What each way of counting says of the ranked contestants."""
    found = []
    ranked = {row for tier in decision.tiers for row in tier}
    for counted, better in {USUAL: decision.better, **others}.items():
        other = replace_better(decision, better)
        changed = sorted({(min(pair), max(pair)) for pair in decision.better ^ better if set(pair) <= ranked})
        turned = tuple((labels[a], labels[b]) for a, b in changed)
        leader = None if other.leader is None else labels[other.leader]
        if turned or counted == USUAL:
            found.append(Alternative(counted=counted, tiers=_named(labels, other.tiers), leader=leader, turned=turned))
    return tuple(found) if len(found) > 1 else ()


def replace_better(decision: Decision, better: Better) -> Decision:
    """The decision if these were the ones shown to be better; contestants of a tier keep their order."""
    from tiebreak.stats.decision import tiers_of

    ranked = [row for tier in decision.tiers for row in tier]
    return replace(decision, better=better, tiers=tiers_of(ranked, decision.scores, better))


def _named(labels: Sequence[str], tiers: Sequence[Sequence[int]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(labels[row] for row in tier) for tier in tiers)


def _directional_changes(
    decision: Decision, other: Decision, table: Floats, read: Floats, course: Course
) -> frozenset[tuple[int, int]]:
    """Who is better by the other reading, unless the readings differ in a way that luck explains.

    Two rules may misread a few answers each, by chance. That moves a p-value near 0.05 to its other side now and then, which
    says nothing of either rule. A pair changes only where the answers read otherwise clearly favour one side.
    """
    from tiebreak.stats.decision import directional, turned_pairs

    pairs = sorted(turned_pairs(decision, other))
    corrected = holm([directional(table, read, pair, course.groups) for pair in pairs])
    changed = {pair for pair, p in zip(pairs, corrected, strict=True) if p < SURE}
    chosen = [(decision.better, False), (other.better, True)]
    return frozenset((a, b) for better, wanted in chosen for a, b in better if ((min(a, b), max(a, b)) in changed) == wanted)


# --- tables of scores -------------------------------------------------------------------------------


def score_table(tallies: Sequence[Tally]) -> Floats:
    """Mean scores, contestants × samples; NaN where one has none."""
    return _table([(tally.sums, tally.counts) for tally in tallies])


def failures_wrong_table(tallies: Sequence[Tally]) -> Floats:
    """The same with every failed trial a wrong answer."""
    import numpy as np

    rows = [_ints(tally.counts) + _ints(tally.failed) for tally in tallies]
    return _table([(tally.sums, np.ascontiguousarray(row)) for tally, row in zip(tallies, rows, strict=True)])


def second_table(tallies: Sequence[Tally]) -> Floats:
    """The same by the second reading, where there is one."""
    return _table([(tally.second_sums, tally.counts) for tally in tallies])


def _table(rows: Sequence[tuple[Any, Any]]) -> Floats:
    import numpy as np

    with np.errstate(invalid="ignore"):
        return np.array([np.frombuffer(sums) / np.frombuffer(counts, dtype=np.int32) for sums, counts in rows])


def _ints(counts: Any) -> Any:
    import numpy as np

    return np.frombuffer(counts, dtype=np.int32)


def _common_samples(table: Floats, able: Sequence[int]) -> int:
    """How many samples every ranked contestant answered."""
    import numpy as np

    return int((~np.isnan(table[able])).all(axis=0).sum()) if able else 0


# --- pairs ------------------------------------------------------------------------------------------


def _comparisons(
    labels: Sequence[str], decision: Decision, others: Mapping[str, Better], schedule: Schedule, *, once: bool
) -> tuple[Comparison, ...]:
    """Every pair as reports show it; forecasts are for the test that an extension of the run would get."""
    tests = max(1, len(decision.pairs))
    alphas = (SURE if not schedule.earlier else EXTENSION) / tests, EXTENSION / tests
    found = []
    for pair, corrected in zip(decision.pairs, decision.corrected, strict=True):
        order = (pair.first, pair.second) if pair.difference >= 0 else (pair.second, pair.first)
        here = {order, order[::-1]}
        depends = tuple(counted for counted, better in others.items() if (better & here) != (decision.better & here))
        # Of a sample that was repeated, one answer judged otherwise does not change the whole.
        changes = _changes_to_overturn(pair, [other.p for other in decision.pairs if other is not pair]) if once else None
        found.append(_comparison(labels, pair, corrected, order=order, depends=depends, alphas=alphas, changes=changes))
    return tuple(found)


def _asked_once(contestants: Sequence[Scored]) -> bool:
    return all(max(one.tally.counts, default=0) <= 1 for one in contestants)


def _comparison(
    labels: Sequence[str],
    pair: Paired,
    corrected: float,
    *,
    order: tuple[int, int],
    depends: tuple[str, ...],
    alphas: tuple[float, float],
    changes: int | None,
) -> Comparison:
    turned = order[0] != pair.first
    better = (pair.second_better, pair.first_better) if turned else (pair.first_better, pair.second_better)
    difference = abs(pair.difference)
    binary = pair.method == _RIGHT_OR_WRONG
    now, extended = alphas
    return Comparison(
        first=labels[order[0]],
        second=labels[order[1]],
        samples=pair.samples,
        difference=difference,
        low=-pair.high if turned else pair.low,
        high=-pair.low if turned else pair.high,
        first_better=better[0],
        second_better=better[1],
        p=pair.p,
        p_corrected=corrected,
        method=pair.method,
        separated=corrected < SURE and difference > 0 and not depends,
        depends_on=depends,
        changes_to_overturn=changes,
        smallest_difference=_could_have_shown(pair, now, binary=binary),
        samples_needed=samples_needed(difference, pair.error**2 * pair.samples, extended, right_or_wrong=binary),
    )


def _changes_to_overturn(pair: Paired, others: Sequence[float]) -> int | None:
    if pair.method != _RIGHT_OR_WRONG:
        return None
    from tiebreak.stats.fragility import fewest_changes
    from tiebreak.stats.paired import exact_sign_test

    alone = exact_sign_test(pair.first_better, pair.second_better)
    ties = pair.samples - pair.first_better - pair.second_better
    return fewest_changes(pair.first_better, pair.second_better, ties, others=others, scale=pair.p / alone)


def _could_have_shown(pair: Paired, alpha: float, *, binary: bool) -> float:
    if not binary:
        return smallest_difference(pair.error, alpha)
    return smallest_difference_right_or_wrong(pair.samples, pair.first_better + pair.second_better, alpha)
