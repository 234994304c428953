"""A run in numbers, each with the count behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmark.core.model import ModelRef
from benchmark.core.run import RunInfo
from benchmark.report.ranking import Comparison, Ranking, rank
from benchmark.report.samples import means_by_scorer
from benchmark.report.tally import SampleNumbers, Tally, tally_trials
from benchmark.stats.family import pareto_front
from benchmark.stats.intervals import percentiles
from benchmark.stats.repeats import pass_all, pass_at
from benchmark.store.reader import StoreReader

CONTROLS = frozenset({"nothing", "solution"})
"""Agents that show what doing nothing and what the known solution are worth."""
_RANKED_FROM = 0.5
"""The share of samples a model must have answered to be ranked at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySummary:
    """How a model did on one kind of sample."""

    name: str
    score: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How fast a model answered; waits and remembered answers are not in it."""

    p50_s: float
    p95_s: float
    p99_s: float
    first_token_p50_s: float | None
    """None when answers were not streamed."""
    tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """One entrant's results: a model, put to work by an agent."""

    model: ModelRef
    label: str
    """The model's label; with the agent's name where the run has several agents."""
    agent: str = "direct"
    reference: bool = False
    """A baseline or a control: shown as a line to compare with; in no test, no tier, no front."""
    planned: int
    planned_samples: int
    right: int = 0
    wrong: int = 0
    no_answer: int = 0
    """Refused, empty, filtered, cut off, or nothing in it that could be read as an answer. Counts as wrong."""
    refused: int = 0
    empty: int = 0
    filtered: int = 0
    cut_off: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Trials without a result, by kind. They are left out of the score."""
    score: float | None = None
    """Mean over the samples answered, repeats of a sample averaged first."""
    low: float = 0.0
    high: float = 1.0
    samples: int = 0
    """Samples behind the score."""
    interval_method: str = "wilson"
    score_failures_wrong: float | None = None
    """The same with every failed trial counted as a wrong answer."""
    common_score: float | None = None
    """Mean over the samples that every ranked model answered: what tiers are made from."""
    tier: int | None = None
    """From 1; None when not ranked."""
    ranks: tuple[int, int] | None = None
    """The best and worst rank the corrected tests leave possible."""
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
        return self.answered + self.failed

    @property
    def not_asked(self) -> int:
        """Planned trials that have not been ended in any way."""
        return self.planned - self.asked

    @property
    def finished(self) -> bool:
        """Whether every planned trial was asked."""
        return self.not_asked == 0

    @property
    def rankable(self) -> bool:
        """Whether it was asked everything and answered enough of it."""
        return self.finished and self.score is not None and self.samples >= _RANKED_FROM * self.planned_samples

    @property
    def per_second(self) -> float:
        """Trials per second of wall time."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole run."""

    info: RunInfo
    models: tuple[ModelSummary, ...]
    """In the order they were named."""
    comparisons: tuple[Comparison, ...] = ()
    """Every pair of contestants, the better one first."""
    tiers: tuple[tuple[str, ...], ...] = ()
    """Labels of the ranked models: within a tier none is shown to be worse than the tier's first."""
    common_samples: int = 0
    """Samples that every ranked model answered."""
    cost_front: tuple[str, ...] = ()
    """Ranked models of known price that no other beats in cost without losing in score; cheapest first."""
    latency_front: tuple[str, ...] = ()
    """The same for the median time of an answer; fastest first."""

    @property
    def ranked(self) -> list[ModelSummary]:
        """Models that got through, best first on the samples all of them answered; no references."""
        able = [m for m in self.models if m.rankable and not m.reference]
        return sorted(able, key=lambda m: -(m.score or 0.0 if m.common_score is None else m.common_score))

    @property
    def unfinished(self) -> list[ModelSummary]:
        """Models that did not get through, by score."""
        left = [m for m in self.models if not m.rankable and not m.reference]
        return sorted(left, key=lambda m: -(m.score or 0.0))

    @property
    def references(self) -> list[ModelSummary]:
        """Baselines and controls: lines to compare with."""
        return sorted((m for m in self.models if m.reference), key=lambda m: -(m.score or 0.0))

    @property
    def contestants(self) -> list[ModelSummary]:
        """Everyone but the references, in the order they were named."""
        return [m for m in self.models if not m.reference]

    def model(self, label: str) -> ModelSummary:
        """An entrant by its label."""
        return next(m for m in self.models if m.label == label)

    def comparison(self, first: str, second: str) -> Comparison | None:
        """The comparison of two models, whichever came out better."""
        wanted = {first, second}
        return next((c for c in self.comparisons if {c.first, c.second} == wanted), None)


def summarise(reader: StoreReader, *, so_far: bool = False) -> Summary:
    """Everything the store knows, in numbers; `so_far` ranks a run that is still going by what it has."""
    tallies, numbers = tally_trials(reader)
    entrants = _entrants(reader, tallies, numbers)
    if so_far:
        entrants = [(replace(m, planned=m.asked, planned_samples=m.samples) if m.asked else m, t) for m, t in entrants]
    models = tuple(entrant for entrant, _ in entrants)
    fighting = [(m, tally) for m, tally in entrants if not m.reference and tally is not None and m.score is not None]
    found = rank([(m.label, tally, m.rankable) for m, tally in fighting], numbers.groups)
    models = tuple(_placed(model, found) for model in models)
    ranked = [model for model in models if model.tier is not None]
    return Summary(
        info=reader.info,
        models=models,
        comparisons=found.comparisons,
        tiers=found.tiers,
        common_samples=found.common_samples,
        cost_front=_front(ranked, {m.label: m.cost_per_trial for m in ranked if not m.model.local}),
        latency_front=_front(ranked, {m.label: m.latency.p50_s if m.latency else None for m in ranked}),
    )


def summarise_models(reader: StoreReader) -> tuple[ModelSummary, ...]:
    """Each entrant alone, compared with nobody."""
    return tuple(entrant for entrant, _ in _entrants(reader, *tally_trials(reader)))


def _placed(model: ModelSummary, found: Ranking) -> ModelSummary:
    place = found.places.get(model.label)
    return model if place is None else replace(model, common_score=place.score, tier=place.tier, ranks=place.ranks)


def _front(ranked: Sequence[ModelSummary], price: Mapping[str, float | None]) -> tuple[str, ...]:
    points = [(m.label, price.get(m.label), m.common_score) for m in ranked]
    return tuple(pareto_front([(n, cost, score) for n, cost, score in points if cost is not None and score is not None]))


def _entrants(
    reader: StoreReader, tallies: Mapping[tuple[int, str], Tally], numbers: SampleNumbers
) -> list[tuple[ModelSummary, Tally | None]]:
    """Every model with every agent of the run, asked or not yet."""
    info = reader.info
    agents = list(dict.fromkeys([*info.protocol.agents, *(agent for _, agent in tallies)]))
    rows = dict(reader.rows("SELECT label, model FROM models"))
    ends, means = _ends(reader), means_by_scorer(reader)
    found = []
    for model in info.models:
        for agent in agents:
            tally = tallies.get((rows[model.label], agent))
            made = _model_summary(info, model, agent, tally, numbers, several=len(agents))
            by_scorer = means.get((rows[model.label], agent), {})
            found.append((replace(made, by_scorer=by_scorer, **ends.get(rows[model.label], {})), tally))
    return found


def _ends(reader: StoreReader) -> dict[int, dict[str, Any]]:
    """By model, how its last session ended, and the time of all of them."""
    ends: dict[int, dict[str, Any]] = {}
    for model, state, message, seconds in reader.rows("SELECT model, state, message, seconds FROM ends ORDER BY rowid"):
        before = ends.get(model, {"seconds": 0.0})["seconds"]
        ends[model] = {"state": state, "message": message, "seconds": before + seconds}
    return ends


def _model_summary(
    info: RunInfo, model: ModelRef, agent: str, tally: Tally | None, numbers: SampleNumbers, *, several: int
) -> ModelSummary:
    planned = info.planned // several
    summary = ModelSummary(
        model=model,
        label=model.label if several == 1 else f"{model.label} · {agent}",
        agent=agent,
        reference=model.reference or agent in CONTROLS,
        planned=planned,
        planned_samples=planned // max(1, info.protocol.repeats),
    )
    return summary if tally is None else replace(summary, **_figures(tally, numbers, info.protocol.repeats))


def _figures(tally: Tally, numbers: SampleNumbers, repeats: int) -> dict[str, Any]:
    found = tally.estimate(numbers.groups)
    ks = sorted({1, 2, 5, 10, repeats} & set(range(1, repeats + 1))) if repeats > 1 else []
    return {
        "right": tally.right,
        "wrong": tally.wrong,
        "no_answer": tally.no_answer,
        **{name: tally.outcomes[name] for name in ("refused", "empty", "filtered", "cut_off")},
        "failures": dict(sorted(tally.failures.items())),
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
        "cost_usd": tally.cost_usd if tally.rows and not tally.unpriced else None,
        "known_cost_usd": tally.cost_usd if tally.rows > tally.unpriced else None,
        "cost_per_trial": tally.cost_per_trial(),
        "model_seconds": tally.model_s,
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
        tokens_per_s=tally.timed_tokens / tally.timed_s if tally.timed_s else None,
    )
