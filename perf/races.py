"""How often races decide wrongly in made-up worlds whose truth is known, and what they save. The figures of docs/races.md.

    python perf/races.py [--runs 10000] [--only TEXT] [--stored 100]

With --stored so many races of every world go through engine and store, and are compared with the strategy by itself. Every
other row is the strategy itself with the test at the planned end, over answers in the order of the plan. False is a claim that
one is better which is not: by the race or by the verdict. The exact binomial test against 5 % is printed with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import planted  # noqa: E402

from tiebreak.core.contestant import Contestant  # noqa: E402
from tiebreak.core.events import ContestantState  # noqa: E402
from tiebreak.core.model import ModelRef, Price  # noqa: E402
from tiebreak.core.run import Pace, Protocol, RunSpec  # noqa: E402
from tiebreak.engine.race import Observed  # noqa: E402
from tiebreak.pipeline import make_plan, run_benchmark  # noqa: E402
from tiebreak.registry import make_strategy  # noqa: E402
from tiebreak.stats.decision import decide  # noqa: E402
from tiebreak.stats.distributions import regularised_beta  # noqa: E402
from tiebreak.stats.margin import choose_within, margin_of  # noqa: E402
from tiebreak.stats.schedule import Schedule  # noqa: E402


@dataclass(frozen=True)
class World:
    """Contestants by skill; equals differ on a fifth of the samples."""

    until: str
    skills: tuple[float, ...]
    samples: int
    group: int = 1
    """Samples that stand or fall together."""
    repeats: int = 1
    prices: tuple[float, ...] = field(default=())

    @property
    def labels(self) -> list[str]:
        return [str(number) for number in range(len(self.skills))]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        units = self.samples // self.group
        alike = rng.random(units) < 0.5
        # A skill is the chance where contestants differ; the others are a coin that all share.
        chances = 0.5 + (np.array(self.skills)[:, None] - np.mean(self.skills)) / 0.4
        own = (rng.random((self.repeats, len(self.skills), units)) < np.clip(chances, 0, 1)).mean(axis=0)
        table = np.where(rng.random(units) < 0.4, own, alike)
        return np.repeat(table, self.group, axis=1)


def worlds() -> dict[str, World]:
    far, spread = (0.7, *[0.55] * 5), tuple(0.7 - 0.05 * place for place in range(6))
    found = {
        "two equals": ((0.7, 0.7), 500, {}),
        "three equals": ((0.7, 0.7, 0.7), 500, {}),
        "two equals ahead of a third": ((0.7, 0.7, 0.5), 500, {}),
        "three equals in groups of six": ((0.7, 0.7, 0.7), 600, {"group": 6}),
        "two equals asked three times": ((0.7, 0.7), 300, {"repeats": 3}),
        "two, 5 points apart": ((0.7, 0.65), 500, {}),
        "six, one 15 points ahead": (far, 1000, {}),
        "six, 5 points apart each": (spread, 1000, {}),
    }
    rows = {
        f"until {until}: {name}": World(until, skills, samples, **more)  # type: ignore[arg-type]
        for until in ("leader", "tiers", "50%")
        for name, (skills, samples, more) in found.items()
    }
    rows["until cheapest:5: two equals"] = World("cheapest:5", (0.7, 0.7), 2000, prices=(1.0, 1.0))
    rows["until cheapest:5: the cheap one 5 points worse"] = World("cheapest:5", (0.65, 0.7), 2000, prices=(1.0, 2.0))
    rows["until cheapest:5: three, the two cheap ones 5 points worse"] = World(
        "cheapest:5", (0.65, 0.65, 0.7), 1000, prices=(1.0, 1.5, 2.0)
    )
    return rows


@dataclass(frozen=True)
class Outcome:
    false: bool
    leader: bool
    """Whether the verdict separates the best from everybody else."""
    without: bool
    """The same, had everyone been asked everything."""
    asked: float
    fit: int | None = None


def raced(world: World, table: np.ndarray) -> tuple[Any, list[int]]:
    """The strategy at its end, and how many samples each contestant was asked."""
    labels, prices = world.labels, world.prices or (1.0,) * len(world.skills)
    strategy, done = make_strategy(world.until, labels, world.samples), [0] * len(labels)
    for place, column in enumerate(table.T):
        left = [number for number in range(len(labels)) if labels[number] not in strategy.decided()]
        if not left:
            break
        scores = {labels[number]: float(column[number]) for number in left}
        costs = {labels[number]: prices[number] for number in left}
        strategy.observe(Observed(f"g{place // world.group}" if world.group > 1 else "", scores, scores, costs))
        for number in left:
            done[number] += 1
    return strategy, done


def race(world: World, seed: int) -> Outcome:
    """One race from start to verdict."""
    table = world.draw(np.random.default_rng(seed))
    labels, prices = world.labels, world.prices or (1.0,) * len(world.skills)
    strategy, done = raced(world, table)
    groups = np.arange(world.samples) // world.group if world.group > 1 else None
    cut = np.where(np.arange(world.samples) < np.array(done)[:, None], table, np.nan)
    verdict = decide(cut, done=done, planned=world.samples, schedule=Schedule(raced=True), groups=groups)
    claimed = {
        (int(why.rpartition(" ")[2]), int(label))
        for label, why in strategy.decided().items()
        if "worse than" in why and why.rpartition(" ")[2] in labels
    }
    fit, false = (
        None,
        any(world.skills[a] <= world.skills[b] for a, b in verdict.better | (claimed if world.until in ("leader",) else set())),
    )
    family, _, margin = world.until.partition(":")
    if family == "cheapest":
        fit = choose_within(cut, prices, margin_of(margin), done=done, groups=groups).fit
        false = fit is not None and max(world.skills) - world.skills[fit] > margin_of(margin) - 1e-9
    return Outcome(
        false=false,
        leader=_leads(verdict.better, len(labels)),
        without=_leads(decide(table, groups=groups).better, len(labels)),
        asked=float(np.dot(done, prices)) / (world.samples * sum(prices)),
        fit=fit,
    )


def _leads(better: frozenset[tuple[int, int]], contestants: int) -> bool:
    return any(sum(a == one for a, _ in better) == contestants - 1 for one in range(contestants))


def line(name: str, outcomes: Sequence[Outcome]) -> str:
    runs, wrong = len(outcomes), sum(outcome.false for outcome in outcomes)
    p = 1.0 if wrong == 0 else regularised_beta(wrong, runs - wrong + 1, 0.05)
    shares = {"leader": "leader", "without a race": "without"}
    found = ", ".join(f"{word} {np.mean([getattr(o, name) for o in outcomes]):.1%}" for word, name in shares.items())
    fit = f", cheapest called good enough {np.mean([o.fit == 0 for o in outcomes]):.1%}" if "cheapest" in name else ""
    holds = "holds" if p >= 0.01 else "DOES NOT HOLD"
    return (
        f"{name}: false {wrong / runs:.2%} ({holds}), {found}{fit}, asked {np.mean([o.asked for o in outcomes]):.0%}, {runs} runs"
    )


def decided_alike(world: World, seed: int) -> bool:
    """Whether a race of real trials, through engine and store, ends as the strategy by itself: who left, and why."""
    table = world.draw(np.random.default_rng(seed))
    with tempfile.TemporaryDirectory(prefix="races-") as name:
        folder = Path(name)
        rows = [{"id": f"s{number:05}", "input": f"Question {number}", "target": "yes"} for number in range(world.samples)]
        _write(folder, rows)
        place_of = {f"Question {number}": place for place, number in enumerate(make_plan(spec_of(world, folder)).order)}
        if world.group > 1:
            _write(folder, [{**row, "group": f"g{place_of[row['input']] // world.group}"} for row in rows])
        asked: Counter[tuple[str, str]] = Counter()

        def says(model: str, question: str) -> str:
            asked[model, question] += 1
            share = table[world.labels.index(model), place_of[question]]
            return "yes" if asked[model, question] <= round(share * world.repeats) else "no"

        planted.answers["says"] = says
        summary = asyncio.run(run_benchmark(spec_of(world, folder)))
    strategy, _ = raced(world, table)
    found = {one.label: one.message for one in summary.contestants if one.state == ContestantState.DECIDED}
    return found == dict(strategy.decided())


def _write(folder: Path, rows: Sequence[dict[str, str]]) -> None:
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def spec_of(world: World, folder: Path) -> RunSpec:
    prices = world.prices or (1.0,) * len(world.skills)
    models = [
        ModelRef(provider=planted.PROVIDER, name=label, label=label, price=Price(input_usd=price, output_usd=price))
        for label, price in zip(world.labels, prices, strict=True)
    ]
    return RunSpec(
        protocol=Protocol(dataset=str(folder / "q.jsonl"), until=world.until, repeats=world.repeats),
        contestants=tuple(Contestant(label=model.label, model=model) for model in models),
        pace=Pace(max_connections=8),
        results_dir=folder / "run",
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stored", type=int, default=0)
    wanted = parser.parse_args()
    with ProcessPoolExecutor(wanted.processes) as pool:
        for name, world in worlds().items():
            if wanted.only not in name:
                continue
            if wanted.stored:
                alike = sum(pool.map(partial(decided_alike, world), range(wanted.stored)))
                print(f"{name}, through engine and store: {alike} of {wanted.stored} decided alike", flush=True)
            else:
                print(line(name, list(pool.map(partial(race, world), range(wanted.runs), chunksize=50))), flush=True)


if __name__ == "__main__":
    main()
