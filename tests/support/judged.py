"""The decisions of the product about a run of a made-up world: pure, or through engine, store and summary."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from support import planted
from support.made import Planted, Trials, described, samples, summary_of, write_run
from support.worlds import Draw, World, false_claims
from tiebreak.core.contestant import Contestant
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import run_benchmark
from tiebreak.report.ranking import Course, Scored, rank
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.tally import Tally
from tiebreak.report.value import compare_costs, compare_speeds
from tiebreak.report.verdict import Claim, claims
from tiebreak.stats.schedule import Schedule


def _tally(draw: Draw, row: int) -> Tally:
    """What a contestant's trials add up to, filled in without a store."""
    count = draw.scores.shape[1]
    tally = Tally(count)
    answered = ~draw.failed[row]
    scored = np.where(answered & ~draw.refused[row], draw.scores[row], 0.0)
    read = np.where(answered & ~draw.refused[row], draw.second[row], 0.0)
    for name, values in (("sums", scored), ("second_sums", read)):
        getattr(tally, name)[:] = type(tally.sums)("d", values.sum(axis=1))
    for name, values in (("counts", answered), ("failed", ~answered)):
        getattr(tally, name)[:] = type(tally.counts)("i", values.sum(axis=1).tolist())
    for taken, values in ((tally.speed, draw.seconds[row]), (tally.prices, draw.cost_usd[row])):
        taken.sums[:] = type(taken.sums)("d", values.sum(axis=1))
        taken.counts[:] = type(taken.counts)("i", [draw.scores.shape[2]] * count)
    tally.flights[:] = type(tally.flights)("d", [float(draw.scores.shape[2])] * count)
    tally.readings_differ = int(((scored != read) & answered).sum())
    tally.failures = Counter({"timeout": int((~answered).sum())} if not answered.all() else {})
    return tally


def summary_of_draw(world: World, draw: Draw, *, schedule: Schedule | None = None) -> Summary:
    """The summary of a finished run, by the pure part of the product: no store, no files."""
    tallies = [_tally(draw, row) for row in range(len(world.labels))]
    groups = None if draw.groups is None else draw.groups.tolist()
    count = draw.scores.shape[1]
    scored = [
        Scored(label=label, tally=tally, rankable=sum(map(bool, tally.counts)) >= count / 2, done=count)
        for label, tally in zip(world.labels, tallies, strict=True)
    ]
    ranking = rank(scored, Course(groups=groups, planned=count, schedule=schedule or Schedule()))
    contestants = [_contestant(one, draw) for one in scored]
    placed = [
        replace(c, adjusted_score=place.score, tier=place.tier, ranks=place.ranks)
        if (place := ranking.places.get(c.label))
        else c
        for c in contestants
    ]
    return Summary(
        info=described([Planted(label=label, planted=()) for label in world.labels], count),
        contestants=tuple(placed),
        comparisons=ranking.comparisons,
        tiers=ranking.tiers,
        leader=ranking.leader,
        alternatives=ranking.alternatives,
        common_samples=ranking.common_samples,
    )


def _contestant(one: Scored, draw: Draw) -> ContestantSummary:
    found = one.tally.estimate(None)
    trials = draw.scores.shape[1] * draw.scores.shape[2]
    failed = sum(one.tally.failed)
    return ContestantSummary(
        contestant=Planted(label=one.label, planted=()).contestant,
        planned=trials,
        planned_samples=draw.scores.shape[1],
        right=trials - failed,
        failures={"timeout": failed} if failed else {},
        score=found.mean if found.n else None,
        samples=found.n,
    )


def value_of(world: World, rng: np.random.Generator) -> tuple[str | None, str | None]:
    """Who is said to be the cheapest, and the fastest, of a run whose contestants are all among the best."""
    draw = world.draw(rng)
    tallies = [(label, _tally(draw, row)) for row, label in enumerate(world.labels)]
    course = Course(groups=None if draw.groups is None else draw.groups.tolist(), planned=world.samples)
    costs, speeds = compare_costs(tallies, world.labels, course), compare_speeds(tallies, course)
    assert costs is not None
    assert speeds is not None
    return costs.least, speeds.least


def verdict_of(world: World, rng: np.random.Generator) -> tuple[Summary, Claim]:
    """A run of a world: its summary and the first claim."""
    summary = summary_of_draw(world, world.draw(rng))
    return summary, claims(summary)[0]


def false_in(world: World, summary: Summary, claim: Claim) -> list[tuple[str, str]]:
    """Whoever is said to be better, by the first claim or by any pair of the table, and is not."""
    shown = [(pair.first, pair.second) for pair in summary.comparisons if pair.separated]
    return [*false_claims(world, claim.kind, claim.facts), *(pair for pair in shown if not world.better(*pair))]


def _planted(world: World, draw: Draw) -> list[Planted]:
    """The same run as trials to be written to a store, repeat by repeat."""
    found = []
    for row, label in enumerate(world.labels):
        flat = [
            "timeout" if failed else "refused" if refused else float(score)
            for failed, refused, score in zip(
                draw.failed[row].T.ravel(), draw.refused[row].T.ravel(), draw.scores[row].T.ravel(), strict=True
            )
        ]
        found.append(
            Planted(
                label=label,
                planted=flat,
                seconds=draw.seconds[row].T.ravel().tolist(),
                cost_usd=draw.cost_usd[row].T.ravel().tolist(),
                second=draw.second[row].T.ravel().tolist(),
            )
        )
    return found


def _groups(draw: Draw) -> list[str]:
    return [] if draw.groups is None else [f"g{group}" for group in draw.groups]


def store_run(world: World, draw: Draw, folder: Path) -> Summary:
    """A run of the world that is written to a store and read back."""
    trials = Trials(samples(world.samples, groups=_groups(draw)))
    return summary_of(write_run(folder, _planted(world, draw), trials, repeats=world.repeats))


def engine_run(world: World, draw: Draw, folder: Path) -> Summary:
    """A run of the world by models that answer as drawn."""
    dataset = folder / "questions.jsonl"
    groups = _groups(draw) or [""] * world.samples
    rows = [{"id": f"s{i:05}", "input": f"Question {i}", "target": "yes", "group": groups[i]} for i in range(world.samples)]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked: dict[tuple[int, int], int] = {}

    def answer(model: str, question: str) -> str:
        key = world.labels.index(model), int(question.removeprefix("Question "))
        repeat = asked[key] = asked.get(key, -1) + 1
        place = (*key, repeat)
        if draw.failed[place]:
            return "failed"
        readings = (draw.scores[place], draw.second[place])
        return "refused" if draw.refused[place] else " ".join("yes" if read else "no" for read in readings)

    planted.answers["says"] = answer
    spec = RunSpec(
        protocol=Protocol(dataset=str(dataset), repeats=world.repeats, chosen_scorers=(planted.SCORER,)),
        contestants=tuple(
            Contestant(label=label, model=ModelRef(provider=planted.PROVIDER, name=label, label=label)) for label in world.labels
        ),
        pace=Pace(max_workers=4, max_connections=16),
        results_dir=folder / "run",
    )
    try:
        return asyncio.run(run_benchmark(spec))
    finally:
        del planted.answers["says"]


def decided(summary: Summary) -> Any:
    """Everything that is decided about a run."""
    pairs = {
        frozenset((c.first, c.second)): (c.separated, c.depends_on, round(c.p_corrected, 9), round(c.difference, 9))
        for c in summary.comparisons
    }
    claim = claims(summary)[0]
    return claim.kind, claim.sentence, summary.leader, summary.tiers, pairs
