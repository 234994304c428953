"""Is what the verdict says true? Two hundred made-up runs with planted skills, prices and times, through store and summary."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made import Planted, Trials, samples, summary_of, write_run

from tiebreak.report.summary import Summary
from tiebreak.report.verdict import Claim, claims

RUNS = 50
"""Of each of the four worlds."""
SAMPLES = 160


@dataclass(frozen=True)
class Truth:
    """The truth about a model."""

    skill: float
    cost_usd: float
    seconds: float


WORLDS: dict[str, dict[str, Truth]] = {
    "one leads": {
        "a": Truth(0.55, 0.004, 0.9),
        "b": Truth(0.90, 0.009, 2.0),
        "c": Truth(0.60, 0.001, 0.4),
        "d": Truth(0.62, 0.002, 1.4),
        "e": Truth(0.35, 0.0005, 0.2),
        "f": Truth(0.20, 0.003, 0.7),
    },
    "two are equal at the top": {
        "a": Truth(0.85, 0.008, 2.2),
        "b": Truth(0.85, 0.002, 0.9),
        "c": Truth(0.55, 0.001, 0.3),
        "d": Truth(0.50, 0.004, 0.5),
        "e": Truth(0.52, 0.0003, 0.6),
        "f": Truth(0.30, 0.006, 0.7),
    },
    "three are equal, one of them dear and fast": {
        "a": Truth(0.40, 0.001, 0.5),
        "b": Truth(0.80, 0.009, 0.3),
        "c": Truth(0.80, 0.001, 1.1),
        "d": Truth(0.80, 0.003, 0.8),
        "e": Truth(0.45, 0.0001, 0.1),
        "f": Truth(0.42, 0.002, 0.4),
    },
    "all are equal": {label: Truth(0.7, 0.001 * (1 + i), 0.3 * (1 + i)) for i, label in enumerate("abcdef")},
}


def _contestants(world: dict[str, Truth], rng: np.random.Generator) -> list[Planted]:
    """One run's luck: hard and easy samples, hard for all alike; times that scatter; now and then a failure."""
    ease = rng.normal(0, 0.12, SAMPLES)
    found = []
    for label, truth in world.items():
        right = (rng.random(SAMPLES) < np.clip(truth.skill + ease - ease.mean(), 0, 1)).astype(float)
        planted: list[float | str] = [
            "timeout" if luck < 0.01 else value for luck, value in zip(rng.random(SAMPLES), right, strict=True)
        ]
        seconds = truth.seconds * rng.lognormal(0, 0.3, SAMPLES)
        found.append(Planted(label=label, planted=planted, cost_usd=truth.cost_usd, seconds=list(seconds)))
    return found


def _is_true(claim: Claim, world: dict[str, Truth], summary: Summary) -> bool:
    """Whether the claim holds of the planted truth, not of the numbers it was made from."""
    facts: dict[str, Any] = dict(claim.facts)
    if claim.kind == "leads":
        return all(world[facts["first"]].skill > world[label].skill for label in facts["behind"])
    if claim.kind == "tie":
        return all(world[facts["leader"]].skill > world[label].skill for label in facts["leader_ahead_of"])
    if claim.kind == "value":
        among = facts["among"]
        assert not facts["price_unknown"] and not facts["speed_unknown"]
        cheapest, fastest = facts["cheapest"], facts["fastest"]
        return (cheapest is None or world[cheapest["model"]].cost_usd == min(world[m].cost_usd for m in among)) and (
            fastest is None or world[fastest["model"]].seconds == min(world[m].seconds for m in among)
        )
    if claim.kind == "left_out":
        counted = {m.label: m.planned - m.answered for m in summary.contestants if m.answered < m.planned}
        return {label: sum(kinds.values()) for label, kinds in facts["failed"].items()} == counted
    return False


@pytest.mark.parametrize("name", WORLDS)
def test_the_verdict_is_true(name: str, tmp_path: Path) -> None:
    """Of fifty runs of each world at most 5 % say anything false; the planted leaders are found in at least 90 %."""
    world, trials = WORLDS[name], Trials(samples(SAMPLES))
    best = max(truth.skill for truth in world.values())
    leaders = {label for label, truth in world.items() if truth.skill == best}
    false, found = [], 0
    for seed in range(RUNS):
        folder = tmp_path / "run"
        summary = summary_of(write_run(folder, _contestants(world, np.random.default_rng(seed)), trials))
        shutil.rmtree(folder)
        said = claims(summary)
        false += [(seed, claim.sentence) for claim in said if not _is_true(claim, world, summary)][:1]
        found += set(summary.tiers[0]) == leaders

    assert len(false) <= 0.05 * RUNS, false
    assert found >= 0.9 * RUNS
