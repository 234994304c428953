"""A run in numbers, each with the count behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from benchmark.core.events import ModelState
from benchmark.core.model import ModelRef
from benchmark.core.run import RunInfo
from benchmark.stats.intervals import percentile, wilson
from benchmark.stats.paired import exact_sign_test
from benchmark.store.reader import StoreReader

_CURRENT = "superseded = 0"
_WORST = 5


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
class WrongSample:
    """A sample a model got wrong, for looking at."""

    sample: str
    prompt: str
    expected: str
    answer: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """One model's results."""

    model: ModelRef
    planned: int
    right: int = 0
    wrong: int = 0
    no_answer: int = 0
    """Refused, empty, filtered, cut off, or nothing in it that could be read as an answer. Counts as wrong."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Trials without a result, by kind. They are left out of the score."""
    score: float | None = None
    low: float = 0.0
    high: float = 1.0
    state: str = "not finished"
    message: str = ""
    seconds: float = 0.0
    model_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
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
    def not_asked(self) -> int:
        """Planned trials that have not been ended in any way."""
        return self.planned - self.answered - self.failed

    @property
    def finished(self) -> bool:
        """Whether every planned trial was asked."""
        return self.not_asked == 0

    @property
    def per_second(self) -> float:
        """Trials per second of wall time."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on the samples both answered."""

    first: str
    second: str
    samples: int
    difference: float
    """Mean score of the first minus that of the second."""
    first_better: int
    second_better: int
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole run."""

    info: RunInfo
    models: tuple[ModelSummary, ...]
    """In the order they were named."""
    comparisons: tuple[Comparison, ...]

    @property
    def ranked(self) -> list[ModelSummary]:
        """Finished models by score, best first; no baselines."""
        able = [m for m in self.models if m.finished and m.score is not None and not m.model.reference]
        return sorted(able, key=lambda m: -(m.score or 0.0))

    @property
    def unfinished(self) -> list[ModelSummary]:
        """Models that did not get through, by score."""
        left = [m for m in self.models if (not m.finished or m.score is None) and not m.model.reference]
        return sorted(left, key=lambda m: -(m.score or 0.0))

    @property
    def references(self) -> list[ModelSummary]:
        """Baselines: lines to compare with."""
        return sorted((m for m in self.models if m.model.reference), key=lambda m: -(m.score or 0.0))

    def comparison(self, first: str, second: str) -> Comparison | None:
        """The comparison of two models, if it was made in this order."""
        return next((c for c in self.comparisons if (c.first, c.second) == (first, second)), None)


def summarise(reader: StoreReader) -> Summary:
    """Everything the store knows, in numbers."""
    info = reader.info
    models = tuple(_model_summary(reader, number, model) for number, model in _numbered(reader, info))
    return Summary(info=info, models=models, comparisons=_comparisons(reader, info))


def worst_samples(reader: StoreReader, label: str, limit: int = _WORST) -> list[WrongSample]:
    """A few samples the model did not get right, those of its weakest categories first."""
    rows = reader.rows(
        "WITH own AS (SELECT t.rowid AS place, t.* FROM trials t JOIN models m ON m.model = t.model"
        f" WHERE {_CURRENT} AND m.label = ? AND t.outcome <> 'failed'),"
        " kinds AS (SELECT category, avg(coalesce(score, 0)) AS mean FROM own GROUP BY category)"
        " SELECT own.sample, s.prompt, s.target, coalesce(own.answer, own.text, ''), own.outcome FROM own"
        " JOIN kinds ON kinds.category = own.category JOIN samples s ON s.asked = own.asked"
        " WHERE coalesce(own.score, 0) < 1 ORDER BY kinds.mean, own.place LIMIT ?",
        label,
        limit,
    )
    return [WrongSample(sample=r[0], prompt=r[1], expected=r[2], answer=r[3], outcome=r[4]) for r in rows]


def _numbered(reader: StoreReader, info: RunInfo) -> list[tuple[int, ModelRef]]:
    numbers = dict(reader.rows("SELECT label, model FROM models"))
    return [(numbers[model.label], model) for model in info.models]


def _model_summary(reader: StoreReader, number: int, model: ModelRef) -> ModelSummary:
    categories = _categories(reader, number)
    mean, n = _mean(reader, number)
    low, high = wilson(mean, n)
    return ModelSummary(
        model=model,
        planned=reader.info.planned,
        failures=_failures(reader, number),
        score=mean if n else None,
        low=low,
        high=high,
        categories=categories,
        latency=_latency(reader, number),
        **_counts(reader, number),
        **_ending(reader, number),
        **_spent(reader, number),
    )


def _counts(reader: StoreReader, number: int) -> dict[str, Any]:
    """Right, wrong and no answer; the three add up to what was answered."""
    query = (
        "SELECT total(score >= 1), total(score < 1 AND answer IS NOT NULL),"
        " total(score IS NULL OR (score < 1 AND answer IS NULL))"
        f" FROM trials WHERE {_CURRENT} AND model = ? AND outcome <> 'failed'"
    )
    right, wrong, none = next(iter(reader.rows(query, number)))
    return {"right": int(right), "wrong": int(wrong), "no_answer": int(none)}


def _mean(reader: StoreReader, number: int) -> tuple[float, int]:
    """Mean score over samples, repeats averaged within a sample first; an outcome without a score counts 0."""
    query = (
        "SELECT avg(score), count(*) FROM (SELECT avg(coalesce(score, 0)) AS score FROM trials"
        f" WHERE {_CURRENT} AND model = ? AND outcome <> 'failed' GROUP BY sample)"
    )
    mean, n = next(iter(reader.rows(query, number)))
    return mean or 0.0, n


def _failures(reader: StoreReader, number: int) -> dict[str, int]:
    query = f"SELECT failure_kind, count(*) FROM trials WHERE {_CURRENT} AND model = ? AND outcome = 'failed' GROUP BY 1"
    return dict(reader.rows(query, number))


def _ending(reader: StoreReader, number: int) -> dict[str, Any]:
    """How the model's last session ended, and the time of all of them."""
    rows = list(reader.rows("SELECT state, message, seconds FROM ends WHERE model = ? ORDER BY rowid", number))
    if not rows:
        return {}
    return {"state": rows[-1][0], "message": rows[-1][1], "seconds": sum(row[2] for row in rows)}


def _spent(reader: StoreReader, number: int) -> dict[str, Any]:
    """Tokens, time and money of every attempt, also of failed ones asked again since."""
    query = (
        "SELECT total(input_tokens), total(output_tokens), sum(cost_usd), total(model_s),"
        " count(*) = count(cost_usd) FROM trials WHERE model = ?"
    )
    sent, made, cost, seconds, all_priced = next(iter(reader.rows(query, number)))
    return {
        "input_tokens": int(sent),
        "output_tokens": int(made),
        "cost_usd": cost if all_priced else None,
        "model_seconds": seconds,
    }


def _latency(reader: StoreReader, number: int) -> Latency | None:
    """Percentiles by nearest rank: each is a time that was really measured."""
    query = (
        "SELECT model_s, first_token_s, output_tokens FROM trials"
        f" WHERE {_CURRENT} AND model = ? AND outcome <> 'failed' AND NOT cached AND model_s > 0 ORDER BY model_s"
    )
    rows = list(reader.rows(query, number))
    if not rows:
        return None
    times = [row[0] for row in rows]
    first = sorted(row[1] for row in rows if row[1] is not None)
    counted = [(row[2], row[0]) for row in rows if row[2]]
    return Latency(
        p50_s=percentile(times, 50),
        p95_s=percentile(times, 95),
        p99_s=percentile(times, 99),
        first_token_p50_s=percentile(first, 50) if first else None,
        tokens_per_s=sum(tokens for tokens, _ in counted) / sum(s for _, s in counted) if counted else None,
    )


def _categories(reader: StoreReader, number: int) -> tuple[CategorySummary, ...]:
    query = (
        "SELECT category, avg(coalesce(score, 0)), count(*) FROM trials"
        f" WHERE {_CURRENT} AND model = ? AND outcome <> 'failed' AND category <> '' GROUP BY 1 ORDER BY 1"
    )
    return tuple(CategorySummary(name=name, score=score, n=n) for name, score, n in reader.rows(query, number))


def _comparisons(reader: StoreReader, info: RunInfo) -> tuple[Comparison, ...]:
    """Every pair of models, the better one first, on the samples both answered."""
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    query = (
        "SELECT m.label, t.sample, avg(coalesce(t.score, 0)) FROM trials t JOIN models m ON m.model = t.model"
        f" WHERE {_CURRENT} AND t.outcome <> 'failed' GROUP BY 1, 2"
    )
    for label, sample, score in reader.rows(query) if len(info.models) > 1 else ():
        scores[label][sample] = score
    return tuple(_compare(a, scores[a], b, scores[b]) for a, b in combinations(scores, 2))


def _compare(a: str, of_a: Mapping[str, float], b: str, of_b: Mapping[str, float]) -> Comparison:
    common = of_a.keys() & of_b.keys()
    a_better = sum(of_a[s] > of_b[s] for s in common)
    b_better = sum(of_a[s] < of_b[s] for s in common)
    difference = sum(of_a[s] - of_b[s] for s in common) / len(common) if common else 0.0
    if difference < 0:
        a, b, a_better, b_better, difference = b, a, b_better, a_better, -difference
    return Comparison(
        first=a,
        second=b,
        samples=len(common),
        difference=difference,
        first_better=a_better,
        second_better=b_better,
        p=exact_sign_test(a_better, b_better),
    )


def exit_code(summary: Summary, *, allow_failures: float = 0.0, fail_under: float | None = None) -> int:
    """0 all finished, 1 nothing usable, 2 partial, 3 a gate missed. A wrong answer is a result, not a failure."""
    if all(model.answered == 0 for model in summary.models):
        return 1
    for model in summary.models:
        if not model.finished or model.state != ModelState.FINISHED or model.failed > allow_failures * model.planned:
            return 2
    contestants = [model for model in summary.models if not model.model.reference]
    if fail_under is not None and any((model.score or 0.0) < fail_under for model in contestants):
        return 3
    return 0
