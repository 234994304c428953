"""A run in numbers, each with the count behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tiebreak.core.contestant import Contestant
from tiebreak.core.events import ContestantState
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RunInfo
from tiebreak.report.factors import Chosen, Factor, choose_best, compare_factors
from tiebreak.report.good_enough import GoodEnough, good_enough
from tiebreak.report.judging import Judging, summarise_judging
from tiebreak.report.noise import NoiseSplit, noise_between
from tiebreak.report.ranking import Alternative, Comparison, Course, Ranking, Scored, rank
from tiebreak.report.samples import means_by_scorer
from tiebreak.report.tally import SampleNumbers, Tally, tally_trials
from tiebreak.report.value import Value, compare_costs, compare_speeds
from tiebreak.report.work import Attempt, TaskComparison, WorkSummary, compare_tasks, read_attempts
from tiebreak.stats.family import pareto_front
from tiebreak.stats.intervals import percentiles
from tiebreak.stats.repeats import pass_all, pass_at
from tiebreak.stats.schedule import Look, Schedule
from tiebreak.store.reader import StoreReader

_RANKED_FROM = 0.5
"""The share of samples a contestant must have answered to be ranked at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySummary:
    """How a contestant did on one kind of sample."""

    name: str
    score: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How fast a contestant answered; waits and remembered answers are not in it."""

    p50_s: float
    p95_s: float
    p99_s: float
    first_token_p50_s: float | None
    """To the first piece of an answer, thoughts included; None when answers were not streamed."""
    tokens_per_s: float | None
    first_answer_p50_s: float | None = None
    """To the first piece that is no thought; None when answers were not streamed."""
    in_flight: float | None = None
    """Requests of the run that were with the server when one was sent, itself included; the median, None where unknown."""
    alone_p50_s: float | None = None
    """Median time of answers that were asked for one at a time, for their times alone; None where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestantSummary:
    """One contestant's results."""

    contestant: Contestant
    planned: int
    planned_samples: int
    right: int = 0
    wrong: int = 0
    no_answer: int = 0
    """Refused, empty, filtered, cut off, out of context, or nothing in it that could be read as an answer. Counts as wrong."""
    refused: int = 0
    empty: int = 0
    filtered: int = 0
    cut_off: int = 0
    exhausted: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Trials without a result, by kind. They are left out of the score."""
    unjudged: int = 0
    remembered: int = 0
    """Answers of an earlier run, by --cache or --replay: they say how it answered then."""
    """Answers that no judge has judged yet, because it failed. They are kept, and left out of the score."""
    awaiting_judge: int = 0
    """Answers that some judge has still to judge; also those that another scorer has scored."""
    score: float | None = None
    """Mean over the samples answered, repeats of a sample averaged first."""
    low: float = 0.0
    high: float = 1.0
    samples: int = 0
    """Samples behind the score."""
    interval_method: str = "wilson"
    score_failures_wrong: float | None = None
    """The same with every failed trial counted as a wrong answer."""
    adjusted_score: float | None = None
    """What its score would be on all samples, by a fit over every score there is: it orders the contestants of a tier."""
    tier: int | None = None
    """From 1; None when not ranked."""
    ranks: tuple[int, int] | None = None
    """The best and worst rank the corrected tests leave possible."""
    second_readings: int = 0
    """Answers that were also judged by a second, independent rule."""
    readings_differ: int = 0
    """Of these, the ones that it judges otherwise."""
    by_scorer: Mapping[str, float] = field(default_factory=dict)
    """The same mean by every scorer that judged; empty where there was only the one that ranks."""
    pass_at: Mapping[int, float] = field(default_factory=dict)
    """By k, the chance that one of k answers is right; only with repeats."""
    pass_all: Mapping[int, float] = field(default_factory=dict)
    """By k, the chance that all of k answers are right."""
    state: str = "not finished"
    message: str = ""
    seconds: float = 0.0
    model_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Of every attempt, failed ones too; None when the price of any is not known."""
    known_cost_usd: float | None = None
    """Of the attempts whose price is known: a lower bound; None when none is."""
    cost_per_trial: float | None = None
    """Mean of the answers, remembered ones left out; None when the price of any is not known."""
    categories: tuple[CategorySummary, ...] = ()
    latency: Latency | None = None
    work: WorkSummary | None = None
    """What its attempts at coding tasks came to, where the run has any."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.contestant.label

    @property
    def model(self) -> ModelRef:
        """Its model."""
        return self.contestant.model

    @property
    def reference(self) -> bool:
        """A baseline or a control: shown as a line to compare with; in no test, no tier, no front."""
        return self.contestant.reference

    @property
    def answered(self) -> int:
        """Trials that count."""
        return self.right + self.wrong + self.no_answer

    @property
    def failed(self) -> int:
        """Trials that ended without a result."""
        return sum(self.failures.values())

    @property
    def asked(self) -> int:
        """Trials that ended, one way or another."""
        return self.answered + self.failed + self.unjudged

    @property
    def not_asked(self) -> int:
        """Planned trials that have not been ended in any way."""
        return self.planned - self.asked

    @property
    def finished(self) -> bool:
        """Whether every planned trial was asked, or need not be."""
        return self.not_asked == 0 or self.decided

    @property
    def decided(self) -> bool:
        """Whether it left a race, and so was not asked everything."""
        return self.state == ContestantState.DECIDED and self.not_asked > 0

    @property
    def rankable(self) -> bool:
        """Whether it was asked everything it had to be and answered enough of it."""
        share = self.asked / self.planned if self.decided else 1.0
        return self.finished and self.score is not None and self.samples >= _RANKED_FROM * share * self.planned_samples

    @property
    def per_second(self) -> float:
        """Trials per second of wall time."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole run: questions, coding tasks, or both."""

    info: RunInfo
    contestants: tuple[ContestantSummary, ...]
    """In the order they were named."""
    comparisons: tuple[Comparison, ...] = ()
    """Every pair of tested contestants, the better one first."""
    tiers: tuple[tuple[str, ...], ...] = ()
    """Labels of the ranked contestants: nobody in a tier is shown to be worse than anyone else in it."""
    leader: str | None = None
    """Who is shown to be better than every other ranked contestant."""
    good_enough: GoodEnough | None = None
    """The cheapest within a margin of the best; None unless the run was to find it."""
    alternatives: tuple[Alternative, ...] = ()
    """Where failures counted as wrong, or a second reading of the answers, would turn some comparison."""
    costs: Value | None = None
    """The costs of those in the first tier, where there are several with a known price."""
    speeds: Value | None = None
    """The times of those in the first tier, where there are several."""
    looks: int = 0
    """How often somebody saw a comparison before the end of the plan."""
    extensions: int = 0
    """How often the run was made longer."""
    error: float = 0.05
    """Over the whole life of the run, the chance of even one false difference is at most this."""
    unseen: bool = False
    """Nothing is compared, because it cannot be written down that somebody looked at the unfinished run."""
    common_samples: int = 0
    """Samples that every ranked contestant answered."""
    cost_front: tuple[str, ...] = ()
    """The Pareto front of cost and score, among ranked contestants of known price; cheapest first."""
    latency_front: tuple[str, ...] = ()
    """The same for the median time of an answer; fastest first."""
    judging: Judging | None = None
    """What judges and people did, where there are any."""
    tasks: TaskComparison | None = None
    """Who did the coding tasks best, where the run has any."""
    factors: tuple[Factor, ...] = ()
    """The effect of each factor over the others, where more than one of them varies."""
    noise: NoiseSplit | None = None
    """Where the uncertainty between the first two comes from; None unless samples were repeated."""
    chosen: Chosen | None = None
    """The best of many by one half of the samples, tested on the other; None unless the run asks for it."""

    @property
    def ranked(self) -> list[ContestantSummary]:
        """Those that got through, tier by tier, and in each the best first; no references."""
        able = [c for c in self.tested if c.rankable]
        return sorted(able, key=lambda c: (c.tier or 0, -(c.score or 0.0 if c.adjusted_score is None else c.adjusted_score)))

    @property
    def unfinished(self) -> list[ContestantSummary]:
        """Those that did not get through, by score."""
        return sorted((c for c in self.tested if not c.rankable), key=lambda c: -(c.score or 0.0))

    @property
    def references(self) -> list[ContestantSummary]:
        """Baselines and controls: lines to compare with."""
        return sorted((c for c in self.contestants if c.reference), key=lambda c: -(c.score or 0.0))

    @property
    def tested(self) -> list[ContestantSummary]:
        """Everyone but the references, in the order they were named."""
        return [c for c in self.contestants if not c.reference]

    @property
    def listed(self) -> list[ContestantSummary]:
        """Everyone as tables list them: ranked, not ranked, references."""
        return [*self.ranked, *self.unfinished, *self.references]

    def comparison(self, first: str, second: str) -> Comparison | None:
        """The comparison of two contestants, whichever came out better."""
        wanted = {first, second}
        return next((c for c in self.comparisons if {c.first, c.second} == wanted), None)


def summarise(reader: StoreReader, *, so_far: bool = False, seen: bool = True) -> Summary:
    """Everything the store knows, in numbers; `so_far` ranks a run that is still going by what it has.

    Whoever shows it calls `look_into` first; where that cannot be written down, `seen` is False and nobody is compared.
    """
    return (None if so_far else reader.figures("summary", Summary)) or work_out(reader, so_far=so_far, seen=seen)


def work_out(reader: StoreReader, *, so_far: bool = False, seen: bool = True) -> Summary:
    """The same from every trial, whatever the store has kept."""
    tallies, numbers = tally_trials(reader)
    counted = _counted(reader, tallies, numbers)
    tested = [(c, tally) for c, tally in counted if not c.reference and tally is not None and c.score is not None]
    if not seen:
        return Summary(info=reader.info, contestants=tuple(c for c, _ in counted), unseen=True)
    done = [_done(c, tally, numbers, reader.info.protocol.repeats) for c, tally in tested]
    if so_far:
        counted, tested = _by_what_they_have(counted), _by_what_they_have(tested)
    course = _course(reader, numbers, [c.label for c, _ in tested])
    scored = [Scored(label=c.label, tally=t, rankable=c.rankable, done=d) for (c, t), d in zip(tested, done, strict=True)]
    ranking = rank(scored, course)
    contestants = tuple(_placed(contestant, ranking) for contestant, _ in counted)
    ranked = [contestant for contestant in contestants if contestant.tier is not None]
    rankable = [(c.contestant, tally) for c, tally in tested if c.rankable]
    best = [(one.label, one.tally) for one in scored if ranking.tiers and one.label in ranking.tiers[0]]
    # Only scores are compared by a test that may be looked at early: the others wait for the end.
    early = any(one.rankable and one.done < course.planned for one in scored)
    priced = [c.label for c in ranked if c.cost_per_trial is not None and not c.model.local]
    return Summary(
        info=reader.info,
        contestants=contestants,
        comparisons=ranking.comparisons,
        tiers=ranking.tiers,
        leader=ranking.leader,
        good_enough=good_enough(reader.info.protocol.until, _priced(tested, scored), course),
        alternatives=ranking.alternatives,
        costs=None if early else compare_costs(best, priced, course),
        speeds=None if early else compare_speeds(best, course),
        looks=len(course.schedule.looks),
        extensions=len(course.schedule.earlier),
        error=course.schedule.total,
        common_samples=ranking.common_samples,
        cost_front=_front(ranked, {c.label: c.cost_per_trial for c in ranked if not c.model.local}),
        latency_front=_front(ranked, {c.label: c.latency.p50_s if c.latency else None for c in ranked}),
        factors=() if early else compare_factors(rankable, course),
        chosen=choose_best(reader, rankable, course) if reader.info.protocol.choose_on and not early else None,
        noise=_noise_at_the_top(reader, ranking.tiers) if not early else None,
        tasks=_compare_tasks(reader, contestants),
        judging=summarise_judging(reader, tallies, numbers),
    )


def _priced(tested: Sequence[tuple[ContestantSummary, Tally]], scored: Sequence[Scored]) -> list[tuple[Scored, float | None]]:
    return [(one, contestant.cost_per_trial) for (contestant, _), one in zip(tested, scored, strict=True)]


def _noise_at_the_top(reader: StoreReader, tiers: Sequence[Sequence[str]]) -> NoiseSplit | None:
    """Between the first two that are ranked."""
    ranked = [label for tier in tiers for label in tier]
    return noise_between(reader, ranked[0], ranked[1]) if len(ranked) > 1 else None


Counted = TypeVar("Counted", bound="Tally | None")


def _by_what_they_have(counted: Sequence[tuple[ContestantSummary, Counted]]) -> list[tuple[ContestantSummary, Counted]]:
    """Contestants as if no more had been planned than they have been asked."""
    return [(replace(c, planned=c.asked, planned_samples=c.samples) if c.asked else c, tally) for c, tally in counted]


def _done(contestant: ContestantSummary, tally: Tally, numbers: SampleNumbers, repeats: int) -> int:
    """How many samples from the beginning of the plan a contestant has been asked, without a gap."""
    if contestant.not_asked == 0:
        return contestant.planned_samples
    ended = zip(numbers.places, tally.counts, tally.failed, strict=True)
    gaps = (number for number, (place, n, failed) in enumerate(ended) if place != number or n + failed < repeats)
    return next(gaps, numbers.count)


def _course(reader: StoreReader, numbers: SampleNumbers, labels: Sequence[str]) -> Course:
    """How far the run was planned, looked at and extended; looks by the place of each contestant among those compared."""
    repeats = max(1, reader.info.protocol.repeats)
    rows = [reader.numbers[label] for label in labels]
    looks = {Look(look.planned // repeats, tuple(look.answered.get(row, 0) / repeats for row in rows)) for look in reader.looks()}
    earlier = tuple(planned // repeats for planned in reader.extensions())
    return Course(
        groups=numbers.groups,
        planned=reader.info.samples,
        schedule=Schedule(
            earlier,
            tuple(sorted(looks, key=lambda look: (look.planned, look.asked))),
            raced=bool(reader.info.protocol.until),
        ),
    )


def _compare_tasks(reader: StoreReader, contestants: Sequence[ContestantSummary]) -> TaskComparison | None:
    working = [(c.contestant, c.work) for c in contestants if c.work is not None]
    return compare_tasks(reader, working) if working else None


def summarise_contestants(reader: StoreReader) -> tuple[ContestantSummary, ...]:
    """Each contestant alone, compared with nobody."""
    return tuple(contestant for contestant, _ in _counted(reader, *tally_trials(reader)))


def _placed(contestant: ContestantSummary, ranking: Ranking) -> ContestantSummary:
    place = ranking.places.get(contestant.label)
    return contestant if place is None else replace(contestant, adjusted_score=place.score, tier=place.tier, ranks=place.ranks)


def _front(ranked: Sequence[ContestantSummary], price: Mapping[str, float | None]) -> tuple[str, ...]:
    points = [(c.label, price.get(c.label), c.adjusted_score) for c in ranked]
    return tuple(pareto_front([(n, cost, score) for n, cost, score in points if cost is not None and score is not None]))


def _counted(
    reader: StoreReader, tallies: Mapping[int, Tally], numbers: SampleNumbers
) -> list[tuple[ContestantSummary, Tally | None]]:
    """Every contestant of the run, asked or not yet."""
    info, rows = reader.info, reader.numbers
    ends, means = _ends(reader), means_by_scorer(reader)
    attempts = read_attempts(reader) if info.planned_tasks else {}
    counted = []
    for contestant in info.contestants:
        number = rows[contestant.label]
        figures = {**_figures(tallies.get(number), numbers, info.protocol.repeats), **ends.get(number, {})}
        work = _work(info, attempts.get(number, ()))
        summary = ContestantSummary(
            contestant=contestant,
            planned=info.planned,
            planned_samples=info.samples,
            by_scorer=means.get(number, {}),
            work=work,
            **figures,
        )
        counted.append((summary, tallies.get(number)))
    return counted


def _work(info: RunInfo, attempts: Sequence[Attempt]) -> WorkSummary | None:
    return WorkSummary(planned=info.planned_tasks, attempts=tuple(attempts)) if info.planned_tasks else None


def _ends(reader: StoreReader) -> dict[int, dict[str, Any]]:
    """By contestant, how its last session ended, and the time of all of them."""
    ends: dict[int, dict[str, Any]] = {}
    query = "SELECT contestant, state, message, seconds FROM ends ORDER BY rowid"
    for contestant, state, message, seconds in reader.rows(query):
        before = ends.get(contestant, {"seconds": 0.0})["seconds"]
        ends[contestant] = {"state": state, "message": message, "seconds": before + seconds}
    return ends


def _figures(tally: Tally | None, numbers: SampleNumbers, repeats: int) -> dict[str, Any]:
    if tally is None:
        return {}
    found = tally.estimate(numbers.groups)
    ks = sorted({1, 2, 5, 10, repeats} & set(range(1, repeats + 1))) if repeats > 1 else []
    return {
        "right": tally.right,
        "wrong": tally.wrong,
        "no_answer": tally.no_answer,
        **{name: tally.outcomes[name] for name in ("refused", "empty", "filtered", "cut_off", "exhausted")},
        "failures": dict(sorted(tally.failures.items())),
        "unjudged": tally.unjudged,
        "remembered": tally.remembered,
        "awaiting_judge": tally.awaiting_judge,
        "score": found.mean if found.n else None,
        "low": found.low,
        "high": found.high,
        "samples": found.n,
        "interval_method": found.method,
        "score_failures_wrong": tally.mean_with_failures_wrong(),
        "pass_at": _by_k(tally, ks, pass_at),
        "pass_all": _by_k(tally, ks, pass_all),
        "input_tokens": tally.input_tokens,
        "output_tokens": tally.output_tokens,
        "cost_usd": tally.cost_usd if tally.rows and not (tally.unpriced or tally.partly_unpriced) else None,
        "known_cost_usd": tally.cost_usd if tally.rows > tally.unpriced else None,
        "cost_per_trial": tally.cost_per_trial(),
        "model_seconds": tally.model_s,
        "second_readings": tally.second_readings,
        "readings_differ": tally.readings_differ,
        "categories": _categories(tally),
        "latency": _latency(tally),
    }


def _by_k(tally: Tally, ks: Sequence[int], share: Any) -> dict[int, float]:
    found = {k: share(tally.counted(), k) for k in ks}
    return {k: value for k, value in found.items() if value is not None}


def _categories(tally: Tally) -> tuple[CategorySummary, ...]:
    return tuple(CategorySummary(name=name, score=total / n, n=int(n)) for name, (total, n) in sorted(tally.categories.items()))


def _latency(tally: Tally) -> Latency | None:
    """Percentiles by nearest rank: each is a time that was really measured."""
    if not tally.times:
        return None
    p50_s, p95_s, p99_s = percentiles(tally.times, (50, 95, 99))
    return Latency(
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        first_token_p50_s=percentiles(tally.first_tokens, (50,))[0] if tally.first_tokens else None,
        first_answer_p50_s=percentiles(tally.first_answers, (50,))[0] if tally.first_answers else None,
        tokens_per_s=tally.timed_tokens / tally.timed_s if tally.timed_s else None,
        in_flight=percentiles(tally.in_flight, (50,))[0] if tally.in_flight else None,
        alone_p50_s=percentiles(list(tally.alone.means()), (50,))[0] if any(tally.alone.counts) else None,
    )
