"""What each factor does over all the others, and the best of many tested where it was not chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tiebreak.core.contestant import FACTORS, Contestant, listed_settings
from tiebreak.report.ranking import FAILURES, READING, Course, failures_wrong_table, score_table, second_table
from tiebreak.report.tally import Tally
from tiebreak.stats.effects import Effect, LevelMean
from tiebreak.stats.family import SURE
from tiebreak.store.reader import StoreReader

if TYPE_CHECKING:
    from tiebreak.stats.holdout import Choice, Rival

_KEYS = "SELECT sample, max(grouped) FROM samples GROUP BY sample ORDER BY min(place), sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One factor of a run: its levels, the best first, and every pair of them with all else equal."""

    name: str
    levels: tuple[LevelMean, ...]
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRival:
    """The chosen contestant against another one, where neither was chosen."""

    label: str
    samples: int
    difference: float
    """Score of the chosen minus that of the other."""
    low: float
    high: float
    p_corrected: float
    better: bool
    """Whether the chosen is shown to be better."""
    worse: bool
    """Whether the chosen is shown to be worse."""
    depends_on_failures: bool = False
    """Whether it would be shown to differ, if failures were not counted as wrong as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The best contestant of one half of the samples, and how it did on the other."""

    label: str
    chosen_from: int
    """Contestants it was chosen from."""
    chosen_on: int
    """Samples it was chosen on."""
    score_where_chosen: float
    samples: int
    """Samples it was tested on."""
    score: float
    low: float
    high: float
    rivals: tuple[ChosenRival, ...]


Tested = Sequence[tuple[Contestant, Tally]]
"""Contestants that have a score, without references."""


def compare_factors(tested: Tested, course: Course) -> tuple[Factor, ...]:
    """The factors of a run in which more than one of them varies: else every pair of contestants says it already."""
    contestants = [contestant for contestant, _ in tested]
    levels = _levels(contestants)
    varying = [name for name in FACTORS if len({own[name] for own in levels}) > 1]
    places = [tuple(own.values()) for own in levels]
    if len(varying) < 2 or len(set(places)) < len(places):
        return ()
    tables = _Tables.of([tally for _, tally in tested])
    factors = [_factor(name, levels, tables, course) for name in varying]
    # Levels that were never run with all else equal tell nothing of their factor.
    return tuple(factor for factor in factors if factor.effects)


def _levels(contestants: Sequence[Contestant]) -> list[dict[str, str]]:
    """Each contestant's factors; where settings differ that nobody put behind a name, all of them are the level."""
    unnamed = {listed_settings({n: v for n, v in c.model.settings.items() if n not in c.model.variant}) for c in contestants}
    if len(unnamed) < 2:
        return [contestant.factors for contestant in contestants]
    return [{**c.factors, "settings": listed_settings(c.model.settings)} for c in contestants]


@dataclass(frozen=True, slots=True)
class _Tables:
    """Scores, contestants × samples, as usual and counted the other way; None where that is no other way."""

    usual: Any
    failures_wrong: Any
    read_otherwise: Any

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> _Tables:
        failed = any(tally.failures for tally in tallies)
        differ = any(tally.readings_differ for tally in tallies)
        return cls(
            score_table(tallies), failures_wrong_table(tallies) if failed else None, second_table(tallies) if differ else None
        )


def _factor(name: str, all_levels: Sequence[dict[str, str]], tables: _Tables, course: Course) -> Factor:
    from tiebreak.stats.factors import effects, level_means

    levels = [own[name] for own in all_levels]
    others = [tuple(level for factor, level in own.items() if factor != name) for own in all_levels]
    means = level_means(tables.usual, levels, course.groups)

    def tested(table: Any) -> list[Effect]:
        found = effects(table, levels, others, course.groups)
        return [_allowing_for_extensions(effect, course.schedule.end_scale) for effect in found]

    found = tested(tables.usual)
    turned = {FAILURES: _turned_by_failures(found, tables, levels, tested), READING: _turned_by_reading(found, tables, tested)}
    return Factor(
        name=name,
        levels=tuple(sorted(means, key=lambda level: -level.mean)),
        effects=tuple(_depending(effect, [word for word, pairs in turned.items() if _pair(effect) in pairs]) for effect in found),
    )


_Test = Callable[[Any], list[Effect]]
_Pair = tuple[str, str]
"""The better level and the other one."""


def _pair(effect: Effect) -> _Pair:
    return effect.first, effect.second


def _shown(found: Sequence[Effect]) -> set[_Pair]:
    return {_pair(effect) for effect in found if effect.separated}


def _turned_by_failures(found: Sequence[Effect], tables: _Tables, levels: Sequence[str], tested: _Test) -> set[_Pair]:
    """Effects that are not shown with every failure counted as wrong, or with those of the better level alone."""
    if tables.failures_wrong is None or not (shown := _shown(found)):
        return set()
    standing = shown & _shown(tested(tables.failures_wrong))
    for better in {first for first, _ in standing}:
        table = tables.usual.copy()
        rows = [row for row, level in enumerate(levels) if level == better]
        table[rows] = tables.failures_wrong[rows]
        stands = _shown(tested(table))
        standing -= {pair for pair in standing if pair[0] == better and pair not in stands}
    return shown - standing


def _turned_by_reading(found: Sequence[Effect], tables: _Tables, tested: _Test) -> set[_Pair]:
    """Effects that are not shown by the second reading, where the readings differ in favour of one level by more than luck."""
    if tables.read_otherwise is None or not (shown := _shown(found)):
        return set()
    lost = shown - _shown(tested(tables.read_otherwise))
    return lost & _shown(tested(tables.usual - tables.read_otherwise)) if lost else lost


def _depending(effect: Effect, turned: Sequence[str]) -> Effect:
    return replace(effect, separated=effect.separated and not turned, depends_on=tuple(turned))


def _allowing_for_extensions(effect: Effect, scale: float) -> Effect:
    """An effect with what an extended run leaves of its certainty."""
    p, corrected = min(1.0, effect.p * scale), min(1.0, effect.p_corrected * scale)
    return replace(effect, p=p, p_corrected=corrected, separated=effect.separated and corrected < SURE)


def choose_best(reader: StoreReader, tested: Tested, course: Course) -> Chosen | None:
    """The best contestant by one half of the samples, tested on the other; None where there is too little to say."""
    from tiebreak.stats.holdout import choose, halves, rivals_of

    if len(tested) < 2:
        return None
    keys = [group or sample for sample, group in reader.rows(_KEYS)]
    chosen_on = halves(keys, reader.info.protocol.seed)
    tallies = [tally for _, tally in tested]
    found = choose(score_table(tallies), chosen_on, course.groups)
    if found is None:
        return None
    testing = [not on for on in chosen_on]
    strict = rivals_of(found.contestant, failures_wrong_table(tallies), testing, course.groups)
    return _chosen(found, strict, [c.label for c, _ in tested], course.schedule.end_scale)


def _chosen(found: Choice, strict: Sequence[Rival], labels: Sequence[str], scale: float) -> Chosen:
    """The choice as reports show it; a rival is shown better or worse only if it is so with failures counted wrong, too."""
    sides = [{(r.contestant, r.difference > 0) for r in own if r.p_corrected * scale < SURE} for own in (found.rivals, strict)]
    shown = sides[0] & sides[1]
    rivals = [
        ChosenRival(
            label=labels[rival.contestant],
            samples=rival.samples,
            difference=rival.difference,
            low=rival.low,
            high=rival.high,
            p_corrected=min(1.0, rival.p_corrected * scale),
            better=(rival.contestant, True) in shown,
            worse=(rival.contestant, False) in shown and rival.difference < 0,
            depends_on_failures=(rival.contestant, rival.difference > 0) in sides[0] - sides[1],
        )
        for rival in found.rivals
    ]
    return Chosen(
        label=labels[found.contestant],
        chosen_from=len(labels),
        chosen_on=found.chosen_on,
        score_where_chosen=found.score_where_chosen,
        samples=found.score.n,
        score=found.score.mean,
        low=found.score.low,
        high=found.score.high,
        rivals=tuple(rivals),
    )
